"""A greedy planner as nos describes its own: pod by pod, node by node, in order, never back.

Pods are sorted by priority, then the smaller profile first; nodes by name. What fits on devices that are free
already is placed first, as a scheduler does. Then each node in turn: every GPU in MIG mode takes the geometry
that gives the most of the profiles that pods lack, used ones kept; the pods that fit are placed, or, if none
does, the node is left as it was. MIG modes stay, as nos leaves them to people.

It is a model, and a generous one: it knows every GPU model and every geometry that really has a placement,
where nos has tables of three models and plans counts; and it looks only at profiles that pods on that node
could use.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.nvidia.mig.plugins.module_utils.demand.bounds import read_bounds
from ansible_collections.nvidia.mig.plugins.module_utils.demand.fleet import Fleet
from ansible_collections.nvidia.mig.plugins.module_utils.demand.options import Option
from ansible_collections.nvidia.mig.plugins.module_utils.demand.pods import Demand
from ansible_collections.nvidia.mig.plugins.module_utils.demand.problem import Problem, Site


@dataclass(frozen=True)
class Greedy:
    """A plan.

    Args:
        placed: how many pods of each priority (the highest first) find a place.
        changed: how many GPUs change.
        torn: how many pods were placed without the rest of their gang (they are not counted).
        nodes: the new layouts, as mig_partition_plan returns them.
    """

    placed: list[int]
    changed: int
    torn: int
    nodes: list[dict[str, Any]]


def greedy(nodes: Sequence[Any], pods: Sequence[Any], catalogs: Mapping[str, Any]) -> Greedy:
    """Plan."""
    fleet = Fleet(nodes, catalogs)
    demand = Demand(pods)
    problem = Problem(fleet, demand, read_bounds((), fleet, []))
    queue = _queue(demand)
    placed: list[int] = []
    layouts: list[dict[str, Any]] = []
    sites = sorted(problem.sites, key=lambda site: site.node.name)
    spare = []
    for site in sites:
        offers = [problem.classes[name].as_is for name in site.classes]
        devices = [sum(option.offers[at] for option in offers) for at in range(len(problem.resources))]
        spare.append((devices, list(site.free)))
        placed += _place(problem, site, *spare[-1], queue)
    for site, (devices, free) in zip(sites, spare):
        chosen = _geometries(problem, site, devices, queue)
        if not chosen:
            continue
        after = list(devices)
        for position, option in chosen.items():
            now = problem.classes[site.classes[position]].as_is
            for at in range(len(after)):
                after[at] += option.offers[at] - now.offers[at]
        found = _place(problem, site, after, free, queue)
        placed += found
        if found:
            layouts.append({"name": site.node.name, "layout": _layout(problem, site, chosen)})
    counts, torn = _counted(demand, placed)
    return Greedy(counts, sum(len(node["layout"]) for node in layouts), torn, layouts)


def _queue(demand: Demand) -> dict[int, list[int]]:
    """Waiting pods by shape, in the order in which they are looked at."""
    found: dict[int, list[int]] = {}
    waiting = [p for p in range(len(demand.named)) if p not in demand.refused]
    waiting.sort(key=lambda p: (demand.level_of[p], demand.shapes[demand.shape_of[p]].size, p))
    for position in waiting:
        found.setdefault(demand.shape_of[position], []).append(position)
    for positions in found.values():
        positions.reverse()
    return found


def _place(
    problem: Problem, site: Site, devices: list[int], free: list[int], queue: dict[int, list[int]]
) -> list[int]:
    """Pods in order, each if it fits; of one shape and priority all at once, which comes to the same."""
    demand = problem.demand
    placed: list[int] = []
    todo = [shape for shape in site.shapes if queue.get(shape)]
    todo.sort(key=lambda shape: (demand.level_of[queue[shape][-1]], demand.shapes[shape].size))
    while todo:
        shape = todo.pop(0)
        own = problem.devices[shape]
        room = min([problem.fits(shape, free), *(have // n for n, have in zip(own, devices) if n)])
        if not room:
            continue
        level = demand.level_of[queue[shape][-1]]
        while room and queue[shape] and demand.level_of[queue[shape][-1]] == level:
            placed.append(queue[shape].pop())
            room -= 1
            for at, number in enumerate(own):
                devices[at] -= number
            for at, need in enumerate(problem.demands[shape]):
                free[at] -= need
        if queue[shape] and room:
            todo.append(shape)
            todo.sort(key=lambda other: (demand.level_of[queue[other][-1]], demand.shapes[other].size))
    return placed


def _geometries(
    problem: Problem, site: Site, devices: Sequence[int], queue: Mapping[int, Sequence[int]]
) -> dict[int, Option]:
    """Of each GPU that changes, by its position: the geometry with the most of what is lacking."""
    lacking: Counter[int] = Counter()
    for shape in site.shapes:
        for at, number in enumerate(problem.devices[shape]):
            if number and queue.get(shape):
                lacking[at] += number * len(queue[shape])
    for at, have in enumerate(devices):
        lacking[at] = max(0, lacking[at] - have)
    found: dict[int, Option] = {}
    left = list(devices)
    for position, name in enumerate(site.classes):
        choices = problem.classes[name]
        now = choices.as_is.offers
        best, most = None, _gain(choices.as_is, lacking)
        for option in choices.options:
            # What pods were just given stays.
            kept = all(have - old + new >= 0 for have, old, new in zip(left, now, option.offers))
            if kept and not option.mode and _gain(option, lacking) > most:
                best, most = option, _gain(option, lacking)
        if best is not None:
            found[position] = best
            left = [have - old + new for have, old, new in zip(left, now, best.offers)]
            for at, number in enumerate(best.offers):
                lacking[at] = max(0, lacking[at] - number)
    return found


def _layout(problem: Problem, site: Site, chosen: Mapping[int, Option]) -> list[dict[str, Any]]:
    """As mig_layout takes it. The GPUs have MIG mode on, and keep it."""
    found = []
    for position, option in chosen.items():
        gpu = site.node.gpus[position]
        target = problem.geometry.cheapest(gpu.kind, problem.fleet.kind(gpu), site.rules, option.offers)
        if target is None:
            raise AssertionError(f"{gpu}: an option has a layout")
        counts = Counter(str(profile) for profile in target.devices)
        found.append({"gpus": [gpu.selector], "profiles": dict(counts)})
    return found


def _gain(option: Option, lacking: Counter[int]) -> int:
    return sum(min(number, lacking[at]) for at, number in enumerate(option.offers) if number)


def _counted(demand: Demand, placed: Sequence[int]) -> tuple[list[int], int]:
    """Pods by priority, and those of torn gangs."""
    running = set(placed)
    torn = {
        position
        for gangs in demand.forms.values()
        for members in gangs
        if not running.issuperset(members)
        for position in members
        if position in running
    }
    counts = Counter(demand.level_of[position] for position in running - torn)
    return [counts[level] for level in range(len(demand.levels))], len(torn)
