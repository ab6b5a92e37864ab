# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The problem with its symmetry.

Nodes for which the same is true are one group, GPUs with the same choices one class. The cost of planning
grows with their number, not with that of GPUs or pods.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Dict, FrozenSet, List, Sequence, Tuple

from ansible_collections.nvidia.mig.plugins.module_utils.demand.bounds import Bounds
from ansible_collections.nvidia.mig.plugins.module_utils.demand.fleet import Fleet, Gpu, Node
from ansible_collections.nvidia.mig.plugins.module_utils.demand.options import (
    Counts,
    Geometry,
    Option,
    Rules,
)
from ansible_collections.nvidia.mig.plugins.module_utils.demand.pods import Demand
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.resources import GPU_RESOURCE

_MANY = 3  # devices of one kind: nodes that could give so many to one pod are apart from the others


@dataclass(frozen=True)
class Choices:
    """What GPUs of one class can be: as they are, or one of the options."""

    as_is: Option
    options: Tuple[Option, ...]
    whole: bool  # MIG mode is off


@dataclass
class Site:
    """A node with what planning knows of it.

    Args:
        free: per need, in the problem's order.
        admitted: numbers of the shapes that its labels and taints admit.
        shapes: of these, those that its devices and resources could hold.
        classes: numbers of its GPUs' classes, in the order of its GPUs.
        most: per resource, the most that it could offer, each for itself.
    """

    node: Node
    rules: Rules
    keep_whole: int
    sets: Tuple[int, ...]
    free: List[int]
    admitted: Tuple[int, ...]
    shapes: Tuple[int, ...]
    classes: List[int]
    most: Counts


@dataclass
class Group:
    """Sites that are planned together, by their sums."""

    sites: List[int]
    shapes: Tuple[int, ...]
    classes: Dict[int, int] = field(default_factory=dict)  # class -> GPUs


class Problem:
    """Fleet, demand and bounds, made ready.

    Attributes:
        resources: those that are asked for, and that some GPU offers or could.
        needs: the other resources that are asked for.
        devices, demands: of each shape, per resource and per need; asked: the devices that are not 0.
        most: per resource, the most that a GPU could offer.
    """

    def __init__(self, fleet: Fleet, demand: Demand, bounds: Bounds) -> None:
        self.fleet = fleet
        self.demand = demand
        self.bounds = bounds
        self.resources = tuple(sorted({name for shape in demand.shapes for name, _n in shape.devices}))
        self.needs = tuple(sorted({name for shape in demand.shapes for name, _n in shape.needs}))
        self.geometry = Geometry(self.resources)
        self.devices = [_vector(shape.devices, self.resources) for shape in demand.shapes]
        self.asked = [tuple((at, n) for at, n in enumerate(own) if n) for own in self.devices]
        self.demands = [_vector(shape.needs, self.needs) for shape in demand.shapes]
        self.pods = demand.count()
        self.classes: List[Choices] = []
        self.sites: List[Site] = []
        self._tops = [max((own[at] for own in self.demands), default=0) for at in range(len(self.needs))]
        self._most: List[Counts] = []  # by class, of each resource the most that a GPU could offer
        self._held: Dict[object, Tuple[int, ...]] = {}
        self._classes: Dict[Choices, int] = {}
        self._class_of: Dict[Tuple[int, int, bool], int] = {}
        self._admitted: Dict[object, Tuple[int, ...]] = {}
        self._wheres = list(dict.fromkeys(shape.where for shape in demand.shapes))
        self._keys = tuple(sorted({key for where in self._wheres for key in where.keys}))
        self._names = any(where.names_nodes for where in self._wheres)
        self._rules: Dict[object, Rules] = {}
        for node in fleet.nodes:
            self.sites.append(self._site(node))
        self.most = tuple(map(max, zip(*self._most)))

    def groups(self) -> List[Group]:
        """Sites that admit the same shapes under the same bounds, are as short of CPU and the like, and could
        give as many devices to one pod."""
        found: Dict[object, Group] = {}
        scale = self._per_device()
        big = sorted({(at, n) for own in self.devices for at, n in enumerate(own) if n >= _MANY})
        for number, site in enumerate(self.sites):
            if not site.shapes:
                continue
            key: object = (
                site.admitted,
                site.rules,
                site.sets,
                self._tightness(site, scale),
                tuple(site.most[at] >= size for at, size in big),
            )
            if site.keep_whole:
                key = number  # a bound of each node is not one of their sum
            found.setdefault(key, Group([], ())).sites.append(number)
        for group in found.values():
            group.shapes = tuple(sorted({shape for n in group.sites for shape in self.sites[n].shapes}))
        return [self._filled(group) for group in found.values()]

    def alone(self, numbers: Sequence[int]) -> List[Group]:
        """Each site as a group of its own: what is planned then is exact."""
        return [
            self._filled(Group([number], self.sites[number].shapes))
            for number in numbers
            if self.sites[number].shapes
        ]

    def refine(self, every: bool) -> None:
        """Take the options anew; with ``every`` also those that offer less, for the room that they leave."""
        self._classes, self.classes, self._class_of, self._most = {}, [], {}, []
        for site in self.sites:
            site.classes = [self._class(gpu, site, every) for gpu in site.node.gpus]

    def fits(self, shape: int, free: Sequence[int]) -> int:
        """How many pods of the shape the free resources can take."""
        return min([have // need for need, have in zip(self.demands[shape], free) if need])

    def _filled(self, group: Group) -> Group:
        counts: Counter[int] = Counter()
        for number in group.sites:
            counts.update(self.sites[number].classes)
        group.classes = dict(counts)
        return group

    def _site(self, node: Node) -> Site:
        limits = self.bounds.limits[node.name]
        admitted = self._admit(node)
        rules = self._rules_for(
            admitted, limits.profiles, limits.keep_mode or bool(node.keep_mode), bool(limits.frozen)
        )
        site = Site(
            node,
            rules,
            limits.keep_whole,
            limits.sets,
            [node.free.get(name, 0) for name in self.needs],
            admitted,
            (),
            [],
            (),
        )
        site.classes = [self._class(gpu, site, False) for gpu in node.gpus]
        mosts = [self._most[number] for number in site.classes]
        site.most = tuple(map(sum, zip(*mosts))) if mosts else (0,) * len(self.resources)
        site.shapes = self._held_by(admitted, site.most)
        if any(have < top for have, top in zip(site.free, self._tops)):
            site.shapes = tuple([shape for shape in site.shapes if self.fits(shape, site.free)])
        return site

    def _held_by(self, admitted: Tuple[int, ...], most: Counts) -> Tuple[int, ...]:
        """Of these shapes, those for which so many devices of each kind are enough."""
        key = (admitted, most)
        found = self._held.get(key)
        if found is None:
            found = self._held[key] = tuple(
                shape for shape in admitted if all(most[at] >= count for at, count in self.asked[shape])
            )
        return found

    def _admit(self, node: Node) -> Tuple[int, ...]:
        signature = (
            tuple(node.labels.get(key) for key in self._keys),
            node.taints,
            node.unschedulable,
            node.name if self._names else None,
        )
        found = self._admitted.get(signature)
        if found is None:
            good = {
                where
                for where in self._wheres
                if where.obstacle(node.name, node.labels, node.taints, node.unschedulable) is None
            }
            found = tuple(n for n, shape in enumerate(self.demand.shapes) if shape.where in good)
            self._admitted[signature] = found
        return found

    def _rules_for(self, admitted: Tuple[int, ...], profiles: object, keep_mode: bool, frozen: bool) -> Rules:
        key = (admitted, profiles, keep_mode, frozen)
        found = self._rules.get(key)
        if found is None:
            names = {name for shape in admitted for name, _n in self.demand.shapes[shape].devices}
            if isinstance(profiles, frozenset):
                names &= profiles | {GPU_RESOURCE}
            creatable: FrozenSet[str] = frozenset() if frozen else frozenset(names)
            found = self._rules[key] = Rules(creatable, not keep_mode and not frozen)
        return found

    def _class(self, gpu: Gpu, site: Site, every: bool) -> int:
        key = (gpu.kind, id(site.rules), every)
        found = self._class_of.get(key)
        if found is None:
            kind = self.fleet.kind(gpu)
            choices = Choices(
                self.geometry.as_is(kind, every),
                self.geometry.options(gpu.kind, kind, site.rules, every),
                not kind.mig,
            )
            found = self._classes.setdefault(choices, len(self.classes))
            if found == len(self.classes):
                self.classes.append(choices)
                offers = [choices.as_is.offers, *(option.offers for option in choices.options)]
                self._most.append(tuple(map(max, zip(*offers))))
            self._class_of[key] = found
        return found

    def _per_device(self) -> List[float]:
        """Of each need, how much a device takes on average."""
        devices = sum(count * shape.size for count, shape in zip(self.pods, self.demand.shapes)) or 1
        return [
            sum(count * own[at] for count, own in zip(self.pods, self.demands)) / devices
            for at in range(len(self.needs))
        ]

    def _tightness(self, site: Site, scale: Sequence[float]) -> int:
        """How short the node is of CPU and the like, against what its devices could use: 0 (plenty) to 2."""
        devices = max(site.most, default=0) or 1
        ratio = min(have / (own * devices) for have, own in zip(site.free, scale) if own)
        return next((step for step, least in enumerate((1.5, 0.5)) if ratio >= least), 2)


def _vector(pairs: Sequence[Tuple[str, int]], names: Sequence[str]) -> Tuple[int, ...]:
    found = dict(pairs)
    return tuple(found.get(name, 0) for name in names)
