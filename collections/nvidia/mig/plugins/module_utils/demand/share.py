# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pending pods that ask for shares of GPUs -> how which nodes share theirs. An integer program.

Nodes for which the same is true are planned by their sums, as long as every share finds its CPU and the like,
and no pod asks for more than one; every other node is planned by itself. So what comes out is exact.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from math import floor, isfinite
from typing import Callable, Dict, Iterator, List, Sequence, Tuple

from ansible_collections.nvidia.mig.plugins.module_utils.demand.chosen import add_chosen, of_level, total
from ansible_collections.nvidia.mig.plugins.module_utils.demand.pods import Demand, Form
from ansible_collections.nvidia.mig.plugins.module_utils.demand.program import Program, Term
from ansible_collections.nvidia.mig.plugins.module_utils.demand.shared import SharedNode, Way
from ansible_collections.nvidia.mig.plugins.module_utils.demand.solver import Solver
from ansible_collections.nvidia.mig.plugins.module_utils.demand.targets import Part

_LITTLE = 1e-3  # pods


@dataclass(frozen=True)
class Turn:
    """What becomes of one node.

    Args:
        pods: by shape, how many of the pending ones run there.
    """

    node: SharedNode
    way: Way
    pods: Dict[int, int]


@dataclass
class Shares:
    """The plan.

    Args:
        parts: what nobody can beat, by level of priority.
        single: by (shape, level), how many pods outside gangs run; gangs: how many of each form.
        turns: of all nodes.
    """

    parts: List[Part] = field(default_factory=list)
    single: Dict[Tuple[int, int], int] = field(default_factory=dict)
    gangs: Dict[Form, int] = field(default_factory=dict)
    turns: List[Turn] = field(default_factory=list)


@dataclass
class _Group:
    """Nodes that are planned together, and the columns for them: by way, and by way and shape."""

    nodes: List[SharedNode]
    admitted: Tuple[Tuple[int, ...], ...]
    ways: List[int] = field(default_factory=list)
    pods: Dict[Tuple[int, int], int] = field(default_factory=dict)


def share(
    nodes: Sequence[SharedNode],
    demand: Demand,
    change_cost: float,
    gap: float,
    clock: Callable[[], float],
    deadline: float,
) -> Shares:
    """The most valuable set of pods; then the fewest nodes that change; then the biggest shares.

    Args:
        change_cost: how many pods more a changed node must be worth.
        gap: how far below the optimum is near enough, as a part of it.
    """
    return _Model(nodes, demand).solve(change_cost, gap, clock, deadline)


def admitted(node: SharedNode, way: Way, demand: Demand) -> Tuple[int, ...]:
    """Numbers of the shapes that the node could hold in that way, each by itself."""
    offers = dict(way.offers)
    return tuple(
        number
        for number, shape in enumerate(demand.shapes)
        if all(offers.get(name, 0) >= count for name, count in shape.devices)
        and not (way.one_each and any(count > 1 for _name, count in shape.devices))
        and all(node.free.get(name, 0) >= need for name, need in shape.needs)
        and node.obstacle(shape.where, way) is None
    )


class _Model:
    def __init__(self, nodes: Sequence[SharedNode], demand: Demand) -> None:
        self.nodes = nodes
        self.demand = demand
        self.program = Program()
        self._pods = demand.count()
        self._placed: Dict[int, List[Term]] = defaultdict(list)
        self._changes: List[Term] = []
        self._replicas: List[Term] = []
        self.groups = [self._add(group) for group in self._grouped()]
        self.single, self.gangs = add_chosen(self.program, demand, self._placed, exactly=True)

    def solve(self, change_cost: float, gap: float, clock: Callable[[], float], deadline: float) -> Shares:
        found = Shares()
        values = [0] * len(self.program.uppers)
        for group in self.groups:
            values[group.ways[0]] = len(group.nodes)
        if not self.demand.shapes or not self.nodes:
            return self._read(values, found)
        solver = Solver(self.program)
        solver.begin(values)
        # A little more, as a plan must beat what is.
        cost = change_cost + _LITTLE if change_cost else 0.0
        charge = [(column, -cost * number) for column, number in self._changes if cost]
        before: List[Term] = []
        for level in range(len(self.demand.levels)):
            terms = of_level(self.single, self.gangs, level)
            most = sum(number * self.program.uppers[column] for column, number in terms)
            goal = [*before, *terms, *charge] if charge else terms
            answer = solver.maximise(goal, (deadline - clock()) / 2, gap, whole=not charge)
            values = answer.values or values
            reached = total(terms, values)
            # What a plan could be better, in pods, after what its changes cost.
            better = answer.bound - total(goal, values)
            if isfinite(better):
                most = min(most, reached + max(0, floor(better + 1e-4)))
            found.parts.append(Part(f"level {level}", int(most)))
            solver.hold(terms, reached)
            before += terms
        if charge:
            solver.hold([*before, *charge], total([*before, *charge], values) - 1e-6)
        for costs in (self._changes, self._replicas):
            if any(values[column] for column, _number in costs):
                terms = [(column, -number) for column, number in costs]
                values = solver.maximise(terms, deadline - clock()).values or values
                solver.hold(terms, total(terms, values))
        return self._read(values, found)

    def _grouped(self) -> Iterator[_Group]:
        together: Dict[object, _Group] = {}
        for node in self.nodes:
            shapes = tuple(admitted(node, way, self.demand) for way in node.ways)
            group = _Group([node], shapes)
            if not self._by_sums(node, shapes):
                yield group
                continue
            key = (shapes, tuple((way.offers, way.changes, way.replicas) for way in node.ways))
            if key in together:
                together[key].nodes.append(node)
            else:
                together[key] = group
        yield from together.values()

    def _by_sums(self, node: SharedNode, shapes: Sequence[Sequence[int]]) -> bool:
        """Whether the node takes one pod for each share that it offers, whichever pods these are."""
        for way, own in zip(node.ways, shapes):
            pods = sum(count for _name, count in way.offers)
            wanted = [self.demand.shapes[number] for number in own]
            if any(shape.size != 1 for shape in wanted):
                return False
            for name in {name for shape in wanted for name, _need in shape.needs}:
                top = max(dict(shape.needs).get(name, 0) for shape in wanted)
                if node.free.get(name, 0) < top * pods:
                    return False
        return True

    def _add(self, group: _Group) -> _Group:
        program, number = self.program, len(group.nodes)
        needs: Dict[str, List[Term]] = defaultdict(list)
        for at, shapes in enumerate(group.admitted):
            way = group.nodes[0].ways[at]
            column = program.column(number)
            group.ways.append(column)
            if way.changes:
                self._changes.append((column, 1))
                self._replicas.append((column, way.replicas))
            asked: Dict[str, List[Term]] = defaultdict(list)
            for shape in shapes:
                pods = program.column(self._pods[shape])
                group.pods[at, shape] = pods
                self._placed[shape].append((pods, 1))
                for name, count in self.demand.shapes[shape].devices:
                    asked[name].append((pods, count))
                for name, need in self.demand.shapes[shape].needs:
                    needs[name].append((pods, need))
                if not self.demand.shapes[shape].devices:
                    program.at_most([(pods, 1), (column, -self._pods[shape])], 0)
            for name, terms in asked.items():
                program.at_most([*terms, (column, -dict(way.offers)[name])], 0)
        program.at_most([(column, 1) for column in group.ways], number)
        program.at_least([(column, 1) for column in group.ways], number)
        if len(group.nodes) == 1:
            for name, terms in needs.items():
                # In parts of the average need, so that bytes and CPUs are numbers of one size.
                unit = sum(need for _column, need in terms) / len(terms)
                free = group.nodes[0].free.get(name, 0)
                program.at_most([(column, need / unit) for column, need in terms], free / unit)
        return group

    def _read(self, values: Sequence[int], found: Shares) -> Shares:
        found.single = {key: values[column] for key, column in self.single.items() if values[column]}
        found.gangs = {form: values[column] for form, column in self.gangs.items() if values[column]}
        for group in self.groups:
            found.turns += self._laid(group, values)
        return found

    def _laid(self, group: _Group, values: Sequence[int]) -> Iterator[Turn]:
        """Each node's part."""
        first = 0
        for at, column in enumerate(group.ways):
            left = {shape: values[pods] for (own, shape), pods in group.pods.items() if own == at}
            nodes = group.nodes[first : first + values[column]]
            first += len(nodes)
            for node in nodes:
                way = node.ways[at]
                yield Turn(node, way, self._taken(left, way) if len(group.nodes) > 1 else left)

    def _taken(self, left: Dict[int, int], way: Way) -> Dict[int, int]:
        """As many pods as the node has shares; each takes one, and any of them fits."""
        free = dict(way.offers)
        found: Dict[int, int] = {}
        for shape in left:
            ((resource, _one),) = self.demand.shapes[shape].devices
            count = min(left[shape], free.get(resource, 0))
            if count:
                found[shape] = count
                left[shape] -= count
                free[resource] -= count
        return found
