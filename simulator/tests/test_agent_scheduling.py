"""The agent puts DaemonSet pods where Kubernetes would."""

from __future__ import annotations

import pytest
from miglab.agent.scheduling import runs_on

LABELS = {"gpu": "yes", "zone": "a", "size": "8"}


def workload(**pod):
    return {"spec": {"template": {"spec": pod}}}


def node(*taints):
    return {"metadata": {"name": "n1", "labels": LABELS}, "spec": {"taints": list(taints)}}


def affinity(*terms):
    return {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    }


def expression(key, operator, *values):
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        ({}, True),
        ({"nodeSelector": {"gpu": "yes"}}, True),
        ({"nodeSelector": {"gpu": "yes", "zone": "b"}}, False),
        ({"affinity": affinity(expression("zone", "In", "a", "b"))}, True),
        ({"affinity": affinity(expression("zone", "NotIn", "a"))}, False),
        ({"affinity": affinity(expression("none", "NotIn", "a"))}, True),
        ({"affinity": affinity(expression("gpu", "Exists"))}, True),
        ({"affinity": affinity(expression("gpu", "DoesNotExist"))}, False),
        ({"affinity": affinity(expression("size", "Gt", "7"))}, True),
        ({"affinity": affinity(expression("size", "Lt", "8"))}, False),
        ({"affinity": affinity(expression("zone", "Gt", "1"))}, False),
        ({"affinity": affinity(expression("none", "Exists"), expression("gpu", "Exists"))}, True),
        ({"affinity": affinity({})}, False),
        (
            {
                "affinity": affinity(
                    {"matchFields": expression("metadata.name", "In", "n1")["matchExpressions"]}
                )
            },
            True,
        ),
        (
            {
                "affinity": affinity(
                    {"matchFields": expression("metadata.name", "In", "n2")["matchExpressions"]}
                )
            },
            False,
        ),
        ({"affinity": {"nodeAffinity": None}}, True),
    ],
)
def test_selector_and_affinity(pod, expected):
    assert runs_on(workload(**pod), node()) is expected


@pytest.mark.parametrize(
    ("tolerations", "expected"),
    [
        ([], False),
        ([{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}], True),
        ([{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoExecute"}], False),
        ([{"key": "nvidia.com/gpu", "value": "present"}], True),
        ([{"key": "nvidia.com/gpu", "value": "other"}], False),
        ([{"operator": "Exists"}], True),
    ],
)
def test_a_taint_needs_a_toleration(tolerations, expected):
    taint = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
    assert runs_on(workload(tolerations=tolerations), node(taint)) is expected


def test_a_cordoned_node_keeps_its_daemon_set_pods():
    assert runs_on(workload(), node({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}))
