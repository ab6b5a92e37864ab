# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes whose GPUs are shared as pods ask for it: what each sharing would offer, what keeps the present one.

Pure. A device plugin shares all GPUs of a node alike. Another sharing starts its MPS daemon anew, which ends
every client, so it is for nodes without GPU pods only.
"""

from __future__ import annotations

from typing import Any, Dict, Mapping, Sequence, Tuple

from ansible_collections.nvidia.mig.plugins.module_utils.errors import InputError
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.choices import read_choices
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.fields import mapping
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.hold import gpu_holders
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.labels import (
    CONFIG_LABEL,
    Expected,
    expected_node,
)
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.newcomers import holders
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.node_gpu import gpus_from_info
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.quantities import thousandths
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.resources import is_gpu_resource
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.sharing import parse_sharing

# The MPS daemon's own processes: they are there while nobody uses it.
_MPS_PROGRAMS = ("nvidia-cuda-mps-control", "nvidia-cuda-mps-server")

Pods = Sequence[Tuple[Mapping[str, Any], Mapping[str, int]]]


def shared_node(
    item: Mapping[str, Any],
    node: Mapping[str, Any],
    gpus: Sequence[Mapping[str, Any]],
    pods: Pods,
    frozen: str,
) -> Dict[str, Any]:
    """The key ``sharing`` of a node, as ``mig_partition_plan`` takes it.

    Args:
        item: of the node ``strategy``, ``sharing``, ``sharing_choices`` and ``chart_version``.
        node: Node object.
        gpus: from ``mig_info``; one with ``frozen`` keeps the whole node.
        pods: of the node, each with what it requests in thousandths.
        frozen: why nothing of it may change; empty: it may.

    Raises:
        InputError: a sharing is impossible, or the node cannot have it.
    """
    version = item.get("chart_version")
    if not isinstance(version, str) or not version:
        raise InputError(
            "chart_version is missing", hint="the device plugin's, as the names of resources depend on it"
        )
    strategy = str(item.get("strategy") or "none")
    choices = read_choices(strategy, item.get("sharing"), item.get("sharing_choices"), version=version)
    all_gpus = gpus_from_info(gpus)
    expected = {
        name: expected_node(strategy, all_gpus, version, sharing=parse_sharing(sharing))
        for name, sharing in choices.items()
    }
    labels = {str(key): str(value) for key, value in (node["metadata"].get("labels") or {}).items()}
    label = labels.get(CONFIG_LABEL)
    allocatable = _allocatable(node)
    return {
        "config": label,
        "frozen": _in_the_way(gpus, pods, frozen) or _strange(label, expected, allocatable),
        "offers": _free(allocatable, pods),
        "choices": [
            {
                "config": name,
                "sharing": sharing or {},
                "resources": {key: count for key, count in expected[name].resources.items() if count},
                "labels": labels if name == label else _labels(labels, name, expected),
            }
            for name, sharing in choices.items()
        ],
    }


def _in_the_way(gpus: Sequence[Mapping[str, Any]], pods: Pods, frozen: str) -> str:
    theirs = gpu_holders([pod for pod, _requests in pods])
    theirs += [f"{pod.get('namespace')}/{pod.get('name')}" for pod in holders(gpus)]
    if theirs:
        return f"pod {theirs[0]} has a part of its GPUs"
    for gpu in gpus:
        for process in gpu.get("processes") or ():
            name = str(process.get("name") or "").rpartition("/")[2]
            if name not in _MPS_PROGRAMS:
                return f"process {process.get('pid')} ({name}) uses GPU {gpu.get('index')} outside of any pod"
    resting = next((gpu for gpu in gpus if gpu.get("frozen")), None)
    return frozen or ("" if resting is None else f"of its GPU {resting.get('index')}, {resting['frozen']}")


def _strange(label: Any, expected: Mapping[str, Expected], allocatable: Mapping[str, int]) -> str:
    """Why it is not known what the node has now, if so."""
    if label not in expected:
        return f"its label {CONFIG_LABEL} names none of its sharings: run site.yml, which sets it"
    for name, count in expected[str(label)].resources.items():
        if allocatable.get(name, 0) != 1000 * count:
            have = allocatable.get(name, 0) // 1000
            return f"it offers {have} {name} instead of {count}: a change is under way"
    return ""


def _allocatable(node: Mapping[str, Any]) -> Dict[str, int]:
    status = mapping(node.get("status") or {}, "status")
    found = mapping(status.get("allocatable"), "status.allocatable")
    return {
        str(name): thousandths(value, f"status.allocatable.{name}", up=False)
        for name, value in found.items()
        if is_gpu_resource(str(name))
    }


def _free(allocatable: Mapping[str, int], pods: Pods) -> Dict[str, int]:
    """GPUs and parts of them that pods could still get as it is."""
    free = {
        name: max(0, amount - sum(requests.get(name, 0) for _pod, requests in pods)) // 1000
        for name, amount in allocatable.items()
    }
    return {name: count for name, count in sorted(free.items()) if count}


def _labels(labels: Mapping[str, str], config: str, expected: Mapping[str, Expected]) -> Dict[str, str]:
    """The node's labels with another sharing: those that follow from it change, and only those."""
    ours = {key for own in expected.values() for key in (*own.labels, *own.absent_labels)}
    kept = {key: value for key, value in labels.items() if key not in ours}
    return {**kept, **expected[config].labels, CONFIG_LABEL: config}
