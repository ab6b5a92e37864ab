# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options -> layouts: of each GPU that changes, the one that destroys least for what its node's pods need."""

from __future__ import annotations

from dataclasses import dataclass
from operator import add, ge, sub
from typing import Dict, List, Sequence

from ansible_collections.nvidia.mig.plugins.module_utils.demand.options import Counts, Target
from ansible_collections.nvidia.mig.plugins.module_utils.demand.problem import Problem, Site
from ansible_collections.nvidia.mig.plugins.module_utils.demand.spread import Place


@dataclass(frozen=True)
class Change:
    """A GPU (its position on the node) and what it becomes."""

    gpu: int
    target: Target


def changes_of(problem: Problem, site: Site, place: Place) -> List[Change]:
    """The GPUs of the node that change. One that its pods can do without stays as it is."""
    moving = [position for position, option in place.chosen.items() if option.touched]
    if not moving:
        return []
    used = [0] * len(problem.resources)
    for shape, count in place.pods.items():
        for at, number in problem.asked[shape]:
            used[at] += number * count
    offers: Dict[int, Counts] = {}
    for position, name in enumerate(site.classes):
        option = place.chosen.get(position)
        offers[position] = (problem.classes[name].as_is if option is None else option).offers
    supply = list(map(sum, zip(*offers.values())))
    # The one whose change destroys the most is the first that may stay as it is.
    moving.sort(key=lambda p: (tuple(-cost for cost in place.chosen[p].cost), p))
    found: List[Change] = []
    for position in moving:
        gpu = site.node.gpus[position]
        kind = problem.fleet.kind(gpu)
        as_is = problem.classes[site.classes[position]].as_is.offers
        rest = list(map(sub, supply, offers[position]))
        needed = tuple([max(0, need) for need in map(sub, used, rest)])
        # A GPU that becomes whole may stand in for one that is kept whole elsewhere.
        bound = kind.mig and place.chosen[position].mode and (site.keep_whole or site.sets)
        if _covers(as_is, needed) and not bound:
            final = as_is
        else:
            if bound and not any(needed):
                needed = offers[position]
            target = problem.geometry.cheapest(gpu.kind, kind, site.rules, needed)
            if target is None:
                raise AssertionError(f"{gpu}: an option that was chosen has a layout")
            found.append(Change(position, target))
            final = problem.geometry.counts(target.offers)
        supply = list(map(add, rest, final))
        offers[position] = final
    return sorted(found, key=lambda change: site.node.gpus[change.gpu].index)


def _covers(offers: Sequence[int], needed: Sequence[int]) -> bool:
    return all(map(ge, offers, needed))
