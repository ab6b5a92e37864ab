"""Short forms of NVML calls, for tests."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

import pynvml  # type: ignore[import-untyped]

MODELS_WITH_MIG = (
    "A30-24GB",
    "A100-SXM4-40GB",
    "A100-PCIE-40GB",
    "A100-SXM4-80GB",
    "A100-PCIE-80GB",
    "H100-SXM5-80GB",
    "H100-PCIE-80GB",
    "H100-NVL-94GB",
    "H200-141GB",
    "B200-180GB",
    "RTX-PRO-6000-BLACKWELL-SERVER",
)


def gpu(index: int = 0) -> Any:
    return pynvml.nvmlDeviceGetHandleByIndex(index)


def profiles(device: Any) -> dict[str, Any]:
    """What the GPU offers, by name without "MIG "; asked as NVML's header says: until INVALID_ARGUMENT."""
    found: dict[str, Any] = {}
    for number in range(64):
        try:
            info = pynvml.nvmlDeviceGetGpuInstanceProfileInfo(device, number)
        except pynvml.NVMLError_NotSupported:
            continue
        except pynvml.NVMLError_InvalidArgument:
            return found
        found[info.name.removeprefix("MIG ")] = info
    raise AssertionError("the profiles have no end")


def placements(device: Any, profile_id: int) -> list[tuple[int, int]]:
    count = ctypes.c_uint()
    pynvml.nvmlDeviceGetGpuInstancePossiblePlacements(device, profile_id, None, ctypes.byref(count))
    array = (pynvml.c_nvmlGpuInstancePlacement_t * count.value)()
    pynvml.nvmlDeviceGetGpuInstancePossiblePlacements(device, profile_id, array, ctypes.byref(count))
    return [(placement.start, placement.size) for placement in array]


def create(device: Any, profile_id: int, start: int | None = None) -> Any:
    """A GPU instance, with the placement that has this start if one is given."""
    if start is None:
        return pynvml.nvmlDeviceCreateGpuInstance(device, profile_id)
    size = placements(device, profile_id)[0][1]
    placement = pynvml.c_nvmlGpuInstancePlacement_t(start, size)
    return pynvml.nvmlDeviceCreateGpuInstanceWithPlacement(device, profile_id, ctypes.byref(placement))


def info(instance: Any) -> Any:
    return pynvml.nvmlGpuInstanceGetInfo(instance)


def start_of(instance: Any) -> int:
    return int(info(instance).placement.start)


def instances(device: Any) -> Iterator[Any]:
    for profile in profiles(device).values():
        array = (pynvml.c_nvmlGpuInstance_t * profile.instanceCount)()
        count = ctypes.c_uint()
        pynvml.nvmlDeviceGetGpuInstances(device, profile.id, array, ctypes.byref(count))
        yield from array[: count.value]


def compute_profiles(instance: Any) -> dict[int, Any]:
    found: dict[int, Any] = {}
    for number in range(64):
        try:
            profile = pynvml.nvmlGpuInstanceGetComputeInstanceProfileInfo(instance, number, 0)
        except pynvml.NVMLError_NotSupported:
            continue
        except pynvml.NVMLError_InvalidArgument:
            return found
        found[profile.id] = profile
    raise AssertionError("the profiles have no end")


def full_compute(device: Any, instance: Any) -> Any:
    """The compute instance that takes the whole GPU instance."""
    profile_id = info(instance).profileId
    whole = pynvml.nvmlDeviceGetGpuInstanceProfileInfoById(device, profile_id).multiprocessorCount
    (profile,) = [p for p in compute_profiles(instance).values() if p.multiprocessorCount == whole]
    return pynvml.nvmlGpuInstanceCreateComputeInstance(instance, profile.id)


def mig_devices(device: Any) -> list[Any]:
    found = []
    for index in range(pynvml.nvmlDeviceGetMaxMigDeviceCount(device)):
        try:
            found.append(pynvml.nvmlDeviceGetMigDeviceHandleByIndex(device, index))
        except pynvml.NVMLError_NotFound:
            break
    return found
