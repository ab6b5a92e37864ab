# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a GPU of some kind could become: which resources it would offer, and what that destroys.

An `Option` is a set of MIG devices for which there is a placement beside what is pinned. Instances that are
free may stay or go. Found by exact enumeration over placements, unit by unit.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from operator import add
from typing import Dict, FrozenSet, Iterable, List, Optional, Sequence, Tuple

from ansible_collections.nvidia.mig.plugins.module_utils.demand.fleet import Instance, Kind
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.catalog import Catalog, OfferedProfile
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.placement import (
    Placed,
    limit_reason,
    search,
)
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.profile import Profile, canonical
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.resources import (
    GPU_RESOURCE,
    mig_resource,
)

Counts = Tuple[int, ...]  # in the order of some list of resources


@dataclass(frozen=True)
class Option:
    """A way for a GPU to be.

    Args:
        offers: how many of each resource pending pods could take.
        destroyed: free instances that go.
        touched: 1 if anything changes.
        mode: 1 if its MIG mode changes.
        room: what is left free; see `Menu.room`.
    """

    offers: Counts
    destroyed: int = 0
    touched: int = 1
    mode: int = 0
    room: int = 0

    @property
    def cost(self) -> Tuple[int, int, int]:
        return self.destroyed, self.touched, self.mode


@dataclass(frozen=True)
class Rules:
    """What may be done to a GPU.

    Args:
        creatable: resources that may be made: MIG devices by profile, and whole GPUs.
        mode: whether its MIG mode may change.
    """

    creatable: FrozenSet[str]
    mode: bool = True


@dataclass(frozen=True)
class Target:
    """The layout that a GPU gets.

    Args:
        mig: MIG mode.
        devices: profiles of all its MIG devices, also of those that stay.
        offers: resources for pending pods.
        destroyed, mode, room: as in `Option`.
    """

    mig: bool
    devices: Tuple[Profile, ...]
    offers: Tuple[str, ...]
    destroyed: int
    mode: int
    room: int


class Menu:
    """What GPUs of one catalog offer, looked up once.

    Attributes:
        offered: by resource.
        limited: profiles of which the number is limited by more than placements.
    """

    def __init__(self, catalog: Catalog) -> None:
        self.offered = {mig_resource(own.profile): own for own in catalog.profiles}
        self.resources = frozenset([GPU_RESOURCE, *self.offered])
        self.limited = frozenset(o.profile for o in catalog.profiles if _limited(catalog, o.profile))
        shapes = {own.placements for own in catalog.profiles}
        self._spots = [(p.mask, p.size * p.size) for placements in shapes for p in placements]
        self._rooms: Dict[int, int] = {}

    def room(self, taken: int) -> int:
        """How much room for big profiles: every free placement counts the square of its size."""
        found = self._rooms.get(taken)
        if found is None:
            found = self._rooms[taken] = sum(square for mask, square in self._spots if not mask & taken)
        return found


class Geometry:
    """Options of every kind, each found once."""

    def __init__(self, resources: Sequence[str]) -> None:
        self.resources = tuple(resources)
        self._at = {name: number for number, name in enumerate(self.resources)}
        self._fills: Dict[object, List[Counts]] = {}
        self._options: Dict[object, Tuple[Option, ...]] = {}
        self._targets: Dict[object, Optional[Target]] = {}
        self._menus: Dict[int, Menu] = {}
        self._after: Dict[object, Optional[int]] = {}

    def menu(self, catalog: Catalog) -> Menu:
        found = self._menus.get(id(catalog))
        if found is None:
            found = self._menus[id(catalog)] = Menu(catalog)
        return found

    def as_is(self, kind: Kind, every: bool = True) -> Option:
        """The GPU as it stands; with ``every`` with the room that it leaves."""
        room = self.menu(kind.catalog).room(_taken(kind.instances)) if every else 0
        return Option(self.counts(kind.offers), touched=0, room=room)

    def options(self, number: int, kind: Kind, rules: Rules, every: bool) -> Tuple[Option, ...]:
        """The ways to change it that no other one beats.

        Args:
            number: the kind's. They are remembered by it, and by which object the rules are.
            every: also those that offer less than another at the same cost, with the room that each leaves.
        """
        key = (number, id(rules), every)
        found = self._options.get(key)
        if found is None:
            same = (number, rules.creatable & self.menu(kind.catalog).resources, rules.mode, every)
            if same not in self._options:
                self._options[same] = self._find(kind, rules, every)
            found = self._options[key] = self._options[same]
        return found

    def cheapest(self, number: int, kind: Kind, rules: Rules, wanted: Counts) -> Optional[Target]:
        """The layout that offers exactly what is wanted beside what can stay, and destroys least.

        Of equal ones: the one that leaves the most room for big profiles.
        """
        key = (number, id(rules), wanted)
        if key not in self._targets:
            self._targets[key] = self._target(kind, rules.creatable, wanted)
        return self._targets[key]

    def _find(self, kind: Kind, rules: Rules, every: bool) -> Tuple[Option, ...]:
        if kind.frozen or not kind.capable or kind.held:
            return ()
        turns = 0 if kind.mig else 1
        found: Dict[Tuple[Counts, int], int] = {}
        if kind.mig or rules.mode:
            for stay, gone in _choices(kind):
                base = [instance.placed for instance in (*kind.pinned, *stay)]
                kept = self.counts(i.offers for i in (*kind.pinned, *stay) if i.offers is not None)
                for fill in self._fill(kind.catalog, base, rules.creatable, every):
                    if any(fill):
                        # The fewest gone come first.
                        found.setdefault((tuple(map(add, kept, fill)), turns), gone)
        if kind.mig and rules.mode and not kind.pinned and GPU_RESOURCE in rules.creatable:
            found[self.counts((GPU_RESOURCE,)), 1] = len(kind.free)
        options = [Option(offers, gone, 1, mode) for (offers, mode), gone in found.items()]
        if not every:
            return _unbeaten(options)
        rooms = []
        for option in options:
            target = self._target(kind, rules.creatable, option.offers)
            if target is not None:
                rooms.append(Option(option.offers, option.destroyed, 1, option.mode, target.room))
        return tuple(sorted(rooms, key=lambda o: (o.offers, o.cost)))

    def _fill(
        self, catalog: Catalog, base: Sequence[Placed], creatable: FrozenSet[str], every: bool
    ) -> List[Counts]:
        """What can be created beside ``base``: all multisets, or only those that cannot grow."""
        taken = 0
        for own in base:
            taken |= own.placement.mask
        menu = self.menu(catalog)
        limits = tuple(sorted(str(own.profile) for own in base if own.profile in menu.limited))
        key = (id(catalog), taken, creatable & menu.resources, limits, every)
        found = self._fills.get(key)
        if found is None:
            kinds = [offered for resource, offered in menu.offered.items() if resource in creatable]
            there = Counter(own.profile for own in base)
            found = self._fills[key] = self._enumerate(catalog, kinds, taken, there, every)
        return found

    def _enumerate(
        self,
        catalog: Catalog,
        kinds: Sequence[OfferedProfile],
        taken: int,
        there: Counter[Profile],
        every: bool,
    ) -> List[Counts]:
        """From the last unit to the first: no instance starts here, or one of those that fit does."""
        units = catalog.units
        none = (0,) * len(self.resources)
        starts: Dict[int, List[Tuple[int, int, OfferedProfile]]] = {}
        for offered in kinds:
            for placement in offered.placements:
                if not placement.mask & taken:
                    at = self._at[mig_resource(offered.profile)]
                    starts.setdefault(placement.start, []).append((at, placement.size, offered))
        profiles = {self._at[mig_resource(o.profile)]: o.profile for o in kinds}
        limits = self.menu(catalog).limited
        limited = frozenset(at for at, profile in profiles.items() if profile in limits)
        if any("+me.all" in profile.attributes for profile in (*profiles.values(), *there)):
            limited = frozenset(profiles)  # beside it, others are limited too
        reached: List[set[Counts]] = [set() for dummy in range(units + 1)]
        reached[units] = {none}
        for unit in range(units - 1, -1, -1):
            found = set(reached[unit + 1])
            for at, size, _offered in starts.get(unit, ()):
                for counts in reached[min(unit + size, units)]:
                    more = (*counts[:at], counts[at] + 1, *counts[at + 1 :])
                    if at not in limited or _allowed(catalog, more, profiles, there):
                        found.add(more)
            reached[unit] = found if every else _maximal(found, limited)
        return sorted(
            counts for counts in reached[0] if not limited or _allowed(catalog, counts, profiles, there)
        )

    def _target(self, kind: Kind, creatable: FrozenSet[str], wanted: Counts) -> Optional[Target]:
        menu = self.menu(kind.catalog)
        if wanted == self.counts((GPU_RESOURCE,)) and kind.mig:
            return Target(False, (), (GPU_RESOURCE,), len(kind.free), 1, menu.room(0))
        best: Optional[Target] = None
        for stay, gone in _choices(kind):
            if best is not None and gone > best.destroyed:
                break
            kept = [*kind.pinned, *stay]
            offered = [i.offers for i in kept if i.offers is not None]
            missing = tuple(max(0, a - b) for a, b in zip(wanted, self.counts(offered)))
            lacking = {name: number for name, number in zip(self.resources, missing) if number}
            if not all(name in menu.offered and name in creatable for name in lacking):
                continue
            names = [name for name in menu.offered for dummy in range(lacking.get(name, 0))]
            new = [menu.offered[name].profile for name in names]
            taken = self._taken_with(kind.catalog, new, kept, missing)
            if taken is not None and (best is None or menu.room(taken) > best.room):
                devices = canonical([*(d for i in kept for d in i.devices), *new])
                offers = (*offered, *names)
                best = Target(True, devices, offers, gone, 0 if kind.mig else 1, menu.room(taken))
        return best

    def _taken_with(
        self, catalog: Catalog, new: Sequence[Profile], kept: Sequence[Instance], missing: Counts
    ) -> Optional[int]:
        """What is taken when the new ones stand beside those that are kept; None: they do not fit."""
        taken = _taken(kept)
        limits = [i.placed.profile for i in kept if i.placed.profile in self.menu(catalog).limited]
        key = (id(catalog), taken, missing, tuple(limits))
        if key not in self._after:
            found: Optional[int] = None
            if not limit_reason(catalog, [*new, *(i.placed.profile for i in kept)]):
                placed = search(catalog, new, [i.placed for i in kept])
                if placed is not None:
                    found = taken
                    for own in placed:
                        found |= own.placement.mask
            self._after[key] = found
        return self._after[key]

    def counts(self, names: Iterable[str]) -> Counts:
        counts = [0] * len(self.resources)
        for name in names:
            if name in self._at:
                counts[self._at[name]] += 1
        return tuple(counts)


def _choices(kind: Kind) -> List[Tuple[Tuple[Instance, ...], int]]:
    """Which free instances stay, and how many go; the fewest gone first. What is no device never stays."""
    free = kind.free
    keepable = [instance for instance in free if instance.devices]
    found: Dict[object, Tuple[Tuple[Instance, ...], int]] = {}
    for number in range(len(keepable), -1, -1):
        for stay in combinations(keepable, number):
            found.setdefault(stay, (stay, len(free) - number))
    return list(found.values())


def _taken(instances: Iterable[Instance]) -> int:
    taken = 0
    for instance in instances:
        taken |= instance.placed.placement.mask
    return taken


def _limited(catalog: Catalog, profile: Profile) -> bool:
    """Its number is limited by more than placements: by media engines, or by a count."""
    if any("me" in attribute for attribute in profile.attributes):
        return True
    offered = catalog.find(profile)
    most = taken = 0
    for placement in sorted(offered.placements):
        if not placement.mask & taken:
            taken |= placement.mask
            most += 1
    return most > offered.max_instances


def _allowed(catalog: Catalog, counts: Counts, profiles: Dict[int, Profile], there: Counter[Profile]) -> bool:
    chosen = [profile for at, profile in profiles.items() for dummy in range(counts[at])]
    return limit_reason(catalog, [*chosen, *there.elements()]) is None


def _maximal(found: Iterable[Counts], limited: FrozenSet[int]) -> set[Counts]:
    """Those that no other one contains; one that needs more of what is limited does not count as better."""
    kept: Dict[Counts, List[int]] = {}
    result = set()
    for counts in sorted(found, key=sum, reverse=True):
        packed = _packed(counts)
        rivals = kept.setdefault(tuple(counts[at] for at in sorted(limited)), [])
        if not _contained(packed, rivals, _guard(len(counts))):
            rivals.append(packed)
            result.add(counts)
    return result


def _unbeaten(options: Sequence[Option]) -> Tuple[Option, ...]:
    kept: List[Option] = []
    rivals: Dict[Tuple[int, int], List[int]] = {}
    for option in sorted(options, key=lambda o: (-sum(o.offers), o.cost, o.offers)):
        packed = _packed(option.offers)
        cheaper = [
            other
            for (destroyed, mode), others in rivals.items()
            if destroyed <= option.destroyed and mode <= option.mode
            for other in others
        ]
        if not _contained(packed, cheaper, _guard(len(option.offers))):
            rivals.setdefault((option.destroyed, option.mode), []).append(packed)
            kept.append(option)
    return tuple(kept)


_FIELD = 8  # bits per count; the highest stays clear, so that one subtraction compares all counts at once


def _packed(counts: Counts) -> int:
    return int.from_bytes(bytes(counts), "little")


@cache
def _guard(width: int) -> int:
    return sum(1 << (_FIELD * at + _FIELD - 1) for at in range(width))


def _contained(packed: int, others: Sequence[int], guard: int) -> bool:
    """Whether one of the others has at least as many of everything."""
    return any((other | guard) - packed & guard == guard for other in others)
