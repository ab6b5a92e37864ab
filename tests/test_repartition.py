"""GPUs that follow the pods that wait: playbooks/repartition.yml, as an operator or a timer runs it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from lab_runs import Lab, Run, need_cluster

NODES = ("dgx01", "dgx02")
SPACE = "demand"
NOTE = "nvidia.com/mig-change.by-demand"
CREATE = "nvmlDeviceCreateGpuInstanceWithPlacement"


def ask(lab: Lab, name: str, profile: str, node: str) -> None:
    """A pod that waits. The lab has no scheduler, so the test says what one would."""
    container = {
        "name": "main",
        "image": "nowhere.invalid/none",
        "resources": {"limits": {f"nvidia.com/mig-{profile}": "1"}},
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": SPACE},
        "spec": {"containers": [container], "nodeSelector": {"kubernetes.io/hostname": node}},
    }
    lab.kubectl("apply", "-f", "-", stdin=json.dumps(pod))
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    patch = json.dumps({"status": {"conditions": [condition]}})
    lab.kubectl("patch", "pod", name, "-n", SPACE, "--subresource=status", "--type=merge", "-p", patch)


def repartition(lab: Lab, *argv: str, **variables: Any) -> Run:
    """``ansible-playbook playbooks/repartition.yml`` with the nodes in the group that opts in."""
    inventory = lab.directory / "demand.yml"
    inventory.write_text(json.dumps({"mig_demand": {"hosts": dict.fromkeys(NODES, {})}}))
    at_once = {"repartition_batch_window": 0, **variables}
    where = ("-i", "inventories/lab", "-i", str(inventory))
    return lab.play("playbooks/repartition.yml", *where, "-e", json.dumps(at_once), *argv)


def profiles(lab: Lab, host: str) -> list[list[str]]:
    """The instances of each GPU of the host."""
    return [sorted(each["profile"] for each in gpu["instances"]) for gpu in lab.nodes()[host]["gpus"]]


def count(lab: Lab, host: str, profile: str) -> int:
    return sum(gpu.count(profile) for gpu in profiles(lab, host))


def noted(lab: Lab, host: str) -> set[str]:
    annotations = lab.kubectl("get", "node", host)["metadata"].get("annotations", {})
    return set(json.loads(annotations.get(NOTE, "{}")))


@pytest.fixture(scope="module")
def nodes(lab: Lab) -> Iterator[Lab]:
    """Nodes as the inventory wants them, and a namespace for pods that wait."""
    need_cluster(lab)
    run = lab.play("site.yml", "-l", ",".join(NODES))
    assert run.rc == 0, run.messages()
    account = {"kind": "ServiceAccount", "metadata": {"name": "default", "namespace": SPACE}}
    for item in ({"kind": "Namespace", "metadata": {"name": SPACE}}, account):
        lab.kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", **item}))
    yield lab
    lab.kubectl("delete", "namespace", SPACE, "--wait=false", json=False)
    run = lab.play("site.yml", "-l", ",".join(NODES))
    assert run.rc == 0, run.messages()


@pytest.fixture
def fleet(nodes: Lab) -> Iterator[Lab]:
    """These nodes, and no pod that waits."""
    yield nodes
    nodes.kubectl("delete", "pods", "--all", "-n", SPACE, json=False)
    for node in NODES:
        nodes.command("fault", "clear", node)
        nodes.kubectl("annotate", "node", node, f"{NOTE}-", json=False)
        nodes.kubectl("uncordon", node, json=False)


def test_pods_that_wait_get_their_devices_and_nobody_else_is_touched(fleet: Lab) -> None:
    before = fleet.nodes()
    for number in range(4):
        ask(fleet, f"small-{number}", "1g.5gb", "dgx01")

    explained = repartition(fleet, "--check")
    assert explained.rc == 0, explained.messages()
    assert "dgx01/GPU" in explained.text and f"{SPACE}/small-" in explained.text
    assert fleet.nodes() == before and noted(fleet, "dgx01") == set()

    run = repartition(fleet)
    assert run.rc == 0, run.messages()
    after = fleet.nodes()
    pairs = zip(after["dgx01"]["gpus"], before["dgx01"]["gpus"], strict=True)
    changed = {gpu["uuid"] for gpu, old in pairs if gpu != old}
    assert changed and noted(fleet, "dgx01") == changed
    assert count(fleet, "dgx01", "1g.5gb") >= 4 and after["dgx02"] == before["dgx02"]

    again = repartition(fleet)
    assert again.rc == 0, again.messages()
    assert set(again.changed().values()) == {0} and fleet.nodes() == after

    fleet.kubectl("delete", "pods", "--all", "-n", SPACE, json=False)
    for number in range(8):
        ask(fleet, f"whole-{number}", "7g.40gb", "dgx01")
    resting = repartition(fleet, "--check", repartition_cool_down=3600)
    assert resting.rc == 0, resting.messages()
    assert "rests for 3600 seconds" in resting.text


def test_a_node_that_is_stuck_does_not_keep_the_others_waiting(fleet: Lab) -> None:
    fleet.command("fault", "add", "dgx01", "--function", CREATE, "--code", "INSUFFICIENT_RESOURCES")
    there = {node: count(fleet, node, "1g.5gb") for node in NODES}
    for node in NODES:
        for number in range(there[node] + 1):
            ask(fleet, f"{node}-{number}", "1g.5gb", node)
    before = profiles(fleet, "dgx01")
    run = repartition(fleet)
    assert run.rc != 0
    assert "dgx01: " in run.messages() and "dgx02: " not in run.messages()
    assert "takes pods again" in run.messages() and "later batches" not in run.messages()
    assert profiles(fleet, "dgx01") == before and noted(fleet, "dgx01")
    assert count(fleet, "dgx02", "1g.5gb") > there["dgx02"]
