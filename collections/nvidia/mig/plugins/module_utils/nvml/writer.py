# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Carry out the steps of a plan, one NVML change each."""

from __future__ import annotations

from ctypes import byref
from dataclasses import dataclass
from typing import Any, Dict, Mapping, Optional, Tuple, Union

from ansible_collections.nvidia.mig.plugins.module_utils.errors import DeviceError
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.catalog import (
    Catalog,
    Placement,
    pick_compute_profile,
)
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.profile import Profile
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.steps import (
    CreateComputeInstance,
    CreateGpuInstance,
    DestroyComputeInstance,
    DestroyGpuInstance,
    ResetGpu,
    SetMode,
    Step,
)
from ansible_collections.nvidia.mig.plugins.module_utils.nvml.catalogs import read_compute_profiles
from ansible_collections.nvidia.mig.plugins.module_utils.nvml.instances import each_gpu_instance
from ansible_collections.nvidia.mig.plugins.module_utils.nvml.session import (
    FUNCTION_NOT_FOUND,
    IN_USE,
    NOT_FOUND,
    RESET_REQUIRED,
    NvmlError,
    Session,
)

# Activation statuses with which the mode is set, though not yet active; 0 is success.
_WAITS = (0, IN_USE, RESET_REQUIRED)


@dataclass(frozen=True)
class ModeOutcome:
    """MIG mode as read back after it was set."""

    current: bool
    pending: bool


class Writer:
    """Changes GPUs.

    Args:
        catalogs: by GPU index.
    """

    def __init__(self, nvml: Session, catalogs: Mapping[int, Catalog]) -> None:
        self._nvml = nvml
        self._catalogs = catalogs
        # GPU instances made here, by GPU and planned placement: an old driver puts them elsewhere.
        self._made: Dict[Tuple[int, Placement], Any] = {}

    def apply(self, step: Step) -> None:
        """Carry out one step.

        A mode that stays pending is no error here: read it back.

        Raises:
            NvmlError: NVML refused.
            DeviceError: what the step is about is no longer there.
        """
        if isinstance(step, (SetMode, ResetGpu)):
            self.set_mode(step)
        elif isinstance(step, DestroyComputeInstance):
            self._destroy_compute(step)
        elif isinstance(step, DestroyGpuInstance):
            self._destroy(step)
        elif isinstance(step, CreateGpuInstance):
            self._create(step)
        else:
            self._create_compute(step)

    def set_mode(self, step: Union[SetMode, ResetGpu]) -> ModeOutcome:
        """Set MIG mode and read it back.

        Where a reset is needed, the driver itself tries one, and also for a mode that is pending already.

        Raises:
            NvmlError: NVML refused, be it by what the call returns or by its activation status.
        """
        nvml, gpu = self._nvml, step.gpu
        doing = f"{'enable' if step.enabled else 'disable'} MIG mode"
        handle = nvml.device(gpu)
        status = nvml.call("nvmlDeviceSetMigMode", handle, int(step.enabled), gpu=gpu, doing=doing)
        current, pending = nvml.call("nvmlDeviceGetMigMode", nvml.device(gpu), gpu=gpu)
        if pending != step.enabled or (current != step.enabled and status not in _WAITS):
            raise NvmlError("nvmlDeviceSetMigMode", status, str(nvml.pynvml.NVMLError(status)), gpu, doing)
        return ModeOutcome(bool(current), bool(pending))

    def _destroy_compute(self, step: DestroyComputeInstance) -> None:
        nvml, gpu, doing = self._nvml, step.gpu, _doing(step)
        instance = self._planned_instance(gpu, step.gpu_instance_id, step.profile, step.placement, doing)
        try:
            compute = nvml.call(
                "nvmlGpuInstanceGetComputeInstanceById", instance, step.id, gpu=gpu, doing=doing
            )
        except NvmlError as error:
            if error.code == NOT_FOUND:
                raise _changed_meanwhile(gpu, doing) from error
            raise
        nvml.call("nvmlComputeInstanceDestroy", compute, gpu=gpu, doing=doing)

    def _destroy(self, step: DestroyGpuInstance) -> None:
        gpu, doing = step.gpu, _doing(step)
        instance = self._planned_instance(gpu, step.id, step.profile, step.placement, doing)
        self._nvml.call("nvmlGpuInstanceDestroy", instance, gpu=gpu, doing=doing)

    def _create(self, step: CreateGpuInstance) -> None:
        nvml, gpu, doing = self._nvml, step.gpu, _doing(step)
        handle = nvml.device(gpu)
        profile_id = self._catalogs[gpu].find(step.profile).id
        there = nvml.pynvml.c_nvmlGpuInstancePlacement_t(step.placement.start, step.placement.size)
        try:
            instance = nvml.call(
                "nvmlDeviceCreateGpuInstanceWithPlacement",
                handle,
                profile_id,
                byref(there),
                gpu=gpu,
                doing=doing,
            )
        except NvmlError as error:
            if error.code != FUNCTION_NOT_FOUND:
                raise
            # Before R470 the driver alone chooses; plans create the biggest first, which always fits then.
            instance = nvml.call("nvmlDeviceCreateGpuInstance", handle, profile_id, gpu=gpu, doing=doing)
        self._made[gpu, step.placement] = instance

    def _create_compute(self, step: CreateComputeInstance) -> None:
        nvml, gpu, doing = self._nvml, step.gpu, _doing(step)
        instance = self._made.get((gpu, step.placement)) or self._find_instance(step, doing)
        offered = read_compute_profiles(nvml, gpu, instance)
        profile = pick_compute_profile(offered, step.slices, step.profile.compute_slices)
        if profile is None:
            sizes = ", ".join(f"{size}c" for size in sorted({compute.slices for compute in offered}))
            raise DeviceError(f"GPU {gpu}: cannot {doing}", hint=f"NVML offers {sizes or 'nothing'} there")
        if step.slices == step.profile.compute_slices:
            nvml.call("nvmlGpuInstanceCreateComputeInstance", instance, profile.id, gpu=gpu, doing=doing)
            return
        there = nvml.pynvml.c_nvmlComputeInstancePlacement_t(step.start, step.slices)
        function = "nvmlGpuInstanceCreateComputeInstanceWithPlacement"
        try:
            nvml.call(function, instance, profile.id, byref(there), gpu=gpu, doing=doing)
        except NvmlError as error:
            if error.code != FUNCTION_NOT_FOUND:
                raise
            # Before R525.
            nvml.call("nvmlGpuInstanceCreateComputeInstance", instance, profile.id, gpu=gpu, doing=doing)

    def _planned_instance(
        self, gpu: int, instance_id: int, profile: Profile, placement: Placement, doing: str
    ) -> Any:
        """The GPU instance with that id, if it is still the one that the plan was made for."""
        nvml = self._nvml
        try:
            instance = nvml.call(
                "nvmlDeviceGetGpuInstanceById", nvml.device(gpu), instance_id, gpu=gpu, doing=doing
            )
        except NvmlError as error:
            if error.code == NOT_FOUND:
                raise _changed_meanwhile(gpu, doing) from error
            raise
        info = nvml.call("nvmlGpuInstanceGetInfo", instance, gpu=gpu, doing=doing)
        offered = self._catalogs[gpu].by_id(info.profileId)
        found = Placement(int(info.placement.start), int(info.placement.size))
        if offered is None or (offered.profile, found) != (profile, placement):
            raise _changed_meanwhile(gpu, doing)
        return instance

    def _find_instance(self, step: CreateComputeInstance, doing: str) -> Any:
        offered = self._catalogs[step.gpu].find(step.profile)
        handle = self._nvml.device(step.gpu)
        for instance, info in each_gpu_instance(self._nvml, step.gpu, handle, offered):
            if info.placement.start == step.placement.start:
                return instance
        raise _changed_meanwhile(step.gpu, doing)


def _doing(step: Step) -> str:
    """``create 1g.5gb at 4:1``: the step's line without its GPU."""
    return step.describe().partition(": ")[2]


def _changed_meanwhile(gpu: int, doing: Optional[str]) -> DeviceError:
    return DeviceError(
        f"GPU {gpu}: cannot {doing}: something else changed the GPU's instances meanwhile",
        hint="run it again: it plans from what is there then",
    )
