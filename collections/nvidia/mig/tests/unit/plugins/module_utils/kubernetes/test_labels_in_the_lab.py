# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node must show beside what the lab's device plugin and feature discovery make it show.

The lab's were written apart from ours, after what NVIDIA's own binaries do.
"""

from __future__ import annotations

import itertools

import pytest
from ansible_collections.nvidia.mig.plugins.module_utils.errors import InputError
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.labels import compare, expected_node
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.node_gpu import NodeGpu
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.sharing import parse_sharing
from miglab.agent import discovery, plugin
from miglab.agent.hardware import Attributes, Gpu, Hardware, MigDevice
from miglab.agent.settings import RefusedError, Settings, Shared

A100, T4, RTX = "NVIDIA A100-SXM4-40GB", "Tesla T4", "NVIDIA RTX PRO 6000 Blackwell Server Edition"
VERSIONS = ("0.15.1", "0.16.2", "0.17.4", "0.19.3", "0.20.0")
# By name: product and, for each GPU, its MIG devices; None without MIG mode.
LAYOUTS = {
    "whole": [(A100, None)] * 2,
    "one profile": [(A100, "3g.20gb 3g.20gb")] * 2,
    "whole and cut": [(A100, None), (A100, "3g.20gb 2g.10gb 1g.5gb"), (A100, "2g.10gb 2g.10gb")],
    "an empty one": [(A100, "1g.5gb"), (A100, "")],
    "media extensions": [(A100, "1g.5gb 1g.5gb+me"), (A100, None)],
    "graphics": [(RTX, "1g.24gb+gfx 1g.24gb+gfx 2g.48gb+gfx"), (RTX, None)],
    "no media": [(RTX, "1g.24gb-me 1g.24gb+me.all"), (RTX, None)],
    "compute instances": [(A100, "1c.2g.10gb 1c.2g.10gb")],
    "several products": [(A100, "1g.5gb"), (T4, None)],
}
SHARING = {
    "none": None,
    "sliced": {"timeSlicing": {"resources": [{"name": "gpu", "replicas": 4}]}},
    "renamed": {"timeSlicing": {"renameByDefault": True, "resources": [{"name": "gpu", "replicas": 4}]}},
    "small ones": {"timeSlicing": {"resources": [{"name": "mig-1g.5gb", "replicas": 3}]}},
    "mps": {"mps": {"resources": [{"name": "gpu", "replicas": 4}]}},
}


def hardware(layout):
    gpus = []
    for index, (product, devices) in enumerate(layout):
        found = tuple(
            MigDevice(f"MIG-{index}-{number}", name, attributes(name))
            for number, name in enumerate((devices or "").split())
        )
        gpus.append(Gpu(index, product, 40960, (8, 0), product != T4, devices is not None, found))
    return Hardware("580.95.05", 13000, tuple(gpus))


def attributes(profile):
    compute, _sign, whole = profile.partition("c.")
    slices = int((whole or profile)[0])
    own = int(compute) if whole else slices
    media = 1 if "+me" in profile else 0
    return Attributes(14 * own, slices, own, 4864 * slices, slices, media, 0, media, media)


def settings(strategy, version, sharing):
    parsed = parse_sharing(sharing)
    shared = tuple(Shared(name, count) for name, count in parsed.replicas.items())
    number = tuple(map(int, version.split(".")))
    return Settings(strategy, number, parsed.kind, shared, parsed.rename)


def lab_node(strategy, layout, version, sharing):
    """A Node object. RefusedError."""
    found, told = hardware(layout), settings(strategy, version, sharing)
    offered = {name: str(count) for name, count in plugin.resources(found, told).items()}
    return {
        "metadata": {"labels": discovery.labels(found, told)},
        "status": {"capacity": offered, "allocatable": offered},
    }


def expected(strategy, layout, version, sharing):
    gpus = [
        NodeGpu(index, product, devices is not None, tuple((devices or "").split()), product != T4)
        for index, (product, devices) in enumerate(layout)
    ]
    return expected_node(strategy, gpus, version, sharing=parse_sharing(sharing))


def outcome(call, *case):
    """What the call returns; None if that cannot be."""
    try:
        return call(*case)
    except (InputError, RefusedError):
        return None


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_both_agree(layout, version):
    compared = 0
    for strategy, sharing in itertools.product(("none", "single", "mixed"), SHARING.values()):
        case = (strategy, LAYOUTS[layout], version, sharing)
        wanted, seen = outcome(expected, *case), outcome(lab_node, *case)
        if wanted is not None:
            assert seen is not None, f"not refused: {case}"
            assert compare(wanted, seen) == [], case
            compared += 1
    assert compared or (layout, version) in {
        ("an empty one", "0.15.1"),
        ("compute instances", "0.20.0"),
    }


@pytest.mark.parametrize("layout", ["media extensions", "whole and cut", "an empty one"])
def test_an_invalid_node_passes_for_none(layout):
    """Discovery goes on where the plugin has exited, and labels what it finds as invalid."""
    found = hardware(LAYOUTS[layout])
    told = settings("single", "0.17.4", None)
    node = {"metadata": {"labels": discovery.labels(found, told)}, "status": {}}
    assert node["metadata"]["labels"]["nvidia.com/gpu.product"].endswith("MIG-INVALID")
    for other in LAYOUTS.values():
        for strategy in ("none", "single", "mixed"):
            wanted = outcome(expected, strategy, other, "0.17.4", None)
            assert wanted is None or compare(wanted, node)
