# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods that need several devices of one node: on a group of many nodes, they are laid before all others.

Sums over nodes say little about them. So each goes to the node, and takes the GPUs, where that costs the
others least: where the options that were chosen do, or else by the prices of the relaxed program. What is
left is chosen anew afterwards.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Dict, List, NamedTuple, Optional, Tuple

from ansible_collections.nvidia.mig.plugins.module_utils.demand.options import Option
from ansible_collections.nvidia.mig.plugins.module_utils.demand.problem import Group
from ansible_collections.nvidia.mig.plugins.module_utils.demand.spread import Place, Spread
from ansible_collections.nvidia.mig.plugins.module_utils.demand.targets import Laid, Prices

# Beyond what was chosen prices rise, nobody knows how far: about three pods of the second level from below.
_BEYOND = 300.0


class _Way(NamedTuple):
    """How a place could take a pod: at which price, and which options GPUs of which classes take for it."""

    price: float
    options: List[Tuple[int, Option]]


class Several:
    """One group."""

    def __init__(
        self, spread: Spread, group: Group, prices: Prices, options: Dict[int, List[Tuple[Option, int]]]
    ) -> None:
        self.spread = spread
        self.problem = spread.problem
        self.group = group
        self.prices = prices
        self._chosen: Dict[Tuple[int, int], int] = {}  # GPUs that are still to take it
        for name, count in group.classes.items():
            chosen = options.get(name, [])
            rest = count - sum(number for _option, number in chosen)
            for option, number in [*chosen, (self.problem.classes[name].as_is, rest)]:
                self._chosen[name, id(option)] = number

    def lay(self, pods: Dict[int, int]) -> Laid:
        """Lay as many of the pods, by shape, as there is a way for; returns what is fixed by that."""
        laid = Laid()
        shapes = [shape for shape in pods if sum(self.problem.devices[shape]) > 1]
        for shape in sorted(shapes, key=self._bulky_first):
            laid.pods[shape] = self._lay(shape, pods[shape])
        for number in self.group.sites:
            classes = self.problem.sites[number].classes
            for position, option in self.spread.places[number].chosen.items():
                laid.take(classes[position], option)
        return laid

    def _lay(self, shape: int, count: int) -> int:
        places = self.spread.places
        heap = []
        for number in self.group.sites:
            if shape in self.problem.sites[number].shapes:
                way = self._way(places[number], shape)
                if way is not None:
                    heap.append((way.price, number))
        heapify(heap)
        done = 0
        while heap and done < count:
            number = heappop(heap)[1]
            way = self._way(places[number], shape)
            if way is None:
                continue
            for name, option in way.options:
                self.spread.choose(places[number], name, option)
                self._chosen[name, id(option)] = self._chosen.get((name, id(option)), 0) - 1
            done += self.spread.lay(places[number], shape, 1)
            way = self._way(places[number], shape)
            if way is not None:
                heappush(heap, (way.price, number))
        return done

    def _way(self, place: Place, shape: int) -> Optional[_Way]:
        if not self.problem.fits(shape, place.free):
            return None
        price = 0.0
        options: List[Tuple[int, Option]] = []
        spare = list(place.spare)
        left = {name: len(gpus) for name, gpus in place.open.items() if gpus}
        for at, number in self.problem.asked[shape]:
            while spare[at] < number:
                lack = number - spare[at]
                best: Optional[Tuple[float, int, Option]] = None
                for name in left:
                    found = self._cheapest(name, at, lack)
                    if found is not None and (best is None or found[0] < best[0]):
                        best = (found[0], name, found[1])
                if best is None:
                    return None
                _price, name, option = best
                price += self._price(name, option)
                options.append((name, option))
                left[name] -= 1
                if not left[name]:
                    del left[name]
                for other, offered in enumerate(option.offers):
                    spare[other] += offered
        return _Way(price, options)

    def _cheapest(self, name: int, at: int, lack: int) -> Optional[Tuple[float, Option]]:
        """The option of the class with the lowest price per device that is lacking."""
        choices = self.problem.classes[name]
        best: Optional[Tuple[float, int, Option]] = None
        for option in (choices.as_is, *choices.options):
            if option.offers[at]:
                price = self._price(name, option) / min(lack, option.offers[at])
                if best is None or (price, sum(option.offers)) < best[:2]:
                    best = (price, sum(option.offers), option)
        return None if best is None else (best[0], best[2])

    def _price(self, name: int, option: Option) -> float:
        if self._chosen.get((name, id(option)), 0) > 0:
            return 0.0
        return self.prices.of(name, option) + _BEYOND

    def _bulky_first(self, shape: int) -> Tuple[float, int, int]:
        """By how many GPUs it needs at least: few nodes have several of them for one pod."""
        parts = [number / (self.problem.most[at] or 1) for at, number in self.problem.asked[shape]]
        return -sum(parts), -sum(self.problem.devices[shape]), shape
