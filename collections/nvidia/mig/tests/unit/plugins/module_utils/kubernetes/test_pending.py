# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which pending pods are planned for, and which are left for later."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.pending import Window, pending_pods
from ansible_collections.nvidia.mig.tests.unit.plugins.module_utils.kubernetes.observing import (
    NOW,
    UNSCHEDULABLE,
    bound,
    container,
    pod,
)
from hypothesis import given
from hypothesis import strategies as st

SMALL = container(cpu=1, mig_1g_5gb=1)
AT_ONCE = Window()


def look(*pods: Any, window: Window = AT_ONCE, **options: Any) -> Any:
    return pending_pods(pods, NOW, window, **options)


def names(found: Any) -> list[str]:
    return [own["name"] for own in found.pods]


def reasons(found: Any) -> dict[str, str]:
    return {own["pod"]: own["reason"] for own in found.waiting}


def test_a_pod_as_the_planner_takes_it():
    affinity = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}
    spec = {
        "priority": 7,
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"operator": "Exists"}],
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": affinity}},
    }
    found = look(pod("a", SMALL, container("b", memory="1Gi"), spec=spec))
    assert found.pods == [
        {
            "namespace": "ml",
            "name": "a",
            "priority": 7,
            "requests": {"cpu": "1", "memory": "1Gi", "nvidia.com/mig-1g.5gb": "1"},
            "node_selector": {"disk": "ssd"},
            "node_affinity": affinity,
            "tolerations": [{"operator": "Exists"}],
        }
    ]
    assert not found.waiting and not found.problems


@pytest.mark.parametrize(
    "other",
    [
        pod("a", container(cpu=1)),
        pod("a", container(gpu=1)),
        pod("a", container(mig_1g_5gb=0)),
        bound("a", "n1", SMALL),
        bound("a", "n1", SMALL, phase="Pending"),
        pod("a", SMALL, status={"phase": "Succeeded"}),
        pod("a", SMALL, metadata={"deletionTimestamp": "2026-01-31T06:12:04Z"}),
    ],
)
def test_pods_that_are_no_demand(other):
    found = look(other)
    assert not found.pods and not found.waiting and not found.problems


def test_whole_gpus_count_if_wanted():
    assert names(look(pod("a", container(gpu=1)), whole_gpus=True)) == ["a"]


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"spec": {"schedulingGates": [{"name": "quota"}]}}, "is held by the scheduling gate quota"),
        ({"status": {"conditions": []}}, "has not been judged by the scheduler yet"),
        (
            {"status": {"conditions": [{**UNSCHEDULABLE, "status": "True"}]}},
            "has not been judged by the scheduler yet",
        ),
        (
            {"status": {"conditions": [{**UNSCHEDULABLE, "reason": "SchedulerError"}]}},
            "has no node for another reason: SchedulerError",
        ),
        (
            {"status": {"nominatedNodeName": "n1"}},
            "gets n1 as soon as the pods have ended that it preempts there",
        ),
    ],
)
def test_pods_that_do_not_lack_devices_yet(more, reason):
    found = look(pod("a", SMALL, **more))
    assert not found.pods and reasons(found) == {"ml/a": reason}


def test_the_oldest_come_first():
    found = look(pod("b", SMALL, ago=10), pod("a", SMALL, ago=10), pod("c", SMALL, ago=20))
    assert names(found) == ["c", "a", "b"]


@pytest.mark.parametrize(
    ("ages", "planned"),
    [
        ({"a": 70, "b": 5}, ["a"]),  # b may not be the last
        ({"a": 59, "b": 5}, []),
        ({"a": 59, "b": 10}, ["a", "b"]),  # nobody came for 10 seconds
        ({"a": 59, "b": 60}, ["b", "a"]),
        ({"a": 5}, []),
        ({"a": -5}, []),  # the clocks differ
    ],
)
def test_young_pods_wait_for_others(ages, planned):
    pods = [pod(name, SMALL, ago=age) for name, age in ages.items()]
    found = look(*pods, window=Window(60, 10))
    assert names(found) == planned
    late = set(ages) - set(planned)
    assert reasons(found) == {
        f"ml/{name}": "is younger than 60 seconds, and others are coming" for name in late
    }


@pytest.mark.parametrize(
    ("ages", "seconds"),
    [
        ({"a": 5}, 5),  # if no other comes
        ({"a": 5, "b": 20}, 5),
        ({"a": 5, "b": 58}, 2),  # its own time is over
        ({"a": 5, "b": 70}, 5),  # b does not wait
        ({"a": -5}, 15),
        ({"a": 10}, None),
        ({"a": 70, "b": 80}, None),
        ({}, None),
    ],
)
def test_when_the_first_has_waited_long_enough(ages, seconds):
    pods = [pod(name, SMALL, ago=age) for name, age in ages.items()]
    due = look(*pods, window=Window(60, 10)).due
    assert due == (None if seconds is None else NOW + seconds)
    if due is not None:
        assert pending_pods(pods, due, Window(60, 10)).pods


def test_a_pod_that_asks_for_no_gpu_keeps_nobody_waiting():
    found = look(pod("a", SMALL, ago=30), pod("web", container(cpu=1), ago=1), window=Window(60, 10))
    assert names(found) == ["a"]


def test_a_pod_of_unknown_age_does_not_wait():
    found = look(pod("a", SMALL, metadata={"creationTimestamp": None}), window=Window(60, 10))
    assert names(found) == ["a"]


@pytest.mark.parametrize(
    "more",
    [
        {"metadata": {"labels": {"scheduling.x-k8s.io/pod-group": "g"}}},
        {"metadata": {"labels": {"kueue.x-k8s.io/pod-group-name": "g"}}},
        {"metadata": {"annotations": {"scheduling.k8s.io/group-name": "g"}}},
        {"metadata": {"annotations": {"scheduling.volcano.sh/group-name": "g"}}},
        {"metadata": {"annotations": {"nvidia.com/mig-demand.gang": "g"}}},
        {"spec": {"schedulingGroup": {"podGroupName": "g"}}},
    ],
)
def test_gangs(more):
    assert look(pod("a", SMALL, **more)).pods[0]["gang"] == "g"


def test_jobs_are_gangs_if_wanted():
    owner = {"kind": "Job", "name": "train", "controller": True}
    owned = pod("a", SMALL, metadata={"ownerReferences": [owner]})
    assert "gang" not in look(owned).pods[0]
    assert look(owned, gang_jobs=True).pods[0]["gang"] == "job/train"
    replicas = pod("a", SMALL, metadata={"ownerReferences": [{**owner, "kind": "ReplicaSet"}]})
    assert "gang" not in look(replicas, gang_jobs=True).pods[0]


def member(name: str, *containers: Any, namespace: str = "ml", **more: Any) -> Any:
    metadata = {"labels": {"scheduling.x-k8s.io/pod-group": "g"}, "namespace": namespace}
    return pod(name, *containers, metadata=metadata, **more)


def test_a_gang_brings_its_pods_without_gpus():
    found = look(member("worker", SMALL), member("driver", container(cpu=1)))
    assert names(found) == ["driver", "worker"]
    assert not look(member("driver", container(cpu=1))).pods


def test_a_gang_waits_for_all_of_its_pods():
    gated = member("b", SMALL, spec={"schedulingGates": [{"name": "quota"}]})
    found = look(member("a", SMALL), gated, member("c", SMALL, namespace="other"))
    assert names(found) == ["c"]
    assert reasons(found) == {
        "ml/a": "ml/b of its gang is held by the scheduling gate quota",
        "ml/b": "is held by the scheduling gate quota",
    }


def test_a_gang_is_not_planned_without_a_pod_that_is_wrong():
    found = look(member("a", SMALL), member("b", container(cpu="many")), pod("c", SMALL))
    assert names(found) == ["c"]
    assert "ml/b of its gang cannot be planned: main: requests.cpu" in reasons(found)["ml/a"]
    assert [text.partition(":")[0] for text in found.problems] == ["pod ml/b"]


@pytest.mark.parametrize(
    ("broken", "problem"),
    [
        ("text", "pods[0]: it: 'text' is not a mapping; it is passed over"),
        ({}, "pods[0]: metadata: it is missing; it is passed over"),
        ({"metadata": {"name": "a"}}, "pods[0]: metadata: namespace or name is missing; it is passed over"),
        (pod("a", SMALL, spec={"priority": "high"}), "pod ml/a: spec.priority: 'high' is not a whole number"),
        (pod("a", SMALL, spec={"affinity": "near"}), "pod ml/a: spec.affinity: 'near' is not a mapping"),
        (pod("a", SMALL, spec={"schedulingGates": "x"}), "pods[0]: spec.schedulingGates: 'x' is not a list"),
        (pod("a", SMALL, status={"conditions": ["x"]}), "pods[0]: status.conditions: 'x' is not a mapping"),
    ],
)
def test_what_is_wrong_is_named_and_the_rest_goes_on(broken, problem):
    found = look(broken, pod("good", SMALL))
    assert names(found) == ["good"] and not found.waiting
    assert len(found.problems) == 1 and problem in found.problems[0]


FIELDS = ("metadata", "spec", "status")
JUNK = st.one_of(
    st.none(), st.booleans(), st.integers(), st.text(max_size=3), st.lists(st.none(), max_size=2)
)


@given(
    st.sampled_from(FIELDS),
    st.sampled_from(
        [
            "",
            "labels",
            "annotations",
            "ownerReferences",
            "containers",
            "initContainers",
            "affinity",
            "tolerations",
            "nodeSelector",
            "priority",
            "overhead",
            "resources",
            "schedulingGroup",
            "conditions",
            "phase",
            "containerStatuses",
            "creationTimestamp",
            "nodeName",
        ]
    ),
    JUNK,
)
def test_junk_never_stops_the_rest(part, key, junk):
    broken = pod("bad", SMALL)
    if key:
        broken[part] = {**broken[part], key: junk}
    else:
        broken[part] = junk
    assert "good" in names(look(broken, pod("good", SMALL), gang_jobs=True))
