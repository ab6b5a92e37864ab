# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Exact search: which instances of a GPU can stay when another set of MIG devices is wanted."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Dict, List, Optional, Sequence, Tuple

from ansible_collections.nvidia.mig.plugins.module_utils.geometry.catalog import Catalog
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.compute import Packing, Spot, demand, pack
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.placement import (
    Placed,
    limit_reason,
    place,
    search,
)
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.profile import Profile
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.state import (
    ComputeInstance,
    GpuInstance,
    held_weight,
)

# Weight of what is destroyed in use, GPU instances destroyed and created, compute instances destroyed and
# created.
Cost = Tuple[int, int, int, int]


@dataclass(frozen=True)
class Survivor:
    """A GPU instance that stays, with what happens inside."""

    instance: GpuInstance
    kept: Tuple[ComputeInstance, ...]
    created: Tuple[Spot, ...]


@dataclass(frozen=True)
class Choice:
    """A way from what is to what is wanted.

    Args:
        survivors: in the order of their placement.
        fresh: new GPU instances, the biggest first, with their compute instances.
    """

    cost: Cost
    survivors: Tuple[Survivor, ...]
    fresh: Tuple[Tuple[Placed, Tuple[Spot, ...]], ...]

    @property
    def taken(self) -> int:
        """One bit per placement unit that is occupied in the end."""
        taken = 0
        for survivor in self.survivors:
            taken |= survivor.instance.placement.mask
        for placed, _spots in self.fresh:
            taken |= placed.placement.mask
        return taken


def choose_survivors(
    catalog: Catalog, instances: Sequence[GpuInstance], devices: Sequence[Profile]
) -> Choice:
    """Find the cheapest way from the instances to the wanted MIG devices, over every choice of what stays.

    Cheapest: the fewest destroyed of those that a process is in, then of those in use, then the fewest GPU
    instances destroyed, then the fewest created, then the fewest compute instances destroyed and created.
    Equal ones: what leaves the most room for big profiles (see `placement`), then the survivors with the
    lowest placement.

    Raises:
        InputError: the GPU does not offer a profile.
        InfeasibleError: the devices do not fit even on an empty GPU.
    """
    place(catalog, devices)
    return _Search(catalog, instances, devices).best()


class _Search:
    """Branch and bound over sets of survivors; a set is an int with one bit per GPU instance."""

    def __init__(
        self, catalog: Catalog, instances: Sequence[GpuInstance], devices: Sequence[Profile]
    ) -> None:
        self.catalog = catalog
        self.instances = sorted(instances, key=lambda instance: (instance.placement, instance.id))
        self.wanted = demand(devices)
        self.packings: Dict[Tuple[Profile, int], Tuple[Packing, ...]] = {}

    def best(self) -> Choice:
        best: Optional[Choice] = None
        best_rank: Tuple[Tuple[int, ...], int] = ((), 0)
        for lost_in_use, lost, stays in self._sets():
            if best is not None and (lost_in_use, lost) > best.cost[:2]:
                break
            choice = self._cheapest(stays, lost_in_use, lost, best.cost if best is not None else None)
            if choice is None:
                continue
            rank = (tuple(-free for free in self.catalog.capacity(choice.taken)), stays)
            if best is None or (choice.cost, rank) < (best.cost, best_rank):
                best, best_rank = choice, rank
        if best is None:
            raise AssertionError("what fits on an empty GPU is found at the latest with no survivor")
        return best

    def _sets(self) -> List[Tuple[int, int, int]]:
        """Every set that could serve: (weight lost in use, GPU instances lost, the set), the least first."""
        found = []
        for stays in range(1 << len(self.instances)):
            counts: Dict[Profile, int] = {}
            lost_in_use = lost = 0
            for position, instance in enumerate(self.instances):
                if stays >> position & 1:
                    counts[instance.profile] = counts.get(instance.profile, 0) + 1
                else:
                    lost_in_use += _in_use(instance)
                    lost += 1
            # Every survivor holds at least one wanted compute instance.
            if all(number <= len(self.wanted.get(profile, ())) for profile, number in counts.items()):
                found.append((lost_in_use, lost, stays))
        return sorted(found)

    def _cheapest(self, stays: int, lost_in_use: int, lost: int, limit: Optional[Cost]) -> Optional[Choice]:
        """The cheapest way with exactly these survivors; None if there is none as cheap as ``limit``."""
        computes = sum(len(instance.compute_instances) for instance in self.instances)
        computes += sum(len(slices) for slices in self.wanted.values())
        candidates: List[Tuple[Cost, int, Tuple[Packing, ...]]] = []
        options = [self._packings(profile, stays) for profile in self.wanted]
        for number, packed in enumerate(product(*options)):
            kept = sum(len(stay) for packing in packed for stay in packing.kept)
            fresh = sum(len(packing.fresh) for packing in packed)
            held = lost_in_use + sum(packing.lost_in_use for packing in packed)
            candidates.append(((held, lost, fresh, computes - 2 * kept), number, packed))
        for cost, _number, packed in sorted(candidates, key=lambda candidate: candidate[:2]):
            if limit is not None and cost > limit:
                return None
            choice = self._placed(cost, stays, packed)
            if choice is not None:
                return choice
        return None

    def _placed(self, cost: Cost, stays: int, packed: Sequence[Packing]) -> Optional[Choice]:
        spots = {profile: list(packing.fresh) for profile, packing in zip(self.wanted, packed)}
        new = [profile for profile, fresh in spots.items() for dummy in fresh]
        survivors: List[Survivor] = []
        for profile, packing in zip(self.wanted, packed):
            there = self._survivors(profile, stays)
            survivors += [Survivor(*parts) for parts in zip(there, packing.kept, packing.created)]
        survivors.sort(key=lambda survivor: survivor.instance.placement)
        pinned = [Placed(s.instance.profile, s.instance.placement) for s in survivors]
        # What stands already, stands; the limits are for what is added.
        if new and limit_reason(self.catalog, [*new, *(p.profile for p in pinned)]):
            return None
        placed = search(self.catalog, new, pinned)
        if placed is None:
            return None
        return Choice(cost, tuple(survivors), tuple((p, spots[p.profile].pop(0)) for p in placed))

    def _packings(self, profile: Profile, stays: int) -> Tuple[Packing, ...]:
        """With the fewest new GPU instances; and with more, as long as that saves instances that are held."""
        own = sum(1 << n for n, i in enumerate(self.instances) if stays >> n & 1 and i.profile == profile)
        if (profile, own) not in self.packings:
            found: List[Packing] = []
            offered, slices = self.catalog.find(profile), self.wanted[profile]
            existing = self._survivors(profile, stays)
            for fresh in range(len(slices) - len(existing) + 1):
                packing = pack(offered, slices, existing, fresh)
                if packing is not None and (not found or packing.lost_in_use < found[-1].lost_in_use):
                    found.append(packing)
                if found and not found[-1].lost_in_use:
                    break
            self.packings[profile, own] = tuple(found)
        return self.packings[profile, own]

    def _survivors(self, profile: Profile, stays: int) -> List[GpuInstance]:
        return [i for n, i in enumerate(self.instances) if stays >> n & 1 and i.profile == profile]


def _in_use(instance: GpuInstance) -> int:
    """What its MIG devices weigh that are held; an instance held outside of them counts as one more."""
    inside = sum(held_weight(compute.holders) for compute in instance.compute_instances)
    return held_weight(instance.holders) + inside
