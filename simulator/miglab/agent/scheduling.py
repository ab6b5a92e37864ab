"""On which nodes a DaemonSet's pods run. Pure; as Kubernetes' DaemonSet controller decides it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Object = Mapping[str, Any]

#: What the DaemonSet controller lets every one of its pods tolerate.
_ALWAYS_TOLERATED = {
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
    "node.kubernetes.io/disk-pressure",
    "node.kubernetes.io/memory-pressure",
    "node.kubernetes.io/pid-pressure",
    "node.kubernetes.io/unschedulable",
}


def runs_on(workload: Object, node: Object) -> bool:
    """True if a DaemonSet's pod belongs on the node: node selector, required node affinity, and taints."""
    pod = workload["spec"]["template"]["spec"]
    labels: Mapping[str, str] = node["metadata"].get("labels") or {}
    if any(labels.get(key) != value for key, value in (pod.get("nodeSelector") or {}).items()):
        return False
    affinity = (pod.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required and not any(_term(term, node, labels) for term in required.get("nodeSelectorTerms") or []):
        return False
    tolerations = pod.get("tolerations") or []
    return all(_tolerated(taint, tolerations) for taint in (node.get("spec") or {}).get("taints") or [])


def _term(term: Object, node: Object, labels: Mapping[str, str]) -> bool:
    expressions, fields = term.get("matchExpressions") or [], term.get("matchFields") or []
    if not expressions and not fields:
        return False  # an empty term matches nothing
    name = {"metadata.name": node["metadata"]["name"]}
    return all(_expression(each, labels) for each in expressions) and all(
        _expression(each, name) for each in fields
    )


def _expression(expression: Object, values: Mapping[str, str]) -> bool:
    value = values.get(expression["key"])
    wanted = expression.get("values") or []
    operator = expression["operator"]
    if operator == "In":
        return value in wanted
    if operator == "NotIn":
        return value not in wanted
    if operator == "Exists":
        return value is not None
    if operator == "DoesNotExist":
        return value is None
    try:
        number, bound = int(str(value)), int(wanted[0])
    except (ValueError, IndexError):
        return False
    return number > bound if operator == "Gt" else number < bound


def _tolerated(taint: Object, tolerations: list[Object]) -> bool:
    if taint["effect"] == "PreferNoSchedule" or taint["key"] in _ALWAYS_TOLERATED:
        return True
    return any(_tolerates(each, taint) for each in tolerations)


def _tolerates(toleration: Object, taint: Object) -> bool:
    if toleration.get("effect") not in (None, "", taint["effect"]):
        return False
    if toleration.get("operator") == "Exists":
        return toleration.get("key") in (None, "", taint["key"])
    return toleration.get("key") == taint["key"] and (toleration.get("value") or "") == (
        taint.get("value") or ""
    )
