# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node is rebooted, and the boot-time program brings its layout back."""

from __future__ import annotations

import re
import stat
import subprocess
import sys
import time

import pytest
from ansible_collections.nvidia.mig.tests.unit.plugins.modules.boot_support import BootNode
from ansible_collections.nvidia.mig.tests.unit.plugins.modules.test_mig_layout import LAYOUTS, entry
from ansible_collections.nvidia.mig.tests.unit.plugins.modules.test_node_payload import old_python

HALVES = [entry({"3g.20gb": 2})]
MAKE = "nvmlDeviceCreateGpuInstanceWithPlacement"
UTC = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


@pytest.fixture
def make_boot(make_host, tmp_path):
    """A node that was partitioned, and has the program with the same layout."""

    def make(model="A100-SXM4-40GB", layout=None, **options):
        host = make_host(model, 2, **options)
        return BootNode.make(host, tmp_path, layout=HALVES if layout is None else layout)

    return make


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("model", LAYOUTS)
def test_a_reboot_loses_the_layout_and_the_program_brings_it_back(make_boot, model, which):
    layout = [entry(LAYOUTS[model][which], [0]), {"gpus": [1], "mig": False}]
    node = make_boot(model, layout)
    node.host.layout(*layout)
    before = node.host.gpus()
    node.reboot()
    assert node.host.gpus() != before
    run = node.restore()
    assert (run.rc, run.status["result"]) == (0, "restored"), run.said
    assert node.host.gpus() == before
    assert run.said.splitlines() == [*run.status["actions"], run.status["message"]]
    assert not node.host.layout(*layout).changed
    node.host.reset_calls()
    again = node.restore()
    assert (again.rc, again.status["result"], again.status["actions"]) == (0, "unchanged", [])
    assert not node.host.changing_calls()


@pytest.mark.parametrize("model", ["A100-SXM4-40GB", "H100-SXM5-80GB"])
def test_a_lost_mode_comes_back_too(make_boot, model):
    """From Hopper on a reboot turns MIG mode off; before, it does not."""
    profile = LAYOUTS[model][1]
    node = make_boot(model, [entry(profile)])
    node.host.layout(entry(profile))
    node.reboot()
    mode = node.host.gpus()[0]["mode"]["current"]
    assert bool(mode) == model.startswith("A100")
    run = node.restore()
    assert any("enable MIG mode" in line for line in run.status["actions"]) != bool(mode)
    assert run.status["result"] == "restored"


def test_a_mode_that_waits_for_a_reset_gets_it(make_boot):
    node = make_boot(mode_change="reset")
    run = node.restore()
    assert (run.rc, run.status["result"]) == (0, "restored"), run.said
    assert [line for line in run.status["actions"] if "reset the GPU" in line]
    assert all(len(gpu["instances"]) == 2 for gpu in node.host.gpus())


def test_where_only_a_reboot_helps_it_says_so_and_the_reboot_helps(make_boot):
    node = make_boot(mode_change="reboot")
    run = node.restore()
    assert (run.rc, run.status["result"]) == (1, "failed")
    assert "waits for a reboot" in run.status["message"]
    node.reboot()
    assert node.restore().status["result"] == "restored"


def test_a_mig_parted_configuration(make_boot):
    node = make_boot()
    config = {
        "version": "v1",
        "mig-configs": {"halves": [{"devices": "all", "mig-enabled": True, "mig-devices": {"3g.20gb": 2}}]},
    }
    node.want(config=config, config_name="halves", strategy="single")
    assert node.restore().status["result"] == "restored"


def test_an_instance_in_use_is_not_destroyed(make_boot):
    """As when the program is started by hand on a node that has work."""
    node = make_boot()
    node.host.layout(entry({"4g.20gb": 1}))
    node.host.process(0, node.host.instance(0, "4g.20gb")["id"])
    before = node.host.gpus()
    run = node.restore()
    assert (run.rc, run.status["result"]) == (1, "failed")
    assert "python" in run.status["message"]
    assert node.host.gpus() == before


def test_a_failure_is_told_and_nothing_is_left_half_done(make_boot):
    node = make_boot()
    node.host.layout(*HALVES)
    node.reboot()
    before = node.host.gpus()
    node.host.fault(MAKE, nth=3, times=0, code=999)
    run = node.restore()
    assert (run.rc, run.status["result"]) == (1, "failed")
    assert MAKE in run.status["message"]
    assert node.host.gpus() == before
    node.host.clear_faults()
    assert node.restore().status["result"] == "restored"


@pytest.mark.parametrize(
    ("function", "code"),
    [("nvmlInitWithFlags", 9), ("nvmlDeviceGetMigMode", 15), ("nvmlDeviceSetMigMode", 4)],
)
def test_every_nvml_error_is_told(make_boot, function, code):
    node = make_boot()
    node.host.fault(function, times=0, code=code)
    run = node.restore()
    assert (run.rc, run.status["result"]) == (1, "failed")
    assert f"NVML error {code}" in run.status["message"]


@pytest.mark.parametrize("function", ["nvmlInitWithFlags", MAKE])
def test_a_hanging_driver_costs_no_more_than_the_time_it_has(make_boot, function):
    node = make_boot()
    node.host.fault(function, times=0, latency_ms=60_000)
    begun = time.monotonic()
    run = node.restore(timeout=3)
    assert time.monotonic() - begun < 10
    assert (run.rc, run.status["result"]) == (1, "failed")
    assert f"no answer within 3 s from {function.removesuffix('WithFlags')}" in run.status["message"]


def test_a_driver_that_crashes_is_told(make_boot):
    node = make_boot()
    node.host.fault(MAKE, kill="during")
    run = node.restore()
    assert (run.rc, run.status["result"]) == (1, "failed")
    assert "ended by signal 9" in run.status["message"]
    assert node.restore().status["result"] == "restored"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "is not JSON"),
        ("[]", "is not an object"),
        ('{"layout": [], "size": 1}', "unknown keys: size"),
        ("{}", "either layout or config"),
        ('{"layout": [{"gpus": "all", "profiles": {"9g.99gb": 1}}]}', "9g.99gb"),
        ('{"layout": [{"gpus": 7, "mig": false}]}', "no GPU 7"),
        ('{"layout": [{"gpus": "all", "mig": false}], "minimum_driver": "999"}', "999 or newer"),
        (None, "No such file"),
    ],
)
def test_a_wrong_layout_file_changes_nothing(make_boot, text, words):
    node = make_boot()
    if text is None:
        node.layout.unlink()
    else:
        node.layout.write_text(text)
    node.host.reset_calls()
    run = node.restore()
    assert (run.rc, run.status["result"]) == (1, "failed")
    assert words in run.status["message"]
    assert not node.host.changing_calls()


def test_without_nvidia_ml_py_it_says_what_is_missing(make_boot, tmp_path):
    run = make_boot().restore(packages=tmp_path / "nothing")
    assert (run.rc, run.status["result"]) == (1, "failed")
    assert f"nvidia-ml-py is missing for {sys.executable}" in run.status["message"]


def test_an_old_python_runs_it(make_boot):
    node = make_boot()
    node.python = old_python()
    assert node.restore().status["result"] == "restored"


def test_what_it_leaves_on_the_node(make_boot):
    node = make_boot()
    node.restore()
    status = node.host.run("mig_info", restore_status=str(node.status)).boot_restore
    assert status["result"] == "restored"
    assert status["actions"]
    assert UTC.fullmatch(status["booted_at"])
    assert UTC.fullmatch(status["finished_at"])
    assert stat.S_IMODE(node.status.stat().st_mode) == 0o644
    assert [path.name for path in node.status.parent.iterdir()] == [node.status.name]


def test_mig_info_tells_if_it_has_not_run_or_left_rubbish(make_boot):
    node = make_boot()
    told = node.host.run("mig_info", restore_status=str(node.status)).boot_restore
    assert told is None
    for text in ("", "[]", '{"result": "restored"}'):
        node.status.parent.mkdir(exist_ok=True)
        node.status.write_text(text)
        told = node.host.run("mig_info", restore_status=str(node.status)).boot_restore
        assert told["result"] == "unreadable"
        assert str(node.status) in told["message"]


def test_the_feature_file_is_written_where_nfd_reads_it(make_boot):
    node = make_boot()
    node.restore()
    assert not node.features.exists()
    node.features.mkdir()
    node.restore()
    (file,) = node.features.iterdir()
    assert file.read_text() == "feature.node.kubernetes.io/mig-restore.result=unchanged\n"
    node.host.fault("nvmlInitWithFlags", times=0, code=9)
    node.restore()
    assert file.read_text() == "feature.node.kubernetes.io/mig-restore.result=failed\n"
    assert [path.name for path in node.features.iterdir()] == ["nvidia-mig-restore"]


def test_a_status_that_cannot_be_written_is_a_failure_but_not_of_the_layout(make_boot):
    node = make_boot()
    node.status.parent.write_text("in the way")
    run = node.restore()
    assert run.rc == 1
    assert f"cannot write {node.status}" in run.said
    assert all(len(gpu["instances"]) == 2 for gpu in node.host.gpus())


def test_there_is_no_ansible_on_that_python():
    """Else the tests above would not show that the program does without."""
    tried = subprocess.run([sys.executable, "-S", "-c", "import ansible"], capture_output=True, check=False)
    assert tried.returncode != 0
