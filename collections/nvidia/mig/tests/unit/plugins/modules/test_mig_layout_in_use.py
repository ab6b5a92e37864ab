# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is in use is not destroyed, and whoever uses it is named."""

from __future__ import annotations

import pytest
from ansible_collections.nvidia.mig.plugins.plugin_utils.slice_map import draw_diff

A100 = "A100-SXM4-40GB"
HALVES = {"gpus": "all", "profiles": {"3g.20gb": 2}}
MIXED = {"gpus": "all", "profiles": {"3g.20gb": 1, "1g.5gb": 3}}
SEVEN = {"gpus": "all", "profiles": {"1g.5gb": 7}}
OFF = {"gpus": "all", "mig": False}


@pytest.fixture
def host(make_host):
    host = make_host(A100, 2)
    host.layout(HALVES)
    return host


def hold(host, gpu=1, start=0, **more):
    """A process in the GPU instance that starts there; its pid."""
    [instance] = [i for i in host.node.read()["gpus"][gpu]["instances"] if i["placement"]["start"] == start]
    return host.process(gpu, instance["id"], **more)


def device(host, gpu, start):
    [instance] = [i for i in host.node.read()["gpus"][gpu]["instances"] if i["placement"]["start"] == start]
    return instance["compute_instances"][0]["uuid"]


@pytest.mark.parametrize("wanted", [SEVEN, OFF, {"gpus": "all", "profiles": {}}])
@pytest.mark.parametrize("state", ["present", "planned"])
def test_a_process_is_named(host, wanted, state):
    pid = hold(host, name="/usr/bin/python3 train.py")
    before = host.gpus()
    result = host.layout(wanted, state=state, fails=True)
    for word in ("GPU 1", "3g.20gb at 0:4", f"process {pid} (python3)", "drain"):
        assert word in result.msg, result.msg
    assert result.in_use[0]["holders"] == [f"process {pid} (python3)"]
    assert host.gpus() == before


def test_an_instance_in_use_can_stay(host):
    hold(host, start=4)
    result = host.layout(MIXED)
    assert not [line for line in result.actions if line.startswith("GPU 1: destroy") and "4:4" in line]
    assert any(i[:2] == ("3g.20gb", 4) for i in host.gpus()[1]["instances"])


def test_a_pod_is_named_though_it_runs_nothing(host):
    uid = host.pod("team-a/train", device(host, 0, 4), "nvidia.com/mig-3g.20gb")
    msg = host.layout(SEVEN, fails=True).msg
    assert "GPU 0: 3g.20gb at 4:4 is held by pod team-a/train" in msg
    assert uid not in msg
    assert host.layout({"gpus": 1, "profiles": {"1g.5gb": 7}}).changed


def test_a_pod_that_is_gone_does_not_count(host):
    """Kubelet leaves it in its checkpoint until it hands out the next device."""
    host.pod("team-a/train", device(host, 0, 4), "nvidia.com/mig-3g.20gb")
    for directory in (host.node.pods / path for path in host.node.pods.glob("team-a_train_*")):
        (directory / "main").rmdir()
        directory.rmdir()
    assert host.layout(SEVEN).complete


def test_a_pod_without_any_log_directory_counts(host):
    uid = host.pod("team-a/train", device(host, 0, 4), "nvidia.com/mig-3g.20gb")
    msg = host.layout(SEVEN, fails=True, pod_log_directory=str(host.node.directory / "missing")).msg
    assert f"pod with uid {uid}" in msg


def test_destroy_in_use_is_for_pods(host):
    host.pod("team-a/train", device(host, 0, 4), "nvidia.com/mig-3g.20gb")
    predicted = host.layout(SEVEN, destroy_in_use=True, check=True)
    real = host.layout(SEVEN, destroy_in_use=True)
    assert predicted.actions == real.actions
    assert real.in_use == [
        {
            "gpu": 0,
            "profile": "3g.20gb",
            "placement": {"start": 4, "size": 4},
            "holders": ["pod team-a/train"],
        }
    ]


def test_a_process_stops_even_destroy_in_use(host):
    """NVML would refuse in the middle of the work."""
    pid = hold(host)
    before = host.gpus()
    host.reset_calls()
    for check in (True, False):
        msg = host.layout(SEVEN, destroy_in_use=True, check=check, fails=True).msg
        assert "GPU 1: 3g.20gb at 0:4" in msg
        assert str(pid) in msg
    assert not host.changing_calls()
    assert host.gpus() == before
    # To decide what to drain, the plan is wanted all the same.
    planned = host.layout(SEVEN, destroy_in_use=True, state="planned")
    assert planned.in_use[0]["holders"] == [f"process {pid} (python)"]


@pytest.mark.parametrize("model", [A100, "H100-SXM5-80GB"])
def test_whoever_uses_the_whole_gpu_blocks_its_mode(make_host, model):
    host = make_host(model, 2)
    pid = host.process(1)
    uid = host.pod("team-b/infer", host.node.read()["gpus"][1]["uuid"] + "::3")
    wanted = {"gpus": "all", "profiles": {}}
    host.reset_calls()
    result = host.layout(wanted, fails=True)
    for word in ("GPU 1 is used by", f"process {pid} (python)", "pod team-b/infer"):
        assert word in result.msg
    assert uid not in result.msg
    assert not host.changing_calls()
    assert host.layout(wanted, check=True, fails=True).msg == result.msg
    planned = host.layout(wanted, state="planned", destroy_in_use=True)
    assert planned.clients == [{"gpu": 1, "clients": [f"process {pid} (python)", "pod team-b/infer"]}]
    assert host.layout({"gpus": 0, "profiles": {}}).complete
    assert not host.layout(OFF | {"gpus": 1}).changed


def planned(host, *entries, **options):
    """What a role asks before it drains."""
    return host.layout(*entries, state="planned", destroy_in_use=True, **options)


def names(result):
    return [f"{pod['namespace']}/{pod['name']}" for pod in result.pods]


def test_only_the_pods_of_what_is_destroyed_are_in_the_way(host):
    host.pod("team-a/train", device(host, 0, 4), "nvidia.com/mig-3g.20gb")
    host.pod("team-b/other", device(host, 1, 0), "nvidia.com/mig-3g.20gb")
    assert names(planned(host, HALVES)) == []
    assert names(planned(host, SEVEN | {"gpus": 0})) == ["team-a/train"]
    assert names(planned(host, SEVEN)) == ["team-a/train", "team-b/other"]
    assert names(planned(host, {"gpus": 0, "profiles": {"3g.20gb": 1, "1g.5gb": 1}})) == []
    # Turning MIG off resets the GPU, and with it perhaps its neighbours.
    result = planned(host, OFF | {"gpus": 1})
    assert names(result) == ["team-a/train", "team-b/other"]
    assert result.way_back == [{"gpus": 1, "profiles": {"3g.20gb": 2}}]


def test_a_drained_pod_does_not_count(host):
    uid = host.pod("team-a/train", device(host, 0, 4), "nvidia.com/mig-3g.20gb")
    assert "team-a/train" in host.layout(SEVEN, fails=True).msg
    result = host.layout(SEVEN, drained_pods=[uid], diff=True)
    assert result.complete
    assert result.touched[0]["held"] == {"3g.20gb 4:4": ["pod team-a/train"]}
    drawn = draw_diff(result.data)
    assert "       3g.20gb 4:4 in use by pod team-a/train" in drawn["before"].splitlines()
    assert "in use" not in drawn["after"]


def test_the_way_back_leads_back(host):
    before = host.gpus()
    changed = host.layout(SEVEN | {"gpus": 0}, OFF | {"gpus": 1})
    assert host.layout(*changed.way_back).complete
    assert host.gpus() == before


def test_planning_with_a_drain_spares_what_is_in_use(make_host):
    """Whether pods may be drained does not change which instances go."""
    host = make_host(A100, 1)
    host.layout({"gpus": 0, "profiles": {"1g.5gb": 7}})
    for start in (0, 1, 2):
        host.pod(f"team-a/train-{start}", device(host, 0, start), "nvidia.com/mig-1g.5gb")
    wanted = {"gpus": 0, "profiles": {"3g.20gb": 1, "1g.5gb": 3}}
    without = host.layout(wanted, state="planned")
    with_drain = host.layout(wanted, state="planned", drained_pods=["*"])
    assert without.plan == with_drain.plan
    assert names(with_drain) == []


def test_a_drain_that_is_planned_takes_the_pods_processes_along(host):
    [instance] = [i for i in host.node.read()["gpus"][0]["instances"] if i["placement"]["start"] == 4]
    uid = host.pod("team-a/train", device(host, 0, 4), "nvidia.com/mig-3g.20gb")
    pid = host.process(0, instance["id"], 0)
    result = host.layout(SEVEN, state="planned", drained_pods=["*"])
    assert names(result) == ["team-a/train"]
    assert host.layout(SEVEN, check=True, drained_pods=[uid]).plan == result.plan
    # When it has been drained, they are gone. One that is there is somebody else's.
    assert f"process {pid}" in host.layout(SEVEN, fails=True, drained_pods=[uid]).msg
    host.end_processes()
    done = host.layout(SEVEN, drained_pods=[uid])
    assert done.plan == result.plan


def test_a_drain_does_not_help_against_processes_of_nobody(host):
    host.pod("team-a/train", device(host, 0, 4), "nvidia.com/mig-3g.20gb")
    pid = hold(host)
    msg = host.layout(SEVEN, state="planned", drained_pods=["*"], fails=True).msg
    assert f"process {pid}" in msg
    assert "train" not in msg
    msg = host.layout(OFF, state="planned", drained_pods=["*"], fails=True).msg
    assert f"process {pid}" in msg


def test_a_drained_pod_may_hold_a_whole_gpu(make_host):
    host = make_host(A100, 2)
    uid = host.pod("team-b/infer", host.node.read()["gpus"][1]["uuid"])
    host.process(1)
    wanted = {"gpus": "all", "profiles": {"3g.20gb": 2}}
    assert "team-b/infer" in host.layout(wanted, state="planned", fails=True).msg
    assert names(host.layout(wanted, state="planned", drained_pods=["*"])) == ["team-b/infer"]
    host.end_processes()
    assert host.layout(wanted, drained_pods=[uid]).complete
