# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pending pods and a fleet as it is -> new layouts per node, with reasons. Pure but for the solver.

The clock is given, so that a test can stop it.
"""

from __future__ import annotations

import gc
from collections import Counter, defaultdict
from dataclasses import dataclass
from itertools import islice
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from ansible_collections.nvidia.mig.plugins.module_utils.demand.bounds import read_bounds
from ansible_collections.nvidia.mig.plugins.module_utils.demand.choose import Choice, choose
from ansible_collections.nvidia.mig.plugins.module_utils.demand.explain import Reasons
from ansible_collections.nvidia.mig.plugins.module_utils.demand.fleet import Fleet, Gpu, Kind
from ansible_collections.nvidia.mig.plugins.module_utils.demand.layouts import Change, changes_of
from ansible_collections.nvidia.mig.plugins.module_utils.demand.options import Target
from ansible_collections.nvidia.mig.plugins.module_utils.demand.pods import Demand, device_name
from ansible_collections.nvidia.mig.plugins.module_utils.demand.problem import Problem, Site
from ansible_collections.nvidia.mig.plugins.module_utils.demand.settings import Settings, gap_of, some
from ansible_collections.nvidia.mig.plugins.module_utils.demand.spread import Place
from ansible_collections.nvidia.mig.plugins.module_utils.demand.targets import COSTS
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.profile import Profile, canonical


def plan(
    nodes: Sequence[Any],
    pods: Sequence[Any],
    bounds: Sequence[Any] = (),
    catalogs: Optional[Mapping[str, Any]] = None,
    settings: Settings = Settings(),  # noqa: B008 (frozen)
    clock: Callable[[], float] = lambda: 0.0,
    others: Sequence[Tuple[str, Mapping[str, str]]] = (),
) -> Dict[str, Any]:
    """Plan. Input and result have the forms that the module mig_partition_plan documents.

    Args:
        others: name and labels of nodes that are not planned here, but that bounds may speak of.
    """
    deadline = clock() + settings.time_limit
    # Millions of small objects, hardly one of them in a cycle: to look for cycles takes a fifth of the time.
    collects = gc.isenabled()
    gc.disable()
    try:
        fleet = Fleet(nodes, catalogs or {})
        demand = Demand(pods)
        problem = Problem(fleet, demand, read_bounds(bounds, fleet, fleet.problems, others))
        choice = choose(problem, clock, deadline, settings.change_cost, settings.gap)
        return _Result(problem, choice, settings).as_dict()
    finally:
        if collects:
            gc.enable()


@dataclass(frozen=True)
class _Turn:
    """What becomes of GPUs of one kind.

    Args:
        before, after: as a layout says it.
        kept, new: devices that pending pods could have before, and that they can have only then.
        made, price: the new ones, and what goes for them, in words.
    """

    before: Dict[str, Any]
    after: Dict[str, Any]
    kept: Tuple[str, ...]
    new: Counter[str]
    made: str
    price: str


class _Result:
    """The plan with names."""

    def __init__(self, problem: Problem, choice: Choice, settings: Settings) -> None:
        self.problem = problem
        self.choice = choice
        self.settings = settings
        self._turns: Dict[Tuple[int, int], _Turn] = {}
        self.changes: List[Tuple[Site, Place, List[Change]]] = []
        for site, place in zip(problem.sites, choice.places):
            moved = changes_of(problem, site, place)
            self.changes.append((site, place, moved))

    def as_dict(self) -> Dict[str, Any]:
        placed, nodes = self._placed()
        objective = self._objective()
        gap = gap_of(objective["pods"])
        return {
            "changed": False,
            "nodes": nodes,
            "placed": placed,
            "unplaced": self._unplaced(gap > 0),
            "problems": [*self.problem.fleet.problems, *self.problem.demand.problems],
            "objective": objective,
            "gap": round(gap, 6),
            "proven": gap == 0,
        }

    def _chosen(self) -> Dict[int, List[int]]:
        """Pods that run, by shape, the highest priority first; of equal ones the first that came."""
        demand = self.problem.demand
        found: Dict[int, List[int]] = defaultdict(list)
        for (shape, level), count in self.choice.single.items():
            found[shape] += demand.single[shape, level][:count]
        for form, count in self.choice.gangs.items():
            for members in demand.forms[form][:count]:
                for position in members:
                    found[demand.shape_of[position]].append(position)
        for positions in found.values():
            positions.sort(key=lambda position: (demand.level_of[position], position))
        return found

    def _placed(self) -> Tuple[List[Dict[str, Any]], List[Dict[str, Any]]]:
        demand, problem = self.problem.demand, self.problem
        chosen = {shape: iter(positions) for shape, positions in self._chosen().items()}
        self.running: Dict[int, str] = {}
        placed: List[Tuple[int, str, bool]] = []
        nodes: List[Dict[str, Any]] = []
        for site, place, moved in self.changes:
            here = [
                position for shape, count in place.pods.items() for position in islice(chosen[shape], count)
            ]
            if not moved:
                placed += [(position, site.node.name, False) for position in here]
                continue
            here.sort(key=lambda position: (demand.level_of[position], position))
            spare = self._existing(site, moved)
            waiting: Dict[str, List[int]] = defaultdict(list)
            for position in here:
                devices = demand.shapes[demand.shape_of[position]].devices
                waits = any(spare[resource] < count for resource, count in devices)
                for resource, count in devices:
                    if waits:
                        waiting[resource] += [position] * count
                    else:
                        spare[resource] -= count
                placed.append((position, site.node.name, waits))
            nodes.append(self._node(site, moved, waiting))
        placed.sort()
        self.running = {position: node for position, node, _waits in placed}
        named = problem.demand.named
        return [
            {"pod": named[position], "node": node, "needs_change": waits} for position, node, waits in placed
        ], nodes

    def _existing(self, site: Site, moved: Sequence[Change]) -> Counter[str]:
        """Devices that are there already and stay, free for pending pods."""
        targets = {change.gpu: change.target for change in moved}
        found: Counter[str] = Counter()
        for position, gpu in enumerate(site.node.gpus):
            target = targets.get(position)
            kept = self.problem.fleet.kind(gpu).offers if target is None else self._turn(gpu, target).kept
            for resource in kept:
                found[resource] += 1
        return found

    def _node(self, site: Site, moved: Sequence[Change], waiting: Dict[str, List[int]]) -> Dict[str, Any]:
        layout: Dict[str, Dict[str, Any]] = {}
        gpus = []
        for change in moved:
            gpu = site.node.gpus[change.gpu]
            turn = self._turn(gpu, change.target)
            entry = layout.setdefault(repr(turn.after), {"gpus": [], **_copy(turn.after)})
            entry["gpus"].append(gpu.selector)
            gpus.append(self._gpu(gpu, turn, change.target, waiting))
        return {"name": site.node.name, "layout": list(layout.values()), "gpus": gpus}

    def _turn(self, gpu: Gpu, target: Target) -> _Turn:
        key = (gpu.kind, id(target))  # the geometry keeps its targets
        found = self._turns.get(key)
        if found is None:
            found = self._turns[key] = _turn(self.problem.fleet.kind(gpu), target)
        return found

    def _gpu(self, gpu: Gpu, turn: _Turn, target: Target, waiting: Dict[str, List[int]]) -> Dict[str, Any]:
        named = self.problem.demand.named
        pods: List[str] = []
        for resource, count in turn.new.items():
            pods += [named[position] for position in waiting[resource][:count]]
            del waiting[resource][:count]
        pods = list(dict.fromkeys(pods))
        return {
            "index": gpu.index,
            "uuid": gpu.uuid,
            "product": self.problem.fleet.kind(gpu).catalog.product,
            "before": _copy(turn.before),
            "after": _copy(turn.after),
            "destroyed": target.destroyed,
            "mode_change": bool(target.mode),
            "pods": pods,
            "reason": f"{turn.made} for {some(pods)}{turn.price}" if pods else f"{turn.made}{turn.price}",
        }

    def _unplaced(self, late: bool) -> List[Dict[str, str]]:
        demand = self.problem.demand
        reasons = Reasons(self.problem, late, self.settings.change_cost)
        found: Dict[int, str] = dict(demand.refused)
        running = self.running
        for (shape, _level), positions in demand.single.items():
            left = [position for position in positions if position not in running]
            if left:
                found.update(dict.fromkeys(left, reasons.of(shape).text))
        for gangs in demand.forms.values():
            for members in gangs:
                if members[0] not in self.running:
                    pods = [(demand.shape_of[position], demand.named[position]) for position in members]
                    texts = reasons.of_gang(pods)
                    found.update({position: texts[demand.named[position]] for position in members})
        named = demand.named
        return [{"pod": named[position], "reason": found[position]} for position in sorted(found)]

    def _objective(self) -> Dict[str, Any]:
        demand = self.problem.demand
        bounds = {part.name: part for part in self.choice.parts}
        reached = Counter(demand.level_of[position] for position in self.running)
        asked = Counter(demand.level_of[position] for position in demand.planned())
        pods = []
        for level, priority in enumerate(demand.levels):
            part = bounds.get(f"level {level}")
            bound = asked[level] if part is None else max(part.bound, reached[level])
            pods.append(
                {"priority": priority, "asked": asked[level], "placed": reached[level], "bound": bound}
            )
        targets = [change.target for _site, _place, moved in self.changes for change in moved]
        values = {
            "destroyed": sum(target.destroyed for target in targets),
            "changed": len(targets),
            "mode_changes": sum(target.mode for target in targets),
        }
        found: Dict[str, Any] = {"pods": pods}
        for name in COSTS:
            bound = bounds[name].bound if name in bounds else 0
            found[name] = {"value": values[name], "bound": min(bound, values[name])}
        found["room"] = self._room()
        return found

    def _room(self) -> int:
        fleet = self.problem.fleet
        rooms = [self.problem.geometry.as_is(kind).room for kind in fleet.kinds]
        found = sum(rooms[gpu.kind] for node in fleet.nodes for gpu in node.gpus)
        for site, _place, moved in self.changes:
            found += sum(change.target.room - rooms[site.node.gpus[change.gpu].kind] for change in moved)
        return found


def _turn(kind: Kind, target: Target) -> _Turn:
    before, after = Counter(kind.offers), Counter(target.offers)
    new = after - before
    price = ""
    if target.destroyed:
        free = "free instance goes" if target.destroyed == 1 else "free instances go"
        price += f"; {target.destroyed} {free}"
    if target.mode:
        price += f"; its MIG mode is turned {'on' if target.mig else 'off'}"
    return _Turn(
        _entry(kind.mig, canonical(profile for instance in kind.instances for profile in instance.devices)),
        _entry(target.mig, target.devices),
        tuple((before & after).elements()),
        new,
        ", ".join(f"{n} x {device_name(name)}" if n > 1 else device_name(name) for name, n in new.items()),
        price,
    )


def _copy(entry: Mapping[str, Any]) -> Dict[str, Any]:
    return {key: dict(value) if isinstance(value, dict) else value for key, value in entry.items()}


def _entry(mig: bool, devices: Sequence[Profile]) -> Dict[str, Any]:
    """As a layout says it."""
    if not mig:
        return {"mig": False}
    return {"profiles": dict(Counter(str(profile) for profile in canonical(devices)))}
