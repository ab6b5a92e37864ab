# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The GPU instances, compute instances and MIG devices that are there."""

from __future__ import annotations

from ctypes import byref, c_uint
from typing import Any, Callable, Iterator, List, Sequence, Tuple, Union

from ansible_collections.nvidia.mig.plugins.module_utils.geometry.catalog import (
    Catalog,
    ComputeProfile,
    OfferedProfile,
    Placement,
    UnknownProfile,
)
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.state import ComputeInstance, GpuInstance
from ansible_collections.nvidia.mig.plugins.module_utils.nvml.session import (
    INVALID_ARGUMENT,
    NOT_FOUND,
    NOT_SUPPORTED,
    NvmlError,
    Session,
)
from ansible_collections.nvidia.mig.plugins.module_utils.nvml.values import MigDevice, Process

ComputeProfiles = Callable[[OfferedProfile, Any], Sequence[ComputeProfile]]


def read_instances(
    nvml: Session,
    index: int,
    handle: Any,
    catalog: Catalog,
    compute_profiles: ComputeProfiles,
    processes: Sequence[Process],
) -> Tuple[GpuInstance, ...]:
    """The GPU instances of a GPU in MIG mode, in the order of their placement.

    Args:
        compute_profiles: gives the compute instance profiles of a GPU instance, by its profile and handle.
        processes: those of the GPU; they become the instances' holders.
    """
    found: List[GpuInstance] = []
    for offered in catalog.profiles:
        for instance, info in each_gpu_instance(nvml, index, handle, offered):
            own = [process for process in processes if process.gpu_instance == info.id]
            computes = _read_computes(nvml, index, instance, compute_profiles(offered, instance), own)
            known = {compute.id for compute in computes}
            found.append(
                GpuInstance(
                    int(info.id),
                    offered.profile,
                    Placement(int(info.placement.start), int(info.placement.size)),
                    computes,
                    tuple(str(process) for process in own if process.compute_instance not in known),
                )
            )
    return tuple(sorted(found, key=lambda instance: instance.placement))


def read_unknown(nvml: Session, index: int, handle: Any, catalog: Catalog) -> Tuple[str, ...]:
    """The GPU instances whose profile has an unknown name, as text."""
    return tuple(
        f"{profile.name} {Placement(int(info.placement.start), int(info.placement.size))}"
        for profile in catalog.unknown
        for _instance, info in each_gpu_instance(nvml, index, handle, profile)
    )


def each_gpu_instance(
    nvml: Session, index: int, handle: Any, offered: Union[OfferedProfile, UnknownProfile]
) -> Iterator[Tuple[Any, Any]]:
    """Handle and NVML's info of each GPU instance of one profile."""
    count = c_uint(0)
    array = (nvml.pynvml.c_nvmlGpuInstance_t * max(1, offered.max_instances))()
    nvml.call("nvmlDeviceGetGpuInstances", handle, offered.id, array, byref(count), gpu=index)
    for instance in array[: count.value]:
        yield instance, nvml.call("nvmlGpuInstanceGetInfo", instance, gpu=index)


def read_mig_devices(nvml: Session, index: int, handle: Any) -> Tuple[MigDevice, ...]:
    """The MIG devices of the GPU with their UUIDs."""
    found: List[MigDevice] = []
    most = nvml.ask("nvmlDeviceGetMaxMigDeviceCount", handle, gpu=index, absent=(NOT_SUPPORTED,)) or 0
    for number in range(most):
        try:
            device = nvml.call("nvmlDeviceGetMigDeviceHandleByIndex", handle, number, gpu=index)
        except NvmlError as error:
            if error.code == NOT_FOUND:
                continue
            if error.code == INVALID_ARGUMENT:
                break
            raise
        found.append(
            MigDevice(
                number,
                str(nvml.call("nvmlDeviceGetUUID", device, gpu=index)),
                int(nvml.call("nvmlDeviceGetGpuInstanceId", device, gpu=index)),
                int(nvml.call("nvmlDeviceGetComputeInstanceId", device, gpu=index)),
            )
        )
    return tuple(found)


def _read_computes(
    nvml: Session,
    index: int,
    instance: Any,
    profiles: Sequence[ComputeProfile],
    processes: Sequence[Process],
) -> Tuple[ComputeInstance, ...]:
    found: List[ComputeInstance] = []
    for profile in profiles:
        count = c_uint(0)
        array = (nvml.pynvml.c_nvmlComputeInstance_t * max(1, profile.max_instances))()
        nvml.call("nvmlGpuInstanceGetComputeInstances", instance, profile.id, array, byref(count), gpu=index)
        for compute in array[: count.value]:
            info = nvml.call("nvmlComputeInstanceGetInfo", compute, gpu=index)
            holders = tuple(str(p) for p in processes if p.compute_instance == info.id)
            found.append(
                ComputeInstance(int(info.id), profile.slices, int(info.placement.start), profile.id, holders)
            )
    return tuple(sorted(found, key=lambda compute: (compute.start, compute.id)))
