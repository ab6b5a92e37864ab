# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The steps of a plan. One list of them is shown, compared, carried out and reported."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, List, Tuple, Union

from ansible_collections.nvidia.mig.plugins.module_utils.geometry.catalog import Placement
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.profile import Profile


@dataclass(frozen=True)
class DestroyComputeInstance:
    """Destroy compute instance ``id`` of GPU instance ``gpu_instance_id``.

    Args:
        whole: its GPU instance is destroyed too, by a later step.
    """

    gpu: int
    gpu_instance_id: int
    id: int
    profile: Profile
    placement: Placement
    slices: int
    start: int
    whole: bool = False

    def describe(self) -> str:
        return f"GPU {self.gpu}: destroy {_compute(self.profile, self.placement, self.slices, self.start)}"

    def as_dict(self) -> Dict[str, Any]:
        return {"step": "destroy_compute_instance", **_where(self), **_inside(self)}


@dataclass(frozen=True)
class DestroyGpuInstance:
    """Destroy GPU instance ``id``; its compute instances are gone by then."""

    gpu: int
    id: int
    profile: Profile
    placement: Placement

    def describe(self) -> str:
        return f"GPU {self.gpu}: destroy {self.profile} at {self.placement}"

    def as_dict(self) -> Dict[str, Any]:
        return {"step": "destroy_gpu_instance", **_where(self)}


@dataclass(frozen=True)
class SetMode:
    """Set MIG mode.

    Args:
        resets: the change becomes current only with a GPU reset.
        cancels: the mode is current already; setting it takes back a pending change.
    """

    gpu: int
    enabled: bool
    resets: bool
    cancels: bool = False

    def describe(self) -> str:
        word = "enable" if self.enabled else "disable"
        if self.cancels:
            return f"GPU {self.gpu}: keep MIG mode {word}d (cancel the pending change)"
        return f"GPU {self.gpu}: {word} MIG mode" + (" (GPU reset)" if self.resets else "")

    def as_dict(self) -> Dict[str, Any]:
        return {
            "step": "set_mode",
            "gpu": self.gpu,
            "enabled": self.enabled,
            "resets": self.resets,
            "cancels": self.cancels,
        }


@dataclass(frozen=True)
class ResetGpu:
    """Reset the GPU: the wanted MIG mode is pending already."""

    gpu: int
    enabled: bool

    def describe(self) -> str:
        word = "enable" if self.enabled else "disable"
        return f"GPU {self.gpu}: reset the GPU to {word} MIG mode (pending)"

    def as_dict(self) -> Dict[str, Any]:
        return {"step": "reset_gpu", "gpu": self.gpu, "enabled": self.enabled}


@dataclass(frozen=True)
class CreateGpuInstance:
    """Create a GPU instance at a placement."""

    gpu: int
    profile: Profile
    placement: Placement

    def describe(self) -> str:
        return f"GPU {self.gpu}: create {self.profile} at {self.placement}"

    def as_dict(self) -> Dict[str, Any]:
        return {"step": "create_gpu_instance", **_where(self)}


@dataclass(frozen=True)
class CreateComputeInstance:
    """Create a compute instance in the GPU instance of ``profile`` at ``placement``.

    NVML's id of the profile is chosen at that moment, as it is known only for an existing GPU instance: see
    `catalog.pick_compute_profile`. One that fills its GPU instance needs no placement of its own.

    Args:
        slices: compute slices.
        start: first compute slice inside the GPU instance.
        whole: it fills a GPU instance that an earlier step creates.
    """

    gpu: int
    profile: Profile
    placement: Placement
    slices: int
    start: int
    whole: bool = False

    def describe(self) -> str:
        return f"GPU {self.gpu}: create {_compute(self.profile, self.placement, self.slices, self.start)}"

    def as_dict(self) -> Dict[str, Any]:
        return {"step": "create_compute_instance", **_where(self), **_inside(self)}


Step = Union[
    DestroyComputeInstance, DestroyGpuInstance, SetMode, ResetGpu, CreateGpuInstance, CreateComputeInstance
]


@dataclass(frozen=True)
class InUse:
    """A MIG device that a plan destroys although it is held.

    Args:
        holders: as text: ``process 4711 (python)``, ``pod ns/name``.
    """

    gpu: int
    profile: Profile
    placement: Placement
    holders: Tuple[str, ...]

    def __str__(self) -> str:
        return f"GPU {self.gpu}: {self.profile} at {self.placement} is held by {', '.join(self.holders)}"

    def as_dict(self) -> Dict[str, Any]:
        return {**_where(self), "holders": list(self.holders)}


@dataclass(frozen=True)
class Plan:
    """What one host needs.

    Steps of GPUs whose MIG mode changes come first, up to the mode and its reset, as a reset may take other
    GPUs' instances along; then each GPU's instances, one GPU after the other.

    Args:
        before: ``{'GPU 0': {'mig': True, 'instances': ['1g.5gb 0:1']}}`` for every GPU with a wanted layout.
        after: the same, as it will be.
        in_use: what is destroyed although it is held; only with ``destroy_in_use``.
        must_be_free: indexes of the GPUs that nobody may hold open, not even a daemon: their MIG mode changes
            or, from Hopper on, they get their first instance.
        clients: by GPU index, who uses one of these (outside MIG instances).
    """

    steps: Tuple[Step, ...] = ()
    before: Dict[str, Any] = field(default_factory=dict)
    after: Dict[str, Any] = field(default_factory=dict)
    in_use: Tuple[InUse, ...] = ()
    must_be_free: Tuple[int, ...] = ()
    clients: Dict[int, Tuple[str, ...]] = field(default_factory=dict)

    @property
    def changed(self) -> bool:
        return bool(self.steps)

    @property
    def actions(self) -> List[str]:
        """One line a step; compute instances that come and go with their GPU instance have no line."""
        return [step.describe() for step in self.steps if not getattr(step, "whole", False)]

    @property
    def gpus(self) -> Tuple[int, ...]:
        """Indexes of the GPUs that it touches."""
        return tuple(sorted({step.gpu for step in self.steps}))

    @property
    def mode_steps(self) -> Tuple[Union[SetMode, ResetGpu], ...]:
        return tuple(step for step in self.steps if isinstance(step, (SetMode, ResetGpu)))

    @property
    def resets(self) -> Tuple[int, ...]:
        """Indexes of the GPUs that need a reset for their mode."""
        return tuple(s.gpu for s in self.mode_steps if isinstance(s, ResetGpu) or s.resets)

    def as_dicts(self) -> List[Dict[str, Any]]:
        """The steps for a module's result: plain data, the same in check mode and in the real run."""
        return [step.as_dict() for step in self.steps]


def _where(
    step: Union[DestroyComputeInstance, DestroyGpuInstance, CreateGpuInstance, CreateComputeInstance, InUse],
) -> Dict[str, Any]:
    placement = {"start": step.placement.start, "size": step.placement.size}
    return {"gpu": step.gpu, "profile": str(step.profile), "placement": placement}


def _inside(step: Union[DestroyComputeInstance, CreateComputeInstance]) -> Dict[str, Any]:
    return {"slices": step.slices, "slice_start": step.start}


def _compute(profile: Profile, placement: Placement, slices: int, start: int) -> str:
    if slices == profile.compute_slices:
        return f"the compute instance of {profile} at {placement}"
    return f"{profile.with_compute(slices)} at slice {start} of {profile} at {placement}"
