# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From what is to what is wanted, destroying least."""

from __future__ import annotations

from typing import Mapping, Sequence, Tuple

from ansible_collections.nvidia.mig.plugins.module_utils.geometry.entries import GpuLayout
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.state import (
    ComputeInstance,
    GpuInstance,
    GpuState,
)
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.steps import (
    CreateComputeInstance,
    CreateGpuInstance,
    DestroyComputeInstance,
    DestroyGpuInstance,
    InUse,
    Plan,
    ResetGpu,
    SetMode,
    Step,
)

__all__ = [
    "ComputeInstance",
    "CreateComputeInstance",
    "CreateGpuInstance",
    "DestroyComputeInstance",
    "DestroyGpuInstance",
    "GpuInstance",
    "GpuState",
    "InUse",
    "Plan",
    "ResetGpu",
    "SetMode",
    "Step",
    "plan_gpu",
    "plan_host",
    "plan_restore",
]


def plan_gpu(state: GpuState, wanted: GpuLayout, destroy_in_use: bool = False) -> Tuple[Step, ...]:
    raise NotImplementedError


def plan_host(
    states: Sequence[GpuState], wanted: Mapping[int, GpuLayout], destroy_in_use: bool = False
) -> Plan:
    raise NotImplementedError


def plan_restore(before: GpuState, now: GpuState) -> Tuple[Step, ...]:
    """The steps that bring back the instances of ``before`` at their placements, in the same MIG mode."""
    raise NotImplementedError
