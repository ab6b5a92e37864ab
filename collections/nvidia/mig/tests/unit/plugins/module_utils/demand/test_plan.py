# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The planner, one rule after the other, on fleets that fit on a line."""

from __future__ import annotations

import pytest
from ansible_collections.nvidia.mig.tests.unit.plugins.module_utils.demand.support import (
    gpu,
    held,
    layouts,
    node,
    placed,
    plan_in_groups,
    planned,
    pod,
    pods,
    reason,
)
from ansible_collections.nvidia.mig.tests.unit.plugins.module_utils.geometry.support import A100_80, T4

pytest.importorskip("highspy")

SEVEN = [f"1g.5gb@{start}:1" for start in range(7)]


def test_five_small_pods_on_an_empty_gpu():
    result = planned([node("n", gpu(0, model=A100_80))], pods(5, "1g.10gb"))
    assert len(result["placed"]) == 5
    assert layouts(result) == {"n": {0: {"1g.10gb": 5}}}
    assert result["nodes"][0]["layout"] == [{"gpus": ["GPU-0"], "profiles": {"1g.10gb": 5}}]
    assert result["proven"]
    assert result["gap"] == 0
    assert not result["changed"]


def test_a_second_wave_leaves_the_first_alone():
    first = [f"1g.10gb@{start}:1 ml/a{start}" for start in range(5)]
    result = planned([node("n", gpu(0, *first, model=A100_80))], [pod("b", "2g.20gb")])
    # 2g.20gb sits at 0, 2 or 4, and all of these are held.
    assert not result["nodes"]
    assert reason(result, "b") == (
        "asks for 2g.20gb: no A100-SXM4-80GB has 2 contiguous free slices for it; freeing n/GPU0 needs pod "
        "ml/a4 to end"
    )
    first = [f"1g.10gb@{start}:1 ml/a{start}" for start in (0, 1, 2, 3, 6)]
    result = planned([node("n", gpu(0, *first, model=A100_80))], [pod("b", "2g.20gb")])
    assert layouts(result) == {"n": {0: {"1g.10gb": 5, "2g.20gb": 1}}}


def test_what_is_there_already_needs_no_change():
    result = planned([node("n", gpu(0, "1g.5gb@0:1", "1g.5gb@1:1 ml/x"))], pods(1, "1g.5gb"))
    assert result["nodes"] == []
    assert result["placed"] == [{"pod": "ml/1g.5gb-0", "node": "n", "needs_change": False}]


def test_free_instances_go_only_if_that_pays():
    full = node("n", gpu(0, *SEVEN), gpu(1, "3g.20gb@0:4"))
    result = planned([full], [pod("a", "3g.20gb"), pod("b", "3g.20gb")])
    assert layouts(result) == {"n": {1: {"3g.20gb": 2}}}
    assert result["objective"]["destroyed"]["value"] == 0
    assert {own["pod"]: own["needs_change"] for own in result["placed"]} == {"ml/a": False, "ml/b": True}
    result = planned([full], [pod(name, "3g.20gb") for name in "abc"])
    assert result["objective"]["destroyed"]["value"] == 3
    assert layouts(result)["n"][0] == {"3g.20gb": 1, "1g.5gb": 4} or layouts(result)["n"][0] == {
        "3g.20gb": 1,
        "1g.5gb": 3,
    }


def test_the_smaller_hole_is_taken_so_that_the_big_one_stays():
    nodes = [node("n", gpu(0), gpu(1, "3g.20gb@4:4 ml/x", "2g.10gb@0:2 ml/y"))]
    result = planned(nodes, [pod("a", "1g.5gb")])
    assert layouts(result) == {"n": {1: {"3g.20gb": 1, "2g.10gb": 1, "1g.5gb": 1}}}


def test_priority_comes_before_number():
    asked = [*pods(7, "1g.5gb"), pod("big", "7g.40gb", priority=5)]
    result = planned([node("n", gpu(0))], asked)
    assert placed(result) == {"big": "n"}
    assert "goes to other pods" in reason(result, "1g.5gb-0")
    assert result["objective"]["pods"] == [
        {"priority": 5, "asked": 1, "placed": 1, "bound": 1},
        {"priority": 0, "asked": 7, "placed": 0, "bound": 0},
    ]


def test_number_comes_before_size():
    result = planned([node("n", gpu(0))], [pod("big", "7g.40gb"), *pods(2, "1g.5gb")])
    assert set(placed(result)) == {"1g.5gb-0", "1g.5gb-1"}


def test_of_equal_pods_the_first_comes_first():
    asked = pods(9, "1g.5gb")
    result = planned([node("n", gpu(0))], asked)
    assert sorted(placed(result)) == [f"1g.5gb-{number}" for number in range(7)]


def test_several_devices_come_from_one_node():
    asked = [pod("two", "3g.20gb*2")]
    apart = [node(name, gpu(0, "3g.20gb@4:4 ml/x")) for name in "ab"]
    result = planned(apart, asked)
    assert not result["placed"]
    assert (
        reason(result, "two") == "asks for 2 x 3g.20gb on one node; the most that a node can offer is 1 (a)"
    )
    together = node("c", gpu(0, "3g.20gb@4:4 ml/x"), gpu(1, "3g.20gb@4:4 ml/y"))
    assert placed(planned([*apart, together], asked)) == {"two": "c"}


def test_whole_gpus_and_mig_devices_turn_into_each_other():
    result = planned([node("n", gpu(0, *SEVEN))], [pod("whole", "gpu")])
    assert result["nodes"][0]["layout"] == [{"gpus": ["GPU-0"], "mig": False}]
    assert result["nodes"][0]["gpus"][0]["reason"] == (
        "whole GPU for ml/whole; 7 free instances go; its MIG mode is turned off"
    )
    result = planned([node("n", gpu(0, mig=False))], [pod("small", "1g.5gb")])
    assert layouts(result) == {"n": {0: {"1g.5gb": 1}}}
    assert result["objective"]["mode_changes"] == {"value": 1, "bound": 1}
    result = planned([node("n", gpu(0, **held("ml/train-1")))], [pod("small", "1g.5gb")])
    assert "freeing n/GPU0 needs pod ml/train-1 to end" in reason(result, "small")
    result = planned([node("n", gpu(0, **held("ml/train-1")))], [pod("whole", "gpu")])
    assert "freeing n/GPU0 needs pod ml/train-1 to end" in reason(result, "whole")


def test_a_gpu_without_mig_serves_as_it_is():
    plain = gpu(0, model=T4, mig=False, mig_capable=False, mig_mode={"current": None, "pending": None})
    result = planned([node("n", plain)], [pod("whole", "gpu")])
    assert placed(result) == {"whole": "n"}


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (
            {"node_selector": {"disk": "ssd"}},
            "may run on no node: one lacks the label disk=ssd of its node selector",
        ),
        (
            {
                "node_affinity": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["a"]}]}
                    ]
                }
            },
            "may run on no node: one does not match its node affinity",
        ),
        (
            {"requests": {"cpu": 9}},
            "asks for 9 cpu; of the nodes that could offer 1g.5gb, none has more than 8 free (n)",
        ),
        (
            {"requests": {"memory": "65Gi"}},
            "asks for 65Gi memory; of the nodes that could offer 1g.5gb, none has more",
        ),
        (
            {"requests": {"rdma/hca": 1}},
            "asks for 1 rdma/hca; of the nodes that could offer 1g.5gb, none has more than 0",
        ),
    ],
)
def test_nodes_that_a_pod_may_not_or_cannot_use(more, why):
    nodes = [node("n", gpu(0), labels={"zone": "a"}, free={"cpu": 8, "memory": "64Gi", "pods": 10})]
    asked = [pod("a", "1g.5gb"), pod("b", "1g.5gb", **more)]
    result = planned(nodes, asked)
    assert placed(result) == {"a": "n"}
    assert reason(result, "b").startswith(why)


def test_taints_and_cordons():
    nodes = [
        node("tainted", gpu(0), taints=[{"key": "team", "value": "x", "effect": "NoSchedule"}]),
        node("cordoned", gpu(0), unschedulable=True),
    ]
    assert reason(planned(nodes, [pod("a", "1g.5gb")]), "a") == (
        "may run on no node: one has the taint team=x:NoSchedule; one is cordoned"
    )
    tolerant = pod("a", "1g.5gb", tolerations=[{"key": "team", "operator": "Exists"}])
    assert placed(planned(nodes, [tolerant])) == {"a": "tainted"}


def test_cpu_memory_and_places_of_each_node_are_enough():
    nodes = [node(name, gpu(0), free={"cpu": "3500m", "memory": "1Ti", "pods": 2}) for name in "abc"]
    asked = [*pods(6, "1g.5gb", requests={"cpu": 1}), pod("c", "1g.5gb", 1, requests={"cpu": 3})]
    result = planned(nodes, asked)
    # c leaves no CPU on its node for another; two places on each of the others.
    assert len(result["placed"]) == 5
    assert result["proven"]


def test_gangs_run_whole_or_not_at_all():
    nodes = [node("n", gpu(0), gpu(1))]
    gang = pods(3, "7g.40gb", gang="job")
    result = planned(nodes, [*gang, pod("alone", "3g.20gb")])
    assert set(placed(result)) == {"alone"}
    assert reason(result, "7g.40gb-0").startswith("its gang of 3 pods does not fit as a whole")
    result = planned([*nodes, node("m", gpu(0))], [*gang, pod("alone", "3g.20gb")])
    assert set(placed(result)) == {own["name"] for own in gang}


def test_a_gang_is_left_for_one_of_its_pods():
    asked = [*pods(2, "1g.5gb", gang="job"), pod("odd", "5g.20gb", gang="job")]
    result = planned([node("n", gpu(0))], asked)
    assert not result["placed"]
    assert reason(result, "odd") == "asks for 5g.20gb, which no GPU here offers"
    assert reason(result, "1g.5gb-0") == (
        "its gang's other pods do not fit: ml/odd asks for 5g.20gb, which no GPU here offers"
    )


def test_a_gpu_changes_only_if_that_is_worth_it():
    nodes = [node("n", gpu(0, "3g.20gb@0:4"))]
    assert planned(nodes, pods(1, "1g.5gb"), change_cost=1)["nodes"] == []
    result = planned(nodes, pods(1, "1g.5gb"), change_cost=1)
    assert "is not worth changing" in reason(result, "1g.5gb-0")
    assert len(planned(nodes, pods(2, "1g.5gb"), change_cost=1)["placed"]) == 2


@pytest.mark.parametrize("grouped", (False, True))
def test_a_plan_beats_what_is_by_more_than_it_costs(grouped, monkeypatch):
    if grouped:
        plan_in_groups(monkeypatch)
    # One GPU could serve both pods if an instance goes; two others could serve one each, and nothing goes.
    full = [gpu(i, f"4g.20gb@0:4 ml/a{i}", f"2g.10gb@4:2 ml/b{i}") for i in (1, 2)]
    nodes = [node("n", gpu(0, "3g.20gb@0:4 ml/a", "3g.20gb@4:4"), *full)]
    asked = pods(2, "1g.5gb")
    assert set(layouts(planned(nodes, asked))["n"]) == {1, 2}
    result = planned(nodes, asked, change_cost=1.2)
    assert layouts(result) == {"n": {0: {"3g.20gb": 1, "1g.5gb": 2}}}
    assert result["proven"]
    assert planned(nodes, asked, change_cost=2)["nodes"] == []
    # All GPUs of a pod that needs several count.
    nodes = [node("n", gpu(0), gpu(1), gpu(2))]
    asked = [pod("big", "gpu*3")]
    assert len(planned(nodes, asked, change_cost=0.3)["placed"]) == 1
    assert planned(nodes, asked, change_cost=0.4)["nodes"] == []


def test_a_plan_is_proven_with_a_cost_too():
    result = planned([node("n", gpu(0, "3g.20gb@0:4"))], pods(1, "1g.5gb"), change_cost=1)
    assert result["proven"]
    assert result["objective"]["pods"] == [{"priority": 0, "asked": 1, "placed": 0, "bound": 0}]


def test_what_is_frozen_stays():
    cooling = gpu(0, "3g.20gb@0:4", frozen="it changed two minutes ago")
    asked = [pod("a", "3g.20gb"), pod("b", "1g.5gb")]
    result = planned([node("n", cooling)], asked)
    assert placed(result) == {"a": "n"}
    assert reason(result, "b") == "asks for 1g.5gb: n/GPU0 could become that, but it changed two minutes ago"
    result = planned([node("n", gpu(0), strategy="single")], [pod("b", "1g.5gb")])
    assert "strategy is single, not mixed" in reason(result, "b")
    waiting = gpu(0, mig_mode={"current": "enabled", "pending": "disabled"})
    assert "waits for a reset" in reason(planned([node("n", waiting)], [pod("b", "1g.5gb")]), "b")
    busy = gpu(0, mig=False, processes=[{"pid": 1, "name": "python"}])
    assert "processes use it" in reason(planned([node("n", busy)], [pod("b", "1g.5gb")]), "b")


def test_an_instance_with_a_process_stays():
    used = gpu(0, "4g.20gb@0:4")
    used["instances"][0]["processes"] = [{"pid": 7, "name": "python"}]
    result = planned([node("n", used)], [pod("a", "7g.40gb")])
    assert "freeing n/GPU0 needs process 7 (python) to end" in reason(result, "a")


def test_whole_gpus_that_must_stay():
    nodes = [node(name, gpu(0, mig=False), gpu(1, mig=False)) for name in "ab"]
    asked = pods(28, "1g.5gb")
    result = planned(nodes, asked, bounds=[{"keep_whole": 3}])
    assert result["objective"]["mode_changes"]["value"] == 1
    assert len(result["placed"]) == 7
    result = planned(nodes, asked, bounds=[{"nodes": ["a"], "keep_whole_per_node": 2}])
    assert set(layouts(result)) == {"b"}
    result = planned(nodes, asked, bounds=[{"keep_mode": True}])
    assert "would have to change its MIG mode, which a bound forbids" in reason(result, "1g.5gb-0")


def test_a_node_that_keeps_its_modes():
    gpus = [gpu(0, mig=False), gpu(1)]
    busy = node("busy", *gpus, keep_mode="that takes a reset, and pod ml/a holds a GPU of the node")
    result = planned([busy], [*pods(8, "1g.5gb"), pod("whole", "gpu", 1)])
    assert len(result["placed"]) == 8 and layouts(result) == {"busy": {1: {"1g.5gb": 7}}}
    only = node("only", gpu(0, mig=False), keep_mode=busy["keep_mode"])
    result = planned([only], pods(1, "1g.5gb"))
    told = "asks for 1g.5gb: only/GPU0 would have to change its MIG mode, but"
    assert reason(result, "1g.5gb-0") == f"{told} {busy['keep_mode']}"


def test_profiles_that_may_be_made():
    nodes = [node("n", gpu(0)), node("m", gpu(0), labels={"pool": "big"})]
    bounds = [{"name": "big only", "labels": {"pool": "big"}, "profiles": ["3g.20gb", "7g.40gb"]}]
    result = planned(nodes, [*pods(8, "1g.5gb"), pod("big", "3g.20gb", 9)], bounds=bounds)
    assert placed(result)["big"] == "m"
    assert len(result["placed"]) == 8
    result = planned(nodes, pods(1, "1g.5gb"), bounds=[{"name": "hands off", "frozen": True}])
    assert reason(result, "1g.5gb-0").endswith("n/GPU0 could become that, but hands off forbids it")


def test_media_engines_are_there_once():
    result = planned([node("n", gpu(0))], pods(3, "1g.5gb+me"))
    assert len(result["placed"]) == 1


def test_no_time_gives_a_plan_all_the_same():
    nodes = [node("n", gpu(0, "1g.5gb@0:1"))]
    result = planned(nodes, pods(3, "1g.5gb"), time_limit=0)
    assert len(result["placed"]) >= 1
