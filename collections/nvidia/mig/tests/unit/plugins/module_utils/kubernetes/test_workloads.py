# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What sample workloads request, from layout and strategy."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.nvidia.mig.plugins.module_utils.errors import InputError
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.labels import expected_node
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.node_gpu import NodeGpu
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.sharing import parse_sharing
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.workloads import workloads

A100 = "NVIDIA A100-SXM4-40GB"
NODE = {"kind": "Node", "metadata": {"name": "dgx01", "labels": {"kubernetes.io/hostname": "dgx01"}}}
GPU, SMALL, MIDDLE, LARGE = (
    "nvidia.com/gpu",
    *(f"nvidia.com/mig-{name}" for name in ("1g.5gb", "2g.10gb", "3g.20gb")),
)

WHOLE: tuple[tuple[str, ...], ...] = ((), ())
HALVES = (("3g.20gb", "3g.20gb"), ("3g.20gb", "3g.20gb"))
SEVERAL = ((), ("3g.20gb", "2g.10gb", "1g.5gb"), ("2g.10gb", "2g.10gb"))


def plan(
    strategy: str,
    layout: tuple[tuple[str, ...], ...],
    *samples: str,
    version: str = "0.17.4",
    sharing: dict[str, Any] | None = None,
    **more: Any,
) -> dict[str, Any]:
    """The samples of a node whose GPUs have these instances; one without any is whole."""
    gpus = [NodeGpu(index, A100, bool(names), names) for index, names in enumerate(layout)]
    expected = expected_node(strategy, gpus, version, sharing=parse_sharing(sharing)).as_dict()
    return workloads(expected, NODE, samples, **more)


@pytest.mark.parametrize(
    ("strategy", "layout", "sample", "requests"),
    [
        ("none", WHOLE, "vectoradd", {GPU: 1}),
        ("none", WHOLE, "concurrent", {GPU: 2}),
        ("none", WHOLE, "tensorflow", {GPU: 1}),
        ("none", WHOLE, "argo", {GPU: 2}),
        ("single", HALVES, "vectoradd", {GPU: 1}),
        ("single", HALVES, "concurrent", {GPU: 4}),
        ("single", HALVES, "tensorflow", {GPU: 1}),
        ("single", HALVES, "argo", {GPU: 4}),
        ("mixed", SEVERAL, "vectoradd", {GPU: 1, SMALL: 1, MIDDLE: 1, LARGE: 1}),
        ("mixed", SEVERAL, "concurrent", {GPU: 1, SMALL: 1, MIDDLE: 3, LARGE: 1}),
        ("mixed", SEVERAL, "tensorflow", {LARGE: 1}),
        ("mixed", SEVERAL, "argo", {GPU: 1, SMALL: 1, MIDDLE: 3, LARGE: 1}),
        ("mixed", HALVES, "concurrent", {LARGE: 4}),
        ("mixed", WHOLE, "tensorflow", {GPU: 1}),
        ("mixed", (("1g.5gb+me", "1g.5gb"),), "concurrent", {SMALL: 2}),
    ],
)
def test_requests(
    strategy: str, layout: tuple[tuple[str, ...], ...], sample: str, requests: dict[str, int]
) -> None:
    [found] = plan(strategy, layout, sample)["samples"]
    assert {each["resource"]: each["count"] for each in found["requests"]} == requests
    assert (found["left_out"], found["sample"]) == ("", sample)
    assert not any(each["shared"] for each in found["requests"])
    pods = [] if sample == "argo" else [name for name, count in requests.items() for _each in range(count)]
    assert sorted(pod["resource"] for pod in found["pods"]) == sorted(pods)
    assert len({pod["name"] for pod in found["pods"]}) == len(pods)


def test_a_newer_plugin_names_the_variant() -> None:
    [found] = plan("mixed", (("1g.5gb+me", "1g.5gb"),), "concurrent", version="0.20.0")["samples"]
    assert found["text"] == "1 nvidia.com/mig-1g.5gb.me, 1 nvidia.com/mig-1g.5gb"


@pytest.mark.parametrize(
    ("strategy", "layout", "product"),
    [
        ("none", WHOLE, "NVIDIA-A100-SXM4-40GB"),
        ("single", HALVES, "NVIDIA-A100-SXM4-40GB-MIG-3g.20gb"),
        ("mixed", SEVERAL, "NVIDIA-A100-SXM4-40GB"),
    ],
)
def test_the_node_selector(strategy: str, layout: tuple[tuple[str, ...], ...], product: str) -> None:
    [found] = plan(strategy, layout, "vectoradd")["samples"]
    assert found["node_selector"] == {"kubernetes.io/hostname": "dgx01", "nvidia.com/gpu.product": product}
    assert found["tolerations"] == [{"key": "nvidia.com/gpu", "operator": "Exists"}]


def test_several_products_have_no_common_label() -> None:
    gpus = [NodeGpu(0, A100), NodeGpu(1, "NVIDIA A30")]
    [found] = workloads(expected_node("none", gpus, "0.17.4").as_dict(), NODE, ["vectoradd"])["samples"]
    assert found["node_selector"] == {"kubernetes.io/hostname": "dgx01"}


def test_the_labels_are_those_of_the_node_and_the_sample() -> None:
    found = plan("none", WHOLE, "vectoradd", "concurrent")
    assert found["labels"] == {
        "app.kubernetes.io/managed-by": "nvidia.mig.gpu_workloads",
        "app.kubernetes.io/instance": "dgx01",
    }
    for sample in found["samples"]:
        assert sample["labels"] == {**found["labels"], "app.kubernetes.io/name": sample["sample"]}


@pytest.mark.parametrize(
    ("sharing", "resource", "count"),
    [
        ({}, GPU, 8),
        ({"renameByDefault": True}, "nvidia.com/gpu.shared", 8),
    ],
)
def test_shared_gpus(sharing: dict[str, Any], resource: str, count: int) -> None:
    """Replicas are pods as well, but two of them may get the same GPU."""
    slices = {"timeSlicing": {**sharing, "resources": [{"name": GPU, "replicas": 4}]}}
    [found] = plan("none", WHOLE, "concurrent", sharing=slices)["samples"]
    assert found["requests"] == [{"resource": resource, "count": count, "shared": True}]


def pod(
    name: str, *limits: dict[str, str], init: dict[str, str] | None = None, **more: Any
) -> dict[str, Any]:
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "team-a", "labels": more.pop("labels", None)},
        "spec": {
            "containers": [{"resources": {"limits": limit}} for limit in limits],
            "initContainers": [{"resources": {"limits": init}}] if init else None,
        },
        "status": {"phase": more.pop("phase", "Running")},
    }


@pytest.mark.parametrize(
    ("pods", "free", "holders"),
    [
        ([], {MIDDLE: 3}, []),
        ([pod("web", {"cpu": "2"}, {})], {MIDDLE: 3}, []),
        ([pod("train", {MIDDLE: "1"})], {MIDDLE: 2}, ["team-a/train"]),
        ([pod("train", {MIDDLE: "1"}, {MIDDLE: "1"})], {MIDDLE: 1}, ["team-a/train"]),
        ([pod("train", {MIDDLE: "1"}, init={MIDDLE: "2"})], {MIDDLE: 1}, ["team-a/train"]),
        ([pod("train", {MIDDLE: "1"}, phase="Succeeded")], {MIDDLE: 3}, []),
        ([pod("train", {MIDDLE: "1"}, phase="Pending")], {MIDDLE: 2}, ["team-a/train"]),
        ([pod("a", {MIDDLE: "2"}), pod("b", {MIDDLE: "2"})], {}, ["team-a/a", "team-a/b"]),
        (
            [pod("x", {MIDDLE: "1"}, labels={"app.kubernetes.io/managed-by": "nvidia.mig.gpu_workloads"})],
            {MIDDLE: 3},
            [],
        ),
    ],
)
def test_what_others_hold_is_left_to_them(
    pods: list[dict[str, Any]], free: dict[str, int], holders: list[str]
) -> None:
    layout = (("2g.10gb", "2g.10gb", "2g.10gb"),)
    found = plan("mixed", layout, "concurrent", pods=pods)
    [sample] = found["samples"]
    assert {each["resource"]: each["count"] for each in sample["requests"]} == free
    assert found["holders"] == holders
    held = 3 - free.get(MIDDLE, 0)
    assert found["held"] == ([f"{held} of 3 {MIDDLE}"] if held else [])
    assert bool(sample["left_out"]) == (not free)


def test_why_a_sample_is_left_out() -> None:
    [found] = plan("none", WHOLE, "concurrent", pods=[pod("train", {GPU: "2"})])["samples"]
    assert found["left_out"] == "all of nvidia.com/gpu is held by team-a/train"
    [found] = plan("none", (), "concurrent")["samples"]
    assert found["left_out"] == "the node offers no GPU"


def test_what_is_in_the_namespace() -> None:
    ours = plan("none", WHOLE)["labels"]
    there = [
        pod("concurrent-dgx01-0", labels={**ours, "app.kubernetes.io/name": "concurrent"}),
        pod("concurrent-dgx02-0", labels={**ours, "app.kubernetes.io/instance": "dgx02"}),
        pod("concurrent-dgx01-1", labels={"app.kubernetes.io/instance": "dgx01"}),
        {**pod("argo-dgx01"), "kind": "Workflow"},
        pod("web"),
    ]
    found = plan("none", WHOLE, "concurrent", "argo", namespace=there)
    assert found["left"] == ["Pod concurrent-dgx01-0"]
    assert found["foreign"] == ["Pod concurrent-dgx01-1", "Workflow argo-dgx01"]


def test_an_unknown_sample() -> None:
    with pytest.raises(InputError, match="samples: unknown samples nbody .known are vectoradd, concurrent"):
        plan("none", WHOLE, "vectoradd", "nbody")
