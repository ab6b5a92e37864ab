# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who holds a GPU's device file open. NVML lists only those that compute or draw; a reset needs all gone."""

from __future__ import annotations

import os
from typing import Dict, Iterable, List


def device_holders(minors: Iterable[int], proc: str = "/proc") -> Dict[int, List[str]]:
    """The processes that hold ``/dev/nvidia<minor>`` open, as text, by minor number; for root."""
    wanted = {f"/dev/nvidia{minor}": minor for minor in minors}
    found: Dict[int, List[str]] = {}
    for pid in sorted(int(name) for name in _list(proc) if name.isdigit()):
        if pid == os.getpid():
            continue
        directory = os.path.join(proc, str(pid), "fd")
        for minor in {wanted[t] for t in (_target(directory, fd) for fd in _list(directory)) if t in wanted}:
            found.setdefault(minor, []).append(f"process {pid} ({_name(proc, pid)})")
    return found


def kernel_holders(modules: str = "/sys/module") -> List[str]:
    """What in the kernel itself may hold GPUs, as text: a console or a display through ``nvidia_drm``."""
    try:
        with open(os.path.join(modules, "nvidia_drm", "refcnt"), encoding="ascii") as file:
            users = int(file.read())
    except (OSError, ValueError):  # it is not loaded, or built in
        return []
    return [f"the kernel module nvidia_drm (in use {users}x)"] if users > 0 else []


def _list(directory: str) -> List[str]:
    try:
        return os.listdir(directory)
    except OSError:  # it has ended, or is not ours to look at
        return []


def _target(directory: str, fd: str) -> str:
    try:
        return os.readlink(os.path.join(directory, fd))
    except OSError:
        return ""


def _name(proc: str, pid: int) -> str:
    try:
        with open(os.path.join(proc, str(pid), "comm"), encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return "ended"
