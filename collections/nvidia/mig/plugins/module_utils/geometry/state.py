# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a GPU is at one moment, read in one pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, List, Sequence, Tuple

from ansible_collections.nvidia.mig.plugins.module_utils.geometry.catalog import Catalog, Placement
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.profile import Profile, canonical


@dataclass(frozen=True)
class GpuIdentity:
    """The names of one GPU.

    Args:
        index: NVML's.
        uuid: ``GPU-...``.
        pci_bus_id: ``00000000:07:00.0``.
        product: NVML's name.
        pci_device_id: ``0x20B010DE``, device before vendor, as mig-parted writes it.
        pci_subsystem_id: the same for the board; empty: not known.
    """

    index: int
    uuid: str
    pci_bus_id: str
    product: str
    pci_device_id: str
    pci_subsystem_id: str = ""


PROCESS = "process "
"""How the text of a holder begins that is a process."""

_WEIGHT_OF_A_PROCESS = 1000  # more than a GPU has MIG devices


def held_weight(holders: Sequence[str]) -> int:
    """What their loss weighs: nothing without holders, 1 with pods, more than all pods with a process.

    Pods can be drained, or be lost with the operator's leave; a process's MIG device NVML never destroys.
    """
    if any(holder.startswith(PROCESS) for holder in holders):
        return _WEIGHT_OF_A_PROCESS
    return int(bool(holders))


@dataclass(frozen=True)
class ComputeInstance:
    """A compute instance of a GPU instance.

    Args:
        id: NVML's, unique in its GPU instance.
        slices: compute slices.
        start: first compute slice inside the GPU instance.
        profile_id: NVML's id of its compute instance profile.
        holders: who uses it, as text: ``process 4711 (python)``, ``pod ns/name``.
    """

    id: int
    slices: int
    start: int
    profile_id: int
    holders: Tuple[str, ...] = ()


@dataclass(frozen=True)
class GpuInstance:
    """A GPU instance. ``holders`` are those that cannot be told to be in one of its compute instances."""

    id: int
    profile: Profile
    placement: Placement
    compute_instances: Tuple[ComputeInstance, ...] = ()
    holders: Tuple[str, ...] = ()

    @property
    def devices(self) -> Tuple[Profile, ...]:
        """One profile per MIG device, that is per compute instance."""
        return canonical(self.profile.with_compute(compute.slices) for compute in self.compute_instances)

    @property
    def described(self) -> str:
        """The instance as text, see `describe_instance`."""
        return describe_instance(self.profile, self.placement, [c.slices for c in self.compute_instances])


@dataclass(frozen=True)
class GpuState:
    """One GPU as it is.

    Args:
        catalog: empty if the GPU cannot do MIG.
        resetless: a MIG mode change needs no GPU reset (Hopper and newer).
        clients: who uses the GPU outside MIG instances, as text.
        unknown: GPU instances whose profile has an unknown name, as text: ``MIG 9x.99gb 0:2``. Only what
            does not need to know them can be done to the GPU.
    """

    identity: GpuIdentity
    catalog: Catalog
    mig_capable: bool
    mig_current: bool
    mig_pending: bool
    resetless: bool
    instances: Tuple[GpuInstance, ...] = ()
    clients: Tuple[str, ...] = ()
    unknown: Tuple[str, ...] = ()

    @property
    def devices(self) -> Tuple[Profile, ...]:
        """The MIG devices of the GPU, in canonical order."""
        return canonical(device for instance in self.instances for device in instance.devices)

    @property
    def held(self) -> Dict[str, List[str]]:
        """Who uses it, by an instance's text; those who use it outside of MIG, by an empty one."""
        found = {"": list(self.clients)}
        for instance in self.instances:
            inside = [holder for compute in instance.compute_instances for holder in compute.holders]
            found[instance.described] = list(dict.fromkeys([*inside, *instance.holders]))
        return {text: holders for text, holders in found.items() if holders}

    @property
    def described(self) -> List[str]:
        """All GPU instances as text, those of unknown profiles last."""
        return [*sorted_by_start([instance.described for instance in self.instances]), *self.unknown]

    def summary(self) -> Dict[str, Any]:
        """A small dict for diffs: no UUIDs, nothing that differs between two equal layouts."""
        found: Dict[str, Any] = {"mig": self.mig_current, "instances": self.described}
        if self.mig_pending != self.mig_current:
            found["mig_pending"] = self.mig_pending
        return found


def describe_instance(profile: Profile, placement: Placement, compute_slices: List[int]) -> str:
    """``3g.20gb 0:4``, ``3g.20gb 0:4 [2c 1c]``, ``3g.20gb 0:4 [no compute instance]``."""
    text = f"{profile} {placement}"
    if compute_slices == [profile.compute_slices]:
        return text
    inside = " ".join(f"{slices}c" for slices in sorted(compute_slices, reverse=True))
    return f"{text} [{inside or 'no compute instance'}]"


def sorted_by_start(instances: List[str]) -> List[str]:
    """Order the texts of `describe_instance` by where the instances sit."""
    return sorted(instances, key=lambda text: (int(text.split()[1].split(":")[0]), text))
