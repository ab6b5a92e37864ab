# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The processes on a GPU and its MIG instances, as far as NVML lists them.

Services that only hold the device open, such as nvidia-persistenced, are not among them: see `node.clients`.
"""

from __future__ import annotations

from typing import Any, Dict, Optional, Tuple

from ansible_collections.nvidia.mig.plugins.module_utils.nvml.session import (
    FUNCTION_NOT_FOUND,
    NOT_FOUND,
    NOT_SUPPORTED,
    NvmlError,
    Session,
)
from ansible_collections.nvidia.mig.plugins.module_utils.nvml.values import Process

# Each kind, the newest function first: a driver that lacks it is asked with the older one.
_LISTS = (
    ("nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2"),
    ("nvmlDeviceGetGraphicsRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v2"),
    ("nvmlDeviceGetMPSComputeRunningProcesses_v3", "nvmlDeviceGetMPSComputeRunningProcesses_v2"),
)
_NO_INSTANCE = 0xFFFFFFFF


def read_processes(nvml: Session, index: int, handle: Any) -> Tuple[Process, ...]:
    """The processes on the GPU, those in its MIG instances included; each (pid, instance) once."""
    found: Dict[Tuple[int, Optional[int], Optional[int]], Process] = {}
    for functions in _LISTS:
        for info in _first_known(nvml, functions, index, handle):
            gpu_instance = _instance(info.gpuInstanceId)
            compute_instance = _instance(info.computeInstanceId)
            key = (info.pid, gpu_instance, compute_instance)
            if key not in found:
                memory = info.usedGpuMemory
                found[key] = Process(
                    info.pid,
                    _name(nvml, info.pid),
                    None if memory is None else memory >> 20,
                    gpu_instance,
                    compute_instance,
                )
    return tuple(found.values())


def _first_known(nvml: Session, functions: Tuple[str, ...], index: int, handle: Any) -> Tuple[Any, ...]:
    for function in functions:
        try:
            return tuple(nvml.call(function, handle, gpu=index))
        except NvmlError as error:
            if error.code == NOT_SUPPORTED:
                break
            if error.code != FUNCTION_NOT_FOUND:
                raise
    return ()


def _instance(number: int) -> Optional[int]:
    return None if number == _NO_INSTANCE else int(number)


def _name(nvml: Session, pid: int) -> str:
    # It may have ended since.
    return str(nvml.ask("nvmlSystemGetProcessName", pid, absent=(NOT_FOUND, NOT_SUPPORTED)) or "")
