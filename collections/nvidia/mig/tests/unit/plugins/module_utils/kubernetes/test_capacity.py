# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What nodes have left, which of their GPUs must not change, and what the planner makes of it."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.capacity import Rules, plannable_nodes
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.cooldown import PARTITIONED
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.hold import CORDONED, TAINT
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.pending import Window, pending_pods
from ansible_collections.nvidia.mig.tests.unit.plugins.module_utils.demand import support as planner
from ansible_collections.nvidia.mig.tests.unit.plugins.module_utils.kubernetes.observing import (
    NOW,
    bound,
    container,
    gpu,
    node,
    pod,
    stamp,
)
from hypothesis import given
from hypothesis import strategies as st

SMALL = container(cpu=1, mig_1g_5gb=1)
CUT = ("1g.5gb@0:1", "1g.5gb@1:1", "2g.10gb@2:2")


def look(*nodes: Any, wanted: Any = None, pods: Any = (), gpus: Any = (), **rules: Any) -> Any:
    """Nodes by name, and problems. By default each node of the cluster is wanted, with these GPUs."""
    if wanted is None:
        wanted = [{"name": own["metadata"]["name"], "gpus": list(gpus)} for own in nodes]
    before = copy.deepcopy(wanted)
    found, problems = plannable_nodes(wanted, nodes, pods, Rules(**rules), NOW)
    assert wanted == before
    return {own["name"]: own for own in found}, problems


def frozen(found: dict[str, Any]) -> dict[int, str]:
    return {own["index"]: own["frozen"] for own in found["gpus"] if "frozen" in own}


def holders(found: dict[str, Any]) -> list[str]:
    """Pods that hold an instance, or a whole GPU."""
    parts = [part for own in found["gpus"] for part in (own, *own["instances"])]
    return [holder["name"] for part in parts for holder in part["pods"]]


def test_a_node_as_the_planner_takes_it():
    spec = {"taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]}
    found, problems = look(node("n1", spec=spec), gpus=[gpu(0)])
    assert not problems
    assert found["n1"] == {
        "name": "n1",
        "labels": {"kubernetes.io/hostname": "n1"},
        "taints": spec["taints"],
        "unschedulable": False,
        "free": {"cpu": "8", "memory": "32Gi", "pods": "10"},
        "strategy": "mixed",
        "gpus": [gpu(0)],
    }


def test_what_pods_leave_free():
    pods = [
        bound("a", "n1", container(cpu="1500m", memory="2Gi")),
        bound("b", "n1", container(cpu=1), phase="Pending"),
        bound("done", "n1", container(cpu=4), phase="Succeeded"),
        bound("failed", "n1", container(cpu=4), phase="Failed"),
        bound("elsewhere", "n2", container(cpu=4)),
        pod("pending", container(cpu=4)),
        # It gets its place before others do.
        pod("preempts", container(cpu=1), status={"nominatedNodeName": "n1"}),
    ]
    found, _problems = look(node("n1"), pods=pods)
    assert found["n1"]["free"] == {"cpu": "4500m", "memory": "30Gi", "pods": "7"}


def test_a_node_with_more_than_it_can_bear_has_nothing_left():
    found, _problems = look(node("n1"), pods=[bound("a", "n1", container(cpu=20))])
    assert found["n1"]["free"]["cpu"] == "0"


@pytest.mark.parametrize(
    ("told", "label", "strategy"),
    [
        (None, None, "mixed"),
        (None, "single", "single"),
        ("mixed", "single", "mixed"),
    ],
)
def test_strategy(told, label, strategy):
    labels = {} if label is None else {"nvidia.com/mig.strategy": label}
    wanted = [{"name": "n1", "gpus": [], "strategy": told}]
    found, _problems = look(node("n1", metadata={"labels": labels}), wanted=wanted)
    assert found["n1"]["strategy"] == strategy


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({}, None),
        ({"ready": "Unknown"}, "its node is not ready"),
        ({"status": {"conditions": []}}, "its node is not ready"),
        ({"spec": {"unschedulable": True}}, "its node is cordoned"),
        (
            {"spec": {"unschedulable": True}, "metadata": {"annotations": {CORDONED: "true"}}},
            "its GPUs are being changed, or a change of them was interrupted",
        ),
        ({"spec": {"taints": [TAINT]}}, "its GPUs are being changed, or a change of them was interrupted"),
    ],
)
def test_nodes_that_must_not_change(more, reason):
    found, problems = look(node("n1", **more))
    assert not problems and found["n1"].get("frozen") == reason


def test_no_pod_is_sent_to_a_node_that_is_not_ready():
    found, _problems = look(node("n1", ready="False"))
    assert found["n1"]["taints"] == [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]
    assert look(node("n1", ready="False", spec={"taints": found["n1"]["taints"]}))[0]["n1"] == found["n1"]


def test_opt_in():
    nodes = node("n1", metadata={"labels": {"demand": "yes"}}), node("n2")
    found, _problems = look(*nodes, opt_in={"demand": "yes"})
    assert "frozen" not in found["n1"]
    assert found["n2"]["frozen"] == "its node lacks the label demand=yes, by which nodes opt in"


@pytest.mark.parametrize(("label", "value"), [("true", True), ("1", 1), ("false", False)])
def test_opt_in_as_yaml_reads_it(label, value):
    found, _problems = look(node("n1", metadata={"labels": {"demand": label}}), opt_in={"demand": value})
    assert "frozen" not in found["n1"]


def test_the_callers_reason_stays():
    wanted = [{"name": "n1", "gpus": [gpu(0, frozen="benchmark")], "frozen": "night"}]
    found, _problems = look(node("n1", ready="False"), wanted=wanted)
    assert found["n1"]["frozen"] == "night" and frozen(found["n1"]) == {0: "benchmark"}


def test_cool_down():
    note = json.dumps({"GPU-0": stamp(100), "GPU-1": stamp(400)})
    found, problems = look(
        node("n1", metadata={"annotations": {PARTITIONED: note}}), gpus=[gpu(0), gpu(1)], cool_down=300
    )
    assert not problems and set(frozen(found["n1"])) == {0}


def test_a_note_that_nobody_understands_is_told():
    metadata = {"annotations": {PARTITIONED: "soon"}}
    found, problems = look(node("n1", metadata=metadata), gpus=[gpu(0)], cool_down=300)
    assert not frozen(found["n1"])
    assert "node n1: nvidia.com/mig-change.by-demand: 'soon' does not tell when" in problems[0]


REASON = "pod ml/new has just got a device there, and nobody knows yet which"


def test_a_newcomer_keeps_what_it_could_get():
    gpus = [gpu(0, *CUT), gpu(1, "1g.5gb@0:1"), gpu(2, "2g.10gb@0:2"), gpu(3, "1g.5gb@0:1 ml/a")]
    pods = [bound("a", "n1", SMALL), bound("new", "n1", SMALL, phase="Pending")]
    found, _problems = look(node("n1"), pods=pods, gpus=gpus)
    assert "frozen" not in found["n1"]
    assert frozen(found["n1"]) == {0: REASON, 1: REASON}
    assert sorted(holders(found["n1"])) == ["a", "new"]


def test_a_newcomer_for_whom_there_is_no_device_freezes_the_node():
    pods = [bound("new", "n1", container(mig_1g_5gb=2))]
    found, _problems = look(node("n1"), pods=pods, gpus=[gpu(0, "1g.5gb@0:1"), gpu(1)])
    assert found["n1"]["frozen"] == REASON and holders(found["n1"]) == ["new"]


@pytest.mark.parametrize("needs_reset", [True, False])
@pytest.mark.parametrize(
    ("holder", "pods"),
    [
        (gpu(0, "1g.5gb@0:1 ml/a"), []),
        (gpu(0, mig=False, pods=[{"namespace": "ml", "name": "a"}]), []),
        (gpu(0, "1g.5gb@0:1"), [bound("a", "n1", SMALL)]),
    ],
)
def test_modes_that_take_a_reset_stay_while_a_pod_holds_a_gpu(holder, pods, needs_reset):
    gpus = [gpu(1, mig=False), holder]
    for own in gpus:
        own["mig_mode"]["needs_reset"] = needs_reset
    found, _problems = look(node("n1"), pods=pods, gpus=gpus)
    reason = "that takes a reset, and pod ml/a holds a GPU of the node"
    assert found["n1"].get("keep_mode") == (reason if needs_reset else None)
    free, _problems = look(node("n1"), gpus=gpus[:1])
    assert "keep_mode" not in free["n1"]


@pytest.mark.parametrize(("strategy", "kept"), [("mixed", [1]), ("single", [0]), ("none", [0])])
def test_a_newcomer_that_asks_for_a_gpu(strategy, kept):
    gpus = [gpu(0, "3g.20gb@0:4"), gpu(1, mig=False), gpu(2, mig=False, pods=[{"uid": "uid-a", "name": "a"}])]
    pods = [bound("a", "n1", container(gpu=1)), bound("new", "n1", container(gpu=1))]
    wanted = [{"name": "n1", "gpus": gpus, "strategy": strategy}]
    found, _problems = look(node("n1"), wanted=wanted, pods=pods)
    assert set(kept) <= set(frozen(found["n1"])) <= {0, 1}
    assert holders(found["n1"]).count("new") == 1


def test_a_newcomer_may_get_a_part_of_an_instance():
    computes = [{"profile": "1c.3g.20gb"}, {"profile": "2c.3g.20gb"}]
    part = gpu(0, "3g.20gb@0:4")
    part["instances"][0]["compute_instances"] = computes
    pods = [bound("new", "n1", {"name": "c", "resources": {"requests": {"nvidia.com/mig-2c.3g.20gb": "1"}}})]
    found, _problems = look(node("n1"), pods=pods, gpus=[part])
    assert frozen(found["n1"]) == {0: REASON} and "frozen" not in found["n1"]


def test_a_pod_that_has_its_device_is_no_newcomer():
    in_devices = gpu(0, "1g.5gb@0:1", mig_devices=[{"pods": [{"uid": "uid-a"}]}])
    for own in (in_devices, gpu(0, "1g.5gb@0:1 ml/a")):
        found, _problems = look(node("n1"), pods=[bound("a", "n1", SMALL)], gpus=[own])
        assert not frozen(found["n1"])
    # A new pod of the same name is another.
    again = bound("a", "n1", SMALL)
    again["metadata"]["uid"] = "uid-2"
    found, _problems = look(node("n1"), pods=[again], gpus=[gpu(0, "1g.5gb@0:1 ml/a", "1g.5gb@1:1")])
    assert set(frozen(found["n1"])) == {0}


@pytest.mark.parametrize(
    ("wanted", "nodes", "problem"),
    [
        ("text", [], "nodes[1]: 'text' is not a mapping"),
        ({}, [], "nodes[1]: name is missing"),
        ({"name": "bad", "gpus": []}, [], "node bad: the cluster has no such node"),
        ({"name": "good", "gpus": []}, [], "node good: it stands twice"),
        ({"name": "bad"}, [node("bad")], "node bad: gpus are missing (pass what mig_info returned)"),
        ({"name": "bad", "gpus": "none"}, [node("bad")], "node bad: gpus: 'none' is not a list"),
        (
            {"name": "bad", "gpus": []},
            [node("bad", status={"allocatable": {"cpu": "8", "pods": "10"}})],
            "node bad: status.allocatable: memory is missing",
        ),
        (
            {"name": "bad", "gpus": []},
            [node("bad", status={"allocatable": {"cpu": "many", "memory": "1Gi", "pods": "10"}})],
            "node bad: status.allocatable.cpu: 'many' is not a quantity",
        ),
        (
            {"name": "bad", "gpus": []},
            [node("bad", spec={"taints": "x"})],
            "node bad: taints: 'x' is not a list",
        ),
    ],
)
def test_what_is_wrong_is_named_and_the_rest_goes_on(wanted, nodes, problem):
    good = {"name": "good", "gpus": []}
    found, problems = look(node("good"), *nodes, wanted=[good, wanted])
    assert list(found) == ["good"]
    assert len(problems) == 1 and problem in problems[0] and problems[0].endswith("; it is passed over")


def test_a_node_is_passed_over_if_nobody_knows_what_its_pods_request():
    pods = [bound("odd", "bad", container(cpu="many"))]
    found, problems = look(node("good"), node("bad"), pods=pods)
    assert list(found) == ["good"]
    assert "node bad: what pod ml/odd requests there is unknown" in problems[0]


def test_cluster_objects_that_are_none():
    found, problems = look(node("n1"), pods=["text", {}, {"status": 3}])
    assert list(found) == ["n1"] and not problems
    _found, problems = plannable_nodes([], ["text", {}, {"metadata": {}}], [], Rules(), NOW)
    assert len(problems) == 3


# What the planner makes of it.


def test_the_planner_takes_what_was_observed():
    pytest.importorskip("highspy")
    pending = pending_pods(
        [pod(f"p{number}", container(cpu=1, memory="1Gi", mig_1g_10gb=1)) for number in range(5)],
        NOW,
        Window(),
    )
    found, problems = look(node("n1"), node("n2"), gpus=[planner.gpu(0, model="A100-SXM4-80GB")])
    result = planner.planned(list(found.values()), pending.pods)
    assert not problems and not result["problems"]
    assert len(result["placed"]) == 5 and len(result["nodes"]) == 1


def test_the_planner_leaves_alone_what_a_newcomer_could_get():
    pytest.importorskip("highspy")
    gpus = [planner.gpu(0, "1g.5gb@0:1"), planner.gpu(1, "1g.5gb@0:1")]
    big = pending_pods([pod("big", container(mig_7g_40gb=1))], NOW, Window())
    small = pending_pods([pod("small", SMALL), pod("small2", SMALL)], NOW, Window())
    newcomer = [bound("new", "n1", SMALL)]
    found, _problems = look(node("n1"), pods=newcomer, gpus=gpus)
    result = planner.planned(list(found.values()), big.pods)
    assert not result["nodes"] and "has just got a device" in planner.reason(result, "big")
    # It gets one of both, so one is left.
    result = planner.planned(list(found.values()), small.pods)
    assert len(result["placed"]) == 1 and not result["nodes"]


PODS = st.lists(st.tuples(st.sampled_from(["1g.5gb", "2g.10gb", "3g.20gb"]), st.booleans()), max_size=4)


@given(
    PODS, st.lists(st.sampled_from([("1g.5gb@0:1",), CUT, ("3g.20gb@0:4", "3g.20gb@4:4"), ()]), max_size=3)
)
def test_no_device_that_a_newcomer_could_get_can_go(newcomers, cuts):
    """Whatever kubelet gives the newcomers: it is on a frozen GPU, and no more is free than it leaves."""
    gpus = [gpu(number, *cut) for number, cut in enumerate(cuts)]
    pods = [
        bound(
            f"new{number}", "n1", {"name": "c", "resources": {"requests": {f"nvidia.com/mig-{profile}": 1}}}
        )
        for number, (profile, _running) in enumerate(newcomers)
    ]
    found, _problems = look(node("n1"), pods=pods, gpus=gpus)
    own = found["n1"]
    for profile in {profile for profile, _running in newcomers}:
        asked = sum(profile == other for other, _running in newcomers)
        have = [g["index"] for g in gpus for i in g["instances"] if i["profile"] == profile]
        left = [i for g in own["gpus"] for i in g["instances"] if i["profile"] == profile and not i["pods"]]
        assert len(left) == max(0, len(have) - asked)
        assert own.get("frozen") or set(have) <= set(frozen(own))
        assert asked <= len(have) or own.get("frozen")
