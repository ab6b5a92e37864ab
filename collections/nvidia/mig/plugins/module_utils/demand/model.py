# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Groups of nodes -> an integer program, solved for one part of the objective after the other.

Of each class of GPUs in a group, how many take which option; of each shape, how many of its pods run in the
group. A group's devices, CPU and the like are summed, so what comes out is possible on a group of one node,
and no plan can be better for a group of many.
"""

from __future__ import annotations

from collections import Counter
from math import floor
from typing import Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from ansible_collections.nvidia.mig.plugins.module_utils.demand.chosen import (
    Gangs,
    Single,
    add_chosen,
    of_level,
    total,
)
from ansible_collections.nvidia.mig.plugins.module_utils.demand.options import Option
from ansible_collections.nvidia.mig.plugins.module_utils.demand.problem import Group, Problem
from ansible_collections.nvidia.mig.plugins.module_utils.demand.program import Answer, Program, Term
from ansible_collections.nvidia.mig.plugins.module_utils.demand.solver import Solver
from ansible_collections.nvidia.mig.plugins.module_utils.demand.targets import (
    COSTS,
    Laid,
    Part,
    Prices,
    Targets,
)

_BRANCHES = 100  # a plan that leaves a little less room is as good, and to prove the most takes long


class Model:
    """The program of some groups."""

    def __init__(
        self,
        problem: Problem,
        groups: Sequence[Group],
        wanted: Optional[Dict[int, int]] = None,
        whole: Optional[Callable[[int], int]] = None,
    ) -> None:
        """The program of these groups; with ``wanted`` of so many pods at most, by shape.

        Args:
            whole: how many GPUs are whole on a site outside of these groups; else as they are.
        """
        self.problem = problem
        self.groups = groups
        self.program = Program()
        self.options: List[Tuple[int, int, Option, int]] = []  # group, class, option, column
        self.pods: List[Tuple[int, int, int]] = []  # group, shape, column
        self.single: Single = {}
        self.gangs: Gangs = {}
        self._cost_terms: Dict[str, List[Term]] = {}
        self._placed: Dict[int, List[Term]] = {}  # by shape, its columns over the groups
        self._rows: Dict[Tuple[int, int], int] = {}  # by group and class, the row of its GPUs
        self._columns: Dict[Tuple[int, int], List[Tuple[Option, int]]] = {}  # by group and class
        self._solver: Optional[Solver] = None
        self._whole: List[Tuple[int, List[Term]]] = []  # by group, GPUs that are whole: a constant and terms
        for number, group in enumerate(groups):
            self._add_group(number, group)
        self._add_bounds(whole or self._whole_now)
        if wanted is None:
            self.single, self.gangs = add_chosen(self.program, problem.demand, self._placed)
        else:
            self._add_numbers(wanted)

    def solve(
        self,
        clock: Callable[[], float],
        deadline: float,
        cost: float,
        gap: float,
        start: Optional[Targets] = None,
    ) -> Targets:
        """All parts of the objective, as far as time allows.

        Args:
            start: a choice that is possible, with bounds that hold for the best one.
        """
        solver = Solver(self.program)
        found = Targets()
        values: Optional[List[int]] = None
        if start is not None:
            values = self._values(start)
            solver.begin(values)
        known = {} if start is None or cost else {part.name: part.bound for part in start.parts}
        charge = self._charge(cost)
        before: List[Term] = []
        for level in range(len(self.problem.demand.levels)):
            terms = self._level(level)
            name = f"level {level}"
            most = sum(self._upper(term) for term in terms)
            most = min(most, known.get(name, most))
            answer: Optional[Answer] = None
            if cost or values is None or _total(terms, values) < most:
                goal = [*before, *terms, *charge] if cost else terms
                # Half of what is left, so that the next parts have some time, too.
                answer = solver.maximise(goal, (deadline - clock()) / 2, gap, whole=not cost)
                values = answer.values or values
                if not cost and abs(answer.bound) < most:
                    most = floor(answer.bound + 1e-4)
            value = None if values is None else _total(terms, values)
            if cost and answer is not None and values is not None and value is not None:
                # What a plan could be better, in pods, after what its changes cost.
                better = min(most, answer.bound - total(goal, values))
                most = min(most, value + max(0, floor(better + 1e-4)))
            found.parts.append(Part(name, most))
            if value is None or value < most:
                known = {}  # they are for a plan that reaches those before
            if value:
                solver.hold(terms, value)
            before += terms
        if cost and values is not None:
            solver.hold([*before, *charge], total([*before, *charge], values) - 1e-6)
        if values is not None:
            values = self._least(solver, values, clock, deadline, found, known)
        if values is not None:
            self._read(values, found)
        return found

    def solve_numbers(self, seconds: float, worth: Dict[int, int]) -> Optional[Targets]:
        """The most worthy pods that fit, whatever is destroyed; None if none was found in time."""
        terms = [(column, worth.get(shape, 1)) for shape, own in self._placed.items() for column, _n in own]
        answer = Solver(self.program).maximise(terms, seconds)
        if answer.values is None:
            return None
        found = Targets()
        self._read(answer.values, found)
        return found

    def solve_sums(
        self, clock: Callable[[], float], deadline: float, cost: float, quick: Callable[[], bool]
    ) -> Targets:
        """For groups of many nodes: bounds by relaxation, and about what its solution has.

        Args:
            quick: whether time is short, so that only pods are counted exactly, not what is destroyed.
        """
        solver, found = Solver(self.program), Targets()
        levels = [self._level(level) for level in range(len(self.problem.demand.levels))]
        charge = self._charge(cost)
        goal = self._weighted(levels, cost)
        solver.relax(goal, deadline - clock())
        before: List[Term] = []
        best: Optional[float] = None
        for level, terms in enumerate(levels):
            most = sum(self._upper(term) for term in terms)
            best = solver.relax([*before, *terms, *charge] if cost else terms, deadline - clock())
            if best is not None:
                if cost:
                    best = solver.value(terms)
                most = min(most, floor(best + 1e-4))
                solver.hold(terms, most)
            found.parts.append(Part(f"level {level}", most))
            before += terms
        if cost and best is not None:
            solver.hold([*before, *charge], solver.value([*before, *charge]) - 1e-6)
        for name in COSTS:
            terms = [(column, -number) for column, number in self._costs(name)]
            best = None if quick() else solver.relax(terms, deadline - clock())
            found.parts.append(Part(name, 0 if best is None else max(0, -floor(best + 1e-4))))
            if best is not None:
                solver.hold(terms, floor(best + 1e-4))
        if not solver.relaxed:
            return found
        solver.release()
        self._solver = solver
        self._read(solver.nearest(), found)
        return found

    def prices(self, number: int) -> Prices:
        """Those of a group, after `solve_sums`."""
        found: Dict[Tuple[int, int], float] = {}
        if self._solver is not None:
            for name in self.groups[number].classes:
                for option, column in self._columns.get((number, name), ()):
                    found[name, id(option)] = self._solver.price_of_column(column)
                if (number, name) in self._rows:
                    row = self._rows[number, name]
                    found[name, id(self.problem.classes[name].as_is)] = self._solver.price_of_row(row)
        return Prices(found)

    def solve_rest(self, laid: Sequence[Laid], seconds: float, cost: float, found: Targets) -> None:
        """Whole numbers after `solve_sums`, beside the GPUs and pods that are laid by now, by group."""
        solver = self._solver
        if solver is None:
            return
        least: Dict[int, int] = {}
        most: Dict[int, int] = {}
        counts: Dict[int, int] = {}
        for number, own in enumerate(laid):
            for name, options in own.options.items():
                columns = self._columns[number, name]
                taken = Counter(map(id, options))
                least.update({column: taken[id(option)] for option, column in columns if id(option) in taken})
                kept = taken[id(self.problem.classes[name].as_is)]
                counts[self._rows[number, name]] = self.groups[number].classes[name] - kept
        for number, shape, column in self.pods:
            if shape in laid[number].pods:
                least[column] = most[column] = laid[number].pods[shape]
        solver.restrict(least, most, counts)
        levels = [self._level(level) for level in range(len(self.problem.demand.levels))]
        goal = self._weighted(levels, cost)
        found.solved = False
        if solver.relax(goal, seconds) is None:
            return
        pods = [column for _group, _shape, column in self.pods]
        solver.confine([*pods, *self.single.values(), *self.gangs.values()])
        answer = solver.maximise(goal, seconds, 1e-5, whole=False)
        if answer.values is not None:
            self._read(answer.values, found)

    def _weighted(self, levels: Sequence[Sequence[Term]], cost: float) -> List[Term]:
        """All parts of the objective in one, each much heavier than the next: a start for the rest."""
        found = [
            (column, -weight * number)
            for name, weight in zip(COSTS, (0.05, 0.01, 0.001))
            for column, number in self._costs(name)
        ]
        found += self._charge(cost)
        weight = 1.0
        for terms in reversed(levels):
            found += [(column, weight * number) for column, number in terms]
            weight *= 100
        return found

    def _least(
        self,
        solver: Solver,
        values: List[int],
        clock: Callable[[], float],
        deadline: float,
        found: Targets,
        known: Mapping[str, int],
    ) -> List[int]:
        """With the same pods: destroy least, then leave the most room."""
        for name in COSTS:
            terms = [(column, -number) for column, number in self._costs(name)]
            least = known.get(name, 0)
            if _total(terms, values) < -least:
                answer = solver.maximise(terms, deadline - clock())
                values = answer.values or values
                least = max(0, -floor(answer.bound + 1e-4)) if answer.bound <= 0 else 0
            value = _total(terms, values)
            found.parts.append(Part(name, min(least, -value)))
            if -value > least:
                known = {}
            if terms:
                solver.hold(terms, value)
        if any(values[column] for _g, _c, _o, column in self.options):
            answer = solver.maximise(self._room(), deadline - clock(), branches=_BRANCHES)
            values = answer.values or values
        return values

    def _add_group(self, number: int, group: Group) -> None:
        problem, program = self.problem, self.program
        base = [0] * len(problem.resources)
        supply: List[List[Term]] = [[] for dummy in problem.resources]
        whole = 0
        moves: List[Term] = []
        for name, count in group.classes.items():
            choices = problem.classes[name]
            for at, offered in enumerate(choices.as_is.offers):
                base[at] += offered * count
            whole += count * choices.whole
            columns: List[Term] = []
            own = self._columns[number, name] = []
            for option in choices.options:
                column = program.column(count)
                columns.append((column, 1))
                own.append((option, column))
                self.options.append((number, name, option, column))
                for at, offered in enumerate(option.offers):
                    if offered != choices.as_is.offers[at]:
                        supply[at].append((column, choices.as_is.offers[at] - offered))
                if option.mode:
                    moves.append((column, -1 if choices.whole else 1))
            if columns:
                self._rows[number, name] = len(program.rows)
                program.at_most(columns, count)
        sums = [sum(problem.sites[n].free[at] for n in group.sites) for at in range(len(problem.needs))]
        wants: List[List[Term]] = [[] for dummy in problem.needs]
        asked: List[List[Term]] = [[] for dummy in problem.resources]
        for shape in group.shapes:
            column = program.column(self._cap(group, shape))
            self.pods.append((number, shape, column))
            self._placed.setdefault(shape, []).append((column, 1))
            for at, count in enumerate(problem.devices[shape]):
                if count:
                    supply[at].append((column, count))
                    asked[at].append((column, count))
            for at, need in enumerate(problem.demands[shape]):
                if need:
                    wants[at].append((column, need))
        for at, terms in enumerate(supply):
            if terms:
                program.at_most(terms, base[at])
        for terms, have in zip(wants, sums):
            if terms and sum(self._upper(term) for term in terms) > have:
                # In parts of the average pod's need, so that bytes and CPUs are numbers of one size.
                unit = sum(need for _c, need in terms) / len(terms)
                program.at_most([(column, need / unit) for column, need in terms], have / unit)
        if len(group.sites) > 1:
            self._add_portions(group, asked)
        self._whole.append((whole, moves))

    def _add_portions(self, group: Group, asked: Sequence[Sequence[Term]]) -> None:
        """What only one node can give: of portions of several devices, no more than its nodes have each."""
        for at, terms in enumerate(asked):
            for size in sorted({count for _column, count in terms if count > 1}):
                portions = [(column, count // size) for column, count in terms if count >= size]
                have = sum(self.problem.sites[number].most[at] // size for number in group.sites)
                self.program.at_most(portions, have)

    def _cap(self, group: Group, shape: int) -> int:
        """The most pods of the shape that the group's nodes could hold, each node for itself."""
        problem = self.problem
        total = problem.pods[shape]
        devices = problem.devices[shape]
        if len(group.sites) > 1 and sum(devices) == 1:
            return total
        found = 0
        for number in group.sites:
            site = problem.sites[number]
            if shape in site.shapes:
                own = (
                    min(have // need for need, have in zip(devices, site.most) if need)
                    if any(devices)
                    else total
                )
                found += min(own, problem.fits(shape, site.free))
            if found >= total:
                return total
        return found

    def _add_bounds(self, whole_of: Callable[[int], int]) -> None:
        sites = self.problem.sites
        for number, least in enumerate(self.problem.bounds.sets):
            constant, terms = 0, []
            for group, (whole, moves) in zip(self.groups, self._whole):
                if number in sites[group.sites[0]].sets:
                    constant += whole
                    terms += moves
            inside = {n for group in self.groups for n in group.sites}
            others = (n for n, site in enumerate(sites) if n not in inside and number in site.sets)
            constant += sum(whole_of(n) for n in others)
            if terms:
                self.program.at_least(terms, least - constant)
        for group, (whole, moves) in zip(self.groups, self._whole):
            least = sum(sites[number].keep_whole for number in group.sites)
            if moves and least:
                self.program.at_least(moves, least - whole)

    def _whole_now(self, number: int) -> int:
        return sum(self.problem.classes[name].whole for name in self.problem.sites[number].classes)

    def _add_numbers(self, wanted: Dict[int, int]) -> None:
        for shape, terms in self._placed.items():
            self.program.at_most(terms, wanted.get(shape, 0))

    def _level(self, level: int) -> List[Term]:
        return of_level(self.single, self.gangs, level)

    def _costs(self, name: str) -> List[Term]:
        if not self._cost_terms:
            for at, part in enumerate(COSTS):
                costs = ((column, option.cost[at]) for _g, _c, option, column in self.options)
                self._cost_terms[part] = [(column, cost) for column, cost in costs if cost]
        return self._cost_terms[name]

    def _charge(self, cost: float) -> List[Term]:
        """What changed GPUs cost, in pods."""
        return [(column, -cost * number) for column, number in self._costs("changed")] if cost else []

    def _room(self) -> List[Term]:
        """What the options leave free, against what the GPUs leave as they are."""
        classes = self.problem.classes
        return [(column, option.room - classes[name].as_is.room) for _g, name, option, column in self.options]

    def _upper(self, term: Term) -> int:
        return int(self.program.uppers[term[0]] * term[1])

    def _values(self, targets: Targets) -> List[int]:
        """Of what was chosen for these groups, the columns; options are known by what they offer and cost."""
        values = [0] * len(self.program.uppers)
        taken: Dict[Tuple[int, int, object], int] = {}
        for group, chosen in enumerate(targets.options):
            for name, options in chosen.items():
                for option, number in options:
                    kind = (group, name, (option.offers, option.cost))
                    taken[kind] = taken.get(kind, 0) + number
        for group, name, option, column in self.options:
            values[column] = taken.pop((group, name, (option.offers, option.cost)), 0)
        for group, shape, column in self.pods:
            values[column] = targets.pods[group].get(shape, 0)
        for key, column in self.single.items():
            values[column] = targets.single.get(key, 0)
        for form, column in self.gangs.items():
            values[column] = targets.gangs.get(form, 0)
        return values

    def _read(self, values: Sequence[int], found: Targets) -> None:
        found.solved = True
        found.options = [{} for dummy in self.groups]
        found.pods = [{} for dummy in self.groups]
        for group, name, option, column in self.options:
            if values[column]:
                found.options[group].setdefault(name, []).append((option, values[column]))
        for group, shape, column in self.pods:
            if values[column]:
                found.pods[group][shape] = values[column]
        found.single = {key: values[column] for key, column in self.single.items()}
        found.gangs = {form: values[column] for form, column in self.gangs.items()}


def _total(terms: Sequence[Term], values: Sequence[int]) -> int:
    return int(total(terms, values))
