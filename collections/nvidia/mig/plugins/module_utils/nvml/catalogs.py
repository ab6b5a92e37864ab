# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The profiles that a GPU offers, as NVML tells them."""

from __future__ import annotations

from ctypes import byref, c_uint
from typing import Any, List, Optional, Tuple

from ansible_collections.nvidia.mig.plugins.module_utils.errors import InputError
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.catalog import (
    Catalog,
    ComputeProfile,
    OfferedProfile,
    Placement,
    UnknownProfile,
)
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.profile import (
    Profile,
    parse_profile,
    strip_nvml_prefix,
)
from ansible_collections.nvidia.mig.plugins.module_utils.nvml.session import (
    FUNCTION_NOT_FOUND,
    INVALID_ARGUMENT,
    NOT_SUPPORTED,
    NvmlError,
    Session,
)

# The number of profiles grows with the driver, and it says INVALID_ARGUMENT past its last.
# This only ends the loop if one day it does not.
_MOST = 64

# NVML_GPU_INSTANCE_PROFILE_*_REV1: the only ones with an attribute that drivers know which know no names.
_MEDIA_EXTENSIONS = (7, 8)


def read_catalog(nvml: Session, index: int, handle: Any, product: str) -> Catalog:
    """All GPU instance profiles of the GPU with all their placements, free or not."""
    profiles: List[OfferedProfile] = []
    unknown: List[UnknownProfile] = []
    for number in range(_MOST):
        try:
            info = _profile_info(nvml, index, handle, number)
        except NvmlError as error:
            if error.code == NOT_SUPPORTED:
                continue
            if error.code == INVALID_ARGUMENT:
                break
            raise
        profile = _profile(nvml, index, handle, number, info)
        if profile is None:
            unknown.append(UnknownProfile(_name(info), int(info.id), int(info.instanceCount)))
            continue
        profiles.append(
            OfferedProfile(
                profile,
                int(info.id),
                int(info.instanceCount),
                int(info.memorySizeMB),
                int(info.multiprocessorCount),
                _placements(nvml, index, handle, info.id),
            )
        )
    return Catalog(product, tuple(profiles), tuple(unknown))


def read_compute_profiles(nvml: Session, index: int, instance: Any) -> Tuple[ComputeProfile, ...]:
    """The compute instance profiles of one GPU instance."""
    found: List[ComputeProfile] = []
    for number in range(_MOST):
        try:
            info = _compute_info(nvml, index, instance, number)
        except NvmlError as error:
            if error.code == NOT_SUPPORTED:
                continue
            if error.code == INVALID_ARGUMENT:
                break
            raise
        found.append(
            ComputeProfile(
                int(info.sliceCount), int(info.id), int(info.instanceCount), int(info.multiprocessorCount)
            )
        )
    return tuple(found)


def _profile_info(nvml: Session, index: int, handle: Any, number: int) -> Any:
    try:
        return nvml.call("nvmlDeviceGetGpuInstanceProfileInfo", handle, number, gpu=index)
    except NvmlError as error:
        if error.code != FUNCTION_NOT_FOUND:
            raise
        # Before R525 there are no names.
        return nvml.call("nvmlDeviceGetGpuInstanceProfileInfo", handle, number, 1, gpu=index)


def _compute_info(nvml: Session, index: int, instance: Any, number: int) -> Any:
    engine = nvml.pynvml.NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED
    function = "nvmlGpuInstanceGetComputeInstanceProfileInfo"
    try:
        return nvml.call(function, instance, number, engine, gpu=index)
    except NvmlError as error:
        if error.code != FUNCTION_NOT_FOUND:
            raise
        return nvml.call(function, instance, number, engine, 1, gpu=index)


def _profile(nvml: Session, index: int, handle: Any, number: int, info: Any) -> Optional[Profile]:
    """None for a name outside the grammar: a profile of the future must not stop the others."""
    name = _name(info)
    if name:
        try:
            return parse_profile(strip_nvml_prefix(name))
        except InputError:
            return None
    memory = nvml.call("nvmlDeviceGetMemoryInfo", handle, gpu=index).total
    attributes = ("+me",) if number in _MEDIA_EXTENSIONS else ()
    return Profile(int(info.sliceCount), memory_in_name(int(info.memorySizeMB), memory), attributes)


def _name(info: Any) -> str:
    name = getattr(info, "name", b"")
    return name.decode() if isinstance(name, bytes) else str(name)


def memory_in_name(instance_mib: int, gpu_bytes: int) -> int:
    """The number before ``gb`` in a profile's name, where the driver does not tell the name.

    NVIDIA's go-nvlib makes it so: the instance's share of the GPU, rounded up to eighths, of the GPU's GiB.
    """
    gpu_gib = -(-gpu_bytes // (1 << 30))
    eighths = -(-instance_mib * 8 * (1 << 20) // gpu_bytes)
    return (eighths * gpu_gib * 2 + 8) // 16


def _placements(nvml: Session, index: int, handle: Any, profile_id: int) -> Tuple[Placement, ...]:
    count = c_uint(0)
    _ask_placements(nvml, index, handle, profile_id, None, byref(count))
    if not count.value:
        return ()
    array = (nvml.pynvml.c_nvmlGpuInstancePlacement_t * count.value)()
    _ask_placements(nvml, index, handle, profile_id, array, byref(count))
    return tuple(sorted(Placement(int(p.start), int(p.size)) for p in array[: count.value]))


def _ask_placements(nvml: Session, index: int, handle: Any, profile_id: int, array: Any, count: Any) -> None:
    function = "nvmlDeviceGetGpuInstancePossiblePlacements"
    try:
        nvml.call(function, handle, profile_id, array, count, gpu=index)
    except NvmlError as error:
        if error.code != FUNCTION_NOT_FOUND:
            raise
        # pynvml calls the _v2 symbol; the drivers before have the same function without it.
        nvml.call_symbol(function, handle, c_uint(profile_id), array, count, gpu=index)
