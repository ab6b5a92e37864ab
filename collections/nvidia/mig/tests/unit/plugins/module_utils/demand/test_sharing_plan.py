# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes that share their GPUs as pods ask for it: which of them get another sharing, and for whom."""

from __future__ import annotations

import itertools
import time
from typing import Any

import pytest
from ansible_collections.nvidia.mig.plugins.module_utils.demand.settings import Settings
from ansible_collections.nvidia.mig.plugins.module_utils.demand.together import plan_all
from ansible_collections.nvidia.mig.tests.unit.plugins.module_utils.demand import support
from hypothesis import given
from hypothesis import strategies as st

SHARED = "nvidia.com/gpu.shared"
GPU = "nvidia.com/gpu"
PLENTY = {"cpu": "1000", "memory": "8Ti", "pods": 500}


def choice(replicas: int, gpus: int, labels: dict[str, str], **flags: Any) -> dict[str, Any]:
    if replicas == 1:
        return {"config": "none", "sharing": {}, "resources": {GPU: gpus}, "labels": {**labels, "r": "1"}}
    resources = [{"name": GPU, "replicas": replicas}]
    return {
        "config": f"x{replicas}",
        "sharing": {"mps": {"renameByDefault": True, "resources": resources, **flags}},
        "resources": {SHARED: gpus * replicas},
        "labels": {**labels, "r": str(replicas)},
    }


def node(
    name: str, *choices: int, now: int | None = None, gpus: int = 1, taken: int = 0, **more: Any
) -> dict[str, Any]:
    """A node that may share each GPU so many times; ``now`` it is the first of them."""
    now = choices[0] if now is None else now
    labels = more.pop("labels", {})
    flags = more.pop("flags", {})
    offers = {GPU if now == 1 else SHARED: gpus * now - taken}
    frozen = more.pop("frozen", f"pod ml/other has a part of {name}" if taken else "")
    return {
        "name": name,
        "strategy": "none",
        "free": dict(PLENTY),
        "labels": {**labels, "r": str(now)},
        "gpus": [{"index": n, "uuid": f"GPU-{name}-{n}", "product": "Tesla T4"} for n in range(gpus)],
        "sharing": {
            "config": "none" if now == 1 else f"x{now}",
            "frozen": frozen,
            "offers": offers,
            "choices": [choice(n, gpus, labels, **flags) for n in choices],
        },
        **more,
    }


def pod(name: str, asks: str = "shared", count: int = 1, **more: Any) -> dict[str, Any]:
    resource = GPU if asks == "gpu" else f"nvidia.com/gpu.{asks}"
    requests = {resource: count, **more.pop("requests", {})}
    return {"namespace": "ml", "name": name, "priority": 0, "requests": requests, **more}


def pods(count: int, **more: Any) -> list[dict[str, Any]]:
    return [pod(f"p{number}", **more) for number in range(count)]


def planned(nodes: list[Any], asked: list[Any], **options: Any) -> dict[str, Any]:
    settings = Settings(**{key: options.pop(key) for key in list(options) if key in Settings.__annotations__})
    result = plan_all(nodes, asked, settings=settings, clock=time.monotonic, **options)
    assert sorted(own["pod"] for own in (*result["placed"], *result["unplaced"])) == sorted(
        f"ml/{own['name']}" for own in asked
    )
    return result


def configs(result: dict[str, Any]) -> dict[str, str]:
    return {own["name"]: own["config"] for own in result["nodes"]}


def test_what_is_there_is_taken_without_a_change():
    result = planned([node("a", 4, 8)], pods(4))
    assert (result["nodes"], result["unplaced"], result["proven"]) == ([], [], True)
    assert all(not own["needs_change"] for own in result["placed"])


def test_more_pods_than_shares_get_smaller_ones():
    result = planned([node("a", 2, 4, 8, gpus=2)], pods(7))
    (own,) = result["nodes"]
    assert (own["config"], own["pods"]) == (
        "x4",
        [f"ml/p{n}" for n in range(7)],
    )  # 8 would be smaller than need be
    assert own["sharing"]["mps"]["resources"] == [{"name": GPU, "replicas": 4}]
    assert [gpu["uuid"] for gpu in own["gpus"]] == ["GPU-a-0", "GPU-a-1"]
    assert own["reason"] == (
        "4 pods on each GPU by MPS for ml/p0, ml/p1, ml/p2 and 4 more; it was 2 pods on each GPU by MPS"
    )
    assert {own["node"] for own in result["placed"]} == {"a"} and result["proven"]


def test_as_few_nodes_as_will_do():
    result = planned([node(name, 2, 8) for name in "abc"], pods(9))
    assert list(configs(result).values()) == ["x8"]
    assert not result["unplaced"]


def test_a_node_in_use_stays_as_it_is():
    result = planned([node("a", 2, 8, taken=1)], pods(3))
    assert result["nodes"] == []
    assert len(result["placed"]) == 1
    assert {own["reason"] for own in result["unplaced"]} == {
        "asks for gpu.shared; what could offer it goes to other pods, as they come first or more of them fit"
        " so"
    }


def test_it_is_told_what_keeps_a_node():
    result = planned([node("a", 1, 8, taken=1, gpus=2)], [pod("p")])
    assert result["unplaced"] == [
        {
            "pod": "ml/p",
            "reason": "asks for gpu.shared: a could offer that with 8 pods on each GPU by MPS, but pod "
            "ml/other has a part of a",
        }
    ]


def test_a_pod_can_demand_big_shares_by_the_labels_of_its_node():
    big = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "r", "operator": "Lt", "values": ["3"]}]}]}
    asked = [*pods(5), pod("big", priority=1, node_affinity=big)]
    result = planned([node("a", 8, 2), node("b", 2, 8)], asked)
    assert next(own for own in result["placed"] if own["pod"] == "ml/big")["node"] == "b"
    assert result["nodes"] == [] and not result["unplaced"]
    result = planned([node("a", 8, 2)], asked)
    assert configs(result) == {"a": "x2"}
    assert len(result["placed"]) == 2  # the higher priority first, whatever it costs
    nobody = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "r", "operator": "Gt", "values": ["9"]}]}]}
    result = planned([node("a", 8, 2), node("b", 2)], [pod("p", node_affinity=nobody)])
    assert result["unplaced"][0]["reason"] == "may run on no node: 2 x does not match its node affinity"


def test_cpu_and_the_like_count():
    small = node("a", 2, 8)
    small["free"]["cpu"] = "3"
    result = planned([small], pods(5, requests={"cpu": "1"}))
    assert (configs(result), len(result["placed"])) == ({"a": "x8"}, 3)
    result = planned([small], pods(2, requests={"cpu": "4"}))
    assert result["nodes"] == [] and result["unplaced"][0]["reason"] == (
        "asks for 4 cpu; of the nodes that could offer gpu.shared, none has more than 3 free (a)"
    )


def test_a_gang_runs_as_a_whole_or_not_at_all():
    gang = pods(9, gang="train")
    result = planned([node("a", 2, 8)], gang)
    assert result["placed"] == result["nodes"] == []
    assert result["unplaced"][0]["reason"].startswith("its gang of 9 pods does not fit as a whole; it asks")
    result = planned([node("a", 2, 8), node("b", 1, 2, 8)], gang)
    assert len(result["placed"]) == 9 and configs(result) == {"b": "x8"}


def test_two_shares_are_for_one_pod_only_where_the_plugin_allows_it():
    asked = [pod("p", count=2)]
    assert (
        "a pod gets no more than one share there" in planned([node("a", 4)], asked)["unplaced"][0]["reason"]
    )
    lenient = {"failRequestsGreaterThanOne": False}
    assert planned([node("a", 4, flags=lenient)], asked)["placed"]


def test_a_change_must_be_worth_its_cost():
    asked = pods(4)
    assert planned([node("a", 2, 8)], asked, change_cost=2)["nodes"] == []
    assert configs(planned([node("a", 2, 8)], asked, change_cost=1.5)) == {"a": "x8"}


def test_bounds_hold():
    frozen = [{"name": "not ours", "nodes": ["a"], "frozen": "it is being benchmarked"}]
    result = planned([node("a", 1, 8), node("b", 1, 8)], pods(2), bounds=frozen)
    assert configs(result) == {"b": "x8"} and result["problems"] == []
    result = planned([node("a", 1, 8)], [pod("p")], bounds=frozen)
    assert result["unplaced"][0]["reason"].endswith("but it is being benchmarked")
    wrong = [{"name": "typo", "nodes": ["c"], "frozen": True}]
    assert planned([node("a", 1)], [], bounds=wrong)["problems"] == [
        "typo: there is no node c",
        "typo: it covers no node",
    ]


def test_mig_and_shares_are_one_plan():
    cut = support.node("dgx", support.gpu(0, mig=True))
    asked = [
        support.pod("mig", "1g.5gb"),
        pod("share", priority=7),
        support.pod("whole", "gpu"),
        pod("odd", "x"),
    ]
    result = planned([cut, node("a", 2, 8, 1), node("b", 2, 1)], asked)
    places = {own["pod"]: own["node"] for own in result["placed"]}
    assert places.pop("ml/mig") == "dgx"
    assert sorted(places) == ["ml/share", "ml/whole"] and sorted(places.values()) == ["a", "b"]
    assert {node["name"] for node in result["nodes"] if "layout" in node} == {"dgx"}
    assert [level["priority"] for level in result["objective"]["pods"]] == [7, 0]
    assert [level["asked"] for level in result["objective"]["pods"]] == [1, 2]
    (odd,) = result["unplaced"]
    assert "asks for no GPU" in odd["reason"]  # nvidia.com/gpu.x is no resource that a device plugin names so


def test_a_whole_gpu_that_is_free_is_taken_before_one_is_made():
    cut = support.node("dgx", support.gpu(0, "1g.5gb@0:1"))
    result = planned([cut, node("a", 1, 8)], [support.pod("whole", "gpu")])
    assert result["placed"] == [{"pod": "ml/whole", "node": "a", "needs_change": False}]
    assert result["nodes"] == []
    result = planned([cut, node("a", 1, 8)], [support.pod("whole", "gpu"), support.pod("more", "gpu")])
    assert {own["node"] for own in result["placed"]} == {"a", "dgx"} and not result["unplaced"]
    assert [level["asked"] for level in result["objective"]["pods"]] == [2]


def test_a_node_that_is_wrong_is_told_and_passed_over():
    broken = node("a", 1)
    broken["sharing"]["choices"][0]["sharing"] = {"mps": {}}
    result = planned([broken, node("b", 1, 8), node("b", 1, 8)], [pod("p")])
    assert result["placed"][0]["node"] == "b"
    assert result["problems"] == [
        "node a: sharing.choices[0].sharing.mps.resources: a list is wanted (such as [{name: nvidia.com/gpu, "
        "replicas: 4}]); the node is passed over",
        "nodes[2]: b stands twice; the node is passed over",
    ]


@st.composite
def fleets(draw: st.DrawFn) -> tuple[list[Any], list[Any]]:
    nodes = []
    for name in "abc"[: draw(st.integers(1, 3))]:
        choices = draw(st.lists(st.sampled_from([1, 2, 4]), min_size=1, max_size=3, unique=True))
        now = choices[0]
        taken = draw(st.sampled_from([0, 0, 1]))
        own = node(name, *choices, gpus=draw(st.integers(1, 2)), taken=min(taken, now))
        own["free"]["cpu"] = str(draw(st.sampled_from([2, 3, 100])))
        nodes.append(own)
    asked = []
    for number in range(draw(st.integers(0, 6))):
        more: dict[str, Any] = {"requests": {"cpu": draw(st.sampled_from([1, 2]))}}
        if draw(st.booleans()):
            more["node_selector"] = {"r": draw(st.sampled_from(["1", "2", "4"]))}
        if draw(st.integers(0, 3)) == 0:
            more["gang"] = "g"
        kind = draw(st.sampled_from(["gpu", "shared"]))
        asked.append(pod(f"p{number}", kind, priority=draw(st.integers(0, 1)), **more))
    return nodes, asked


def best(nodes: list[Any], asked: list[Any]) -> tuple[int, ...]:
    """Pods that run at best, by priority, by trying everything."""
    found = (0, 0)
    ways = []
    for own in nodes:
        now = own["sharing"]
        as_is = {"resources": now["offers"], "labels": own["labels"]}
        others = [] if now["frozen"] else [c for c in now["choices"] if c["config"] != now["config"]]
        ways.append([as_is, *others])
    order = sorted(asked, key=lambda own: -own["priority"])
    for chosen in itertools.product(*ways):
        start = tuple((dict(way["resources"]), int(own["free"]["cpu"])) for way, own in zip(chosen, nodes))
        found = max(found, _fill(order, start, chosen, frozenset(), frozenset()))
    return found


def _fill(
    left: list[Any], room: Any, chosen: Any, runs: frozenset[str], out: frozenset[str]
) -> tuple[int, ...]:
    """Each pod in turn on each node, or on none; a gang is in or out as a whole."""
    if not left:
        return (0, 0)
    own, rest = left[0], left[1:]
    gang = own.get("gang")
    found = (-9, -9)
    if gang is None or gang not in runs:
        found = _fill(rest, room, chosen, runs, out | {gang} if gang else out)
    if gang is None or gang not in out:
        (resource,) = [name for name in own["requests"] if name != "cpu"]
        cpu = own["requests"]["cpu"]
        for at, way in enumerate(chosen):
            offers, have = room[at]
            selector = own.get("node_selector", {})
            if (
                offers.get(resource, 0) < 1
                or have < cpu
                or any(way["labels"][k] != v for k, v in selector.items())
            ):
                continue
            after = ({**offers, resource: offers[resource] - 1}, have - cpu)
            more = _fill(
                rest, (*room[:at], after, *room[at + 1 :]), chosen, runs | {gang} if gang else runs, out
            )
            gain = (1, 0) if own["priority"] else (0, 1)
            found = max(found, (more[0] + gain[0], more[1] + gain[1]))
    return found


@given(fleets())
def test_no_plan_is_better(fleet):
    nodes, asked = fleet
    result = planned(nodes, asked)
    running = {own["pod"] for own in result["placed"]}
    counts = [sum(f"ml/{own['name']}" in running for own in asked if own["priority"] == p) for p in (1, 0)]
    assert tuple(counts) == best(nodes, asked)
    frozen = {own["name"] for own in nodes if own["sharing"]["frozen"]}
    assert not frozen & set(configs(result))
    _check(nodes, asked, result)


@given(fleets(), st.floats(0.5, 3))
def test_with_a_cost_a_plan_is_possible_too(fleet, cost):
    nodes, asked = fleet
    _check(nodes, asked, planned(nodes, asked, change_cost=cost))


def _check(nodes: list[Any], asked: list[Any], result: dict[str, Any]) -> None:
    """Nothing is taken twice, labels fit, and gangs are whole."""
    after = configs(result)
    by_name = {f"ml/{own['name']}": own for own in asked}
    running = {own["pod"]: own["node"] for own in result["placed"]}
    for own in nodes:
        now = own["sharing"]
        config = after.get(own["name"])
        as_is = {"resources": now["offers"], "labels": own["labels"]}
        way = next((c for c in now["choices"] if c["config"] == config), as_is)
        here = [by_name[name] for name, place in running.items() if place == own["name"]]
        for resource in (GPU, SHARED):
            assert sum(p["requests"].get(resource, 0) for p in here) <= way["resources"].get(resource, 0)
        assert sum(p["requests"]["cpu"] for p in here) <= int(own["free"]["cpu"])
        for each in here:
            assert all(way["labels"][key] == value for key, value in each.get("node_selector", {}).items())
    gang = {name in running for name, own in by_name.items() if own.get("gang")}
    assert len(gang) < 2


def test_alike_nodes_are_planned_by_their_sums():
    nodes = [node(f"n{number:03}", 2, 4, 8, gpus=8) for number in range(300)]
    asked = pods(9000) + [pod(f"q{n}", priority=1, node_selector={"r": "2"}) for n in range(800)]
    result = planned(nodes, asked)
    assert result["proven"] and not result["unplaced"]
    _check_shares(nodes, result)


def _check_shares(nodes: list[Any], result: dict[str, Any]) -> None:
    after = configs(result)
    for own in nodes:
        config = after.get(own["name"], own["sharing"]["config"])
        count = sum(1 for each in result["placed"] if each["node"] == own["name"])
        assert count <= 8 * int(config[1:])


@pytest.mark.parametrize("value", [None, "x", {"choices": 3}])
def test_a_sharing_that_is_none_is_told(value):
    broken = node("a", 1)
    broken["sharing"] = value if value is None else value
    result = planned([broken], [])
    assert bool(result["problems"]) == (value is not None)
