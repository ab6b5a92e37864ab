# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods that wait for GPUs: which of them to plan for, and what each asks for. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ansible_collections.nvidia.mig.plugins.module_utils.errors import InputError, MigError
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.cooldown import seconds
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.fields import mapping, sequence
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.pod_requests import effective_requests
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.quantities import in_words
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.resources import (
    GPU_RESOURCE,
    MIG_RESOURCE_PREFIX,
    SHARED_SUFFIX,
)

# On a pod: the name of its gang, for clusters without any of the schedulers below.
GANG = "nvidia.com/mig-demand.gang"

_SIZED = re.compile(r"nvidia[.]com/gpu-[0-9]+gb")

_GANG_LABELS = (
    "scheduling.x-k8s.io/pod-group",  # scheduler-plugins' coscheduling
    "kueue.x-k8s.io/pod-group-name",
)
_GANG_ANNOTATIONS = (
    GANG,
    "scheduling.k8s.io/group-name",  # Volcano
    "scheduling.volcano.sh/group-name",
)


class Window(NamedTuple):
    """Which pods wait for others that may come with them.

    Args:
        batch: a pod that is younger waits; in seconds.
        idle: but not if no other has come for so long.
    """

    batch: float = 0
    idle: float = 0


@dataclass
class Pending:
    """Pending pods.

    Attributes:
        pods: as ``mig_partition_plan`` takes them.
        waiting: those that are left for later: ``pod`` and ``reason``.
        due: when the first of those that wait for others has waited long enough, in seconds since 1970;
            None if no pod waits for that.
    """

    pods: List[Dict[str, Any]] = field(default_factory=list)
    waiting: List[Dict[str, str]] = field(default_factory=list)
    problems: List[str] = field(default_factory=list)
    due: Optional[float] = None


@dataclass
class _Candidate:
    """A pending pod. ``wait`` is why it is left for later, ``error`` why it cannot be planned at all."""

    name: str
    gang: Optional[str]
    came: Optional[int]
    wait: str
    asks: bool = False
    error: str = ""
    wanted: Dict[str, Any] = field(default_factory=dict)


def pending_pods(
    pods: Sequence[Any],
    now: float,
    window: Window,
    whole_gpus: bool = False,
    gang_jobs: bool = False,
    shared_gpus: bool = False,
) -> Pending:
    """Which of the cluster's pods to plan for.

    Args:
        pods: Pod objects; others than pending ones are passed over.
        now: in seconds since 1970.
        whole_gpus: pods count as well that ask for whole GPUs only.
        gang_jobs: pods of one Job run all or none.
        shared_gpus: pods count as well that ask for shares of GPUs.
    """
    counting = _counting(whole_gpus, shared_gpus)
    found = Pending()
    candidates: List[_Candidate] = []
    for position, pod in enumerate(pods):
        try:
            if is_pending(pod):
                candidates.append(_candidate(pod, counting, gang_jobs))
        except MigError as error:
            found.problems.append(f"pods[{position}]: {error}; it is passed over")
    found.due = _batch([own for own in candidates if own.asks and not own.wait], now, window)
    planned: List[_Candidate] = []
    for members in _gangs(candidates):
        if not any(own.asks for own in members):
            continue
        found.problems += [f"pod {own.name}: {own.error}; it is passed over" for own in members if own.error]
        culprit = next((own for own in members if own.wait or own.error), None)
        if culprit is None:
            planned += members
        else:
            found.waiting += [_left(own, culprit) for own in members if not own.error]
    planned.sort(key=lambda own: (own.came or 0, own.name))
    found.pods = [own.wanted for own in planned]
    found.waiting.sort(key=lambda own: own["pod"])
    return found


def is_pending(pod: Any) -> bool:
    """Whether the pod has no node yet and is to get one. Raises InputError."""
    metadata = mapping(mapping(pod, "it").get("metadata"), "metadata")
    if not metadata.get("name") or not metadata.get("namespace"):
        raise InputError("namespace or name is missing", "metadata")
    return (
        phase(pod) == "Pending"
        and not mapping(pod.get("spec"), "spec").get("nodeName")
        and not metadata.get("deletionTimestamp")
    )


def phase(pod: Mapping[str, Any]) -> str:
    """Where the pod is in its life. Raises InputError."""
    return str(mapping(pod.get("status") or {}, "status").get("phase") or "")


def _counting(whole_gpus: bool, shared_gpus: bool) -> Callable[[str], bool]:
    """Whether a pod counts that asks for the resource."""
    names = ((GPU_RESOURCE, whole_gpus), (GPU_RESOURCE + SHARED_SUFFIX, shared_gpus))
    wanted = {name for name, counts in names if counts}
    return lambda name: name in wanted or name.startswith(MIG_RESOURCE_PREFIX)


def _refuse_sizes(requests: Mapping[str, int]) -> None:
    """Shares by their size are what nos' own device plugin offers, and no other."""
    for name, amount in sorted(requests.items()):
        if amount and _SIZED.fullmatch(name):
            raise InputError(
                f"asks for {name}, which NVIDIA's device plugin never offers",
                hint="ask for nvidia.com/gpu.shared, and for the size by node labels: see docs/demand.md",
            )


def _candidate(pod: Mapping[str, Any], counting: Callable[[str], bool], gang_jobs: bool) -> _Candidate:
    metadata, spec = pod["metadata"], pod["spec"]
    own = _Candidate(
        f"{metadata['namespace']}/{metadata['name']}",
        _gang(metadata, spec, gang_jobs),
        seconds(metadata.get("creationTimestamp")),
        _not_lacking(spec, pod.get("status") or {}),
    )
    try:
        requests = effective_requests(pod)
        own.asks = any(amount and counting(name) for name, amount in requests.items())
        if counting(GPU_RESOURCE + SHARED_SUFFIX):
            _refuse_sizes(requests)
        own.wanted = _wanted(metadata, spec, requests, own.gang)
    except MigError as error:
        # What it asks for cannot be known, so it counts as if it asked for GPUs.
        own.asks, own.error = True, str(error)
    return own


def _wanted(
    metadata: Mapping[str, Any], spec: Mapping[str, Any], requests: Mapping[str, int], gang: Optional[str]
) -> Dict[str, Any]:
    priority = spec.get("priority") or 0
    if not isinstance(priority, int) or isinstance(priority, bool):
        raise InputError(f"{priority!r} is not a whole number", "spec.priority")
    affinity = mapping(spec.get("affinity") or {}, "spec.affinity")
    of_nodes = mapping(affinity.get("nodeAffinity") or {}, "spec.affinity.nodeAffinity")
    found = {
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "priority": priority,
        "requests": {name: in_words(amount) for name, amount in sorted(requests.items()) if amount},
        "node_selector": dict(mapping(spec.get("nodeSelector") or {}, "spec.nodeSelector")),
        "node_affinity": of_nodes.get("requiredDuringSchedulingIgnoredDuringExecution"),
        "tolerations": sequence(spec.get("tolerations"), "spec.tolerations"),
    }
    return found if gang is None else {**found, "gang": gang}


def _gang(metadata: Mapping[str, Any], spec: Mapping[str, Any], jobs: bool) -> Optional[str]:
    """The name of the group that runs all or none; None: the pod is in none."""
    group = mapping(spec.get("schedulingGroup") or {}, "spec.schedulingGroup").get("podGroupName")
    labels = mapping(metadata.get("labels") or {}, "metadata.labels")
    annotations = mapping(metadata.get("annotations") or {}, "metadata.annotations")
    names = [group, *map(annotations.get, _GANG_ANNOTATIONS), *map(labels.get, _GANG_LABELS)]
    found = next((str(name) for name in names if name), None)
    if found is None and jobs:
        for owner in sequence(metadata.get("ownerReferences"), "metadata.ownerReferences"):
            owner = mapping(owner, "metadata.ownerReferences")
            if owner.get("kind") == "Job" and owner.get("controller"):
                return f"job/{owner.get('name')}"
    return found


def _not_lacking(spec: Mapping[str, Any], status: Mapping[str, Any]) -> str:
    """Why it is not for want of resources that the pod has no node; empty if it is."""
    gates = sequence(spec.get("schedulingGates"), "spec.schedulingGates")
    if gates:
        names = ", ".join(str(mapping(gate, "spec.schedulingGates").get("name")) for gate in gates)
        return f"is held by the scheduling gate {names}"
    if status.get("nominatedNodeName"):
        return f"gets {status['nominatedNodeName']} as soon as the pods have ended that it preempts there"
    for item in sequence(status.get("conditions"), "status.conditions"):
        condition = mapping(item, "status.conditions")
        if condition.get("type") == "PodScheduled":
            if condition.get("status") != "False":
                break
            reason = condition.get("reason")
            return "" if reason == "Unschedulable" else f"has no node for another reason: {reason}"
    return "has not been judged by the scheduler yet"


def _batch(candidates: Sequence[_Candidate], now: float, window: Window) -> Optional[float]:
    """Let young pods wait as long as more are coming. Returns until when, for the first of them."""
    came = [own.came for own in candidates if own.came is not None]
    if not came or now - max(came) >= window.idle:
        return None
    young = [own for own in candidates if own.came is not None and now - own.came < window.batch]
    for own in young:
        own.wait = f"is younger than {window.batch:g} seconds, and others are coming"
    oldest = min((own.came or 0 for own in young), default=None)
    return None if oldest is None else min(max(came) + window.idle, oldest + window.batch)


def _gangs(candidates: Sequence[_Candidate]) -> List[List[_Candidate]]:
    """Pods that run all or none; a pod of no gang is alone."""
    found: Dict[Tuple[str, str, bool], List[_Candidate]] = {}
    for own in candidates:
        namespace, _slash, name = own.name.partition("/")
        key = (namespace, name, False) if own.gang is None else (namespace, own.gang, True)
        found.setdefault(key, []).append(own)
    return list(found.values())


def _left(own: _Candidate, culprit: _Candidate) -> Dict[str, str]:
    if own.wait:
        return {"pod": own.name, "reason": own.wait}
    why = culprit.wait or f"cannot be planned: {culprit.error}"
    return {"pod": own.name, "reason": f"{culprit.name} of its gang {why}"}
