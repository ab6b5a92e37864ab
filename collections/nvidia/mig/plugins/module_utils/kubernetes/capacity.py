# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What nodes have left for pods, and which of their GPUs must not change now. Pure.

Whatever is wrong with one node is told, and the others go on.
"""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, NamedTuple, Sequence, Tuple

from ansible_collections.nvidia.mig.plugins.module_utils.errors import InputError, MigError
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.cooldown import cooling, partitioned
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.fields import mapping, sequence
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.hold import hold_marks
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.labels import STRATEGY_LABEL
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.newcomers import holders, settle
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.pending import phase
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.pod_requests import effective_requests
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.quantities import in_words, thousandths
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.resources import is_gpu_resource
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.shared_nodes import shared_node

# What the control plane gives a node that is not ready.
_NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}


class Rules(NamedTuple):
    """When a GPU must not change.

    Args:
        cool_down: for so many seconds after it was last partitioned for pending pods.
        opt_in: if its node lacks one of these labels.
    """

    cool_down: float = 0
    opt_in: Mapping[str, str] = {}


def plannable_nodes(
    wanted: Sequence[Any], nodes: Sequence[Any], pods: Sequence[Any], rules: Rules, now: float
) -> Tuple[List[Dict[str, Any]], List[str]]:
    """Nodes as ``mig_partition_plan`` takes them, and problems.

    Args:
        wanted: of each node ``name``, ``gpus`` from ``mig_info``, and perhaps ``strategy`` and ``frozen``.
            With ``sharing_choices``, its ``sharing`` and the device plugin's ``chart_version`` count, too.
        nodes: Node objects.
        pods: Pod objects of the whole cluster.
        now: in seconds since 1970.
    """
    found: Dict[str, Dict[str, Any]] = {}
    problems: List[str] = []
    known = _by_name(nodes, problems)
    theirs = _by_node(pods)
    for position, item in enumerate(wanted):
        path = f"nodes[{position}]"
        try:
            name = mapping(item, path).get("name")
            if not isinstance(name, str) or not name:
                raise InputError("name is missing", path)
            path = f"node {name}"
            if name in found:
                raise InputError("it stands twice", path)
            if name not in known:
                raise InputError(
                    "the cluster has no such node", path, "node names may differ from inventory names"
                )
            found[name] = _node(item, known[name], theirs.get(name, []), rules, now, problems)
        except MigError as error:
            told = error if error.path == path else InputError(str(error), path)
            problems.append(f"{told}; it is passed over")
    return list(found.values()), problems


def _by_name(nodes: Sequence[Any], problems: List[str]) -> Dict[str, Mapping[str, Any]]:
    found: Dict[str, Mapping[str, Any]] = {}
    for node in nodes:
        try:
            found[str(mapping(mapping(node, "a node").get("metadata"), "a node's metadata")["name"])] = node
        except (MigError, KeyError) as error:
            problems.append(f"a node of the cluster has no name: {error}")
    return found


def _by_node(pods: Sequence[Any]) -> Dict[str, List[Mapping[str, Any]]]:
    """Pods that have a share of a node, or are about to get one."""
    found: Dict[str, List[Mapping[str, Any]]] = {}
    for pod in pods:
        try:
            if phase(mapping(pod, "a pod")) not in ("Succeeded", "Failed"):
                spec = mapping(pod.get("spec") or {}, "spec")
                name = spec.get("nodeName") or (pod.get("status") or {}).get("nominatedNodeName")
                if name:
                    found.setdefault(str(name), []).append(pod)
        except MigError:
            continue
    return found


def _node(
    item: Mapping[str, Any],
    node: Mapping[str, Any],
    pods: Sequence[Mapping[str, Any]],
    rules: Rules,
    now: float,
    problems: List[str],
) -> Dict[str, Any]:
    metadata, spec = node["metadata"], mapping(node.get("spec") or {}, "spec")
    labels = mapping(metadata.get("labels") or {}, "labels")
    annotations = mapping(metadata.get("annotations") or {}, "annotations")
    taints = [dict(mapping(taint, "taints")) for taint in sequence(spec.get("taints"), "taints")]
    if item.get("gpus") is None:
        raise InputError("gpus are missing", hint="pass what mig_info returned")
    gpus = [dict(mapping(gpu, "gpus")) for gpu in sequence(item["gpus"], "gpus")]
    requests = [(pod, _requests(pod)) for pod in pods]
    bound = [(pod, asked) for pod, asked in requests if (pod.get("spec") or {}).get("nodeName")]
    strategy = item.get("strategy") or labels.get(STRATEGY_LABEL) or "mixed"
    unsettled = settle(gpus, bound, strategy == "mixed")
    frozen = item.get("frozen") or _frozen(node, labels, rules) or unsettled
    try:
        resting = cooling(partitioned(annotations), rules.cool_down, now)
    except MigError as error:
        resting = {}
        problems.append(f"node {metadata['name']}: {error}; no GPU of it rests")
    keep_mode = _keep_mode(gpus)
    for gpu in gpus:
        reason = gpu.get("frozen") or resting.get(str(gpu.get("uuid")))
        if reason:
            gpu["frozen"] = reason
    if not _is_ready(node) and not any(taint.get("key") == _NOT_READY["key"] for taint in taints):
        taints.append(dict(_NOT_READY))
    found = {
        "name": metadata["name"],
        "labels": dict(labels),
        "taints": taints,
        "unschedulable": bool(spec.get("unschedulable")),
        "free": _free(node, [asked for _pod, asked in requests]),
        "strategy": strategy,
        "gpus": gpus,
    }
    reasons = {"frozen": frozen, "keep_mode": keep_mode}
    found.update((key, reason) for key, reason in reasons.items() if reason)
    if item.get("sharing_choices"):
        found["sharing"] = shared_node(item, node, gpus, requests, frozen)
    return found


def _requests(pod: Mapping[str, Any]) -> Dict[str, int]:
    try:
        return effective_requests(pod)
    except MigError as error:
        metadata = mapping(pod.get("metadata") or {}, "metadata")
        raise InputError(
            f"what pod {metadata.get('namespace')}/{metadata.get('name')} requests there is unknown: {error}"
        ) from error


def _free(node: Mapping[str, Any], pods: Sequence[Mapping[str, int]]) -> Dict[str, str]:
    """What is allocatable and not requested. GPUs and MIG devices are left out: they are told one by one."""
    status = mapping(node.get("status") or {}, "status")
    allocatable = mapping(status.get("allocatable"), "status.allocatable")
    found: Dict[str, str] = {}
    for resource in ("cpu", "memory", "pods"):
        if allocatable.get(resource) is None:
            raise InputError(f"{resource} is missing", "status.allocatable")
    for resource, value in allocatable.items():
        if not is_gpu_resource(str(resource)):
            have = thousandths(value, f"status.allocatable.{resource}", up=False)
            taken = 1000 * len(pods) if resource == "pods" else sum(own.get(resource, 0) for own in pods)
            found[str(resource)] = in_words(max(0, have - taken))
    return found


def _frozen(node: Mapping[str, Any], labels: Mapping[str, Any], rules: Rules) -> str:
    marks = hold_marks(node)
    if marks["ours"] or marks["changing"]:
        return "its GPUs are being changed, or a change of them was interrupted"
    if marks["theirs"]:
        return "its node is cordoned"
    if not _is_ready(node):
        return "its node is not ready"
    for key, value in rules.opt_in.items():
        # In YAML, true is no text, but every label is.
        value = str(value).lower() if isinstance(value, bool) else str(value)
        if labels.get(key) != value:
            return f"its node lacks the label {key}={value}, by which nodes opt in"
    return ""


def _keep_mode(gpus: Sequence[Mapping[str, Any]]) -> str:
    """Why no MIG mode may change, if so. GPUs that NVLink connects are reset together."""
    pod = next(holders(gpus), None)
    if pod is None or not any((gpu.get("mig_mode") or {}).get("needs_reset") for gpu in gpus):
        return ""
    return f"that takes a reset, and pod {pod.get('namespace')}/{pod.get('name')} holds a GPU of the node"


def _is_ready(node: Mapping[str, Any]) -> bool:
    status = mapping(node.get("status") or {}, "status")
    for item in sequence(status.get("conditions"), "status.conditions"):
        condition = mapping(item, "status.conditions")
        if condition.get("type") == "Ready":
            return condition.get("status") == "True"
    return False
