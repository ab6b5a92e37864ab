# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a sample workload is judged by what the Kubernetes API tells."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.verdicts import verdict

MIG = "nvidia.com/mig-3g.20gb"
WHOLE_GPU = "GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-{})\n"
SLICE = WHOLE_GPU.format("a") + "  MIG 3g.20gb     Device  0: (UUID: MIG-{})\n"


def sample(kind: str = "vectoradd", count: int = 1, shared: bool = False) -> dict[str, Any]:
    return {
        "sample": kind,
        "text": f"{count} {MIG}",
        "requests": [{"resource": MIG, "count": count, "shared": shared}],
        "pods": [{"name": f"p{number}", "resource": MIG} for number in range(count)],
    }


def ended(name: str = "p0", told: str = SLICE.format("1"), start: int = 0, end: int = 9, **more: Any) -> Any:
    """A pod that ran from second ``start`` to ``end``."""
    terminated = {
        "exitCode": 0,
        "reason": "Completed",
        "message": told,
        "startedAt": f"2026-01-01T00:00:{start:02}Z",
        "finishedAt": f"2026-01-01T00:00:{end:02}Z",
        **more,
    }
    return {
        "metadata": {"name": name},
        "spec": {"nodeName": "dgx01"},
        "status": {
            "phase": "Failed" if terminated["exitCode"] else "Succeeded",
            "containerStatuses": [{"state": {"terminated": terminated}}],
        },
    }


def state(phase: str, node: str | None = "dgx01", **status: Any) -> Any:
    return {
        "metadata": {"name": "p0"},
        "spec": {"nodeName": node} if node else {},
        "status": {"phase": phase, **status},
    }


def waiting(reason: str, message: str) -> list[dict[str, Any]]:
    return [{"state": {"waiting": {"reason": reason, "message": message}}}]


UNSCHEDULABLE = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "message": "0/4 nodes are available: 4 Insufficient nvidia.com/gpu.",
}


@pytest.mark.parametrize(
    ("pods", "done", "problem"),
    [
        ([ended()], True, ""),
        ([], True, f"p0 ({MIG}): gone: somebody else deleted it"),
        ([state("Running")], False, f"p0 ({MIG}): still running"),
        ([state("Pending", None)], False, f"p0 ({MIG}): not scheduled: no scheduler has looked at it"),
        ([state("Pending")], False, f"p0 ({MIG}): not started by kubelet"),
        (
            [state("Pending", None, conditions=[{"type": "Other", "status": "False"}, UNSCHEDULABLE])],
            False,
            f"p0 ({MIG}): not scheduled (Unschedulable): "
            "0/4 nodes are available: 4 Insufficient nvidia.com/gpu.",
        ),
        (
            [state("Pending", containerStatuses=waiting("ImagePullBackOff", "Back-off pulling image x"))],
            False,
            f"p0 ({MIG}): waiting (ImagePullBackOff): Back-off pulling image x",
        ),
        (
            [state("Pending", containerStatuses=waiting("InvalidImageName", "couldn't parse"))],
            True,
            f"p0 ({MIG}): waiting (InvalidImageName): couldn't parse",
        ),
        (
            [ended(exitCode=1, reason="Error", told="Test starts\nFailed to allocate device vector A\n")],
            True,
            f"p0 ({MIG}): failed with exit code 1 (Error): Failed to allocate device vector A",
        ),
        (
            [state("Failed", reason="UnexpectedAdmissionError", message="Allocate failed due to no devices")],
            True,
            f"p0 ({MIG}): failed (UnexpectedAdmissionError): Allocate failed due to no devices",
        ),
        ([state("Failed", reason="DeadlineExceeded")], True, f"p0 ({MIG}): failed (DeadlineExceeded)"),
    ],
)
def test_one_pod(pods: list[Any], done: bool, problem: str) -> None:
    found = verdict(sample(), pods)
    assert (found["done"], found["problems"]) == (done, [problem] if problem else [])
    assert found["text"] == (f"vectoradd: FAILED: {problem}" if problem else f"vectoradd: passed on 1 {MIG}")


def test_waiting_ends_with_the_first_failure() -> None:
    found = verdict(sample("concurrent", 2), [state("Running"), ended("p1", exitCode=1, told="")])
    assert found["done"]
    assert found["problems"] == [
        f"p0 ({MIG}): still running",
        f"p1 ({MIG}): failed with exit code 1 (Completed)",
    ]


@pytest.mark.parametrize(
    ("count", "names"),
    [(1, "p0"), (3, "p0, p1, p2"), (4, "p0, p1, p2 and 1 more"), (9, "p0, p1, p2 and 6 more")],
)
def test_pods_that_failed_alike_are_told_once(count: int, names: str) -> None:
    failed = [ended(f"p{number}", exitCode=1, told="no device") for number in range(count)]
    assert verdict(sample("vectoradd", count), failed)["problems"] == [
        f"{names} ({MIG}): failed with exit code 1 (Completed): no device"
    ]


@pytest.mark.parametrize(
    ("told", "devices"),
    [
        (SLICE.format("1"), ["MIG-1"]),
        (WHOLE_GPU.format("a"), ["GPU-a"]),
        (SLICE.format("GPU-a/1/0"), ["MIG-GPU-a/1/0"]),  # drivers before 470
        ("", []),
    ],
)
def test_the_devices_that_a_pod_saw(told: str, devices: list[str]) -> None:
    assert verdict(sample(), [ended(told=told)])["devices"] == devices


def test_a_benchmark_tells_its_result() -> None:
    found = verdict(sample("tensorflow"), [ended(told=SLICE.format("1") + "total images/sec: 850.12\n")])
    assert found["told"] == ["total images/sec: 850.12"]
    assert found["text"] == f"tensorflow: passed on 1 {MIG}; total images/sec: 850.12"


@pytest.mark.parametrize(
    ("second", "problem"),
    [
        ({}, ""),
        ({"start": 9}, ""),
        (
            {"start": 10, "end": 19},
            "its pods did not all run at once: one ended at 2026-01-01T00:00:09Z, "
            "before another began at 2026-01-01T00:00:10Z",
        ),
        ({"told": SLICE.format("1")}, "p1 and p0 saw the same device MIG-1"),
        ({"told": ""}, "p1 saw 0 devices instead of one"),
        ({"told": SLICE.format("2") + SLICE.format("3")}, "p1 saw 2 devices instead of one"),
        (
            {"startedAt": None},
            "kubelet does not tell when its pods ran, so it is unknown whether they ran at once",
        ),
    ],
)
def test_pods_at_once(second: dict[str, Any], problem: str) -> None:
    found = verdict(sample("concurrent", 2), [ended(), ended("p1", **{"told": SLICE.format("2"), **second})])
    assert (found["done"], found["problems"]) == (True, [problem] if problem else [])
    if not problem:
        assert found["text"] == f"concurrent: passed on 2 {MIG}, all at once on 2 devices"


def test_pods_that_share_a_device() -> None:
    found = verdict(sample("concurrent", 2, shared=True), [ended(), ended("p1")])
    assert found["problems"] == []
    assert found["text"].endswith("all at once on 1 devices")


@pytest.mark.parametrize(
    ("workflows", "done", "problems"),
    [
        ([], True, ["the workflow is gone: somebody else deleted it"]),
        (
            [{}],
            False,
            [
                "no controller has taken the workflow: Argo's workflow-controller does not run, "
                "or does not watch this namespace"
            ],
        ),
        ([{"status": {"phase": "Running"}}], False, ["the workflow is Running"]),
        ([{"status": {"phase": "Succeeded"}}], True, []),
        (
            [
                {
                    "status": {
                        "phase": "Failed",
                        "message": "child 'x' failed",
                        "nodes": {
                            "x": {
                                "type": "Pod",
                                "phase": "Failed",
                                "displayName": "run-1(0:0)",
                                "message": "exit 1",
                            },
                            "y": {"type": "Pod", "phase": "Succeeded", "displayName": "run-1(1:1)"},
                            "z": {"type": "Steps", "phase": "Failed", "displayName": "argo-dgx01"},
                        },
                    }
                }
            ],
            True,
            ["the workflow is Failed: child 'x' failed", "run-1(0:0) is Failed: exit 1"],
        ),
    ],
)
def test_a_workflow(workflows: list[Any], done: bool, problems: list[str]) -> None:
    found = verdict(sample("argo"), workflows)
    assert (found["done"], found["problems"]) == (done, problems)
