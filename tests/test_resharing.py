"""GPUs that are shared as pods ask for it, as they cannot or shall not use MIG: playbooks/repartition.yml."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from lab_runs import Lab, Run, need_cluster

HOST = "t4-01"
SPACE = "shares"
CONFIG = "nvidia.com/device-plugin.config"
SHARED = "nvidia.com/gpu.shared"
NOTE = "nvidia.com/mig-change.by-demand"


def mps(replicas: int) -> dict[str, Any]:
    return {"mps": {"renameByDefault": True, "resources": [{"name": "nvidia.com/gpu", "replicas": replicas}]}}


def inventory(lab: Lab, *choices: dict[str, Any]) -> tuple[str, ...]:
    """The lab's inventory, in which the host begins with two pods on each GPU, and has these choices."""
    path = lab.directory / "shares.yml"
    wishes = {"mig_sharing": mps(2), "mig_sharing_choices": choices}
    path.write_text(json.dumps({"mig_demand": {"hosts": {HOST: wishes}}}))
    return "-i", "inventories/lab", "-i", str(path)


def site(lab: Lab, *choices: dict[str, Any]) -> Run:
    run = lab.play("site.yml", "-l", HOST, *inventory(lab, *choices))
    assert run.rc == 0, run.messages()
    return run


def repartition(lab: Lab, *argv: str, choices: tuple[dict[str, Any], ...] = (mps(8), {}), **more: Any) -> Run:
    at_once = json.dumps({"repartition_batch_window": 0, "repartition_cool_down": 0, **more})
    return lab.play("playbooks/repartition.yml", *inventory(lab, *choices), "-e", at_once, *argv)


def ask(lab: Lab, name: str, resource: str = SHARED, **spec: Any) -> None:
    """A pod that waits, or with ``nodeName`` one that has got the node."""
    resources = {"limits": {resource: "1"}}
    container = {"name": "main", "image": "nowhere.invalid/none", "resources": resources}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": SPACE},
        "spec": {"containers": [container], **spec},
    }
    lab.kubectl("apply", "-f", "-", stdin=json.dumps(pod))
    if "nodeName" not in spec:
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        patch = json.dumps({"status": {"conditions": [condition]}})
        lab.kubectl("patch", "pod", name, "-n", SPACE, "--subresource=status", "--type=merge", "-p", patch)


def node(lab: Lab) -> tuple[str, str, str, bool]:
    """The config that the node's label picks, GPUs and shares that it offers, and whether it is cordoned."""
    found = lab.kubectl("get", "node", HOST)
    offers = found["status"]["allocatable"]
    cordoned = bool(found["spec"].get("unschedulable"))
    label = found["metadata"]["labels"].get(CONFIG, "")
    return label.rpartition("-")[0], offers.get("nvidia.com/gpu", "0"), offers.get(SHARED, "0"), cordoned


TWO, EIGHT = ("none-mps-gpu-x2", "0", "8", False), ("none-mps-gpu-x8", "0", "32", False)


@pytest.fixture(scope="module")
def prepared(lab: Lab) -> Iterator[Lab]:
    need_cluster(lab)
    account = {"kind": "ServiceAccount", "metadata": {"name": "default", "namespace": SPACE}}
    for item in ({"kind": "Namespace", "metadata": {"name": SPACE}}, account):
        lab.kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", **item}))
    # What is among the choices is left as it is, so the beginning is one without choices.
    site(lab)
    yield lab
    lab.kubectl("delete", "namespace", SPACE, "--wait=false", json=False)
    run = lab.play("site.yml", "-l", HOST)
    assert run.rc == 0, run.messages()


@pytest.fixture
def fleet(prepared: Lab) -> Iterator[Lab]:
    yield prepared
    prepared.kubectl("delete", "pods", "--all", "-n", SPACE, "--force", "--grace-period=0", json=False)
    prepared.kubectl("annotate", "node", HOST, f"{NOTE}-", json=False)


def test_pods_that_wait_get_shares_and_the_inventory_lets_them(fleet: Lab) -> None:
    assert node(fleet) == TWO
    site(fleet, mps(8), {})
    assert node(fleet) == TWO
    for number in range(9):
        ask(fleet, f"small-{number}")

    explained = repartition(fleet, "--check")
    assert explained.rc == 0, explained.messages()
    assert f"{HOST}: 8 pods on each GPU by MPS for {SPACE}/small-0" in explained.text
    assert "1 host: 1 would change" in explained.text and "layout 4x whole GPU" in explained.text
    assert node(fleet) == TWO

    run = repartition(fleet)
    assert run.rc == 0, run.messages()
    assert node(fleet) == EIGHT
    notes = fleet.kubectl("get", "node", HOST)["metadata"]["annotations"][NOTE]
    assert set(json.loads(notes)) == {gpu["uuid"] for gpu in fleet.nodes()[HOST]["gpus"]}

    again = repartition(fleet)
    assert again.rc == 0 and set(again.changed().values()) == {0}, again.messages()
    assert set(site(fleet, mps(8), {}).changed().values()) == {0}
    assert node(fleet) == EIGHT
    resting = repartition(fleet, "--check", repartition_cool_down=3600)
    assert resting.rc == 0, resting.messages()

    # Back to whole GPUs, where somebody asks for one and nobody for a share.
    fleet.kubectl("delete", "pods", "--all", "-n", SPACE, "--force", "--grace-period=0", json=False)
    ask(fleet, "whole", "nvidia.com/gpu")
    run = repartition(fleet, repartition_whole_gpus=True)
    assert run.rc == 0, run.messages()
    assert node(fleet) == ("", "4", "0", False)
    assert set(site(fleet, mps(8), {}).changed().values()) == {0}


def test_a_node_that_somebody_uses_stays_as_it_is(fleet: Lab) -> None:
    before = node(fleet)
    other = SHARED if before != TWO and before != EIGHT else "nvidia.com/gpu"
    ask(fleet, "user", "nvidia.com/gpu" if other == SHARED else SHARED, nodeName=HOST)
    ask(fleet, "waits", other)
    run = repartition(fleet, repartition_whole_gpus=True)
    assert run.rc == 0, run.messages()
    assert f"but pod {SPACE}/user has a part of its GPUs" in run.text
    assert set(run.changed().values()) == {0} and node(fleet) == before


def test_a_configuration_that_the_release_lacks_is_told_before_any_change(fleet: Lab) -> None:
    before = node(fleet)
    for number in range(40):
        ask(fleet, f"many-{number}")
    run = repartition(fleet, choices=(mps(8), {}, mps(16)))
    assert run.rc != 0
    assert "the device plugin's release has no configuration none-mps-gpu-x16" in run.messages()
    assert node(fleet) == before and set(run.changed().values()) == {0}


def test_a_pod_that_came_in_the_meantime_keeps_its_gpu(fleet: Lab) -> None:
    before = node(fleet)
    ask(fleet, "user", "nvidia.com/gpu", nodeName=HOST)
    role = "nvidia.mig.mig"
    parts = [
        {"ansible.builtin.import_role": {"name": role, "tasks_from": part, "rolespec_validate": False}}
        for part in ("batch", "reshare", "prove")
    ]
    book = fleet.directory / "late.yml"
    variables = {"mig_rollout_also": [HOST], "mig_node_labels": {CONFIG: "mixed"}, "mig_layout": []}
    book.write_text(json.dumps([{"hosts": HOST, "become": True, "vars": variables, "tasks": parts}]))
    run = fleet.play(str(book), *inventory(fleet, mps(8), {}))
    assert run.rc != 0
    assert f"{SPACE}/user came while the plan was made" in run.messages()
    assert "takes pods again" in run.messages()
    assert node(fleet) == before
