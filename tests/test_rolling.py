"""Changing a whole fleet: canary, batches, and what a failure leaves."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from lab_runs import BIN, Lab, Run, need_cluster

DGX = ("dgx01", "dgx02", "dgx03", "dgx04")
CREATE = "nvmlDeviceCreateGpuInstanceWithPlacement"
NAMES = {"mixed": {"nvidia.com/gpu", *(f"nvidia.com/mig-{p}" for p in ("1g.5gb", "2g.10gb", "3g.20gb"))}}
NAMES["single"] = NAMES["none"] = {"nvidia.com/gpu"}


def extra(**variables: Any) -> tuple[str, str]:
    return "-e", json.dumps(variables)


def site(lab: Lab, *argv: str, limit: str = "dgx") -> Run:
    return lab.play("site.yml", "-l", limit, *argv)


def profiles(lab: Lab, *hosts: str) -> dict[str, list[list[str]]]:
    """The instances of each GPU of the hosts."""
    nodes = lab.nodes()
    return {
        host: [sorted(each["profile"] for each in gpu["instances"]) for gpu in nodes[host]["gpus"]]
        for host in hosts
    }


def offers(lab: Lab, node: str) -> set[str]:
    allocatable = lab.kubectl("get", "node", node)["status"]["allocatable"]
    return {name for name, count in allocatable.items() if name.startswith("nvidia.com/") and int(count)}


def cordoned(lab: Lab, *hosts: str) -> list[str]:
    return [host for host in hosts if lab.kubectl("get", "node", host)["spec"].get("unschedulable")]


def values(lab: Lab) -> dict[str, Any]:
    """The values of the device plugin's release."""
    release = "nvidia-device-plugin"
    return dict(lab.helm("get", "values", release, "-n", release))


@pytest.fixture
def fleet(lab: Lab) -> Iterator[Lab]:
    """The dgx nodes as the inventory wants them."""
    need_cluster(lab)
    run = site(lab)
    assert run.rc == 0, run.messages()
    yield lab
    for host in DGX:
        lab.command("fault", "clear", host)
        lab.kubectl("uncordon", host, json=False)


@pytest.fixture
def meanwhile(fleet: Lab) -> Callable[..., Run]:
    """Runs site.yml, and does something while the instances of the host are slowly created."""

    def play(host: str, act: Callable[[], object], *argv: str) -> Run:
        fleet.command("calls", host, "--reset")
        fleet.command("fault", "add", host, "--function", CREATE, "--latency-ms", "10000")

        def wait_and_act() -> None:
            until = time.monotonic() + 300
            while time.monotonic() < until and CREATE not in json.loads(
                fleet.command("calls", host, "--json")
            ):
                time.sleep(0.5)
            act()

        thread = threading.Thread(target=wait_and_act)
        thread.start()
        run = site(fleet, *argv, limit=host)
        thread.join()
        fleet.command("fault", "clear", host)
        return run

    return play


def test_a_canary_first_and_never_more_than_allowed(fleet: Lab) -> None:
    run = site(fleet, *extra(dgx_strategy="single", mig_max_unavailable={"gpu_nodes": "50%", "dgx": 2}))
    assert run.rc == 0, run.messages()
    out = run.out_together()
    assert out[1:3] == [{"dgx01"}, set()]
    assert {"dgx02", "dgx03"} in out
    assert out[-2:] == [{"dgx04"}, set()]
    assert max(map(len, out)) == 2
    assert all(offers(fleet, host) == NAMES["single"] for host in DGX)


def test_a_failed_canary_leaves_the_rest_untouched(fleet: Lab) -> None:
    before = fleet.nodes()
    fleet.command("fault", "add", "dgx01", "--function", CREATE, "--code", "INSUFFICIENT_RESOURCES")
    run = site(fleet, *extra(dgx_strategy="single"))
    assert run.rc != 0
    for words in (
        "dgx01: Apply the MIG layout",
        CREATE,
        "are as they were",
        "takes pods again",
        "later batches",
    ):
        assert words in run.messages(), run.messages()
    fleet.command("fault", "clear", "dgx01")
    assert profiles(fleet, "dgx01") == {
        "dgx01": [sorted(each["profile"] for each in gpu["instances"]) for gpu in before["dgx01"]["gpus"]]
    }
    after = fleet.nodes()
    assert all(after[host] == before[host] for host in DGX[1:])
    assert cordoned(fleet, *DGX) == []
    assert all(offers(fleet, host) == NAMES["mixed"] for host in DGX)


@pytest.fixture
def alone(fleet: Lab) -> Iterator[tuple[str, str]]:
    """The dgx nodes as a cluster of their own. Other nodes are in it, too, so the releases go at the end."""
    yield extra(
        gpu_releases_group="dgx", gpu_releases_wait=False, mig_max_unavailable={"dgx": 2}, mig_canaries=1
    )
    for release in ("nvidia-device-plugin", "gpu-feature-discovery"):
        fleet.helm("uninstall", release, "-n", "nvidia-device-plugin", json=False)


def test_one_of_a_batch_fails_and_every_node_serves_what_it_has(fleet: Lab, alone: tuple[str, str]) -> None:
    """In a cluster of one strategy that is to have another: the release has to serve both for a while."""
    run = site(fleet, *alone)
    assert run.rc == 0, run.messages()
    assert values(fleet)["migStrategy"] == "mixed"
    fleet.command("fault", "add", "dgx02", "--function", CREATE, "--code", "INSUFFICIENT_RESOURCES")
    before = fleet.nodes()
    run = site(fleet, *alone, *extra(dgx_strategy="single"))
    assert run.rc != 0
    assert "dgx02" in run.messages() and "dgx03" not in run.messages()
    fleet.command("fault", "clear", "dgx02")
    assert fleet.nodes()["dgx04"] == before["dgx04"]
    assert profiles(fleet, "dgx01", "dgx03") == dict.fromkeys(("dgx01", "dgx03"), [["3g.20gb"] * 2] * 8)
    assert cordoned(fleet, *DGX) == []
    assert values(fleet)["config"]["default"] == "mixed"
    assert {host: offers(fleet, host) for host in DGX} == {
        "dgx01": NAMES["single"],
        "dgx02": NAMES["mixed"],
        "dgx03": NAMES["single"],
        "dgx04": NAMES["mixed"],
    }
    run = site(fleet, *alone, *extra(dgx_strategy="single"))
    assert run.rc == 0, run.messages()
    assert run.out_together()[-1] == set()
    assert {host for hosts in run.out_together() for host in hosts} == {"dgx02", "dgx04"}
    assert values(fleet)["migStrategy"] == "single"
    assert "config" not in values(fleet)
    labels = [fleet.kubectl("get", "node", host)["metadata"]["labels"] for host in DGX]
    assert not any("nvidia.com/device-plugin.config" in each for each in labels)
    again = site(fleet, *alone, *extra(dgx_strategy="single"))
    assert again.rc == 0 and not any(again.changed().values()), again.changed()


def test_a_node_that_is_out_already_counts(fleet: Lab) -> None:
    fleet.kubectl("cordon", "dgx03", json=False)
    before = fleet.nodes()
    for check in ((), ("--check",)):
        run = site(
            fleet,
            *extra(dgx_strategy="single", mig_max_unavailable={"dgx": 1}),
            *check,
            limit="dgx01,dgx02",
        )
        assert run.rc != 0
        assert (
            "mig_max_unavailable.dgx: dgx01 cannot be taken out: of group dgx, dgx03 is cordoned" in run.text
        )
        assert not any(run.changed().values())
    assert fleet.nodes() == before


def test_a_reboot_that_never_comes_back(fleet: Lab) -> None:
    never = extra(
        dgx_strategy="single", mig_reboot_command=f"{BIN / 'mig-lab'} power dgx04 off", mig_reboot_timeout=10
    )
    run = site(fleet, *never, limit="dgx04")
    assert run.rc != 0
    for words in ("Reboot, where only that applies the mode", "could not be read", "dgx04 stays cordoned"):
        assert words in run.messages(), run.messages()
    assert cordoned(fleet, *DGX) == ["dgx04"]
    fleet.command("power", "dgx04", "on")
    again = site(fleet, *extra(dgx_strategy="single"), limit="dgx04")
    assert again.rc == 0, again.messages()
    assert cordoned(fleet, *DGX) == []
    assert profiles(fleet, "dgx04") == {"dgx04": [["3g.20gb"] * 2] * 8}


def test_a_node_that_stops_answering(fleet: Lab, meanwhile: Callable[..., Run]) -> None:
    single = extra(dgx_strategy="single")
    run = meanwhile("dgx01", lambda: fleet.command("power", "dgx01", "off"), *single)
    assert run.rc != 0
    for words in ("The node does not answer any more", "dgx01 stays cordoned"):
        assert words in run.messages(), run.messages()
    fleet.command("power", "dgx01", "on")
    again = site(fleet, *single, limit="dgx01")
    assert again.rc == 0, again.messages()
    assert cordoned(fleet, *DGX) == []


def test_the_cluster_stops_answering(fleet: Lab, meanwhile: Callable[..., Run]) -> None:
    def crash() -> None:
        noted = json.loads((fleet.directory / "cluster" / "kube-apiserver.pid").read_text())
        os.kill(noted["pid"], signal.SIGKILL)

    single = extra(dgx_strategy="single")
    try:
        run = meanwhile("dgx01", crash, *single)
    finally:
        fleet.command("up")
    assert run.rc != 0
    for words in ("Its device plugin and the like cannot come back", "dgx01 stays cordoned"):
        assert words in run.messages(), run.messages()
    again = site(fleet, *single, limit="dgx01")
    assert again.rc == 0, again.messages()
    assert cordoned(fleet, *DGX) == []
    assert profiles(fleet, "dgx01") == {"dgx01": [["3g.20gb"] * 2] * 8}
