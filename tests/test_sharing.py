"""Sharing GPUs of some nodes: it comes and goes by a label, and nobody else notices."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from lab_runs import Lab, Run, need_cluster

HOST = "t4-01"
CONFIG = "nvidia.com/device-plugin.config"


def wish(sharing: dict[str, Any]) -> tuple[str, str]:
    """The inventory's ``mig_sharing``, of ``HOST`` alone."""
    text = f"{{{{ {json.dumps(sharing)} if inventory_hostname == '{HOST}' else {{}} }}}}"
    return "-e", json.dumps({"mig_sharing": text})


def sliced(name: str, **flags: bool) -> dict[str, Any]:
    return {"timeSlicing": {**flags, "resources": [{"name": name, "replicas": 4}]}}


def site(lab: Lab, *argv: str, limit: str = HOST) -> Run:
    return lab.play("site.yml", "-l", limit, *argv)


def told_changed(run: Run) -> set[tuple[str, str]]:
    """Tasks that report a change, and the hosts."""
    return {(name, host) for name, host, result in run.tasks if result.get("changed")}


def nodes(lab: Lab) -> dict[str, Any]:
    """Labels and allocatable resources of every node, but when GFD's pod was started."""
    found = {}
    for node in lab.kubectl("get", "nodes")["items"]:
        labels = {key: value for key, value in node["metadata"]["labels"].items() if "timestamp" not in key}
        found[node["metadata"]["name"]] = (labels, node["status"]["allocatable"])
    return found


def release(lab: Lab) -> dict[str, Any]:
    return dict(lab.helm("get", "values", "nvidia-device-plugin", "-n", "nvidia-device-plugin"))


@pytest.fixture(scope="module")
def fleet(lab: Lab) -> Iterator[Lab]:
    """The host as the inventory wants it, now and afterwards."""
    need_cluster(lab)
    run = site(lab)
    assert run.rc == 0, run.messages()
    start = nodes(lab)[HOST][0]
    yield lab
    if nodes(lab)[HOST][0] != start:
        site(lab)


def test_sharing_comes_and_goes(fleet: Lab) -> None:
    start, values, gpus = nodes(fleet), release(fleet), fleet.nodes()
    shared = wish(sliced("nvidia.com/gpu", renameByDefault=True))
    predicted, run = site(fleet, *shared, "--check"), site(fleet, *shared)
    assert (predicted.rc, run.rc) == (0, 0), predicted.messages() + run.messages()
    assert told_changed(predicted) == told_changed(run) != set()
    seen = nodes(fleet)
    labels, offered = seen.pop(HOST)
    before = start.copy()
    before.pop(HOST)
    assert seen == before
    assert labels[CONFIG] in release(fleet)["config"]["map"]
    assert labels["nvidia.com/gpu.replicas"] == "4"
    assert (offered["nvidia.com/gpu"], offered["nvidia.com/gpu.shared"]) == ("0", "16")
    assert not any(site(fleet, *shared).changed().values())
    away = site(fleet)
    assert away.rc == 0, away.messages()
    _, offered = nodes(fleet)[HOST]
    assert (offered["nvidia.com/gpu"], offered["nvidia.com/gpu.shared"]) == ("4", "0")
    assert (release(fleet), nodes(fleet)[HOST][0]) == (values, start[HOST][0])
    assert fleet.nodes() == gpus


def test_what_a_node_never_offers_is_refused_before_any_change(fleet: Lab) -> None:
    start, values = nodes(fleet), release(fleet)
    run = site(fleet, *wish(sliced("nvidia.com/mig-1g.5gb")), limit=f"dgx01,{HOST}")
    assert run.rc != 0
    assert "never offer nvidia.com/mig-1g.5gb (they offer nvidia.com/gpu)" in run.messages()
    assert (nodes(fleet), release(fleet)) == (start, values)
