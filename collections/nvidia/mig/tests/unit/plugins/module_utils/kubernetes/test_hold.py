# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whose a cordon is, and which pods a drain refuses."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.hold import (
    CORDONED,
    MIRROR,
    TAINT,
    drain_obstacles,
    hold_marks,
)

WANTED = [{"namespace": "team-a", "name": "train", "uid": "u1"}]


@pytest.mark.parametrize(
    ("unschedulable", "annotated", "ours", "theirs"),
    [
        (False, False, False, False),
        (True, False, False, True),
        (True, True, True, False),
        # Interrupted between the note and the cordon.
        (False, True, True, False),
    ],
)
def test_whose_cordon_it_is(unschedulable: bool, annotated: bool, ours: bool, theirs: bool) -> None:
    node = {
        "metadata": {"annotations": {CORDONED: "true"} if annotated else {"other": "note"}},
        "spec": {"unschedulable": unschedulable},
    }
    marks = hold_marks(node)
    assert (marks["ours"], marks["theirs"]) == (ours, theirs)
    assert marks["held"].keys() == marks["released"].keys()
    assert set(marks["released"].values()) == {None}


def test_a_bare_node_has_no_cordon() -> None:
    marks = hold_marks({"metadata": {"annotations": None}, "spec": {}})
    assert (marks["ours"], marks["theirs"]) == (False, False)


@pytest.mark.parametrize(
    ("keys", "changing"), [((), False), (("other",), False), (("other", TAINT["key"]), True)]
)
def test_whether_a_change_is_under_way(keys: tuple[str, ...], changing: bool) -> None:
    node = {
        "metadata": {},
        "spec": {"taints": [{"key": key, "effect": "NoSchedule"} for key in keys] or None},
    }
    assert hold_marks(node)["changing"] is changing


def pod(owner: str = "Job", phase: str = "Running", **more: Any) -> dict[str, Any]:
    return {
        "metadata": {
            "uid": "u1",
            "ownerReferences": [{"kind": owner}] if owner else None,
            "annotations": more.pop("annotations", None),
        },
        "spec": more,
        "status": {"phase": phase},
    }


LOCAL = [{"name": "scratch", "emptyDir": {}}]


@pytest.mark.parametrize(
    ("pods", "options", "expected"),
    [
        ([pod()], {}, None),
        ([pod(volumes=[{"name": "data", "persistentVolumeClaim": {}}])], {}, None),
        ([], {}, "not in the cluster"),
        ([pod(owner="")], {}, "mig_drain_unmanaged"),
        ([pod(owner="")], {"unmanaged": True}, None),
        ([pod(volumes=LOCAL)], {}, "mig_drain_local_data"),
        ([pod(volumes=LOCAL)], {"local_data": True}, None),
        ([pod(owner="", volumes=LOCAL)], {"local_data": True}, "mig_drain_unmanaged"),
        ([pod(owner="DaemonSet")], {"unmanaged": True, "local_data": True}, "DaemonSet"),
        ([pod(annotations={MIRROR: "x"})], {"unmanaged": True}, "static pod"),
        # What has ended can go in any case.
        ([pod(owner="", phase="Succeeded")], {}, None),
    ],
)
def test_what_cannot_be_drained(pods: list[Any], options: dict[str, bool], expected: str | None) -> None:
    found = drain_obstacles(pods, WANTED, **options)
    assert bool(found) == bool(expected)
    if expected:
        [sentence] = found
        assert sentence.startswith("team-a/train ")
        assert expected in sentence


def test_a_pod_without_a_name_is_told_by_its_uid() -> None:
    [sentence] = drain_obstacles([], [{"namespace": "", "name": "", "uid": "u9"}])
    assert sentence.startswith("the pod with uid u9 ")
