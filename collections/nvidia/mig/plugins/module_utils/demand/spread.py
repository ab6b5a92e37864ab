# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What was chosen for groups -> what each GPU becomes and which node runs which pods, within what each has.

On a group of one node nothing is left to choose. Else each node gets options by the CPU and the like that it
has for them, and each pod goes to the node that has the most left per device. What finds no place so is
returned. Pods that need several devices are laid already; see `several`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Dict, List, Mapping, Sequence, Set, Tuple

from ansible_collections.nvidia.mig.plugins.module_utils.demand.options import Option
from ansible_collections.nvidia.mig.plugins.module_utils.demand.problem import Group, Problem, Site
from ansible_collections.nvidia.mig.plugins.module_utils.demand.targets import Targets


@dataclass
class Place:
    """One node while pods are laid on it.

    Args:
        free: per need, what is left.
        spare: per resource, devices that no pod has.
        open: by class, GPUs (positions on the node) for which nothing is chosen yet.
        chosen: by position on the node, the option that the GPU takes.
        pods: by shape.
    """

    free: List[int]
    spare: List[int]
    open: Dict[int, List[int]] = field(default_factory=dict)
    chosen: Dict[int, Option] = field(default_factory=dict)
    pods: Counter[int] = field(default_factory=Counter)


@dataclass
class Share:
    """An option of a class, and how many of the group's GPUs are still to take it."""

    option: Option
    left: int


Pool = Dict[int, List[Share]]  # by class


class Spread:
    """Places of all sites; filled group by group.

    Attributes:
        short: sites of groups in which pods were lost.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.places = [self.empty(number) for number in range(len(problem.sites))]
        most = [max((own[at] for own in problem.demands), default=0) or 1 for at in range(len(problem.needs))]
        # The weight of a shape: the biggest part that it takes of what any shape takes.
        self.weights = [max(need / top for need, top in zip(own, most)) for own in problem.demands]
        self._scale = most
        self.short: Set[int] = set()

    def empty(self, number: int) -> Place:
        """The site as it is, without pending pods."""
        problem, site = self.problem, self.problem.sites[number]
        place = Place(list(site.free), [0] * len(problem.resources))
        for position, name in enumerate(site.classes):
            choices = problem.classes[name]
            if choices.options:
                place.open.setdefault(name, []).append(position)
            else:
                self._add(place, choices.as_is, 1)
        return place

    def _chosen(self, group: Group) -> Dict[Tuple[int, Option], int]:
        """By class and option, how many GPUs of the group have taken it."""
        found: Dict[Tuple[int, Option], int] = {}
        for number in group.sites:
            classes = self.problem.sites[number].classes
            for position, option in self.places[number].chosen.items():
                key = (classes[position], option)
                found[key] = found.get(key, 0) + 1
        return found

    def _pool(self, group: Group, options: Dict[int, List[Tuple[Option, int]]]) -> Pool:
        """The options that GPUs of the group are still to take."""
        taken = self._chosen(group)
        pool: Pool = {}
        for name, count in group.classes.items():
            chosen = [*options.get(name, ())]
            chosen.append((self.problem.classes[name].as_is, count - sum(number for _o, number in chosen)))
            pool[name] = [
                Share(option, max(0, number - taken.get((name, option), 0))) for option, number in chosen
            ]
        return pool

    def carry_out(self, groups: Sequence[Group], targets: Targets) -> Counter[int]:
        """Lay out all groups; returns the pods, by shape, that found no place."""
        left: Counter[int] = Counter()
        for group, options, pods in zip(groups, targets.options, targets.pods):
            lost = self._group(group, options, dict(pods))
            if lost:
                left.update(lost)
                self.short.update(group.sites)
        self._close(range(len(self.places)))
        return self.fill(left)

    def fill(self, left: Counter[int]) -> Counter[int]:
        """Lay what is left wherever devices are spare."""
        for site, place in zip(self.problem.sites, self.places):
            if any(place.spare):
                for shape in sorted([own for own in site.shapes if left[own]], key=self._hard_first):
                    left[shape] -= self.lay(place, shape, left[shape])
        return +left

    def replace(self, groups: Sequence[Group], targets: Targets) -> None:
        """Take over what was chosen for groups of one node each."""
        for group in groups:
            for number in group.sites:
                self.places[number] = self.empty(number)
        for group, options, pods in zip(groups, targets.options, targets.pods):
            self._group(group, options, dict(pods))
        self._close([number for group in groups for number in group.sites])

    def choose(self, place: Place, name: int, option: Option) -> None:
        """An open GPU of the class takes the option."""
        place.chosen[place.open[name].pop()] = option
        self._add(place, option, 1)

    def undo(self, site: Site, place: Place, positions: Sequence[int], gone: Mapping[int, int]) -> None:
        """GPUs of the node stay as they are, without the pods that then have no devices, by shape."""
        for position in positions:
            self._add(place, place.chosen.pop(position), -1)
            self._add(place, self.problem.classes[site.classes[position]].as_is, 1)
        for shape, count in gone.items():
            self.take_off(place, shape, count)

    def take_off(self, place: Place, shape: int, count: int) -> None:
        """Take pods of the shape from the node."""
        place.pods[shape] -= count
        if not place.pods[shape]:
            del place.pods[shape]
        for at, number in enumerate(self.problem.devices[shape]):
            place.spare[at] += number * count
        for at, need in enumerate(self.problem.demands[shape]):
            place.free[at] += need * count

    def _group(
        self, group: Group, options: Dict[int, List[Tuple[Option, int]]], pods: Dict[int, int]
    ) -> Counter[int]:
        problem = self.problem
        places = [self.places[number] for number in group.sites]
        for place in places:
            for shape, count in place.pods.items():
                pods[shape] -= count
        pool = self._pool(group, options)
        shapes = sorted(pods, key=self._hard_first)
        for name in [name for name, shares in pool.items() if not any(share.left for share in shares[:-1])]:
            del pool[name]
        for place in places:
            for name in [name for name in place.open if name not in pool]:
                for _gpu in place.open.pop(name):
                    self._add(place, problem.classes[name].as_is, 1)
        self._deal(places, pool, pods)
        for shape in shapes:
            if pods[shape]:
                pods[shape] = self._lay_out(places, group, shape, pods[shape])
        return +Counter(pods)

    def _deal(self, places: Sequence[Place], pool: Pool, pods: Dict[int, int]) -> None:
        """Options to nodes: the one whose pods need the most to the node that has the most left for them."""
        loads = self._loads(pods)
        needs = range(len(self._scale))
        work = []
        for name, shares in pool.items():
            for share in shares:
                load = [sum(n * own[at] for n, own in zip(share.option.offers, loads)) for at in needs]
                work.append((max(load), name, share, load))
        work.sort(key=lambda item: (-item[0], item[1]))
        left = [[have / top for have, top in zip(place.free, self._scale)] for place in places]
        for place, own in zip(places, left):
            for at, load in enumerate(loads):
                for need in range(len(own)):
                    own[need] -= place.spare[at] * load[need]
        heaps: Dict[int, List[Tuple[float, int]]] = {}
        for name in pool:
            heaps[name] = [(-min(left[n]), n) for n, place in enumerate(places) if place.open.get(name)]
            heapify(heaps[name])
        for _weight, name, share, load in work:
            heap = heaps[name]
            while share.left > 0 and heap:
                key, number = heappop(heap)
                now = -min(left[number])
                if now > key + 1e-9:
                    heappush(heap, (now, number))
                    continue
                place = places[number]
                self.choose(place, name, share.option)
                for need, own_load in enumerate(load):
                    left[number][need] -= own_load
                share.left -= 1
                if place.open[name]:
                    heappush(heap, (-min(left[number]), number))

    def _loads(self, pods: Dict[int, int]) -> List[List[float]]:
        """Of each resource, what the pods to be laid need per device, in parts of the biggest need."""
        problem = self.problem
        sums = [[0.0] * len(self._scale) for dummy in problem.resources]
        counts = [0] * len(problem.resources)
        for shape, count in pods.items():
            size = sum(problem.devices[shape]) or 1
            for at, number in enumerate(problem.devices[shape]):
                if number:
                    counts[at] += number * count
                    for need, own in enumerate(problem.demands[shape]):
                        sums[at][need] += own / self._scale[need] * number * count / size
        return [[own / count if count else 0.0 for own in row] for row, count in zip(sums, counts)]

    def _lay_out(self, places: Sequence[Place], group: Group, shape: int, count: int) -> int:
        """Pods of one shape, a few at a time, to the node that has the most left per spare device."""
        problem = self.problem
        heap = []
        for position, number in enumerate(group.sites):
            place = places[position]
            if shape in problem.sites[number].shapes and self._room(place, shape):
                heap.append((-self._ease(place), position))
        if not heap:
            return count
        heapify(heap)
        portion = max(1, count // (2 * len(heap)))
        while heap and count:
            _ease, position = heappop(heap)
            place = places[position]
            count -= self.lay(place, shape, min(portion, count))
            if count and self._room(place, shape):
                heappush(heap, (-self._ease(place), position))
        return count

    def lay(self, place: Place, shape: int, most: int) -> int:
        """Up to ``most`` pods of the shape onto the node's spare devices; returns how many."""
        count = min(most, self._room(place, shape))
        if count:
            for at, number in enumerate(self.problem.devices[shape]):
                place.spare[at] -= number * count
            for at, need in enumerate(self.problem.demands[shape]):
                place.free[at] -= need * count
            place.pods[shape] += count
        return count

    def _room(self, place: Place, shape: int) -> int:
        room = self.problem.fits(shape, place.free)
        for need, have in zip(self.problem.devices[shape], place.spare):
            if need:
                room = min(room, have // need)
        return room

    def ease(self, number: int) -> float:
        """How much of what is scarce the site has left."""
        place = self.places[number]
        return min(have / top for have, top in zip(place.free, self._scale)) * (1 + sum(place.spare))

    def _ease(self, place: Place) -> float:
        return min(have / top for have, top in zip(place.free, self._scale)) / (sum(place.spare) or 1)

    def _hard_first(self, shape: int) -> Tuple[int, float, int]:
        return -sum(self.problem.devices[shape]), -self.weights[shape], shape

    def _close(self, numbers: Sequence[int]) -> None:
        """GPUs for which nothing was chosen stay as they are."""
        for number in numbers:
            place = self.places[number]
            for name, gpus in place.open.items():
                for _gpu in gpus:
                    self._add(place, self.problem.classes[name].as_is, 1)
            place.open = {}

    @staticmethod
    def _add(place: Place, option: Option, sign: int) -> None:
        for at, offered in enumerate(option.offers):
            place.spare[at] += sign * offered
