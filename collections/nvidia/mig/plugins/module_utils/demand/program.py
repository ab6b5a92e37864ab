# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An integer program, as plain data: columns with bounds, rows with terms. The solver's file reads it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import List, Optional, Sequence, Tuple

Term = Tuple[int, float]  # column, coefficient


@dataclass
class Program:
    """Whole numbers to choose, each at least 0.

    Args:
        uppers: of each column the most that it can be.
        rows: lower bound, upper bound (None: there is none), terms.
    """

    uppers: List[float] = field(default_factory=list)
    rows: List[Tuple[Optional[float], Optional[float], Sequence[Term]]] = field(default_factory=list)

    def column(self, upper: float) -> int:
        """Add a column and return its number."""
        self.uppers.append(upper)
        return len(self.uppers) - 1

    def at_most(self, terms: Sequence[Term], upper: float) -> None:
        self.rows.append((None, upper, terms))

    def at_least(self, terms: Sequence[Term], lower: float) -> None:
        self.rows.append((lower, None, terms))


@dataclass(frozen=True)
class Answer:
    """What a solver found.

    Args:
        values: by column; None if it found nothing in time.
        bound: no choice is better than this.
    """

    values: Optional[List[int]]
    bound: float
