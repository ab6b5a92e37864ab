"""Changing the layout of a node that others work on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from lab_runs import Lab, Run, need_cluster

NODE = "dgx01"


def site(lab: Lab, *argv: str) -> Run:
    """``ansible-playbook site.yml -l dgx01``"""
    return lab.play("site.yml", "-l", NODE, *argv)


def spec(lab: Lab) -> dict[str, Any]:
    """What the cluster says of the node's scheduling."""
    node = lab.kubectl("get", "node", NODE)
    taints = [taint["key"] for taint in node["spec"].get("taints", []) if "mig" in taint["key"]]
    notes = [key for key in node["metadata"].get("annotations", {}) if "mig-change" in key]
    return {"cordoned": node["spec"].get("unschedulable", False), "taints": taints, "notes": notes}


FREE: dict[str, Any] = {"cordoned": False, "taints": [], "notes": []}


def work(lab: Lab, pod: str, gpu: int, profile: str, *more: str) -> None:
    """A pod of a Job on an instance of ``profile``."""
    instances = lab.nodes()[NODE]["gpus"][gpu]["instances"]
    [first, *_] = [each for each in instances if each["profile"] == profile]
    where = ("--gpu", str(gpu), "--instance", str(first["id"]))
    lab.command("workload", "add", NODE, *where, "--pod", pod, *more)


def pods(lab: Lab, namespace: str) -> list[str]:
    return [pod["metadata"]["name"] for pod in lab.kubectl("get", "pods", "-n", namespace)["items"]]


def applied(run: Run) -> dict[str, Any]:
    """The result of the one task that changes instances."""
    [result] = [result for name, _, result in run.tasks if name.endswith(": Apply the MIG layout")]
    return result


@pytest.fixture
def busy(lab: Lab) -> Iterator[Lab]:
    """The node with a pod on GPU 7 and one on GPU 5."""
    need_cluster(lab)
    run = site(lab)
    assert run.rc == 0, run.messages()
    assert spec(lab) == FREE
    work(lab, "team-a/train", 7, "2g.10gb", "--managed")
    work(lab, "team-b/infer", 5, "3g.20gb", "--managed", "--idle")
    yield lab
    for namespace in ("team-a", "team-b"):
        lab.kubectl("delete", "pods,jobs,pdb", "--all", "-n", namespace, json=False)
    lab.command("workload", "remove", NODE)
    lab.kubectl("uncordon", NODE, json=False)


# GPU 7 is cut anew; the others are as in the inventory.
CUT = {
    "mixed": [
        {"gpus": [0, 1, 2, 3, 4], "mig": False},
        {"gpus": [5, 6], "profiles": {"3g.20gb": 1, "2g.10gb": 1, "1g.5gb": 1}},
        {"gpus": 7, "profiles": {"3g.20gb": 2}},
    ]
}
OVERRIDE = ("-e", json.dumps({"mig_layouts": CUT}))
DRAIN = ("-e", "mig_drain=true")


def test_without_leave_the_pods_are_named_and_nothing_happens(busy: Lab) -> None:
    before = busy.nodes()
    run = site(busy, *OVERRIDE)
    assert run.rc != 0
    assert "team-a/train" in run.messages()
    assert "team-b" not in run.messages()
    assert busy.nodes() == before
    assert spec(busy) == FREE


def test_without_leave_no_pod_goes_for_the_reset_of_another_gpu(busy: Lab) -> None:
    """The pod's instance is wanted as it is, but linked GPUs are reset together."""
    busy.kubectl("delete", "pod", "train", "-n", "team-a", json=False)
    before = busy.nodes()
    run = site(busy, "-e", "dgx_strategy=single")
    assert run.rc != 0
    assert "a GPU must be reset while team-b/infer hold GPUs of the node" in run.messages()
    assert pods(busy, "team-b") == ["infer"]
    assert busy.nodes() == before
    assert spec(busy) == FREE


def test_only_the_pods_in_the_way_are_drained(busy: Lab) -> None:
    predicted = site(busy, *OVERRIDE, *DRAIN, "--check")
    assert predicted.rc == 0, predicted.messages()
    assert pods(busy, "team-a") == ["train"]
    assert spec(busy) == FREE
    run = site(busy, *OVERRIDE, *DRAIN)
    assert run.rc == 0, run.messages()
    assert pods(busy, "team-a") == []
    assert pods(busy, "team-b") == ["infer"]
    assert spec(busy) == FREE
    for key in ("actions", "changed", "plan"):
        assert applied(predicted)[key] == applied(run)[key]
    again = site(busy, *OVERRIDE, *DRAIN)
    assert again.rc == 0, again.messages()
    assert not any(again.changed().values())


def test_a_disruption_budget_is_honoured(busy: Lab) -> None:
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "train", "namespace": "team-a"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"job-name": "train"}}},
    }
    busy.kubectl("apply", "-f", "-", stdin=json.dumps(budget))
    before = busy.nodes()
    run = site(busy, *OVERRIDE, *DRAIN, "-e", "mig_drain_timeout=10")
    assert run.rc != 0
    for words in ("violate the pod's disruption budget", "are as they were", "takes pods again"):
        assert words in run.messages(), run.messages()
    assert pods(busy, "team-a") == ["train"]
    assert busy.nodes() == before
    assert spec(busy) == FREE


def test_a_pod_that_nothing_makes_anew_is_refused_before_anything_changes(busy: Lab) -> None:
    patch = json.dumps({"metadata": {"ownerReferences": None}})
    busy.kubectl("patch", "pod", "train", "-n", "team-a", "--type=merge", "-p", patch)
    before = busy.nodes()
    for check in ((), ("--check",)):
        run = site(busy, *OVERRIDE, *DRAIN, *check)
        assert run.rc != 0
        assert "team-a/train would not be made anew by anything: set mig_drain_unmanaged" in run.messages()
        assert not any(run.changed().values())
    assert busy.nodes() == before
    assert spec(busy) == FREE


def test_a_failed_change_is_undone_and_told(busy: Lab) -> None:
    before = busy.nodes()[NODE]["gpus"]
    busy.command("workload", "remove", NODE, "--gpu", "7")
    function = "nvmlDeviceCreateGpuInstanceWithPlacement"
    busy.command(
        "fault", "add", NODE, "--function", function, "--nth", "2", "--code", "INSUFFICIENT_RESOURCES"
    )
    try:
        run = site(busy, *OVERRIDE)
    finally:
        busy.command("fault", "clear", NODE)
    assert run.rc != 0
    for words in ("Apply the MIG layout", function, "are as they were", "takes pods again"):
        assert words in run.messages(), run.messages()
    after = busy.nodes()[NODE]["gpus"]
    assert [[i["profile"] for i in gpu["instances"]] for gpu in after] == [
        [i["profile"] for i in gpu["instances"]] for gpu in before
    ]
    assert spec(busy) == FREE


def test_an_interrupted_run_is_gone_on_with(busy: Lab) -> None:
    """Killed when the GPUs were done, and the node was held still."""
    marks = {"metadata": {"annotations": {"nvidia.com/mig-change.cordoned": "true"}}}
    busy.kubectl("patch", "node", NODE, "--type=merge", "-p", json.dumps(marks))
    busy.kubectl("cordon", NODE, json=False)
    busy.kubectl("taint", "node", NODE, "nvidia.com/mig-change:NoSchedule", json=False)
    run = site(busy)
    assert run.rc == 0, run.messages()
    assert spec(busy) == FREE
    again = site(busy)
    assert again.rc == 0, again.messages()
    assert not any(again.changed().values()), again.changed()


def test_a_cordon_of_somebody_else_stays(busy: Lab) -> None:
    busy.kubectl("cordon", NODE, json=False)
    run = site(busy, *OVERRIDE, *DRAIN)
    assert run.rc == 0, run.messages()
    assert spec(busy) == {**FREE, "cordoned": True}
