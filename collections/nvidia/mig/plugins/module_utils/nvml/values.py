# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What one pass over NVML finds, beyond geometry's GpuState."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Dict, Optional, Tuple

from ansible_collections.nvidia.mig.plugins.module_utils.geometry.state import (
    PROCESS,
    GpuIdentity,
    GpuState,
)


@dataclass(frozen=True)
class Process:
    """A process on a GPU.

    Args:
        name: as NVML gives it, often with its path; empty if it has ended.
        memory_mib: GPU memory; None where NVML does not tell.
        gpu_instance, compute_instance: ids; None outside of MIG instances.
    """

    pid: int
    name: str
    memory_mib: Optional[int] = None
    gpu_instance: Optional[int] = None
    compute_instance: Optional[int] = None

    def __str__(self) -> str:
        words = self.name.split()
        return f"{PROCESS}{self.pid} ({os.path.basename(words[0])})" if words else f"{PROCESS}{self.pid}"


@dataclass(frozen=True)
class MigDevice:
    """A MIG device: what CUDA, the device plugin and kubelet call a compute instance."""

    index: int
    uuid: str
    gpu_instance: int
    compute_instance: int


@dataclass(frozen=True)
class GpuReading:
    """One GPU.

    Args:
        state: its holders and clients are processes; `node.holders` adds pods.
        mig_devices: empty unless they were asked for.
        architecture: such as ``ampere``; empty if NVML does not know it.
        memory_mib: all of the GPU's; None unless details were asked for.
        remaining: by profile id, how many more GPU instances fit; empty unless details were asked for.
    """

    state: GpuState
    processes: Tuple[Process, ...] = ()
    mig_devices: Tuple[MigDevice, ...] = ()
    architecture: str = ""
    memory_mib: Optional[int] = None
    remaining: Dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class HostReading:
    """All GPUs of a host, in the order of their index."""

    gpus: Tuple[GpuReading, ...]

    @property
    def states(self) -> Tuple[GpuState, ...]:
        return tuple(gpu.state for gpu in self.gpus)


def identify(index: int, uuid: str, bus_id: str, product: str, device: int, subsystem: int) -> GpuIdentity:
    """The names of a GPU, with PCI ids as numbers of NVML's (device above vendor; 0: not known)."""
    return GpuIdentity(
        index, uuid, bus_id, product, f"0x{device:08X}", f"0x{subsystem:08X}" if subsystem else ""
    )
