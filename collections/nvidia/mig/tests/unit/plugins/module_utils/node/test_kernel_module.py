# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is read of /sys and /proc, and when two modules are not the same."""

from __future__ import annotations

import pytest
from ansible_collections.nvidia.mig.plugins.module_utils.node.kernel_module import (
    Hardware,
    KernelModule,
    differ,
    driver_version,
    hardware,
    installed,
    nouveau_runs,
    running,
)

OPEN = (
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build  (dvs-builder@U22)\n"
)
PROPRIETARY = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.195.03  Sat Sep 20 00:41:27 UTC 2025\n"


def write(root, **files):
    """Files below ``root``; in a name, __ stands for a slash."""
    for name, content in files.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


def device(root, address, vendor, pci_class):
    directory = root / "sys/bus/pci/devices" / address
    directory.mkdir(parents=True)
    (directory / "vendor").write_text(f"{vendor}\n")
    (directory / "class").write_text(f"{pci_class}\n")


def test_nothing_runs(tmp_path):
    assert running(str(tmp_path)) is None
    assert hardware(str(tmp_path)) == Hardware((), ())
    assert not nouveau_runs(str(tmp_path))


@pytest.mark.parametrize(("banner", "kind"), [(OPEN, "open"), (PROPRIETARY, "proprietary")])
def test_what_runs(tmp_path, banner, kind):
    write(tmp_path, sys__module__nvidia__version="580.95.05\n", sys__module__nvidia__srcversion="ABC\n")
    assert running(str(tmp_path)) == KernelModule("580.95.05", "ABC", None)
    write(tmp_path, proc__driver__nvidia__version=banner)
    assert running(str(tmp_path)) == KernelModule("580.95.05", "ABC", kind)


@pytest.mark.parametrize(("text", "kind"), [("Dual MIT/GPL", "open"), ("NVIDIA", "proprietary")])
def test_what_is_installed(text, kind):
    fields = {"version": "580.95.05", "license": text, "srcversion": "ABC"}
    assert installed(fields.get) == KernelModule("580.95.05", "ABC", kind)
    assert installed({}.get) is None


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (("580.95.05", "A", "open"), ("580.95.05", "A", None), False),
        (("580.95.05", "A", "open"), ("580.65.06", "A", "open"), True),
        # Another kind of the same version has other sources.
        (("580.95.05", "A", "open"), ("580.95.05", "B", None), True),
        (("580.95.05", None, "open"), ("580.95.05", "B", "open"), False),
    ],
)
def test_modules_that_differ(one, other, expected):
    assert differ(KernelModule(*one), KernelModule(*other)) is expected
    assert differ(KernelModule(*other), KernelModule(*one)) is expected


def test_devices_on_the_bus(tmp_path):
    device(tmp_path, "0000:47:00.0", "0x10de", "0x030200")
    device(tmp_path, "0000:07:00.0", "0x10de", "0x030000")
    device(tmp_path, "0000:c4:00.0", "0x10de", "0x068000")
    device(tmp_path, "0000:00:00.1", "0x10de", "0x040300")  # sound
    device(tmp_path, "0000:01:00.0", "0x15b3", "0x068000")  # somebody else's bridge
    device(tmp_path, "0000:02:00.0", "0x1a03", "0x030000")  # the board's own display
    expected = Hardware(("0000:07:00.0", "0000:47:00.0"), ("0000:c4:00.0",))
    assert hardware(str(tmp_path)) == expected


def test_nouveau(tmp_path):
    write(tmp_path, sys__module__nouveau__refcnt="1\n")
    assert nouveau_runs(str(tmp_path))


@pytest.mark.parametrize(
    "package",
    ["580.95.05", "580.95.05-1", "3:580.95.05-1.el9", "0:580.95.05-1", "580.95.05-0ubuntu0.24.04.2"],
)
def test_the_driver_s_version_in_a_package_s(package):
    assert driver_version(package) == "580.95.05"
