# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""mig_mode and gpu_reset on simulated nodes of every kind of mode change."""

from __future__ import annotations

import pytest

A100, H100 = "A100-SXM4-40GB", "H100-SXM5-80GB"


def modes(host):
    return [(gpu["mode"]["current"], gpu["mode"]["pending"]) for gpu in host.gpus()]


@pytest.mark.parametrize(
    ("model", "line"), [(A100, "enable MIG mode (GPU reset)"), (H100, "enable MIG mode")]
)
def test_enable_and_disable(make_host, model, line):
    host = make_host(model, 2)
    predicted = host.run("mig_mode", enabled=True, check=True, diff=True)
    assert modes(host) == [(False, False)] * 2
    real = host.run("mig_mode", enabled=True, diff=True)
    assert modes(host) == [(True, True)] * 2
    assert predicted.data.keys() == real.data.keys()
    for key in ("changed", "actions", "gpus", "reset_required", "diff"):
        assert predicted.data[key] == real.data[key]
    assert real.actions == [f"GPU 0: {line}", f"GPU 1: {line}"]
    assert real.gpus[1] == {
        "index": 1,
        "current": "enabled",
        "pending": "enabled",
        "reset_required": False,
        "reboot_required": False,
    }
    assert real.diff["before"] == {"GPU 0": "disabled", "GPU 1": "disabled"}
    host.reset_calls()
    assert not host.run("mig_mode", enabled=True).changed
    assert not host.changing_calls()
    assert host.run("mig_mode", enabled=False, gpus=1).actions
    assert modes(host) == [(True, True), (False, False)]


def test_a_mode_that_waits_for_its_reset(make_host):
    host = make_host(A100, 2, mode_change="reset")
    result = host.run("mig_mode", enabled=True, gpus=[1])
    assert (result.changed, result.reset_required) == (True, [1])
    assert result.gpus[0]["current"] == "disabled"
    assert result.gpus[0]["pending"] == "enabled"
    again = host.run("mig_mode", enabled=True, gpus=[1])
    assert (again.changed, again.reset_required) == (False, [1])
    predicted = host.run("gpu_reset", check=True, diff=True)
    assert modes(host)[1] == (False, True)
    reset = host.run("gpu_reset", diff=True)
    assert modes(host) == [(False, False), (True, True)]
    for key in ("changed", "actions", "reset", "gpus", "command", "reboot_required", "diff"):
        assert predicted.data[key] == reset.data[key], key
    assert reset.reset == [1]
    assert reset.actions == ["GPU 1: reset the GPU to enable MIG mode (pending)"]
    assert reset.command[1:] == ["--gpu-reset", "-i", "00000000:0F:00.0"]
    assert not host.run("gpu_reset").changed
    assert host.run("gpu_reset").command == []


def test_a_machine_that_cannot_reset_asks_for_a_reboot(make_host):
    host = make_host(A100, 2, mode_change="reboot")
    host.run("mig_mode", enabled=True)
    result = host.run("gpu_reset")
    assert (result.changed, result.reboot_required, result.reset) == (False, True, [])
    assert "Not Supported" in result.output
    assert modes(host) == [(False, True)] * 2


def test_nothing_is_set_before_the_last_thing_that_may_fail(make_host):
    """A mode that waits for its reset must not be left behind by an error about something else."""
    host = make_host(A100, 2, mode_change="reset")
    host.fault("nvmlDeviceGetVirtualizationMode", nth=1, code=999)
    assert not host.run("mig_mode", enabled=True, fails=True).data.get("changed")
    assert modes(host) == [(False, False)] * 2


def test_a_reset_after_which_nothing_can_be_read(make_host):
    host = make_host(A100, 1, mode_change="reset")
    host.run("mig_mode", enabled=True)
    host.fault("nvmlDeviceGetUUID", nth=2, code=15)
    result = host.run("gpu_reset", fails=True)
    assert "GPU 0 was to be reset (nvidia-smi's exit status 0: GPU 00000000:07:00.0 was success" in result.msg
    assert "what is there now cannot be read: GPU 0: nvmlDeviceGetUUID failed: GPU is lost" in result.msg
    assert (result.changed, result.rc) == (True, 1)
    assert not host.run("gpu_reset").changed


def test_taking_back_a_pending_mode(make_host):
    host = make_host(A100, 1, mode_change="reset")
    host.run("mig_mode", enabled=True)
    result = host.run("mig_mode", enabled=False)
    assert result.actions == ["GPU 0: keep MIG mode disabled (cancel the pending change)"]
    assert modes(host) == [(False, False)]


def test_instances_are_never_touched(make_host):
    host = make_host(A100, 2)
    host.layout({"gpus": 0, "profiles": {"3g.20gb": 2}})
    before = host.gpus()[0]
    assert host.run("mig_mode", enabled=True).actions == ["GPU 1: enable MIG mode (GPU reset)"]
    assert host.gpus()[0] == before
    msg = host.run("mig_mode", enabled=False, fails=True).msg
    assert "GPU 0" in msg
    assert "3g.20gb 0:4, 3g.20gb 4:4" in msg
    assert "mig_layout" in msg
    assert host.gpus()[0] == before
    assert modes(host)[1] == (True, True)


def test_gpus_without_mig(make_host):
    host = make_host([A100, "T4-16GB"])
    assert host.run("mig_mode", enabled=True).gpus[0]["current"] == "enabled"
    assert "GPU 1: Tesla T4 cannot do MIG" in host.run("mig_mode", enabled=True, gpus=[0, 1], fails=True).msg
    off = host.run("mig_mode", enabled=False)
    assert off.gpus[1]["current"] is None
    plain = make_host("T4-16GB", 1)
    assert "no GPU of this host can do MIG" in plain.run("mig_mode", enabled=True, fails=True).msg
    assert not plain.run("mig_mode", enabled=False).changed


def test_who_uses_the_gpu_blocks(make_host):
    host = make_host(A100, 1)
    pid = host.process(0)
    for check in (True, False):
        msg = host.run("mig_mode", enabled=True, check=check, fails=True).msg
        assert f"GPU 0 is used by process {pid} (python)" in msg
    assert modes(host) == [(False, False)]


def test_a_refused_mode_is_put_back(make_host):
    host = make_host(H100, 2)
    host.fault("nvmlDeviceSetMigMode", nth=2, code=999)
    result = host.run("mig_mode", enabled=True, fails=True)
    assert "GPU 1: cannot enable MIG mode" in result.msg
    assert result.restored == ["GPU 0: disable MIG mode"]
    assert modes(host) == [(False, False)] * 2


@pytest.mark.parametrize("gpus", [[], 7, "first", -1, ["all"]])
@pytest.mark.parametrize("module", ["mig_mode", "gpu_reset"])
def test_bad_selectors(make_host, module, gpus):
    host = make_host(A100, 1)
    more = {"enabled": True} if module == "mig_mode" else {}
    assert "gpus" in host.run(module, gpus=gpus, fails=True, **more).msg
    assert modes(host) == [(False, False)]


@pytest.mark.parametrize("kind", ["compute", "graphics"])
def test_a_client_is_named_before_the_reset_is_tried(make_host, kind):
    host = make_host(A100, 1, mode_change="reset")
    host.run("mig_mode", enabled=True)
    pid = host.process(0, kind=kind, name="Xorg")
    host.pod("team-a/train", host.node.read()["gpus"][0]["uuid"])
    for check in (True, False):
        result = host.run("gpu_reset", check=check, fails=True)
        assert (
            f"GPU 0 cannot be reset while it is used by process {pid} (Xorg), pod team-a/train" in result.msg
        )
        assert "output" not in result.data
    assert modes(host) == [(False, True)]


def test_a_client_that_nvml_does_not_list_is_named_after(make_host):
    host = make_host(A100, 2, mode_change="reset")
    host.run("mig_mode", enabled=True)
    host.process(0, kind="open", name="nvidia-persistenced")
    result = host.run("gpu_reset", fails=True)
    assert "could not reset GPU 0" in result.msg
    assert "nvidia-persistenced" in result.msg
    # The other GPU was reset, and that is said.
    assert (result.changed, result.reset) == (True, [1])
    assert modes(host) == [(False, True), (True, True)]
    host.end_processes()
    assert host.run("gpu_reset").reset == [0]


def test_instances_are_not_lost_by_a_reset(make_host):
    host = make_host(A100, 1, mode_change="reset", initial=[{"gpus": [0], "instances": ["3g.20gb"]}])
    before = host.gpus()
    assert "instances that a reset destroys: 3g.20gb 4:4" in host.run("gpu_reset", gpus=0, fails=True).msg
    instance = host.instance(0, "3g.20gb")
    pid = host.process(0, instance["id"])
    assert f"process {pid} (python)" in host.run("gpu_reset", gpus="all", fails=True).msg
    assert host.gpus() == before


def test_a_named_gpu_is_reset_in_any_case(make_host):
    host = make_host([A100, H100])
    host.run("mig_mode", enabled=True)
    predicted = host.run("gpu_reset", gpus="all", check=True)
    result = host.run("gpu_reset", gpus="all")
    assert result.actions == predicted.actions == ["GPU 0: reset the GPU", "GPU 1: reset the GPU"]
    # Hopper keeps its mode in the driver, and loses it.
    assert modes(host) == [(True, True), (False, False)]
    assert result.gpus == predicted.gpus


def test_no_nvidia_smi(make_host):
    host = make_host(A100, 1, mode_change="reset")
    host.run("mig_mode", enabled=True)
    for check in (True, False):
        msg = host.run("gpu_reset", nvidia_smi="/missing/nvidia-smi", check=check, fails=True).msg
        assert "nvidia_smi" in msg
        assert "/missing/nvidia-smi" in msg
    # Where nothing is to be reset, it is not needed.
    host.run("mig_mode", enabled=False)
    assert not host.run("gpu_reset", nvidia_smi="/missing/nvidia-smi").changed


def test_killed_between_mode_and_read(make_host):
    for model in (A100, H100):
        host = make_host(model, 2)
        for moment in ("before", "during", "after"):
            for nth in (1, 2):
                host.run("mig_mode", enabled=False)
                host.fault("nvmlDeviceSetMigMode", nth=nth, kill=moment)
                assert host.attempt("mig_mode", enabled=True).rc == -9
                host.clear_faults()
                host.run("mig_mode", enabled=True)
                assert modes(host) == [(True, True)] * 2
