# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Exact search: which GPU instance sits where.

A set of GPU instances fits if their placements can be chosen so that none overlap, no profile stands more
often than NVML allows, and the media engines are not asked for twice. No other limit binds on any known GPU:
compute slices, copy and video engines never run out before placements do.

Of all ways to place, the one is taken that leaves the most room for big profiles: the most free placements of
the biggest shape, of those the most of the next smaller shape, and so on. Ties go to the lowest starts, the
biggest profile first.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Dict, List, Optional, Sequence, Tuple

from ansible_collections.nvidia.mig.plugins.module_utils.errors import InfeasibleError
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.catalog import (
    Catalog,
    OfferedProfile,
    Placement,
    short_product,
)
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.compute import share
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.profile import Profile, describe_profiles


@dataclass(frozen=True)
class Placed:
    """A GPU instance at its placement."""

    profile: Profile
    placement: Placement

    def __str__(self) -> str:
        return f"{self.profile} at {self.placement}"


def place(catalog: Catalog, profiles: Sequence[Profile], pinned: Sequence[Placed] = ()) -> Tuple[Placed, ...]:
    """Place one GPU instance per profile; compute instances like ``1c.3g.20gb`` share one until it is full.

    Args:
        profiles: wanted beside what is pinned.
        pinned: GPU instances that stay where they are.

    Returns:
        The new GPU instances, the biggest first, without the pinned ones.

    Raises:
        InputError: the GPU does not offer a profile.
        InfeasibleError: they do not fit; the message says what is in the way.
    """
    wanted = share(catalog, profiles)
    if not wanted:
        return ()
    refusal = limit_reason(catalog, [*wanted, *(p.profile for p in pinned)])
    found = None if refusal else search(catalog, wanted, pinned)
    if found is None:
        reason = refusal or _no_room(catalog, wanted, pinned)
        raise InfeasibleError(f"{describe_profiles(profiles)}: {reason}")
    return found


def search(
    catalog: Catalog, wanted: Sequence[Profile], pinned: Sequence[Placed] = ()
) -> Optional[Tuple[Placed, ...]]:
    """`place` without limits on counts, for GPU instance profiles only; None if there is no room."""
    kinds = _kinds(catalog, wanted)
    # Occupied units -> the starts that lead there, the lowest of all ways; one profile after the other.
    reached: Dict[int, Tuple[int, ...]] = {_taken(pinned): ()}
    for offered, count in kinds:
        ways = _ways(offered, count)
        following: Dict[int, Tuple[int, ...]] = {}
        for taken, starts in reached.items():
            for mask, added in ways.items():
                if mask & taken:
                    continue
                candidate = starts + added
                known = following.get(mask | taken)
                if known is None or candidate < known:
                    following[mask | taken] = candidate
        reached = following
    if not reached:
        return None
    best = min(reached, key=lambda taken: (tuple(-free for free in catalog.capacity(taken)), reached[taken]))
    profiles = [offered for offered, count in kinds for dummy in range(count)]
    return tuple(
        Placed(offered.profile, Placement(start, offered.size))
        for offered, start in zip(profiles, reached[best])
    )


def limit_reason(catalog: Catalog, profiles: Sequence[Profile]) -> Optional[str]:
    """Why such GPU instances can never stand together, wherever they sit; None if nothing forbids it."""
    product = short_product(catalog.product)
    counts = Counter(profiles)
    for profile, count in counts.items():
        limit = catalog.find(profile).max_instances
        if count > limit:
            return f"{product} takes at most {limit} of {profile}"
    shared = sum(count for profile, count in counts.items() if "+me" in profile.attributes)
    if shared > 1:
        return f"{product} has its media engines once, so at most one instance can have +me"
    hungry = [profile for profile in counts if "+me.all" in profile.attributes]
    others = [p for p in counts if p not in hungry and "-me" not in p.attributes]
    if sum(counts[profile] for profile in hungry) > 1:
        return f"{product} has its media engines once, so at most one instance can have +me.all"
    if hungry and others:
        return (
            f"{hungry[0]} takes all media engines: {others[0]} cannot stand beside it, only -me profiles can"
        )
    return None


def _kinds(catalog: Catalog, wanted: Sequence[Profile]) -> List[Tuple[OfferedProfile, int]]:
    offers = [(catalog.find(profile), count) for profile, count in Counter(wanted).items()]
    return sorted(offers, key=lambda o: (-o[0].size, -o[0].profile.compute_slices, o[0].profile.sort_key))


def _taken(pinned: Sequence[Placed]) -> int:
    taken = 0
    for placed in pinned:
        taken |= placed.placement.mask
    return taken


def _ways(offered: OfferedProfile, count: int) -> Dict[int, Tuple[int, ...]]:
    """All ways to choose ``count`` of its placements without overlap: occupied units -> starts."""
    ways: Dict[int, Tuple[int, ...]] = {}

    def extend(first: int, left: int, taken: int, starts: Tuple[int, ...]) -> None:
        if not left:
            ways.setdefault(taken, starts)
            return
        for position in range(first, len(placements) - left + 1):
            mask, start = placements[position]
            if not mask & taken:
                extend(position + 1, left - 1, taken | mask, (*starts, start))

    placements = sorted((placement.mask, placement.start) for placement in offered.placements)
    extend(0, count, 0, ())
    return ways


def _no_room(catalog: Catalog, wanted: Sequence[Profile], pinned: Sequence[Placed]) -> str:
    """What is in the way of the first profile, the biggest first, that finds no placement."""
    ordered = [offered for offered, count in _kinds(catalog, wanted) for dummy in range(count)]
    placed: Tuple[Placed, ...] = ()
    failing = ordered[0]
    for number, offered in enumerate(ordered, 1):
        failing = offered
        found = search(catalog, [o.profile for o in ordered[:number]], pinned)
        if found is None:
            break
        placed = found
    reason = f"no free placement for {failing.profile} on {short_product(catalog.product)}: "
    if pinned and search(catalog, [failing.profile], pinned) is None:
        return reason + "; ".join(_blocked(placement, pinned) for placement in failing.placements)
    sizes = {p.placement.size for p in placed}
    if not pinned and len(sizes) == 1 and len(placed) * min(sizes) == catalog.units:
        return reason + _spans(catalog, len(placed), min(sizes))
    held = [f"{p.placement} by {p.profile} (which stays)" for p in pinned]
    held += [f"{p.placement} by {p.profile}" for p in placed]
    return reason + f"taken are {', '.join(held)}"


def _blocked(placement: Placement, pinned: Sequence[Placed]) -> str:
    blockers = [str(p) for p in pinned if p.placement.mask & placement.mask]
    return f"{placement} is blocked by {', '.join(blockers)}"


def _spans(catalog: Catalog, count: int, size: int) -> str:
    unit = "slice" if any(offered.size == 1 for offered in catalog.profiles) else "unit"
    if count == 1:
        return f"the only {size}-{unit} span is taken"
    return f"{'both' if count == 2 else f'all {count}'} {size}-{unit} spans are taken"
