# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The NVIDIA kernel module that runs, the one that would after a boot, and the hardware they are for."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Callable, List, Optional, Tuple

NVIDIA = "0x10de"
# PCI classes without the programming interface: displays (VGA, 3D) are GPUs, other bridges are NVSwitches.
_GPU = ("0x0300", "0x0302")
_NVSWITCH = ("0x0680",)


@dataclass(frozen=True)
class KernelModule:
    """What tells one build of the module from another."""

    version: str
    srcversion: Optional[str] = None  # a digest of the sources, so open and proprietary differ
    kind: Optional[str] = None  # open, proprietary, or not known


@dataclass(frozen=True)
class Hardware:
    """PCI addresses of NVIDIA's devices."""

    gpus: Tuple[str, ...]
    nvswitches: Tuple[str, ...]


def running(root: str = "/") -> Optional[KernelModule]:
    """The module in the kernel; None where there is none."""
    version = _text(root, "sys/module/nvidia/version")
    if version is None:
        return None
    banner = _text(root, "proc/driver/nvidia/version")
    kind = None if banner is None else "open" if "Open Kernel Module" in banner else "proprietary"
    return KernelModule(version, _text(root, "sys/module/nvidia/srcversion"), kind)


def installed(modinfo: Callable[[str], Optional[str]]) -> Optional[KernelModule]:
    """The module that modprobe would load. ``modinfo`` tells a field of it, or None."""
    version = modinfo("version")
    if version is None:
        return None
    # NVIDIA's open modules are "Dual MIT/GPL", the proprietary ones "NVIDIA".
    kind = "open" if "GPL" in (modinfo("license") or "") else "proprietary"
    return KernelModule(version, modinfo("srcversion"), kind)


def differ(one: KernelModule, other: KernelModule) -> bool:
    """Whether these are different builds, as far as is known."""
    if one.version != other.version:
        return True
    return None not in (one.srcversion, other.srcversion) and one.srcversion != other.srcversion


def hardware(root: str = "/") -> Hardware:
    """NVIDIA's devices on the PCI bus."""
    directory = os.path.join(root, "sys/bus/pci/devices")
    gpus: List[str] = []
    nvswitches: List[str] = []
    for address in sorted(os.listdir(directory)) if os.path.isdir(directory) else ():
        if _text(directory, f"{address}/vendor") != NVIDIA:
            continue
        pci_class = (_text(directory, f"{address}/class") or "")[:6]
        if pci_class in _GPU:
            gpus.append(address)
        elif pci_class in _NVSWITCH:
            nvswitches.append(address)
    return Hardware(tuple(gpus), tuple(nvswitches))


def nouveau_runs(root: str = "/") -> bool:
    """Whether nouveau has the GPUs, which keeps NVIDIA's module away until a reboot."""
    return os.path.isdir(os.path.join(root, "sys/module/nouveau"))


def driver_version(package_version: str) -> str:
    """``3:580.95.05-1.el9`` or ``580.95.05-0ubuntu0.24.04.1`` -> ``580.95.05``."""
    return package_version.partition(":")[2].partition("-")[0] or package_version.partition("-")[0]


def _text(directory: str, path: str) -> Optional[str]:
    try:
        with open(os.path.join(directory, path), encoding="utf-8") as file:
            return file.read().strip() or None
    except OSError:
        return None
