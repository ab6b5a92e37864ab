# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The best plan for a problem: which option each GPU takes, which pods of each shape each node runs.

First for groups of nodes, which gives a bound that no plan can beat; then for the nodes themselves. Where
pods were lost on the way, some nodes at a time are planned anew, each for itself. Small fleets are planned
node by node from the start, which is exact; those of middle size afterwards, if there is time and need.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Callable, Dict, List, Optional, Sequence, Tuple

from ansible_collections.nvidia.mig.plugins.module_utils.demand.model import Model
from ansible_collections.nvidia.mig.plugins.module_utils.demand.options import Option
from ansible_collections.nvidia.mig.plugins.module_utils.demand.pods import Form
from ansible_collections.nvidia.mig.plugins.module_utils.demand.problem import Group, Problem
from ansible_collections.nvidia.mig.plugins.module_utils.demand.several import Several
from ansible_collections.nvidia.mig.plugins.module_utils.demand.spread import Place, Spread
from ansible_collections.nvidia.mig.plugins.module_utils.demand.targets import Laid, Part, Targets
from ansible_collections.nvidia.mig.plugins.module_utils.demand.worth import undo_what_does_not_pay

_TINY = 300  # choices up to which every node is planned for itself from the start
_SMALL = 2000  # choices up to which it is in any case
_MIDDLE = 12000  # choices up to which that is tried if the plan for groups could be better
_WINDOW = 4  # nodes that are planned anew at a time
_VAIN = 12  # times in a row that this may bring nothing


@dataclass
class Choice:
    """The plan in numbers.

    Args:
        parts: of the objective, with their bounds.
        places: by site.
        single: by (shape, level), how many pods outside gangs run.
        gangs: how many of each form run.
    """

    parts: List[Part]
    places: List[Place]
    single: Dict[Tuple[int, int], int] = field(default_factory=dict)
    gangs: Dict[Form, int] = field(default_factory=dict)


def choose(problem: Problem, clock: Callable[[], float], deadline: float, cost: float, gap: float) -> Choice:
    """Plan. Whatever the time, what is returned can be carried out."""
    # A plan must bring more than it costs, so what just brings it does not count.
    cost *= 1.001
    best = _best(problem, clock, deadline, cost, gap)
    if cost:
        still = _as_it_is(problem, best.parts)
        if _score(problem, still, cost) >= _score(problem, best, cost):
            return still
    return best


def _best(problem: Problem, clock: Callable[[], float], deadline: float, cost: float, gap: float) -> Choice:
    size = _size(problem)
    if size <= _TINY:
        return _each(problem, clock, deadline, cost, gap)
    rough = _in_groups(problem, clock, deadline, cost, gap)
    if size > _MIDDLE or clock() >= deadline or (size > _SMALL and _is_near(problem, rough, gap)):
        return rough
    fine = _each(problem, clock, deadline, cost, gap, rough)
    if _score(problem, fine, cost) >= _score(problem, rough, cost):
        return fine
    rough.parts = fine.parts
    return rough


def _as_it_is(problem: Problem, parts: List[Part]) -> Choice:
    """No GPU changes, and pods take the devices that are there."""
    spread, nothing = Spread(problem), Targets(parts)
    spread.carry_out([], nothing)
    spread.fill(_waiting(problem, spread))
    return _admitted(problem, spread, nothing)


def _each(
    problem: Problem,
    clock: Callable[[], float],
    deadline: float,
    cost: float,
    gap: float,
    rough: Optional[Choice] = None,
) -> Choice:
    """Every node for itself, which is exact if there is time."""
    if _size(problem) <= _SMALL:
        problem.refine(every=True)
        if _size(problem) > _SMALL:
            problem.refine(every=False)
    groups = problem.alone(range(len(problem.sites)))
    start = None if rough is None else _as_targets(problem, groups, rough)
    targets = Model(problem, groups).solve(clock, deadline, cost, gap, start)
    spread = Spread(problem)
    spread.carry_out(groups if targets.solved else [], targets)
    if cost:
        undo_what_does_not_pay(problem, spread, cost)
    spread.fill(_waiting(problem, spread))
    return _admitted(problem, spread, targets)


def _as_targets(problem: Problem, groups: Sequence[Group], choice: Choice) -> Targets:
    """A choice for groups of one node each."""
    found = Targets(choice.parts, single=choice.single, gangs=choice.gangs)
    for group in groups:
        number = group.sites[0]
        place, classes = choice.places[number], problem.sites[number].classes
        options: Dict[int, List[Tuple[Option, int]]] = {}
        for position, option in place.chosen.items():
            if option.touched:
                options.setdefault(classes[position], []).append((option, 1))
        found.options.append(options)
        found.pods.append(dict(place.pods))
    return found


def _in_groups(
    problem: Problem, clock: Callable[[], float], deadline: float, cost: float, gap: float
) -> Choice:
    """Groups of nodes by their sums, then the nodes themselves."""
    groups = problem.groups()
    middle = (clock() + deadline) / 2
    model = Model(problem, groups)
    targets = model.solve_sums(clock, deadline, cost, lambda: clock() > middle)
    spread = Spread(problem)
    if targets.solved:
        laid = [
            Several(spread, group, model.prices(number), options).lay(pods)
            if len(group.sites) > 1
            else Laid()
            for number, (group, options, pods) in enumerate(zip(groups, targets.options, targets.pods))
        ]
        model.solve_rest(laid, max(0.2, deadline - clock()), cost, targets)
    if targets.solved:
        left = spread.carry_out(groups, targets)
        _repair(problem, spread, left, targets, clock, deadline, gap)
    else:
        spread.carry_out([], targets)
    if cost:
        undo_what_does_not_pay(problem, spread, cost)
    # Room that lost pods leave can serve others.
    spread.fill(_waiting(problem, spread))
    return _admitted(problem, spread, targets)


def _waiting(problem: Problem, spread: Spread) -> Counter[int]:
    """Pods, by shape, that are laid nowhere."""
    placed = Counter[int]()
    for place in spread.places:
        placed.update(place.pods)
    return Counter(dict(enumerate(problem.pods))) - placed


def _reached(problem: Problem, choice: Choice) -> List[int]:
    """Pods per level."""
    found = [0] * len(problem.demand.levels)
    for (_shape, level), count in choice.single.items():
        found[level] += count
    for form, count in choice.gangs.items():
        for _shape, level, pods in form.members:
            found[level] += pods * count
    return found


def _score(problem: Problem, choice: Choice, cost: float) -> List[float]:
    """By level, the pods of this and the higher ones, after what changes cost."""
    changed = sum(option.touched for place in choice.places for option in place.chosen.values())
    return [pods - cost * changed for pods in accumulate(_reached(problem, choice))]


def _is_near(problem: Problem, choice: Choice, gap: float) -> bool:
    """Whether it is near enough; without a gap, what is destroyed and changed must be the least, too."""
    values = _reached(problem, choice)
    bounds = [part.bound for part in choice.parts]
    if any(own < bound * (1 - gap) for own, bound in zip(values, bounds)):
        return False
    costs = [option.cost for place in choice.places for option in place.chosen.values()]
    return gap > 0 or all(sum(own) <= bound for own, bound in zip(zip(*costs), bounds[len(values) :]))


def _size(problem: Problem) -> int:
    """Columns of the program in which every node stands for itself."""
    found = 0
    for site in problem.sites:
        if site.shapes:
            names = set(site.classes)
            found += sum(len(problem.classes[name].options) for name in names) + len(site.shapes)
    return found


def _repair(
    problem: Problem,
    spread: Spread,
    left: Counter[int],
    targets: Targets,
    clock: Callable[[], float],
    deadline: float,
    gap: float,
) -> Counter[int]:
    """Plan some nodes anew, exactly, so that what is left, or is worth more than others, finds a place."""
    useful = [n for n, site in enumerate(problem.sites) if any(shape in left for shape in site.shapes)]
    # Where pods were lost first; there, nodes with the most left beside those with the least.
    useful.sort(key=lambda n: -spread.ease(n))
    short = [n for n in useful if n in spread.short]
    order = [n for pair in zip(short, reversed(short)) for n in pair][: len(short)]
    order += [n for n in useful if n not in spread.short]
    vain = 0
    lowest = _lowest(targets)
    last = len(problem.demand.levels) - 1
    worth = {shape: 50 ** min(3, last - level) for shape, level in lowest.items()}
    for start in range(0, len(order), _WINDOW):
        if clock() >= deadline or vain > _VAIN or _near(left, lowest, targets, gap):
            break
        vain += 1
        window = order[start : start + _WINDOW]
        before = Counter[int]()
        for number in window:
            before.update(spread.places[number].pods)
        groups = problem.alone(window)
        model = Model(problem, groups, before + left, lambda n: _whole(problem, spread.places[n], n))
        found = model.solve_numbers(min(deadline - clock(), 0.5), worth)
        if found is None:
            continue
        after = Counter[int]()
        for pods in found.pods:
            after.update(pods)
        if sum(worth.get(s, 1) * n for s, n in after.items()) > sum(
            worth.get(s, 1) * n for s, n in before.items()
        ):
            spread.replace(groups, found)
            vain = 0
            left = left + before - after
    return +left


def _lowest(targets: Targets) -> Dict[int, int]:
    """By shape, the lowest priority (as a level) of the chosen pods; what is lost is of that one."""
    found: Dict[int, int] = {}
    for (shape, level), count in targets.single.items():
        if count:
            found[shape] = max(level, found.get(shape, 0))
    for form, count in targets.gangs.items():
        for shape, _level, _count in form.members if count else ():
            found[shape] = 0  # without one of its pods, a gang is lost
    return found


def _near(left: Counter[int], lowest: Dict[int, int], targets: Targets, gap: float) -> bool:
    """Whether on no level more is lost than the gap allows."""
    lost: Counter[int] = Counter()
    for shape, count in left.items():
        lost[lowest.get(shape, 0)] += count
    chosen: Counter[int] = Counter()
    for (_shape, level), count in targets.single.items():
        chosen[level] += count
    return all(count <= gap * chosen[level] for level, count in lost.items())


def _whole(problem: Problem, place: Place, number: int) -> int:
    """How many GPUs of the site are whole in the plan."""
    found = 0
    for position, name in enumerate(problem.sites[number].classes):
        option = place.chosen.get(position)
        found += problem.classes[name].whole != bool(option is not None and option.mode)
    return found


def _admitted(problem: Problem, spread: Spread, targets: Targets) -> Choice:
    """Which pods and gangs the placed shapes stand for.

    Those that were chosen, without the least if some were lost; then others, the highest priority first. What
    stands for none is taken from its node.
    """
    room = Counter[int]()
    for place in spread.places:
        room.update(place.pods)
    single: Dict[Tuple[int, int], int] = {}
    gangs: Dict[Form, int] = {}
    for form in sorted(problem.demand.forms, key=_worth):
        fits = min(room[shape] // count for shape, _level, count in _needs(form))
        gangs[form] = min(fits, targets.gangs.get(form, 0))
        for shape, _level, count in form.members:
            room[shape] -= count * gangs[form]
    for first in (True, False):
        for shape, level in sorted(problem.demand.single, key=lambda key: key[1]):
            own = single.get((shape, level), 0)
            most = (
                targets.single.get((shape, level), 0) if first else len(problem.demand.single[shape, level])
            )
            taken = max(0, min(room[shape], most - own))
            single[shape, level] = own + taken
            room[shape] -= taken
    for shape, surplus in room.items():
        for place in spread.places:
            if not surplus:
                break
            taken = min(surplus, place.pods[shape])
            if taken:
                spread.take_off(place, shape, taken)
                surplus -= taken
    return Choice(targets.parts, spread.places, single, gangs)


def _worth(form: Form) -> Tuple[object, ...]:
    levels: Counter[int] = Counter()
    for _shape, level, count in form.members:
        levels[level] += count
    return tuple(sorted((level, -count) for level, count in levels.items())), form.members


def _needs(form: Form) -> List[Tuple[int, int, int]]:
    """Pods per shape, whatever their level."""
    found: Counter[int] = Counter()
    for shape, _level, count in form.members:
        found[shape] += count
    return [(shape, 0, count) for shape, count in found.items()]
