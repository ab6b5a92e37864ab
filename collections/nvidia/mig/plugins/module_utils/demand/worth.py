# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hysteresis: changes that bring no more pods than they cost are undone."""

from __future__ import annotations

from collections import Counter
from typing import Dict, List, Sequence

from ansible_collections.nvidia.mig.plugins.module_utils.demand.problem import Problem, Site
from ansible_collections.nvidia.mig.plugins.module_utils.demand.spread import Place, Spread


def undo_what_does_not_pay(problem: Problem, spread: Spread, cost: float) -> Counter[int]:
    """Single GPUs first, then all of a node. Pods that lose their devices by that are returned, by shape."""
    lost: Counter[int] = Counter()
    for site, place in zip(problem.sites, spread.places):
        moved = [
            p for p, option in place.chosen.items() if option.touched and not _stands_in(site, option.mode)
        ]
        while moved:
            costs = {position: _lost(problem, site, place, [position]) for position in moved}
            least = min(moved, key=lambda position: (sum(costs[position].values()), position))
            gone, undone = costs[least], [least]
            if sum(gone.values()) > cost:
                gone, undone = _lost(problem, site, place, moved), moved
                if sum(gone.values()) > cost * len(moved):
                    break
            spread.undo(site, place, undone, gone)
            lost.update(gone)
            moved = [position for position in moved if position not in undone]
    return lost


def _stands_in(site: Site, mode: int) -> bool:
    """A GPU of which the mode changes may be what keeps a bound on whole GPUs."""
    return bool(mode and (site.keep_whole or site.sets))


def _lost(problem: Problem, site: Site, place: Place, positions: Sequence[int]) -> Counter[int]:
    """The fewest pods, by shape, for which the node has no devices if these GPUs stay as they are."""
    spare: List[int] = list(place.spare)
    for position in positions:
        as_is, option = problem.classes[site.classes[position]].as_is, place.chosen[position]
        for at, offered in enumerate(option.offers):
            spare[at] += as_is.offers[at] - offered
    pods: Dict[int, int] = dict(place.pods)
    found: Counter[int] = Counter()
    for at in range(len(spare)):
        for shape in sorted(pods, key=lambda own: -problem.devices[own][at]):
            number = problem.devices[shape][at]
            if spare[at] >= 0 or not number:
                break
            gone = min(pods[shape], -(spare[at] // number))
            found[shape] += gone
            pods[shape] -= gone
            for other, devices in enumerate(problem.devices[shape]):
                spare[other] += devices * gone
    return +found
