# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whatever is wrong with the input is told, and the rest is planned all the same."""

from __future__ import annotations

import copy

import pytest
from ansible_collections.nvidia.mig.tests.unit.plugins.module_utils.demand.support import (
    gpu,
    node,
    offered,
    placed,
    planned,
    pod,
    reason,
)
from ansible_collections.nvidia.mig.tests.unit.plugins.module_utils.geometry.support import A100

pytest.importorskip("highspy")

GOOD = node("good", gpu(0))


def without(raw, *path):
    """A copy that lacks a key, or has another value there."""
    raw = copy.deepcopy(raw)
    *way, last = path
    inner = raw
    for key in way:
        inner = inner[key]
    del inner[last]
    return raw


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        ("node01", "nodes[1]: 'node01' is not a mapping; the node is passed over"),
        ({}, "nodes[1]: name is missing; the node is passed over"),
        (without(node("bad", gpu(0)), "free"), "node bad: free: it is missing; the node is passed over"),
        (without(node("bad"), "free", "cpu"), "node bad: free: cpu is missing; the node is passed over"),
        (node("bad", free={"cpu": "many", "memory": 1, "pods": 1}), "free.cpu: 'many' is not a quantity"),
        (node("good"), "nodes[1]: good stands twice; the node is passed over"),
        (node("bad", strategy="some"), "node bad: 'some' is no strategy"),
        (node("bad", taints=["x"]), "node bad: taints: 'x' is not a taint"),
        (
            node("bad", without(gpu(3), "index")),
            "node bad: gpus[0]: index is missing; the GPU is left as it is",
        ),
        (node("bad", without(gpu(3), "product")), "bad/GPU3: product is missing; the GPU is left as it is"),
        (node("bad", gpu(3, mig_mode=None)), "bad/GPU3: mig_mode does not tell the current mode"),
        (node("bad", gpu(3, profiles=[])), "bad/GPU3: A100-SXM4-40GB does not tell which profiles it offers"),
        (
            node("bad", gpu(3, profiles=[{"name": "1g.5gb"}])),
            "bad/GPU3: the profiles that it offers are incomplete",
        ),
        (
            node("bad", without(gpu(3, "1g.5gb@0:1"), "instances", 0, "placement")),
            "an instance has no placement",
        ),
        (node("bad", gpu(3, "1g.5gb@9:1")), "bad/GPU3: A100-SXM4-40GB has no 1g.5gb at 9:1"),
        (
            node("bad", gpu(3, "1g.10gb@0:2", "1g.5gb@1:1")),
            "bad/GPU3: 1g.5gb at 1:1 overlaps another instance",
        ),
        (node("bad", gpu(3, "9g.90gb@0:1")), "bad/GPU3: A100-SXM4-40GB does not offer 9g.90gb"),
        (node("bad", {**without(gpu(3), "profiles"), "catalog": "x"}), "bad/GPU3: there is no catalog 'x'"),
        (node("bad", gpu(3), gpu(3)), "bad/GPU3: its index stands twice; the GPU is left as it is"),
        (node("bad", gpu(3, instances="none")), "bad/GPU3: "),
    ],
)
def test_a_bad_node_or_gpu(bad, told):
    result = planned([GOOD, bad], [pod("a", "7g.40gb")])
    assert len([text for text in result["problems"] if told in text]) == 1, result["problems"]
    assert placed(result)["a"] in ("good", "bad")


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        (without(pod("bad", "1g.5gb"), "requests"), "requests are missing"),
        (pod("bad", ""), "asks for no GPU and no MIG device"),
        (
            pod("bad", "1g.5gb", requests={"cpu": "x"}),
            "requests.cpu: 'x' is not a quantity (such as 4, 500m or 64Gi)",
        ),
        ({**pod("bad", ""), "requests": {"nvidia.com/gpu": "500m"}}, "'500m' is no number of devices"),
        (pod("bad", "1g.5gb", priority="high"), "priority is 'high', not a whole number"),
        (pod("bad", "1g.5gb", tolerations=["x"]), "'x' is not a toleration"),
        (pod("bad", "1g.5gb", node_affinity={"terms": []}), "is not a required node affinity"),
        (pod("good", "1g.5gb"), "pod ml/good: it stands twice"),
    ],
)
def test_a_bad_pod(bad, told):
    asked = [pod("good", "1g.5gb"), bad]
    result = planned([GOOD], asked) if bad["name"] != "good" else None
    if result is None:
        from ansible_collections.nvidia.mig.plugins.module_utils.demand.plan import plan

        result = plan([GOOD], asked)
    assert placed(result) == {"good": "good"}
    assert len([text for text in result["problems"] if told in text]) == 1, result["problems"]
    assert told.rpartition("ml/good: ")[2] in reason(result, bad["name"])


def test_a_pod_without_a_name():
    result = planned([GOOD], [pod("good", "1g.5gb"), {"namespace": "ml"}, None])
    assert placed(result) == {"good": "good"}
    assert result["problems"] == [
        "pod pods[1]: namespace or name is missing",
        "pod pods[2]: namespace or name is missing",
    ]


def test_a_gang_with_a_bad_pod():
    asked = [
        pod("a", "1g.5gb", gang="g"),
        without(pod("b", "1g.5gb", gang="g"), "requests"),
        pod("c", "1g.5gb"),
    ]
    result = planned([GOOD], asked)
    assert placed(result) == {"c": "good"}
    assert reason(result, "a") == "ml/b of its gang cannot be planned"


@pytest.mark.parametrize(
    ("bound", "told"),
    [
        ("all", "bounds[0]: 'all' is not a mapping"),
        ({"keep": 1}, "bounds[0]: unknown key 'keep'"),
        ({"name": "few", "keep_whole": "one"}, "few: keep_whole is 'one', not a number of GPUs"),
        ({"name": "few", "profiles": ["3g"]}, "few: profiles: '3g' is not a MIG profile"),
        ({"name": "gone", "nodes": ["nowhere"]}, "gone: there is no node nowhere"),
        ({"name": "much", "keep_whole": 9}, "much: keep_whole is 9, but its nodes have 1 GPUs"),
        ({"name": "much", "keep_whole_per_node": 9}, "much: keep_whole_per_node is 9, but good has 1 GPUs"),
        ({"name": "odd", "nodes": "good"}, "odd: nodes is 'good', not a list of names"),
    ],
)
def test_a_bad_bound(bound, told):
    result = planned([GOOD], [pod("a", "1g.5gb")], bounds=[bound])
    assert any(told in text for text in result["problems"]), result["problems"]
    assert placed(result) == {"a": "good"}


def test_bounds_that_contradict_each_other():
    bounds = [{"name": "one", "profiles": ["1g.5gb"]}, {"name": "two", "profiles": ["2g.10gb"]}]
    result = planned([GOOD], [pod("a", "1g.5gb")], bounds=bounds)
    assert "two: no profile is allowed on good by this bound and the others" in result["problems"][0]
    assert "no bound allows" in reason(result, "a") or "which no" in reason(result, "a")


def test_profiles_may_stand_in_one_place():
    raw = {**without(gpu(0), "profiles"), "catalog": "a100"}
    result = planned([node("n", raw)], [pod("a", "1g.5gb")], catalogs={"a100": offered(A100)})
    assert placed(result) == {"a": "n"}
    assert result["problems"] == []


def test_nothing_is_nothing():
    assert planned([], [])["placed"] == []
    assert planned([GOOD], [])["nodes"] == []
    assert reason(planned([], [pod("a", "1g.5gb")]), "a") == "asks for 1g.5gb, which no GPU here offers"
