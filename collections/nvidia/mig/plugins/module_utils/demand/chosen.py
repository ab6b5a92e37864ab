# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Columns of a program for the pods that are chosen, and what they count for: the same for every planner."""

from __future__ import annotations

from typing import Dict, List, Mapping, Sequence, Tuple

from ansible_collections.nvidia.mig.plugins.module_utils.demand.pods import Demand, Form
from ansible_collections.nvidia.mig.plugins.module_utils.demand.program import Program, Term

Single = Dict[Tuple[int, int], int]
"""By (shape, level), the column of the pods outside gangs."""
Gangs = Dict[Form, int]
"""The column of each form."""


def add_chosen(
    program: Program, demand: Demand, placed: Mapping[int, Sequence[Term]], exactly: bool = False
) -> Tuple[Single, Gangs]:
    """Add a column for each kind of pods; those that are chosen are placed, and a gang is all of its pods.

    Args:
        placed: by shape, the columns of its pods wherever they may run. Others cannot be chosen.
        exactly: nothing is placed that is not chosen.
    """
    single: Single = {}
    gangs: Gangs = {}
    wanted: Dict[int, List[Term]] = {shape: [] for shape in placed}
    for (shape, level), positions in demand.single.items():
        if shape in placed:
            column = single[shape, level] = program.column(len(positions))
            wanted[shape].append((column, -1))
    for form, members in demand.forms.items():
        if all(shape in placed for shape, _level, _count in form.members):
            column = gangs[form] = program.column(len(members))
            for shape, _level, count in form.members:
                wanted[shape].append((column, -count))
    for shape, terms in placed.items():
        row = [*terms, *_merged(wanted[shape])]
        program.at_least(row, 0)
        if exactly:
            program.at_most(row, 0)
    return single, gangs


def of_level(single: Single, gangs: Gangs, level: int) -> List[Term]:
    """The pods of a level."""
    terms: List[Term] = [(column, 1) for (_shape, own), column in single.items() if own == level]
    for form, column in gangs.items():
        count = sum(pods for _shape, own, pods in form.members if own == level)
        if count:
            terms.append((column, count))
    return terms


def total(terms: Sequence[Term], values: Sequence[int]) -> float:
    """What the terms come to."""
    return sum(number * values[column] for column, number in terms)


def _merged(terms: Sequence[Term]) -> List[Term]:
    found: Dict[int, float] = {}
    for column, number in terms:
        found[column] = found.get(column, 0) + number
    return list(found.items())
