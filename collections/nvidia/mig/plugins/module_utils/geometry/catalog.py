# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What one GPU offers, as NVML reports it: profiles, their possible placements and their counts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Dict, Optional, Sequence, Tuple

from ansible_collections.nvidia.mig.plugins.module_utils.errors import InputError
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.profile import Profile

# By slices of the GPU instance, on every GPU so far. Used only where NVML was not asked (see ComputeProfile).
_COMPUTE_SIZES = {1: (1,), 2: (1, 2), 3: (1, 2, 3), 4: (1, 2, 4), 7: (1, 2, 3, 4, 7)}


@dataclass(frozen=True, order=True)
class Placement:
    """Where an instance sits: memory-slice units for GPU instances, compute slices for compute instances."""

    start: int
    size: int

    def __str__(self) -> str:
        return f"{self.start}:{self.size}"

    @property
    def mask(self) -> int:
        """One bit per unit that it covers."""
        return ((1 << self.size) - 1) << self.start


@dataclass(frozen=True)
class ComputeProfile:
    """A compute instance profile inside one GPU instance profile.

    Args:
        slices: compute slices.
        id: what NVML's create and list calls take.
        max_instances: how many fit into one GPU instance.
        multiprocessors: of one such compute instance.
        placements: in compute slices; empty where NVML was not asked (it answers only for an existing GPU
            instance): then starts are multiples of the size.
    """

    slices: int
    id: int
    max_instances: int
    multiprocessors: int
    placements: Tuple[Placement, ...] = ()


@dataclass(frozen=True)
class OfferedProfile:
    """A GPU instance profile of one GPU.

    Args:
        profile: without ``ci_slices``.
        id: NVML's ``info.id``, which is nvidia-smi's id, not the enumeration that the query takes.
        max_instances: NVML's ``instanceCount``.
        memory_mib: of one instance; moves with driver and ECC.
        multiprocessors: of one instance.
        placements: all possible ones, free or not.
        compute_profiles: may be empty, as NVML tells them only for an existing GPU instance.
    """

    profile: Profile
    id: int
    max_instances: int
    memory_mib: int
    multiprocessors: int
    placements: Tuple[Placement, ...]
    compute_profiles: Tuple[ComputeProfile, ...] = ()

    @property
    def size(self) -> int:
        """Placement units that one instance takes."""
        return max((placement.size for placement in self.placements), default=0)

    @property
    def compute_sizes(self) -> Tuple[int, ...]:
        """The slices that a compute instance in it can have, ascending."""
        if self.compute_profiles:
            return tuple(sorted({compute.slices for compute in self.compute_profiles}))
        slices = self.profile.compute_slices
        return _COMPUTE_SIZES.get(slices, tuple(range(1, slices + 1)))


@dataclass(frozen=True)
class UnknownProfile:
    """A GPU instance profile whose name is outside the grammar, perhaps one of the future.

    Args:
        name: NVML's.
        id: NVML's ``info.id``.
        max_instances: NVML's ``instanceCount``.
    """

    name: str
    id: int
    max_instances: int


@dataclass(frozen=True)
class Catalog:
    """What one GPU offers; empty for a GPU without MIG.

    Args:
        product: NVML's name of the GPU, for messages.
        unknown: what it offers and nobody can ask for; instances of it may be there all the same.
    """

    product: str
    profiles: Tuple[OfferedProfile, ...] = ()
    unknown: Tuple[UnknownProfile, ...] = ()

    @property
    def memory_slices(self) -> int:
        """How many the GPU has, as far as placements tell; 0 without any."""
        return max(
            (spot.start + spot.size for offered in self.profiles for spot in offered.placements), default=0
        )

    def find(self, profile: Profile, path: Optional[str] = None) -> OfferedProfile:
        """The offered GPU instance profile that holds such a device.

        Raises:
            InputError: the GPU does not offer it; names what it offers and the nearest.
        """
        offered = self._by_profile.get(profile.gpu_instance)
        if offered is None:
            raise InputError(
                f"{short_product(self.product)} does not offer {profile}",
                path=path,
                hint=self._offer_hint(profile),
            )
        sizes = offered.compute_sizes
        if profile.device_slices not in sizes:
            names = ", ".join(str(offered.profile.with_compute(size)) for size in sizes)
            raise InputError(
                f"{short_product(self.product)} does not offer {profile}",
                path=path,
                hint=f"in {offered.profile} it offers {names}",
            )
        return offered

    def by_id(self, profile_id: int) -> Optional[OfferedProfile]:
        """The profile with NVML's ``info.id``; None if there is none."""
        return next((offered for offered in self.profiles if offered.id == profile_id), None)

    @property
    def units(self) -> int:
        """Placement units of the GPU: 8 on 7-slice GPUs, 4 on A30, 12 on RTX PRO 6000."""
        return max((p.start + p.size for offered in self.profiles for p in offered.placements), default=0)

    def capacity(self, taken: int) -> Tuple[int, ...]:
        """How many placements are still free of each shape, the biggest shape first.

        Args:
            taken: one bit per placement unit that is occupied.
        """
        found = self._capacities.get(taken)
        if found is None:
            found = tuple(sum(not mask & taken for mask in masks) for masks in self._shapes)
            self._capacities[taken] = found
        return found

    @cached_property
    def _shapes(self) -> Tuple[Tuple[int, ...], ...]:
        biggest_first = sorted(self.profiles, key=lambda o: (-o.size, -o.profile.compute_slices))
        return tuple(dict.fromkeys(tuple(p.mask for p in offered.placements) for offered in biggest_first))

    @cached_property
    def _capacities(self) -> Dict[int, Tuple[int, ...]]:
        return {}

    @cached_property
    def _by_profile(self) -> Dict[Profile, OfferedProfile]:
        return {offered.profile: offered for offered in self.profiles}

    def _offer_hint(self, profile: Profile) -> str:
        if not self.profiles:
            return "this GPU cannot do MIG"
        names = ", ".join(
            str(offered.profile) for offered in sorted(self.profiles, key=lambda o: o.profile.sort_key)
        )
        nearest = min(
            (offered.profile for offered in self.profiles),
            key=lambda other: (
                other.attributes != profile.attributes,
                abs(other.compute_slices - profile.compute_slices),
                abs(other.memory_gb - profile.memory_gb),
                other.sort_key,
            ),
        )
        return f"the nearest is {nearest}; it offers {names}"


def short_product(product: str) -> str:
    """The product's name as people say it: without ``NVIDIA ``."""
    return product[7:] if product.startswith("NVIDIA ") else product


def pick_compute_profile(
    offered: Sequence[ComputeProfile], slices: int, gi_slices: int
) -> Optional[ComputeProfile]:
    """Which compute instance profile to create for ``slices`` of a GPU instance with ``gi_slices``.

    One that fills its GPU instance takes all its multiprocessors: on Hopper and newer several profiles have
    the same slices, and only one of them reaches the whole GPU instance. A smaller one is the kind that fits
    most often.

    Args:
        offered: what NVML reports for that GPU instance.

    Returns:
        None if nothing offered has so many slices.
    """
    same = [compute for compute in offered if compute.slices == slices]
    if slices == gi_slices:
        return max(same, key=lambda compute: (compute.multiprocessors, -compute.id), default=None)
    return max(same, key=lambda compute: (compute.max_instances, -compute.id), default=None)
