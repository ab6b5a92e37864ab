# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes that share their GPUs as pods ask for it: what they offer, could offer, and what keeps them."""

from __future__ import annotations

import time
from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.nvidia.mig.plugins.filter.release_settings import release_settings
from ansible_collections.nvidia.mig.plugins.module_utils.demand.together import plan_all
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.capacity import Rules, plannable_nodes
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.choices import config_name, read_choices
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.cooldown import PARTITIONED
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.pending import Window, pending_pods
from ansible_collections.nvidia.mig.tests.unit.plugins.module_utils.kubernetes import observing
from ansible_collections.nvidia.mig.tests.unit.plugins.module_utils.kubernetes.observing import (
    NOW,
    bound,
    pod,
    stamp,
)

CONFIG = "nvidia.com/device-plugin.config"
SHARED = "nvidia.com/gpu.shared"
PLAIN = {name: {"strategy": name} for name in ("mixed", "none", "single")}


def mps(replicas: int, **flags: Any) -> dict[str, Any]:
    resources = [{"name": "nvidia.com/gpu", "replicas": replicas}]
    return {"mps": {"renameByDefault": True, "resources": resources, **flags}}


TWO, EIGHT = mps(2), mps(8)
X2, X8 = config_name("none", TWO), config_name("none", EIGHT)


def gpu(index: int, **more: Any) -> dict[str, Any]:
    return observing.gpu(index, product="Tesla T4", mig_capable=False, mig_mode={}, **more)


def node(config: str | None = X2, shares: int = 4, **more: Any) -> dict[str, Any]:
    """A node with two T4, and the labels that GPU feature discovery writes."""
    labels = {
        "kubernetes.io/hostname": "n1",
        "nvidia.com/gpu.replicas": "2",
        "nvidia.com/gpu.product": "Tesla-T4",
        "nvidia.com/mps.capable": "true",
    }
    if config is not None:
        labels[CONFIG] = config
    found = observing.node("n1", metadata={"labels": labels, **more})
    found["status"]["allocatable"].update(
        {SHARED: str(shares), "nvidia.com/gpu": "0", "nvidia.com/mig-1g.5gb": "0"}
    )
    return found


def look(own: Any, *pods: Any, gpus: Any = None, item: Any = None, **rules: Any) -> Any:
    wanted = {
        "name": "n1",
        "gpus": [gpu(0), gpu(1)] if gpus is None else gpus,
        "strategy": "none",
        "sharing": TWO,
        "sharing_choices": [EIGHT, {}],
        "chart_version": "0.17.4",
        **(item or {}),
    }
    return plannable_nodes([wanted], [own], pods, Rules(**rules), NOW)


def sharing(*args: Any, **more: Any) -> dict[str, Any]:
    (found,), problems = look(*args, **more)
    assert not problems
    return dict(found["sharing"])


def share(name: str, count: int = 1) -> dict[str, Any]:
    return {"name": "main", "resources": {"limits": {SHARED: str(count)}}}


def test_what_each_sharing_would_offer():
    found = sharing(node())
    assert (found["config"], found["frozen"], found["offers"]) == (X2, "", {SHARED: 4})
    by_name = {choice["config"]: choice for choice in found["choices"]}
    assert list(by_name) == [X2, X8, "none"]
    assert [choice["resources"] for choice in found["choices"]] == [
        {SHARED: 4},
        {SHARED: 16},
        {"nvidia.com/gpu": 2},
    ]
    assert by_name[X2]["labels"] == node()["metadata"]["labels"]
    eight = by_name[X8]["labels"]
    assert (eight[CONFIG], eight["nvidia.com/gpu.replicas"], eight["kubernetes.io/hostname"]) == (
        X8,
        "8",
        "n1",
    )
    assert by_name["none"]["labels"]["nvidia.com/mps.capable"] == "false"
    assert by_name["none"]["labels"]["nvidia.com/gpu.replicas"] == "1"
    assert (by_name[X8]["sharing"], by_name["none"]["sharing"]) == (EIGHT, {})


def test_pods_there_take_their_shares_and_keep_the_node():
    found = sharing(node(), bound("a", "n1", share("a")))
    assert found["offers"] == {SHARED: 3}
    assert found["frozen"] == "pod ml/a has a part of its GPUs"
    nominated = pod("b", share("b"), status={"phase": "Pending", "nominatedNodeName": "n1"})
    assert sharing(node(), nominated)["frozen"] == "pod ml/b has a part of its GPUs"
    ended = bound("c", "n1", share("c"), phase="Succeeded")
    assert sharing(node(), ended)["frozen"] == ""
    # Kubelet tells of a pod that has ended as long as it is not deleted.
    held = gpu(0, pods=[{"namespace": "ml", "name": "c"}])
    assert sharing(node(), gpus=[held, gpu(1)])["frozen"] == "pod ml/c has a part of its GPUs"
    other = bound("d", "n1", {"name": "main", "resources": {"requests": {"cpu": "1"}}})
    assert sharing(node(), other)["frozen"] == ""


def test_processes_keep_the_node_unless_they_are_the_daemons_own():
    server = {"pid": 7, "name": "/usr/bin/nvidia-cuda-mps-server"}
    assert sharing(node(), gpus=[gpu(0, processes=[server])], item={})["frozen"].startswith("it offers 4")
    assert sharing(node(), gpus=[gpu(0, processes=[server]), gpu(1)])["frozen"] == ""
    python = {"pid": 8, "name": "python3"}
    found = sharing(node(), gpus=[gpu(0), gpu(1, processes=[server, python])])
    assert found["frozen"] == "process 8 (python3) uses GPU 1 outside of any pod"


def test_what_else_keeps_the_node():
    frozen = {
        "its node is cordoned": node() | {"spec": {"unschedulable": True}},
        f"its label {CONFIG} names none of its sharings: run site.yml, which sets it": node(config="mixed"),
        f"it offers 2 {SHARED} instead of 4: a change is under way": node(shares=2),
    }
    for reason, own in frozen.items():
        assert sharing(own)["frozen"] == reason
    assert sharing(node(config=None))["frozen"].endswith("run site.yml, which sets it")
    assert sharing(node(), opt_in={"pool": "a"})["frozen"].startswith("its node lacks the label pool=a")
    resting = node(annotations={PARTITIONED: f'{{"GPU-1": "{stamp(10)}"}}'})
    assert sharing(resting, cool_down=60)["frozen"].startswith("of its GPU 1, it was partitioned anew at")
    assert sharing(resting, cool_down=5)["frozen"] == ""
    assert sharing(node(), item={"frozen": "benchmarks"})["frozen"] == "benchmarks"


@pytest.mark.parametrize(
    ("item", "words"),
    [
        ({"chart_version": None}, "node n1: chart_version is missing"),
        ({"sharing_choices": [mps(99)]}, "99 replicas of nvidia.com/gpu are more than MPS serves"),
        ({"sharing_choices": "8"}, "'8' is not a list"),
        ({"strategy": "mixed"}, "only whole GPUs are shared as pods ask for it"),
        ({"chart_version": "0.14.5"}, "the device plugin 0.14.5 knows no sharing by mps"),
    ],
)
def test_an_impossible_sharing_is_told_and_the_node_passed_over(item, words):
    found, problems = look(node(), item=item)
    assert found == [] and len(problems) == 1
    assert words in problems[0] and problems[0].endswith("it is passed over")


def test_pods_that_ask_for_shares_count_where_there_are_any():
    asked = [pod("a", share("a")), pod("b", {"name": "m", "resources": {"limits": {"nvidia.com/gpu": "1"}}})]
    assert pending_pods(asked, NOW, Window()).pods == []
    found = pending_pods(asked, NOW, Window(), shared_gpus=True).pods
    assert [(own["name"], own["requests"]) for own in found] == [("a", {SHARED: "1"})]


def test_shares_by_their_size_are_none_that_the_plugin_offers():
    asked = pod("a", {"name": "m", "resources": {"limits": {"nvidia.com/gpu-10gb": "1"}}})
    found = pending_pods([asked], NOW, Window(), shared_gpus=True)
    assert found.pods == [] and found.problems == [
        "pod ml/a: asks for nvidia.com/gpu-10gb, which NVIDIA's device plugin never offers (ask for "
        "nvidia.com/gpu.shared, and for the size by node labels: see docs/demand.md); it is passed over"
    ]
    assert pending_pods([asked], NOW, Window()).problems == []


def test_from_the_cluster_to_a_plan():
    asked = [pod(f"p{number}", share("a")) for number in range(9)]
    found, problems = look(node(), *asked)
    pending = pending_pods(asked, NOW, Window(), shared_gpus=True)
    result = plan_all(found, pending.pods, clock=time.monotonic)
    (own,) = result["nodes"]
    assert (own["config"], own["sharing"], len(own["pods"])) == (X8, EIGHT, 9)
    assert not (problems or result["problems"] or result["unplaced"])


def settings(config: str | None = None, **more: Any) -> dict[str, Any]:
    hosts = {"a": "none", "b": "mixed"}
    nodes = [
        {"metadata": {"name": "a", "labels": {} if config is None else {CONFIG: config}}},
        {"metadata": {"name": "b", "labels": {CONFIG: "mixed"}}},
    ]
    more = {"sharing": {"a": TWO}, "choices": {"a": [EIGHT, {}]}, **more}
    return dict(release_settings(hosts, nodes=nodes, **more))


def test_the_release_has_every_sharing_and_a_node_keeps_the_one_that_it_has():
    first = settings()
    assert first["configs"] == {
        **PLAIN,
        X2: {"strategy": "none", "sharing": TWO},
        X8: {"strategy": "none", "sharing": EIGHT},
    }
    assert (first["config_by_host"], first["default_config"]) == ({"a": X2, "b": "mixed"}, "mixed")
    for config in (X2, X8, "none"):
        later = settings(config)
        assert later["config_by_host"] == {"a": config, "b": "mixed"}
        assert [later[key] for key in ("configs", "default_config")] == [first["configs"], "mixed"]
    # What is none of its choices is what the inventory says.
    assert settings("mixed")["config_by_host"]["a"] == X2


def test_a_release_does_not_change_with_what_a_node_picks():
    """Or the device plugin of every node would start anew, and end whoever uses its MPS daemon."""
    alone = {"hosts": {"a": "none"}, "sharing": {"a": {}}, "choices": {"a": [TWO]}}
    found = [
        release_settings(nodes=[{"metadata": {"name": "a", "labels": {CONFIG: config}}}], **alone)
        for config in ("none", X2)
    ]
    assert found[0]["config_by_host"] == {"a": "none"} and found[1]["config_by_host"] == {"a": X2}
    kept = [{key: own[key] for key in ("strategy", "configs", "default_config")} for own in found]
    assert kept[0] == kept[1]


def test_choices_are_checked_with_the_rest():
    with pytest.raises(AnsibleFilterError, match=r"a: sharing_choices\[0\].mps: .*knows no sharing by mps"):
        settings(sharing={}, version="0.14.5", choices={"a": [EIGHT]})
    with pytest.raises(AnsibleFilterError, match="b: sharing_choices: the strategy is mixed"):
        settings(choices={"b": [EIGHT]})
    assert read_choices("mixed", TWO, []) == {}
