# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Exact search inside GPU instances: which compute instances share one, and which of those there can stay."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Dict, List, Optional, Sequence, Tuple

from ansible_collections.nvidia.mig.plugins.module_utils.geometry.catalog import (
    Catalog,
    OfferedProfile,
    Placement,
    pick_compute_profile,
)
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.profile import Profile, canonical
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.state import (
    ComputeInstance,
    GpuInstance,
    held_weight,
)

Spot = Tuple[int, int]  # slices, start: a compute instance in its GPU instance


@dataclass(frozen=True)
class Packing:
    """How the wanted compute instances of one GPU instance profile lie in its GPU instances.

    Args:
        lost_in_use: what the compute instances weigh that are held and must go; see `held_weight`.
        lost: compute instances that must go.
        kept: per GPU instance that was there, the compute instances that stay.
        created: per GPU instance that was there, what is created in it.
        fresh: per new GPU instance, what is created in it.
    """

    lost_in_use: int
    lost: int
    kept: Tuple[Tuple[ComputeInstance, ...], ...]
    created: Tuple[Tuple[Spot, ...], ...]
    fresh: Tuple[Tuple[Spot, ...], ...]


def demand(devices: Sequence[Profile]) -> Dict[Profile, Tuple[int, ...]]:
    """Wanted compute instances, in slices and the biggest first, by GPU instance profile."""
    found: Dict[Profile, Tuple[int, ...]] = {}
    for device in canonical(devices):
        found[device.gpu_instance] = (*found.get(device.gpu_instance, ()), device.device_slices)
    return {profile: tuple(sorted(slices, reverse=True)) for profile, slices in found.items()}


def share(catalog: Catalog, devices: Sequence[Profile]) -> Tuple[Profile, ...]:
    """The fewest GPU instances that hold such MIG devices, as profiles in canonical order.

    If they need more of a profile than the GPU takes, one more than it takes is returned.

    Raises:
        InputError: the GPU does not offer a profile.
    """
    instances: List[Profile] = []
    for device in dict.fromkeys(devices):
        catalog.find(device)
    if all(device.ci_slices is None for device in devices):
        return canonical(devices)
    for profile, slices in demand(devices).items():
        offered = catalog.find(profile)
        most = offered.max_instances
        numbers = range(-(-sum(slices) // profile.compute_slices), min(len(slices), most) + 1)
        # Beyond the limit the number does not matter any more, and the search could become long.
        number = next((n for n in numbers if pack(offered, slices, (), n) is not None), most + 1)
        instances += [profile] * number
    return canonical(instances)


def pack(
    offered: OfferedProfile, slices: Sequence[int], existing: Sequence[GpuInstance], fresh: int
) -> Optional[Packing]:
    """Lay the wanted compute instances into GPU instances, destroying the least: of those held, then of all.

    Every GPU instance gets at least one compute instance.

    Args:
        slices: of the wanted compute instances, the biggest first.
        existing: GPU instances of this profile that stay.
        fresh: how many new ones there will be.

    Returns:
        None if they cannot be laid so.
    """
    choices = [_keepable(instance) for instance in existing]
    best: Optional[Packing] = None

    def choose(kept: Tuple[Tuple[ComputeInstance, ...], ...], lost_in_use: int, lost: int) -> None:
        nonlocal best
        if best is not None and (lost_in_use, lost) >= (best.lost_in_use, best.lost):
            return
        if len(kept) < len(existing):
            for stay, gone_in_use, gone in choices[len(kept)]:
                choose((*kept, stay), lost_in_use + gone_in_use, lost + gone)
            return
        left = Counter(slices)
        left.subtract(compute.slices for stay in kept for compute in stay)
        if min(left.values(), default=0) < 0:
            return
        bins = [[(c.slices, c.start) for c in stay] for stay in kept] + [[] for dummy in range(fresh)]
        created = _fill(offered, sorted(left.elements(), reverse=True), bins)
        if created is not None:
            number = len(existing)
            best = Packing(lost_in_use, lost, kept, created[:number], created[number:])

    choose((), 0, 0)
    return best


def _keepable(instance: GpuInstance) -> List[Tuple[Tuple[ComputeInstance, ...], int, int]]:
    """Every choice of what to keep, with what goes of those held and how many in all; the best first."""
    computes = instance.compute_instances
    found = []
    for chosen in range(1 << len(computes)):
        stay = tuple(c for position, c in enumerate(computes) if chosen >> position & 1)
        gone_in_use = sum(held_weight(c.holders) for c in computes if c not in stay)
        found.append((stay, gone_in_use, len(computes) - len(stay)))
    return sorted(found, key=lambda choice: choice[1:])


def _fill(
    offered: OfferedProfile, slices: Sequence[int], bins: Sequence[Sequence[Spot]]
) -> Optional[Tuple[Tuple[Spot, ...], ...]]:
    """First fit with backtracking: what to create in each bin, so that none stays empty; None: impossible."""
    taken = [sum(Placement(start, size).mask for size, start in spots) for spots in bins]
    counts = [Counter(size for size, _start in spots) for spots in bins]
    added: List[List[Spot]] = [[] for dummy in bins]
    options = {size: (_starts(offered, size), _limit(offered, size)) for size in set(slices)}

    def lay(position: int) -> bool:
        left = len(slices) - position
        if sum(not mask for mask in taken) > left:
            return False
        if not left:
            return True
        size = slices[position]
        starts, limit = options[size]
        tried = set()
        for number, mask in enumerate(taken):
            kind = (mask, tuple(sorted(counts[number].items())))
            if kind in tried or (limit is not None and counts[number][size] >= limit):
                continue
            tried.add(kind)
            for start in starts:
                spot = Placement(start, size).mask
                if spot & mask:
                    continue
                taken[number] |= spot
                counts[number][size] += 1
                added[number].append((size, start))
                if lay(position + 1):
                    return True
                added[number].pop()
                counts[number][size] -= 1
                taken[number] = mask
        return False

    return tuple(tuple(spots) for spots in added) if lay(0) else None


def _starts(offered: OfferedProfile, slices: int) -> Tuple[int, ...]:
    compute = pick_compute_profile(offered.compute_profiles, slices, offered.profile.compute_slices)
    if compute is not None and compute.placements:
        return tuple(sorted(placement.start for placement in compute.placements))
    return tuple(range(0, offered.profile.compute_slices - slices + 1, slices))


def _limit(offered: OfferedProfile, slices: int) -> Optional[int]:
    compute = pick_compute_profile(offered.compute_profiles, slices, offered.profile.compute_slices)
    return None if compute is None else compute.max_instances
