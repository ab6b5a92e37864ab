# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Resets: what nvidia-smi says and what is there afterwards, together."""

from __future__ import annotations

from dataclasses import replace

import pytest
from ansible_collections.nvidia.mig.plugins.module_utils.errors import DeviceError
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.catalog import Catalog
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.state import GpuIdentity, GpuState
from ansible_collections.nvidia.mig.plugins.module_utils.node.clients import (
    device_holders,
    kernel_holders,
)
from ansible_collections.nvidia.mig.plugins.module_utils.node.reset import (
    ResetOutcome,
    read_outcome,
    reset_argv,
    to_reset,
)

DONE = "GPU {} was successfully reset.\nAll done.\n"
# As nvidia-smi of the driver says it.
IN_USE = (
    "GPU 00000000:01:00.0 is currently in use by another process.\n\n"
    "1 device is currently being used by one or more other processes (e.g., Fabric Manager, CUDA "
    "application, graphics application such as an X server, or a monitoring application such as another "
    "instance of nvidia-smi). Please first kill all processes using this device and all compute "
    "applications running in the system.\n"
)


def gpu(index, current=False, pending=True):
    identity = GpuIdentity(index, f"GPU-{index}", f"00000000:0{index}:00.0", "NVIDIA A100", "0x20B010DE")
    return GpuState(identity, Catalog("NVIDIA A100"), True, current, pending, False)


def applied(state):
    return replace(state, mig_current=state.mig_pending)


GPUS = [gpu(0), gpu(1), gpu(2, pending=False)]


def test_only_pending_gpus_by_default():
    assert to_reset("pending", GPUS) == GPUS[:2]
    assert to_reset("all", GPUS) == GPUS
    assert to_reset([2], GPUS) == GPUS[2:]


def test_one_command_without_a_shell():
    assert reset_argv("/bin/nvidia-smi", GPUS[:2]) == [
        "/bin/nvidia-smi",
        "--gpu-reset",
        "-i",
        "00000000:00:00.0,00000000:01:00.0",
    ]


def test_all_reset():
    after = [applied(state) for state in GPUS]
    assert read_outcome(GPUS, after, 0, "All done.", {}) == ResetOutcome((0, 1, 2), ())


@pytest.mark.parametrize(
    ("rc", "output"),
    [(3, "GPU could not be reset"), (1, "Resetting GPU 00000000:00:00.0 is not supported.")],
)
def test_a_machine_that_cannot_reset(rc, output):
    assert read_outcome(GPUS[:2], GPUS, rc, output, {}) == ResetOutcome((), (0, 1))


def test_one_is_in_use():
    after = [applied(GPUS[0]), *GPUS[1:]]
    with pytest.raises(DeviceError) as caught:
        read_outcome(GPUS[:2], after, 15, IN_USE, {1: ["process 812 (nvidia-persiste)"], 0: []})
    error = caught.value
    assert "could not reset GPU 1 (exit status 15)" in error.message
    assert "in use by another process" in error.message
    assert "GPU 1 is held open by process 812 (nvidia-persiste)" in error.message
    assert error.details["changed"] is True
    assert error.details["reset"] == [0]


def test_a_named_gpu_that_was_reset_is_known_by_what_was_said():
    said = DONE.format("00000000:02:00.0") + IN_USE
    with pytest.raises(DeviceError) as caught:
        read_outcome(GPUS[1:], GPUS, 15, said, {})
    assert caught.value.details["reset"] == [2]


def test_who_holds_the_device_file(tmp_path):
    for pid, name, targets in (
        (812, "nvidia-persiste", ["/dev/nvidia0", "/dev/nvidia1", "/dev/nvidia0", "socket:[1]"]),
        (7, "Xorg", ["/dev/nvidia1", "/dev/nvidiactl"]),
        (99, "bash", ["/dev/null"]),
    ):
        directory = tmp_path / str(pid)
        (directory / "fd").mkdir(parents=True)
        (directory / "comm").write_text(f"{name}\n")
        for number, target in enumerate(targets):
            (directory / "fd" / str(number)).symlink_to(target)
    (tmp_path / "sys").mkdir()
    (tmp_path / "100").mkdir()
    assert device_holders([0, 1, 2], str(tmp_path)) == {
        0: ["process 812 (nvidia-persiste)"],
        1: ["process 7 (Xorg)", "process 812 (nvidia-persiste)"],
    }
    assert device_holders([], str(tmp_path)) == {}


@pytest.mark.parametrize(
    ("refcnt", "expected"), [("2\n", ["in use 2x"]), ("0\n", []), ("-1\n", []), (None, [])]
)
def test_nvidia_drm_is_named_where_it_is_in_use(tmp_path, refcnt, expected):
    if refcnt is not None:
        (tmp_path / "nvidia_drm").mkdir()
        (tmp_path / "nvidia_drm/refcnt").write_text(refcnt)
    found = kernel_holders(str(tmp_path))
    assert len(found) == len(expected)
    for text, words in zip(found, expected):
        assert "nvidia_drm" in text
        assert words in text
