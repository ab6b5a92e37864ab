# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What MIG Manager is asked for, and what it answers."""

from __future__ import annotations

import pytest
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.mig_manager import (
    CONFIG,
    DISABLED,
    STATE,
    gpu_pods,
    mig_manager_configs,
    mig_manager_plan,
    mig_manager_reads,
)

CUT = {"index": 0, "mig_capable": True, "mig": True, "profiles": ["3g.20gb", "3g.20gb"]}
WHOLE = {"index": 0, "mig_capable": True, "mig": False, "profiles": []}
DISPLAY = {"index": 0, "mig_capable": False, "mig": False, "profiles": []}


def node(config=None, state=None):
    labels = {CONFIG: config, STATE: state}
    return {"metadata": {"name": "n", "labels": {key: value for key, value in labels.items() if value}}}


def layout(*gpus, actions=()):
    return {"gpus": list(gpus), "actions": list(actions), "pods": []}


def pod(name, phase="Running", **limits):
    containers = [{"resources": {"limits": {key.replace("_", "/"): "1" for key in limits}}}]
    metadata = {"namespace": "team", "name": name, "uid": f"uid-{name}"}
    return {"metadata": metadata, "spec": {"containers": containers}, "status": {"phase": phase}}


NAME = mig_manager_plan(layout(CUT), node())["config"]


@pytest.mark.parametrize(
    ("labels", "gpu_actions", "actions"),
    [
        ((NAME, "success"), [], []),
        (
            (NAME, "success"),
            ["GPU 0: create"],
            ["GPU 0: create", f"label {CONFIG}={NAME}"],
        ),  # changed by hand
        ((NAME, "failed"), [], [f"label {CONFIG}={NAME}"]),
        ((NAME, "pending"), [], [f"label {CONFIG}={NAME}"]),
        # As wanted by chance: at the next boot MIG Manager would put the old one back.
        (("all-disabled", "success"), [], [f"label {CONFIG}={NAME}"]),
        ((None, None), [], [f"label {CONFIG}={NAME}"]),
    ],
)
def test_the_label_belongs_to_the_plan(labels, gpu_actions, actions):
    plan = mig_manager_plan(layout(CUT, actions=gpu_actions), node(*labels))
    assert plan["actions"] == actions
    assert plan["gpu_actions"] == gpu_actions
    assert plan["config_before"] == (labels[0] or "")


def test_a_node_without_mig_is_left_alone():
    plan = mig_manager_plan(layout(DISPLAY), node())
    assert (plan["config"], plan["actions"]) == ("", [])


def test_names_follow_from_the_content():
    assert mig_manager_plan(layout({**CUT, "index": 3}), node("x"))["config"] == NAME
    assert mig_manager_plan(layout(WHOLE), node())["config"] != NAME
    assert len(NAME) <= 63  # a label's value


def test_all_pods_that_hold_a_gpu_are_in_the_way():
    pods = [
        pod("whole", **{"nvidia.com_gpu": 1}),
        pod("slice", **{"nvidia.com_mig-3g.20gb": 1}),
        pod("done", "Succeeded", **{"nvidia.com_gpu": 1}),
        pod("other", cpu=1),
    ]
    assert [each["name"] for each in gpu_pods(pods)] == ["whole", "slice"]
    assert gpu_pods(pods)[0] == {"namespace": "team", "name": "whole", "uid": "uid-whole"}
    assert mig_manager_plan(layout(CUT, actions=["create"]), node(), pods)["pods"] == gpu_pods(pods)
    assert mig_manager_plan(layout(CUT), node(), pods)["pods"] == []  # only a label


def test_the_first_file():
    plan = mig_manager_plan(layout(CUT), node())
    found = mig_manager_configs([plan, plan])
    assert found["content"] == {"version": "v1", "mig-configs": {**DISABLED, NAME: plan["entries"]}}
    assert found == mig_manager_configs([plan])


def test_a_file_that_has_it_all_stays():
    cut, whole = mig_manager_plan(layout(CUT), node()), mig_manager_plan(layout(WHOLE), node())
    both = mig_manager_configs([cut, whole])
    assert mig_manager_configs([cut], both) == both
    own = {"name": "own", "content": {"version": "v1", "mig-configs": {**DISABLED, NAME: cut["entries"]}}}
    assert mig_manager_configs([cut], own) == own


def test_what_nodes_have_is_kept():
    """MIG Manager's pods start anew, and must find the configuration of their node."""
    old = {
        "all-1g.5gb": [{"devices": "all", "mig-enabled": True, "mig-devices": {"1g.5gb": 7}}],
        "unused": [],
    }
    current = {"name": "own", "content": {"version": "v1", "mig-configs": old}}
    plan = mig_manager_plan(layout(CUT), node("all-1g.5gb"))
    found = mig_manager_configs([plan], current, [node("all-1g.5gb"), node("unknown"), node()])
    assert set(found["content"]["mig-configs"]) == {"all-1g.5gb", "all-disabled", NAME}
    assert found["name"] != "own"


@pytest.mark.parametrize("content", [{}, {"mig-configs": None}])
def test_a_file_without_content_is_replaced(content):
    plan = mig_manager_plan(layout(CUT), node())
    assert NAME in mig_manager_configs([plan], {"name": "own", "content": content})["content"]["mig-configs"]


def test_which_pod_has_read_the_file():
    volumes = [{"name": "host", "hostPath": {}}, {"name": "config", "configMap": {"name": "new"}}]
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    running = {"metadata": {}, "spec": {"volumes": volumes}, "status": ready}
    assert mig_manager_reads([running], "new")
    assert not mig_manager_reads([running], "old")
    assert not mig_manager_reads([], "new")
    assert not mig_manager_reads([{**running, "status": {}}], "new")
    assert not mig_manager_reads([{**running, "metadata": {"deletionTimestamp": "now"}}], "new")
