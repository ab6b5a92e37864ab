# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When DaemonSets count as rolled out, and what is said of those that do not."""

from __future__ import annotations

import pytest
from ansible_collections.nvidia.mig.plugins.module_utils.errors import ClusterError
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.rollout import (
    pod_trouble,
    rollout,
    wait_for_rollout,
)


def daemonset(desired=2, ready=2, updated=2, seen=1, strategy="RollingUpdate"):
    return {
        "metadata": {"generation": 1},
        "spec": {"selector": {"matchLabels": {"app": "x"}}, "updateStrategy": {"type": strategy}},
        "status": {
            "observedGeneration": seen,
            "desiredNumberScheduled": desired,
            "numberReady": ready,
            "updatedNumberScheduled": updated,
        },
    }


@pytest.mark.parametrize(
    ("found", "waiting_for"),
    [
        (daemonset(), ""),
        (None, "does not exist"),
        (daemonset(seen=0), "the DaemonSet controller has not seen it yet"),
        ({"metadata": {"generation": 1}}, "the DaemonSet controller has not seen it yet"),
        (daemonset(ready=1), "1 of 2 pods ready"),
        (daemonset(updated=0), "0 of 2 pods up to date"),
        (daemonset(updated=0, strategy="OnDelete"), ""),
        (daemonset(desired=1, ready=0, updated=0), "0 of 1 pods ready, 0 of 1 pods up to date"),
    ],
)
def test_rollout(found, waiting_for):
    assert rollout("d", found).waiting_for == waiting_for


def test_no_nodes():
    none = daemonset(desired=0, ready=0, updated=0)
    assert rollout("d", none).no_nodes
    assert not rollout("d-mps-control-daemon", none).no_nodes


def pod(name="p", owner="d", **status):
    return {
        "metadata": {"name": name, "ownerReferences": [{"name": owner}]},
        "spec": {"nodeName": "dgx01"},
        "status": status,
    }


CRASHING = {
    "name": "ctr",
    "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}},
    "lastState": {"terminated": {"message": "more than one MIG device type\n"}},
}


@pytest.mark.parametrize(
    ("status", "trouble"),
    [
        ({"conditions": [{"type": "Ready", "status": "True"}]}, ""),
        ({"containerStatuses": [CRASHING]}, "ctr: CrashLoopBackOff (more than one MIG device type)"),
        (
            {"initContainerStatuses": [{"name": "i", "state": {"waiting": {"reason": "ImagePullBackOff"}}}]},
            "i: ImagePullBackOff",
        ),
        (
            {"conditions": [{"type": "PodScheduled", "status": "False", "message": "0/1 nodes"}]},
            "0/1 nodes",
        ),
        ({"phase": "Pending"}, "Pending"),
        ({}, "no status"),
    ],
)
def test_pod_trouble(status, trouble):
    assert pod_trouble(pod(**status)) == trouble


class FakeApi:
    """Answers with each DaemonSet's states in turn, the last one for ever."""

    def __init__(self, states, pods=()):
        self.states = states
        self.found = list(pods)

    def get(self, kind, version, name, namespace):
        assert (kind, version, namespace) == ("DaemonSet", "apps/v1", "gpu")
        states = self.states[name]
        return states.pop(0) if len(states) > 1 else states[0]

    def pods(self, namespace, selector):
        assert (namespace, selector) == ("gpu", {"app": "x"})
        return self.found


def test_waits_until_ready():
    api = FakeApi({"a": [daemonset()], "b": [None, daemonset(ready=0), daemonset()]})
    assert wait_for_rollout(api, [("gpu", "a"), ("gpu", "b")], timeout=30, poll=0.01) == []


def test_warns_of_no_nodes():
    api = FakeApi({"a": [daemonset(desired=0, ready=0, updated=0)]})
    (warning,) = wait_for_rollout(api, [("gpu", "a")], timeout=0)
    assert "matches no node" in warning and "nvidia.com/gpu.present=true" in warning


def test_says_what_holds_it():
    api = FakeApi(
        {"d": [daemonset(ready=1)]},
        [pod("p1", containerStatuses=[CRASHING]), pod("p2", owner="another", containerStatuses=[CRASHING])],
    )
    with pytest.raises(ClusterError) as caught:
        wait_for_rollout(api, [("gpu", "d")], timeout=0)
    text = str(caught.value)
    assert "not rolled out after 0 seconds: d: 1 of 2 pods ready" in text
    assert "pod p1 on dgx01: ctr: CrashLoopBackOff (more than one MIG device type)" in text
    assert "p2" not in text
