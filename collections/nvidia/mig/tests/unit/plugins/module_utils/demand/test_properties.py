# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What holds for every plan, on random fleets: `support.check` after each; and for both ways to plan."""

from __future__ import annotations

import copy
from random import Random

import pytest
from ansible_collections.nvidia.mig.plugins.module_utils.demand.program import Answer
from ansible_collections.nvidia.mig.plugins.module_utils.demand.solver import Solver
from ansible_collections.nvidia.mig.tests.unit.plugins.module_utils.demand.support import (
    gpu,
    node,
    plan_in_groups,
    planned,
    pods,
)
from ansible_collections.nvidia.mig.tests.unit.plugins.module_utils.demand.test_oracle import case
from hypothesis import given, settings
from hypothesis import strategies as st
from miglab import demand

pytest.importorskip("highspy")


@pytest.fixture
def in_groups(monkeypatch):
    """Plan for groups of nodes, as big fleets are."""
    plan_in_groups(monkeypatch)


def cluster(seed, nodes, count):
    return {
        "nodes": demand.fleet(seed, nodes, gpus=4),
        "asked": demand.demand(seed, count),
        "catalogs": demand.catalogs(),
    }


def values(result):
    return [own["placed"] for own in result["objective"]["pods"]]


@pytest.mark.parametrize("seed", range(4))
def test_a_fleet_planned_in_groups(seed, in_groups):
    result = planned(**cluster(seed, 24, 400), time_limit=3)
    assert result["gap"] < 0.05
    for own in result["objective"]["pods"]:
        assert own["placed"] <= own["bound"] <= own["asked"]


@pytest.mark.parametrize("cost", (0, 0.5))
@pytest.mark.parametrize("seconds", (0, 0.05, 0.2))
def test_whenever_time_is_over_there_is_a_plan(seconds, cost, in_groups):
    planned(**cluster(1, 24, 400), time_limit=seconds, change_cost=cost)


@pytest.mark.parametrize("cost", (0, 0.5))
@pytest.mark.parametrize("fine", (False, True))
def test_without_whole_numbers_pods_take_what_is_there(fine, cost, monkeypatch):
    plan_in_groups(monkeypatch, fine)
    monkeypatch.setattr(Solver, "maximise", lambda *args, **options: Answer(None, float("inf")))
    assert planned(**cluster(1, 6, 200), time_limit=1, change_cost=cost)["placed"]
    free = [f"1g.5gb@{start}:1" for start in range(6)]
    nodes = [node(name, gpu(0, *free)) for name in ("a", "b")]
    assert len(planned(nodes, pods(1, "1g.5gb*2"), change_cost=cost)["placed"]) == 1


@pytest.mark.parametrize("seed", range(3))
def test_the_bound_of_groups_is_above_what_is_exact(seed, monkeypatch):
    exact = planned(**cluster(seed, 4, 80), time_limit=20)
    assert exact["proven"]
    plan_in_groups(monkeypatch)
    rough = planned(**cluster(seed, 4, 80), time_limit=3)
    first, second = exact["objective"]["pods"][0], rough["objective"]["pods"][0]
    assert second["placed"] <= first["placed"] <= second["bound"]
    assert values(rough) <= values(exact)


@settings(max_examples=40, deadline=None)
@given(st.integers(min_value=10_000), st.booleans(), st.sampled_from((0, 0.5, 2)))
def test_every_plan_can_be_carried_out(seed, grouped, cost):
    random = Random(seed)
    nodes, asked, names = case(seed)
    bounds = [
        {"keep_whole": random.randint(0, 2)},
        {"nodes": ["n0"], "profiles": random.sample(names, 2), "keep_whole_per_node": random.randint(0, 1)},
        {"nodes": ["n1"], "keep_mode": random.random() < 0.5, "frozen": random.random() < 0.2},
    ]
    with pytest.MonkeyPatch.context() as patch:
        if grouped:
            plan_in_groups(patch)
        result = planned(nodes, asked, bounds=bounds, change_cost=cost)
    whole = {own["name"]: sum(g["mig_mode"]["current"] == "disabled" for g in own["gpus"]) for own in nodes}
    after = dict(whole)
    for own in result["nodes"]:
        for turn in own["gpus"]:
            if turn["mode_change"]:
                after[own["name"]] += 1 if turn["after"] == {"mig": False} else -1
            made = set(turn["after"].get("profiles", {})) - set(turn["before"].get("profiles", {}))
            assert own["name"] != "n0" or made <= set(bounds[1]["profiles"])
            assert own["name"] != "n1" or not bounds[2]["frozen"]
            assert own["name"] != "n1" or not (bounds[2]["keep_mode"] and turn["mode_change"])
    assert sum(after.values()) >= min(bounds[0]["keep_whole"], sum(whole.values()))
    assert after["n0"] >= min(bounds[1]["keep_whole_per_node"], whole["n0"])


@settings(max_examples=60, deadline=None)
@given(st.integers(min_value=10_000), st.booleans(), st.sampled_from((0.5, 1, 1.5)))
def test_a_plan_is_worth_its_cost(seed, grouped, cost):
    nodes, asked, _names = case(seed)
    asked = [{**own, "priority": 0} for own in asked]
    frozen = planned([{**own, "frozen": "for comparison"} for own in nodes], asked)
    with pytest.MonkeyPatch.context() as patch:
        if grouped:
            plan_in_groups(patch)
        result = planned(nodes, asked, change_cost=cost)
    gain = len(result["placed"]) - len(frozen["placed"])
    changed = result["objective"]["changed"]["value"]
    assert gain > cost * changed or not changed


def test_a_fleet_of_middle_size_gets_both(monkeypatch):
    plan_in_groups(monkeypatch, fine=True)
    result = planned(**cluster(5, 6, 120), time_limit=30)
    assert result["proven"]
    assert result["objective"]["changed"]["value"] == result["objective"]["changed"]["bound"]


def test_the_input_is_left_as_it_was():
    nodes, asked, _names = case(3)
    before = copy.deepcopy((nodes, asked))
    planned(nodes, asked)
    assert (nodes, asked) == before


def test_the_same_input_gives_the_same_plan():
    one, two = (planned(**cluster(1, 3, 60), time_limit=30) for _attempt in range(2))
    assert one == two
