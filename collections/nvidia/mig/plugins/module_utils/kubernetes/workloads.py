# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sample workloads that prove a node's GPUs: what each requests. Pure.

The names of resources and labels are those that ``labels.expected_node`` derives from layout and strategy.
"""

from __future__ import annotations

import re
from typing import Any, Dict, Iterable, List, Mapping, Sequence, Tuple

from ansible_collections.nvidia.mig.plugins.module_utils.errors import InputError
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.labels import PRODUCT_LABEL
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.resources import (
    GPU_RESOURCE,
    MIG_RESOURCE_PREFIX,
    SHARED_SUFFIX,
    is_gpu_resource,
    quantity,
)

# A pod for each kind of resource; for each GPU or MIG device, at once; on the largest; an Argo workflow.
SAMPLES = ("vectoradd", "concurrent", "tensorflow", "argo")

# Whatever has these labels, and nothing else, is ours to remove.
MANAGED_LABEL = "app.kubernetes.io/managed-by"
MANAGER = "nvidia.mig.gpu_workloads"
NODE_LABEL = "app.kubernetes.io/instance"
SAMPLE_LABEL = "app.kubernetes.io/name"
_HOSTNAME_LABEL = "kubernetes.io/hostname"

_ENDED = ("Succeeded", "Failed")
_SIZE = re.compile(r"(\d+)g\.(\d+)gb")


def is_ours(item: Mapping[str, Any]) -> bool:
    """True for an object that this collection's role made."""
    return _labels(item).get(MANAGED_LABEL) == MANAGER


def workloads(
    expected: Mapping[str, Any],
    node: Mapping[str, Any],
    samples: Sequence[str] = SAMPLES,
    pods: Sequence[Mapping[str, Any]] = (),
    namespace: Sequence[Mapping[str, Any]] = (),
) -> Dict[str, Any]:
    """What the samples request of a node.

    Args:
        expected: what the node offers, as ``labels.Expected.as_dict``.
        node: the Node object.
        samples: some of SAMPLES, in the order in which they are to run.
        pods: the node's pods. What they hold is left to them.
        namespace: the pods and workflows of the namespace that the samples are for.

    Returns:
        ``labels`` of everything that is made for this node. ``held`` and ``holders``: what other pods hold,
        and which. ``left`` and ``foreign``: what of the namespace is an earlier run's on this node, and what
        is somebody else's with a name of ours. ``samples``, an entry for each: ``sample``, ``name``,
        ``labels``, ``node_selector``, ``tolerations``, ``requests`` (``resource``, ``count``, ``shared``),
        ``text`` (the requests in words), ``pods`` (``name``, ``resource``; none for argo, which makes them
        itself), ``left_out`` (the reason if there is nothing to run).

    Raises:
        InputError: an unknown sample.
    """
    unknown = sorted(str(sample) for sample in samples if sample not in SAMPLES)
    if unknown:
        raise InputError(
            f"unknown samples {', '.join(unknown)}", path="samples", hint=f"known are {', '.join(SAMPLES)}"
        )
    hostname: str = _labels(node).get(_HOSTNAME_LABEL, node["metadata"]["name"])
    selector = {_HOSTNAME_LABEL: hostname}
    product = expected["labels"].get(PRODUCT_LABEL)
    if product:
        selector[PRODUCT_LABEL] = product
    labels = {MANAGED_LABEL: MANAGER, NODE_LABEL: hostname}
    offered, free, holders = _free(expected["resources"], pods)
    found: List[Dict[str, Any]] = []
    for sample in samples:
        requests: List[Dict[str, Any]] = [
            {"resource": resource, "count": count, "shared": _is_shared(resource, expected["labels"])}
            for resource, count in _wanted(sample, free)
        ]
        each = [request["resource"] for request in requests for _each in range(request["count"])]
        found.append(
            {
                "sample": sample,
                "name": f"{sample}-{hostname}",
                "labels": {**labels, SAMPLE_LABEL: sample},
                "node_selector": selector,
                "tolerations": [{"key": GPU_RESOURCE, "operator": "Exists"}],
                "requests": requests,
                "pods": [
                    {"name": f"{sample}-{hostname}-{number}", "resource": resource}
                    for number, resource in enumerate([] if sample == "argo" else each)
                ],
                "text": ", ".join(f"{request['count']} {request['resource']}" for request in requests),
                "left_out": "" if requests else _nothing_free(offered, holders),
            }
        )
    held = [
        f"{offered[resource] - count} of {offered[resource]} {resource}"
        for resource, count in free.items()
        if count < offered[resource]
    ]
    names = {sample["name"] for sample in found} | {pod["name"] for sample in found for pod in sample["pods"]}
    return {
        "labels": labels,
        "samples": found,
        "held": held,
        "holders": holders,
        "left": _names(
            item
            for item in namespace
            if all(_labels(item).get(name) == value for name, value in labels.items())
        ),
        "foreign": _names(
            item for item in namespace if item["metadata"]["name"] in names and not is_ours(item)
        ),
    }


def _names(items: Iterable[Mapping[str, Any]]) -> List[str]:
    return sorted(f"{item.get('kind')} {item['metadata']['name']}" for item in items)


def _labels(item: Mapping[str, Any]) -> Mapping[str, str]:
    return item["metadata"].get("labels") or {}


def _free(
    resources: Mapping[str, int], pods: Sequence[Mapping[str, Any]]
) -> Tuple[Dict[str, int], Dict[str, int], List[str]]:
    """What is offered, what of it nobody holds, and who holds the rest."""
    offered = {name: count for name, count in resources.items() if count > 0}
    free, holders = dict(offered), []
    for pod in pods:
        held = _requested(pod)
        if held and not is_ours(pod) and (pod.get("status") or {}).get("phase") not in _ENDED:
            holders.append(f"{pod['metadata']['namespace']}/{pod['metadata']['name']}")
            for name, count in held.items():
                if name in free:
                    free[name] = max(0, free[name] - count)
    return offered, free, sorted(holders)


def _requested(pod: Mapping[str, Any]) -> Dict[str, int]:
    """GPU resources of a pod: all containers together, or the one init container that wants more."""
    found: Dict[str, int] = {}
    for container in pod["spec"].get("containers") or []:
        for name, count in _limits(container).items():
            found[name] = found.get(name, 0) + count
    for container in pod["spec"].get("initContainers") or []:
        for name, count in _limits(container).items():
            found[name] = max(found.get(name, 0), count)
    return found


def _limits(container: Mapping[str, Any]) -> Dict[str, int]:
    limits = (container.get("resources") or {}).get("limits") or {}
    return {name: int(quantity(value)) for name, value in limits.items() if is_gpu_resource(name)}


def _wanted(sample: str, free: Mapping[str, int]) -> List[Tuple[str, int]]:
    left = {name: free[name] for name in sorted(free, key=_size) if free[name] > 0}
    if sample == "vectoradd":
        return [(name, 1) for name in left]
    if sample == "tensorflow":
        return [(max(left, key=_size), 1)] if left else []
    return list(left.items())


def _size(resource: str) -> Tuple[int, int]:
    """Orders MIG devices by memory and slices. A whole GPU comes last: the sample is about MIG devices."""
    found = _SIZE.search(resource) if resource.startswith(MIG_RESOURCE_PREFIX) else None
    return (int(found.group(2)), int(found.group(1))) if found else (0, 0)


def _is_shared(resource: str, labels: Mapping[str, str]) -> bool:
    """True if several pods may get the same device."""
    return resource.endswith(SHARED_SUFFIX) or labels.get(f"{resource}.sharing-strategy", "none") != "none"


def _nothing_free(offered: Mapping[str, int], holders: Sequence[str]) -> str:
    if not offered:
        return "the node offers no GPU"
    return f"all of {', '.join(offered)} is held by {', '.join(holders)}"
