# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How to plan, and how to tell it: what all planners have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Mapping, Sequence


@dataclass(frozen=True)
class Settings:
    """How to plan.

    Args:
        time_limit: seconds after which the best plan so far is taken.
        gap: how far below the optimum is near enough, as a part of it.
        change_cost: how many pods more a changed GPU must be worth.
    """

    time_limit: float = 30.0
    gap: float = 0.0
    change_cost: float = 0.0


def gap_of(levels: Sequence[Mapping[str, int]]) -> float:
    """The biggest part of the pods of a priority and above that could be missing."""
    placed = bound = 0
    gap = 0.0
    for level in levels:
        placed += level["placed"]
        bound += level["bound"]
        gap = max(gap, 1 - placed / bound if bound else 0.0)
    return gap


def some(names: Sequence[str]) -> str:
    """All of them, or the first three and how many more."""
    shown = [*names[:3], f"{len(names) - 3} more"] if len(names) > 4 else list(names)
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
