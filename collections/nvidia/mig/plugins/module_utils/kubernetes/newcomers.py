# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods that have just got a node, and of which mig_info does not know yet which devices they hold. Pure.

The scheduler has bound such a pod, but kubelet had not handed out its devices when the node was read. Nobody
can tell which it takes, so no device that it could take may go, and as many as it asks for are not free.
"""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Mapping, Sequence, Set, Tuple

from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.resources import (
    GPU_RESOURCE,
    MIG_RESOURCE_PREFIX,
    dotted,
    is_gpu_resource,
)

# A device that a pod could get: its GPU, and what has the list of pods that hold it.
_Device = Tuple[Dict[str, Any], Dict[str, Any]]


def settle(
    gpus: List[Dict[str, Any]], bound: Sequence[Tuple[Mapping[str, Any], Mapping[str, int]]], mixed: bool
) -> str:
    """Give newcomers devices, and freeze what they could take.

    Args:
        gpus: of a node, from ``mig_info``; changed in place.
        bound: the node's Pod objects, each with what it requests in thousandths.
        mixed: the node's strategy; with the others, a MIG device counts as a GPU.

    Returns:
        Why the whole node must stay as it is; empty if single GPUs were enough.
    """
    known = _holders(gpus)
    frozen = ""
    for pod, requests in bound:
        metadata = pod.get("metadata") or {}
        name = f"{metadata.get('namespace')}/{metadata.get('name')}"
        if metadata.get("uid") in known or name in known:
            continue
        reason = f"pod {name} has just got a device there, and nobody knows yet which"
        for resource, amount in sorted(requests.items()):
            if amount and is_gpu_resource(resource):
                devices = list(_devices(gpus, resource, mixed))
                count = amount // 1000
                if len(devices) < count:
                    frozen = reason
                for number, (gpu, device) in enumerate(devices):
                    gpu["frozen"] = reason
                    if number < count:
                        device["pods"] = [_as_holder(metadata, resource)]
    return frozen


def holders(gpus: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Pods that hold one of the GPUs or a part of it; some more than once."""
    for gpu in gpus:
        for part in (gpu, *(gpu.get("instances") or ()), *(gpu.get("mig_devices") or ())):
            yield from part.get("pods") or ()


def _devices(gpus: Sequence[Dict[str, Any]], resource: str, mixed: bool) -> Iterator[_Device]:
    """Devices that a pod could get for the resource now. Of an instance, all MIG devices go together."""
    for gpu in gpus:
        if (gpu.get("mig_mode") or {}).get("current") != "enabled":
            if resource == GPU_RESOURCE and not gpu.get("pods"):
                yield gpu, gpu
            continue
        # Copies, since the caller's own must not change.
        gpu["instances"] = [dict(instance) for instance in gpu.get("instances") or ()]
        for instance in gpu["instances"]:
            if not instance.get("pods") and resource in _resources(instance, mixed):
                yield gpu, instance


def _resources(instance: Mapping[str, Any], mixed: bool) -> Set[str]:
    if not mixed:
        return {GPU_RESOURCE}
    computes = instance.get("compute_instances") or [instance]
    return {MIG_RESOURCE_PREFIX + dotted(str(own.get("profile"))) for own in computes}


def _holders(gpus: Sequence[Mapping[str, Any]]) -> Set[str]:
    """Pods that hold something: by uid, and by name where there is no uid."""
    return {pod.get("uid") or f"{pod.get('namespace')}/{pod.get('name')}" for pod in holders(gpus)}


def _as_holder(metadata: Mapping[str, Any], resource: str) -> Dict[str, Any]:
    return {**{key: metadata.get(key) for key in ("namespace", "name", "uid")}, "resource": resource}
