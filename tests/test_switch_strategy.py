"""NVIDIA's two ways from one strategy to another, on one node of a fleet with others."""

from __future__ import annotations

import time
from typing import Any

import pytest
from lab_runs import Lab, Run, need_cluster

NODE, OTHER = "dgx01", "hgx01"


def switch(lab: Lab, to: str, *argv: str) -> Run:
    """``ansible-playbook playbooks/switch_strategy.yml -l dgx01 -e switch_strategy_to=...``"""
    return lab.play("playbooks/switch_strategy.yml", "-l", NODE, "-e", f"switch_strategy_to={to}", *argv)


def reinstall(lab: Lab, to: str, *argv: str) -> Run:
    return switch(lab, to, "-e", "switch_strategy_way=reinstall", *argv)


def offered(lab: Lab, node: str) -> dict[str, str]:
    """The node's NVIDIA resources."""
    allocatable = lab.kubectl("get", "node", node)["status"]["allocatable"]
    return {
        name: count for name, count in allocatable.items() if name.startswith("nvidia.com/") and count != "0"
    }


def settles(lab: Lab, wanted: dict[str, dict[str, str]], seconds: float = 15) -> None:
    """Wait until the nodes offer exactly this; no proof at the end of the run has waited for it."""
    deadline = time.monotonic() + seconds
    while (found := {node: offered(lab, node) for node in wanted}) != wanted:
        assert time.monotonic() < deadline, found
        time.sleep(0.2)


def state(lab: Lab) -> tuple[Any, ...]:
    """What a refused run must leave alone."""
    found = lab.kubectl("get", "nodes")["items"]
    labels = {node["metadata"]["name"]: node["metadata"]["labels"] for node in found}
    return lab.nodes(), labels, revisions(lab)


def revisions(lab: Lab) -> dict[str, str]:
    return {release["name"]: release["revision"] for release in lab.helm("list", "-A")}


@pytest.fixture(scope="module")
def ready(lab: Lab) -> Lab:
    """The node as the inventory wants it: mixed."""
    need_cluster(lab)
    run = lab.play("site.yml", "-l", NODE)
    assert run.rc == 0, run.messages()
    return lab


def test_what_is_not_known_is_refused(ready: Lab) -> None:
    before = state(ready)
    run = switch(ready, "singel", "-e", "switch_strategy_way=replace")
    assert run.rc != 0
    for words in ('"replace": use one of upgrade, reinstall', '"singel": use one of none, single, mixed'):
        assert words in run.text.replace("\\", "")
    assert state(ready) == before


def test_other_nodes_do_not_lose_their_gpus_without_leave(ready: Lab) -> None:
    before = state(ready)
    run = reinstall(ready, "single")
    assert run.rc != 0
    for words in (OTHER, "switch_strategy_others_ok", "Nothing was changed"):
        assert words in run.messages()
    assert state(ready) == before


def test_a_node_that_fails_keeps_nobody_without_gpus(ready: Lab) -> None:
    """Its GPUs are as before, and the releases are there again, for it and for the others."""
    before = {node: offered(ready, node) for node in (NODE, OTHER)}
    create = "nvmlDeviceCreateGpuInstanceWithPlacement"
    ready.command("fault", "add", NODE, "--function", create, "--code", "INSUFFICIENT_RESOURCES")
    try:
        run = reinstall(ready, "single", "-e", "switch_strategy_others_ok=true")
    finally:
        ready.command("fault", "clear", NODE)
    assert run.rc != 0
    for words in ("Insufficient Resources", "are as they were", "The releases are installed again"):
        assert words in run.messages()
    settles(ready, before)
    assert set(revisions(ready).values()) == {"1"}


def test_both_ways(ready: Lab) -> None:
    """There by removing and installing anew, back by an upgrade; again, each finds nothing to do."""
    others = offered(ready, OTHER)
    leave = ("-e", "switch_strategy_others_ok=true")
    away = reinstall(ready, "single", *leave)
    assert away.rc == 0, away.messages()
    assert offered(ready, NODE) == {"nvidia.com/gpu": "16"}
    assert offered(ready, OTHER) == others
    assert set(revisions(ready).values()) == {"1"}
    assert "the inventory says mixed" in away.text
    again = reinstall(ready, "single", *leave)
    assert again.rc == 0, again.messages()
    assert not any(again.changed().values()), again.changed()

    back = switch(ready, "mixed")
    assert back.rc == 0, back.messages()
    assert offered(ready, NODE)["nvidia.com/mig-3g.20gb"] == "2"
    assert offered(ready, OTHER) == others
    again = switch(ready, "mixed")
    assert again.rc == 0, again.messages()
    assert not any(again.changed().values()), again.changed()
