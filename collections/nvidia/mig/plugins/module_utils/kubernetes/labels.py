# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Layout + strategy -> the resources and labels that a Kubernetes node must show. Pure.

The only place that knows the name of a GPU feature discovery label. What each version publishes was read in
NVIDIA's k8s-device-plugin and gpu-feature-discovery at their release tags.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from ansible_collections.nvidia.mig.plugins.module_utils.geometry.profile import Profile
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.node_gpu import NodeGpu, ProfileSize
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.resources import (
    GPU_RESOURCE,
    MIG_RESOURCE_PREFIX,
    dotted,
    expected_resources,
    is_gpu_resource,
    plain,
    quantity,
)
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.sharing import MPS, Sharing
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.strategy import check_layout
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.versions import Version, parse_version

PRODUCT_LABEL = f"{GPU_RESOURCE}.product"
STRATEGY_LABEL = "nvidia.com/mig.strategy"
MPS_LABEL = "nvidia.com/mps.capable"
CONFIG_LABEL = "nvidia.com/device-plugin.config"
# Charts from 0.15 on put their pods on nodes with this label, or with one of node feature discovery's.
PRESENT_LABEL = "nvidia.com/gpu.present"

# Up to here discovery had its own chart and numbers; from here on it has the device plugin's.
_ONE_CHART = "0.15.0"
_OLDEST_DISCOVERY = "0.2.0"

# What discovery adds to nvidia.com/gpu only where that resource stands for MIG devices.
_MIG_ONLY = ("multiprocessors", "slices.gi", "slices.ci")


@dataclass(frozen=True)
class Expected:
    """What a node must show. Shared by mig_verify and its tests.

    Args:
        resources: allocatable count by resource name; every other ``nvidia.com/mig-*`` must be 0.
        labels: labels that follow from layout and strategy, with their values.
        absent_labels: labels that must not be there.
        mig_labels: the prefixes under ``nvidia.com/mig-`` that may have labels; empty means none may.
    """

    resources: Dict[str, int]
    labels: Dict[str, str] = field(default_factory=dict)
    absent_labels: Tuple[str, ...] = ()
    mig_labels: Tuple[str, ...] = ()

    def as_dict(self) -> Dict[str, Any]:
        return {
            "resources": dict(self.resources),
            "labels": dict(self.labels),
            "absent_labels": list(self.absent_labels),
        }


def expected_node(
    strategy: str,
    gpus: Sequence[NodeGpu],
    chart_version: str,
    gfd_version: Optional[str] = None,
    sharing: Optional[Sharing] = None,
) -> Expected:
    """What the node must offer and say.

    Args:
        strategy: none, single or mixed.
        gpus: every GPU of the node, as it is or will be.
        chart_version: the device plugin's chart.
        gfd_version: GPU feature discovery's chart. None: the device plugin's, or for device plugins older
            than 0.15.0 only what every discovery publishes.
        sharing: time slicing or MPS of this node.

    Raises:
        InputError: layout and strategy contradict each other, or the node cannot share so.
    """
    check_layout(strategy, gpus, chart_version=chart_version)
    plugin = parse_version(chart_version, "chart_version")
    if gfd_version is not None:
        discovery = parse_version(gfd_version, "gfd_version")
    else:
        discovery = plugin if plugin.at_least(_ONE_CHART) else parse_version(_OLDEST_DISCOVERY)
    shared = sharing or Sharing()
    resources = expected_resources(strategy, gpus, chart_version, shared)
    return _with_labels(strategy, gpus, discovery, shared, resources)


def _with_labels(
    strategy: str,
    gpus: Sequence[NodeGpu],
    discovery: Version,
    sharing: Sharing,
    resources: Dict[str, int],
) -> Expected:
    if not gpus:
        return Expected(resources)  # discovery writes no GPU label on a node without GPUs
    labels: Dict[str, str] = {}
    absent: List[str] = []
    if strategy == "none":
        absent.append(STRATEGY_LABEL)
    else:
        labels[STRATEGY_LABEL] = strategy
    if discovery.at_least("0.15.0"):
        # The MPS control daemon's pods look for it.
        labels[MPS_LABEL] = "true" if sharing.kind == MPS else "false"
    products = sorted({gpu.product for gpu in gpus})
    mig_gpus = [gpu for gpu in gpus if gpu.mig]
    mig_prefixes: Dict[str, List[Profile]] = {}
    if strategy == "single" and mig_gpus:
        devices = [device for gpu in mig_gpus for device in gpu.devices()]
        labels.update(_device_labels(GPU_RESOURCE, products, devices, mig_gpus, discovery, sharing))
        if not discovery.at_least("0.6.0"):
            # The old discovery names the product of a MIG device under single only.
            labels.update(
                _product(GPU_RESOURCE, products, discovery, sharing, _label_name(devices[0], discovery))
            )
    else:
        absent.extend(f"{GPU_RESOURCE}.{suffix}" for suffix in _MIG_ONLY)
        # With several products on one node discovery keeps the labels of an arbitrary one.
        if len(products) == 1:
            full = len(mig_gpus) < len(gpus)
            labels[f"{GPU_RESOURCE}.count"] = str(len(gpus))
            labels.update(_product(GPU_RESOURCE, products, discovery, sharing if full else Sharing()))
            labels.update(_sharing_labels(GPU_RESOURCE, discovery, sharing if full else None))
    if strategy == "mixed":
        for gpu in mig_gpus:
            for device in gpu.devices():
                name = _label_name(device, discovery)
                if name is not None:
                    mig_prefixes.setdefault(MIG_RESOURCE_PREFIX + name, []).append(device)
        for prefix, devices in mig_prefixes.items():
            labels.update(_device_labels(prefix, products, devices, mig_gpus, discovery, sharing))
    return Expected(
        resources, dict(sorted(labels.items())), tuple(sorted(absent)), tuple(sorted(mig_prefixes))
    )


def _device_labels(
    prefix: str,
    products: Sequence[str],
    devices: Sequence[Profile],
    gpus: Sequence[NodeGpu],
    discovery: Version,
    sharing: Sharing,
) -> Dict[str, str]:
    """Labels of a resource that stands for MIG devices."""
    labels = {f"{prefix}.count": str(len(devices))}
    if discovery.at_least("0.6.0"):
        if len(products) == 1:
            labels.update(_product(prefix, products, discovery, sharing, _label_name(devices[0], discovery)))
        labels.update(_sharing_labels(prefix, discovery, sharing))
    kinds = set(devices)
    if len(kinds) > 1:
        return labels  # an old discovery counted several kinds under one name; it describes any of them
    (device,) = kinds
    labels[f"{prefix}.slices.gi"] = str(device.compute_slices)
    labels[f"{prefix}.slices.ci"] = str(device.device_slices)
    size = _size(device, gpus)
    if size.memory_mib is not None:
        labels[f"{prefix}.memory"] = str(size.memory_mib)
    if size.multiprocessors is not None:
        labels[f"{prefix}.multiprocessors"] = str(size.multiprocessors)
    return labels


def _product(
    prefix: str,
    products: Sequence[str],
    discovery: Version,
    sharing: Sharing,
    profile: Optional[str] = None,
) -> Dict[str, str]:
    parts = [products[0]] + (["MIG", profile] if profile else [])
    if discovery.at_least("0.16.0"):
        parts = ["-".join(re.sub(r"[^A-Za-z0-9\-_. ]", "", part).split()) for part in parts]
    else:
        parts = [part.replace(" ", "-") for part in parts]
    if sharing.of(prefix) > 1 and not sharing.rename:
        parts.append("SHARED")
    return {f"{prefix}.product": "-".join(parts)}


def _sharing_labels(prefix: str, discovery: Version, sharing: Optional[Sharing]) -> Dict[str, str]:
    """Replicas and sharing strategy. None: all GPUs are in MIG mode, so none is handed out whole."""
    labels: Dict[str, str] = {}
    if discovery.at_least("0.6.0") and (sharing is not None or discovery.at_least("0.6.1")):
        labels[f"{prefix}.replicas"] = str(sharing.of(prefix)) if sharing is not None else "0"
    if discovery.at_least("0.15.0"):
        shared = sharing is not None and sharing.of(prefix) > 1
        labels[f"{prefix}.sharing-strategy"] = sharing.kind if sharing is not None and shared else "none"
    return labels


def _label_name(device: Profile, discovery: Version) -> Optional[str]:
    """How discovery writes a MIG device's profile in names; None where its name is no valid label."""
    if discovery.at_least("0.7.0"):
        return dotted(str(device))
    return plain(device)  # from the slices and the memory only


def _size(device: Profile, gpus: Sequence[NodeGpu]) -> ProfileSize:
    """Memory and multiprocessors, if every GPU that has the device agrees; known for whole devices only."""
    sizes = {
        gpu.sizes.get(str(device), ProfileSize())
        for gpu in gpus
        if any(found == device for found in gpu.devices())
    }
    return sizes.pop() if len(sizes) == 1 and device.ci_slices is None else ProfileSize()


def compare(expected: Expected, node: Mapping[str, Any], labels: bool = True) -> List[str]:
    """Compare with a Node object of the Kubernetes API. A missing resource is 0: kubelet never removes one.

    Args:
        labels: compare labels too.

    Returns:
        One sentence for each difference; empty if the node is as expected.
    """
    mismatches: List[str] = []
    status = node.get("status") or {}
    allocatable = status.get("allocatable") or {}
    capacity = status.get("capacity") or {}
    names = list(expected.resources) + sorted(
        name for name in allocatable if name not in expected.resources and is_gpu_resource(name)
    )
    for name in names:
        want, have = expected.resources.get(name, 0), quantity(allocatable.get(name, "0"))
        if want != have:
            text = f"{name}: {want} expected, {'nothing' if name not in allocatable else have} allocatable"
            if quantity(capacity.get(name, "0")) != have:
                text += f" of a capacity of {capacity.get(name, '0')}"
            mismatches.append(text)
    return mismatches + _compare_labels(expected, _labels(node)) if labels else mismatches


def _compare_labels(expected: Expected, labels: Mapping[str, str]) -> List[str]:
    mismatches: List[str] = []
    for name, value in expected.labels.items():
        if name not in labels:
            mismatches.append(f"label {name}: {value!r} expected, not there")
        elif labels[name] != value:
            mismatches.append(f"label {name}: {value!r} expected, {labels[name]!r} found")
    for name in expected.absent_labels:
        if name in labels:
            mismatches.append(f"label {name}: not expected, {labels[name]!r} found")
    stale = sorted({_mig_label_prefix(name) for name in labels if name.startswith(MIG_RESOURCE_PREFIX)})
    mismatches.extend(
        f"labels {prefix}.*: not expected, found" for prefix in stale if prefix not in expected.mig_labels
    )
    return mismatches


def shown(node: Mapping[str, Any]) -> Dict[str, Any]:
    """What a Node object says of GPUs: allocatable resources of the device plugin, and NVIDIA's labels."""
    allocatable = (node.get("status") or {}).get("allocatable") or {}
    return {
        "resources": {
            name: quantity(value) for name, value in sorted(allocatable.items()) if is_gpu_resource(name)
        },
        "labels": {
            name: value for name, value in sorted(_labels(node).items()) if name.startswith("nvidia.com/")
        },
    }


def _labels(node: Mapping[str, Any]) -> Mapping[str, str]:
    return (node.get("metadata") or {}).get("labels") or {}


_LABEL_SUFFIX = re.compile(
    r"\.(count|product|replicas|sharing-strategy|memory|multiprocessors|slices\.(gi|ci)|engines\.[a-z]+)$"
)


def _mig_label_prefix(label: str) -> str:
    return _LABEL_SUFFIX.sub("", label)
