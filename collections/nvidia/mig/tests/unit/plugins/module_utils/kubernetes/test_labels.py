# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Layout + strategy -> resources and labels. The node objects are those that NVIDIA's guides print."""

from __future__ import annotations

import copy

import pytest
from ansible_collections.nvidia.mig.plugins.module_utils.errors import InputError
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.labels import compare, expected_node
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.node_gpu import NodeGpu, ProfileSize
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.sharing import Sharing, parse_sharing

SXM = "A100-SXM4-40GB"
SIZES = {"3g.20gb": ProfileSize(20096, 42), "1g.5gb": ProfileSize(4864, 14)}


def gpus(*layouts, product=SXM):
    return [
        NodeGpu(index, product, layout is not None, tuple(layout or ()), sizes=SIZES)
        for index, layout in enumerate(layouts)
    ]


def node(resources, labels):
    quantities = {name: str(count) for name, count in resources.items()}
    others = {"cpu": "256", "memory": "2113616652Ki", "pods": "110"}
    return {
        "metadata": {"labels": {"kubernetes.io/arch": "amd64", **labels}},
        "status": {"allocatable": {**others, **quantities}, "capacity": {**others, **quantities}},
    }


NONE = gpus(*[None] * 8)
SINGLE = gpus(*[("3g.20gb", "3g.20gb")] * 8)
MIXED = gpus(
    *[None] * 5,
    ("3g.20gb", "2g.10gb", "1g.5gb"),
    ("3g.20gb", "2g.10gb", "1g.5gb"),
    ("2g.10gb", "2g.10gb"),
)
PCIE = gpus(("1g.5gb",) * 7, product="A100-PCIE-40GB")

# What the guides print for device plugin 0.7.0 and discovery 0.2.0.
GUIDE = {
    "none": node({"nvidia.com/gpu": 8}, {"nvidia.com/gpu.count": "8", "nvidia.com/gpu.product": SXM}),
    "single": node(
        {"nvidia.com/gpu": 16},
        {
            "nvidia.com/gpu.count": "16",
            "nvidia.com/gpu.family": "ampere",
            "nvidia.com/gpu.machine": "DGXA100-920-23687-2530-000",
            "nvidia.com/gpu.memory": "20096",
            "nvidia.com/gpu.multiprocessors": "42",
            "nvidia.com/gpu.product": "A100-SXM4-40GB-MIG-3g.20gb",
            "nvidia.com/gpu.slices.ci": "3",
            "nvidia.com/gpu.slices.gi": "3",
            "nvidia.com/mig.strategy": "single",
        },
    ),
    "mixed": node(
        {
            "nvidia.com/gpu": 5,
            "nvidia.com/mig-1g.5gb": 2,
            "nvidia.com/mig-2g.10gb": 4,
            "nvidia.com/mig-3g.20gb": 2,
        },
        {
            "nvidia.com/gpu.count": "8",
            "nvidia.com/gpu.memory": "40537",
            "nvidia.com/gpu.product": "A100-SXM4-40GB",
            "nvidia.com/mig-1g.5gb.count": "2",
            "nvidia.com/mig-1g.5gb.engines.copy": "1",
            "nvidia.com/mig-1g.5gb.memory": "4864",
            "nvidia.com/mig-1g.5gb.multiprocessors": "14",
            "nvidia.com/mig-1g.5gb.slices.ci": "1",
            "nvidia.com/mig-1g.5gb.slices.gi": "1",
            "nvidia.com/mig-2g.10gb.count": "4",
            "nvidia.com/mig-2g.10gb.slices.ci": "2",
            "nvidia.com/mig-2g.10gb.slices.gi": "2",
            "nvidia.com/mig-3g.20gb.count": "2",
            "nvidia.com/mig-3g.20gb.engines.copy": "3",
            "nvidia.com/mig-3g.20gb.memory": "20096",
            "nvidia.com/mig-3g.20gb.multiprocessors": "42",
            "nvidia.com/mig-3g.20gb.slices.ci": "3",
            "nvidia.com/mig-3g.20gb.slices.gi": "3",
            "nvidia.com/mig.strategy": "mixed",
        },
    ),
    "pcie": node(
        {"nvidia.com/gpu": 7},
        {
            "nvidia.com/gpu.compute.major": "8",
            "nvidia.com/gpu.count": "7",
            "nvidia.com/gpu.engines.copy": "1",
            "nvidia.com/gpu.memory": "4864",
            "nvidia.com/gpu.multiprocessors": "14",
            "nvidia.com/gpu.product": "A100-PCIE-40GB-MIG-1g.5gb",
            "nvidia.com/gpu.slices.ci": "1",
            "nvidia.com/gpu.slices.gi": "1",
            "nvidia.com/mig.strategy": "single",
        },
    ),
}


@pytest.mark.parametrize(
    ("strategy", "layout", "guide"),
    [
        ("none", NONE, "none"),
        ("single", SINGLE, "single"),
        ("mixed", MIXED, "mixed"),
        ("single", PCIE, "pcie"),
    ],
)
def test_what_the_guides_print(strategy, layout, guide):
    expected = expected_node(strategy, layout, "0.7.0", gfd_version="0.2.0")
    assert compare(expected, GUIDE[guide]) == []
    allocatable = {k: int(v) for k, v in GUIDE[guide]["status"]["allocatable"].items() if "nvidia" in k}
    assert expected.resources == allocatable


@pytest.mark.parametrize("found", sorted(GUIDE))
@pytest.mark.parametrize(
    ("strategy", "layout", "own"),
    [
        ("none", NONE, "none"),
        ("single", SINGLE, "single"),
        ("mixed", MIXED, "mixed"),
        ("single", PCIE, "pcie"),
    ],
)
def test_no_node_passes_for_another(strategy, layout, own, found):
    mismatches = compare(expected_node(strategy, layout, "0.7.0", gfd_version="0.2.0"), GUIDE[found])
    assert bool(mismatches) == (own != found)


def test_mixed_labels_today():
    labels = expected_node(
        "mixed", gpus(None, ("3g.20gb", "1g.5gb+me"), product="NVIDIA A100-SXM4-40GB"), "0.20.0"
    ).labels
    assert labels == {
        "nvidia.com/gpu.count": "2",
        "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB",
        "nvidia.com/gpu.replicas": "1",
        "nvidia.com/gpu.sharing-strategy": "none",
        "nvidia.com/mig-1g.5gb.me.count": "1",
        "nvidia.com/mig-1g.5gb.me.product": "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb.me",
        "nvidia.com/mig-1g.5gb.me.replicas": "1",
        "nvidia.com/mig-1g.5gb.me.sharing-strategy": "none",
        "nvidia.com/mig-1g.5gb.me.slices.ci": "1",
        "nvidia.com/mig-1g.5gb.me.slices.gi": "1",
        "nvidia.com/mig-3g.20gb.count": "1",
        "nvidia.com/mig-3g.20gb.memory": "20096",
        "nvidia.com/mig-3g.20gb.multiprocessors": "42",
        "nvidia.com/mig-3g.20gb.product": "NVIDIA-A100-SXM4-40GB-MIG-3g.20gb",
        "nvidia.com/mig-3g.20gb.replicas": "1",
        "nvidia.com/mig-3g.20gb.sharing-strategy": "none",
        "nvidia.com/mig-3g.20gb.slices.ci": "3",
        "nvidia.com/mig-3g.20gb.slices.gi": "3",
        "nvidia.com/mig.strategy": "mixed",
        "nvidia.com/mps.capable": "false",
    }


def test_all_gpus_in_mig_mode_have_no_replicas():
    labels = expected_node("mixed", gpus(("1g.5gb",) * 7, ("1g.5gb",) * 7), "0.17.4").labels
    assert labels["nvidia.com/gpu.replicas"] == "0"
    assert labels["nvidia.com/gpu.count"] == "2"
    assert labels["nvidia.com/mig-1g.5gb.count"] == "14"


ME = gpus(("1g.5gb",) * 6 + ("1g.5gb+me",))
PARTIAL = gpus(("1c.2g.10gb",) * 6)


@pytest.mark.parametrize(
    ("layout", "version", "resources"),
    [
        (ME, "0.20.0", {"mig-1g.5gb": 6, "mig-1g.5gb.me": 1}),
        (ME, "0.19.3", {"mig-1g.5gb": 7}),
        (ME, "0.14.5", {"mig-1g.5gb": 7}),
        (PARTIAL, "0.19.3", {"mig-2g.10gb": 6}),
        (PARTIAL, "0.11.0", {}),
        (gpus((), ()), "0.17.4", {}),
    ],
)
def test_resources_by_chart(layout, version, resources):
    expected = {"nvidia.com/gpu": 0, **{f"nvidia.com/{name}": count for name, count in resources.items()}}
    assert expected_node("mixed", layout, version).resources == expected


@pytest.mark.parametrize(
    ("version", "product", "has"),
    [
        ("0.15.1", "NVIDIA-H100-(rev-2)-MIG-1g.10gb", ["replicas", "sharing-strategy"]),
        ("0.16.0", "NVIDIA-H100-rev-2-MIG-1g.10gb", ["replicas", "sharing-strategy"]),
        ("0.8.2", "NVIDIA-H100-(rev-2)-MIG-1g.10gb", ["replicas"]),
        ("0.5.0", "NVIDIA-H100-(rev-2)-MIG-1g.10gb", []),
    ],
)
def test_labels_by_discovery(version, product, has):
    layout = gpus(("1g.10gb",) * 7, product="NVIDIA H100 (rev 2)")
    labels = expected_node("single", layout, "0.17.4", gfd_version=version).labels
    assert labels["nvidia.com/gpu.product"] == product
    found = [name for name in ("replicas", "sharing-strategy") if f"nvidia.com/gpu.{name}" in labels]
    assert found == has


def test_old_discovery_merges_kinds_of_one_size():
    labels = expected_node("mixed", ME, "0.14.5", gfd_version="0.5.0").labels
    assert labels["nvidia.com/mig-1g.5gb.count"] == "7"
    assert "nvidia.com/mig-1g.5gb.memory" not in labels


def test_several_products_leave_the_arbitrary_labels_open():
    layout = [NodeGpu(0, SXM), NodeGpu(1, "Tesla T4", mig_capable=False)]
    expected = expected_node("none", layout, "0.17.4")
    assert expected.resources == {"nvidia.com/gpu": 2}
    assert expected.labels == {"nvidia.com/mps.capable": "false"}


def test_no_gpus():
    expected = expected_node("none", [], "0.17.4")
    assert compare(expected, node({}, {})) == []
    assert compare(expected, node({"nvidia.com/gpu": 1}, {})) == ["nvidia.com/gpu: 0 expected, 1 allocatable"]


def test_a_contradiction_is_refused():
    with pytest.raises(InputError, match="one profile"):
        expected_node("single", gpus(("1g.5gb",), ("3g.20gb",)), "0.17.4")


SLICED = parse_sharing({"timeSlicing": {"resources": [{"name": "nvidia.com/gpu", "replicas": 4}]}})
RENAMED = Sharing("time-slicing", True, {"nvidia.com/gpu": 4})


def test_sharing():
    expected = expected_node("single", SINGLE, "0.17.4", sharing=SLICED)
    assert expected.resources == {"nvidia.com/gpu": 64}
    assert expected.labels["nvidia.com/gpu.count"] == "16"
    assert expected.labels["nvidia.com/gpu.replicas"] == "4"
    assert expected.labels["nvidia.com/gpu.sharing-strategy"] == "time-slicing"
    assert expected.labels["nvidia.com/gpu.product"] == "A100-SXM4-40GB-MIG-3g.20gb-SHARED"


def test_sharing_with_another_name():
    expected = expected_node("none", NONE, "0.17.4", sharing=RENAMED)
    assert expected.resources == {"nvidia.com/gpu": 0, "nvidia.com/gpu.shared": 32}
    assert expected.labels["nvidia.com/gpu.product"] == SXM


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"timeslicing": {}}, "sharing"),
        ({"timeSlicing": {}, "mps": {}}, "sharing"),
        ({"timeSlicing": []}, "sharing.timeSlicing"),
        ({"timeSlicing": {"resource": []}}, "sharing.timeSlicing"),
        ({"mps": {"resources": []}}, "sharing.mps.resources"),
        ({"mps": {"renameByDefault": "no", "resources": []}}, "sharing.mps.renameByDefault"),
        ({"mps": {"resources": [{"name": "gpu"}]}}, "sharing.mps.resources[0]"),
        ({"mps": {"resources": [{"name": "gpu", "replicas": 1}]}}, "sharing.mps.resources[0].replicas"),
        ({"mps": {"resources": [{"name": "gpu", "replicas": True}]}}, "sharing.mps.resources[0].replicas"),
        (
            {"mps": {"resources": [{"name": n, "replicas": 2} for n in ("gpu", "nvidia.com/gpu")]}},
            "sharing.mps.resources[1].name",
        ),
    ],
)
def test_malformed_sharing(value, path):
    with pytest.raises(InputError) as caught:
        parse_sharing(value)
    assert caught.value.path == path


def changed(change):
    found = copy.deepcopy(GUIDE["single"])
    change(found)
    return compare(expected_node("single", SINGLE, "0.7.0", gfd_version="0.2.0"), found)


def set_in(*keys):
    *way, last, value = keys

    def change(found):
        for key in way:
            found = found[key]
        found[last] = value

    return change


@pytest.mark.parametrize(
    ("change", "sentences"),
    [
        (
            set_in("status", "allocatable", "nvidia.com/gpu", "8"),
            ["nvidia.com/gpu: 16 expected, 8 allocatable of a capacity of 16"],
        ),
        (
            set_in("status", "allocatable", {}),
            ["nvidia.com/gpu: 16 expected, nothing allocatable of a capacity of 16"],
        ),
        (
            set_in("status", "allocatable", "nvidia.com/mig-1g.5gb", "2"),
            ["nvidia.com/mig-1g.5gb: 0 expected, 2 allocatable of a capacity of 0"],
        ),
        (
            set_in("status", "allocatable", "nvidia.com/gpu", "16k"),
            ["nvidia.com/gpu: 16 expected, 16k allocatable of a capacity of 16"],
        ),
        (set_in("status", "allocatable", "nvidia.com/mig-1g.5gb", "0"), []),
        (set_in("status", "allocatable", "nvidia.com/hostdev", "4"), []),
        (
            set_in("metadata", "labels", "nvidia.com/gpu.product", "A100-SXM4-40GB-MIG-INVALID"),
            [
                "label nvidia.com/gpu.product: 'A100-SXM4-40GB-MIG-3g.20gb' expected, "
                "'A100-SXM4-40GB-MIG-INVALID' found"
            ],
        ),
        (
            set_in("metadata", "labels", "nvidia.com/mig-2g.10gb.me.count", "1"),
            ["labels nvidia.com/mig-2g.10gb.me.*: not expected, found"],
        ),
        (set_in("metadata", "labels", "nvidia.com/mig.config", "all-3g.20gb"), []),
    ],
)
def test_each_difference_is_a_sentence(change, sentences):
    assert changed(change) == sentences


def test_missing_label():
    assert changed(lambda found: found["metadata"]["labels"].pop("nvidia.com/mig.strategy")) == [
        "label nvidia.com/mig.strategy: 'single' expected, not there"
    ]


def test_stale_strategy_label():
    found = node(
        {"nvidia.com/gpu": 8},
        {"nvidia.com/gpu.count": "8", "nvidia.com/gpu.product": SXM, "nvidia.com/mig.strategy": "single"},
    )
    assert compare(expected_node("none", NONE, "0.7.0"), found) == [
        "label nvidia.com/mig.strategy: not expected, 'single' found"
    ]
