# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one file that imports the solver: HiGHS, through highspy."""

from __future__ import annotations

import traceback
from typing import Any, List, Mapping, Optional, Sequence, Tuple

from ansible_collections.nvidia.mig.plugins.module_utils.demand.program import Answer, Program, Term

try:
    import highspy
    import numpy

    HIGHSPY_ERROR: Optional[str] = None
except ImportError:
    HIGHSPY_ERROR = traceback.format_exc()


_DUAL, _PRIMAL = 1, 4  # values of HiGHS's option simplex_strategy


class Solver:
    """One program, solved for one objective after the other; each solution is the start of the next."""

    def __init__(self, program: Program) -> None:
        self.width = len(program.uppers)
        self._last: Any = None
        self._relaxed: Any = None
        self._basis: Any = None
        self._duals: Tuple[List[float], List[float]] = [], []  # of the first `relax`
        self._lowers = numpy.zeros(self.width)
        self._rows = len(program.rows)
        self._uppers = numpy.array(program.uppers)
        self._all = numpy.arange(self.width, dtype=numpy.int32)
        make: Any = highspy.Highs
        self._highs = make()
        self._set("output_flag", False)
        self._set("threads", 1)
        self._highs.passModel(_model(program))
        self._highs.changeObjectiveSense(highspy.ObjSense.kMaximize)

    def maximise(
        self,
        terms: Sequence[Term],
        seconds: float,
        gap: float = 0.0,
        whole: bool = True,
        branches: Optional[int] = None,
    ) -> Answer:
        """The best choice for the objective, or the best one that was found in time.

        Args:
            branches: after so many, the best one that was found is good enough.
            gap: relative; how far from the optimum is good enough.
            whole: every coefficient is a whole number, so a bound less than one away proves the optimum.
        """
        self._aim(terms, seconds)
        highs = self._highs
        self._set("solve_relaxation", False)
        self._set("presolve", "choose")
        self._set("simplex_strategy", _DUAL)
        self._set("mip_rel_gap", gap)
        self._set("mip_abs_gap", 0.99 if whole else 1e-6)
        self._set("mip_max_nodes", highspy.kHighsIInf if branches is None else branches)
        if self._last is not None:
            highs.setSolution(self._last)
        highs.run()
        info = highs.getInfo()
        if info.primal_solution_status != int(highspy.SolutionStatus.kSolutionStatusFeasible):
            return Answer(None, info.mip_dual_bound)
        self._last = highs.getSolution()
        return Answer([int(round(value)) for value in self._last.col_value], info.mip_dual_bound)

    def relax(self, terms: Sequence[Term], seconds: float) -> Optional[float]:
        """The best that there could be if columns need not be whole; None: out of time."""
        # A relaxation counts the time of all that ran before, a program that of its own run.
        self._aim(terms, max(seconds, 0.01) + self._highs.getRunTime())
        self._set("solve_relaxation", True)
        # Another objective leaves the last solution possible, so the primal method goes on from there.
        self._set("simplex_strategy", _DUAL if self._relaxed is None else _PRIMAL)
        self._set("presolve", "off")  # it takes longer than it saves
        self._highs.run()
        if self._highs.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            return None
        solution = self._highs.getSolution()
        if self._basis is None:
            self._basis = self._highs.getBasis()
            self._duals = list(solution.col_dual), list(solution.row_dual)
        self._relaxed = numpy.array(solution.col_value)
        return float(self._highs.getInfo().objective_function_value)

    @property
    def relaxed(self) -> bool:
        """Whether `relax` found anything."""
        return self._relaxed is not None

    def value(self, terms: Sequence[Term]) -> float:
        """What the terms come to in the solution of `relax`."""
        return float(sum(coefficient * self._relaxed[column] for column, coefficient in terms))

    def nearest(self) -> List[int]:
        """Whole numbers beside the solution of `relax`; they need not go together."""
        return [int(value) for value in self._relaxed + 0.5]

    def price_of_column(self, column: int) -> float:
        """What the objective of the first `relax` loses if the column is one more than it is there."""
        return max(0.0, -self._duals[0][column])

    def price_of_row(self, row: int) -> float:
        """What it loses if the row's upper bound is one less."""
        return max(0.0, self._duals[1][row])

    def release(self) -> None:
        """Forget what was held."""
        rows = self._highs.getNumRow()
        if rows > self._rows:
            self._highs.deleteRows(rows - self._rows, numpy.arange(self._rows, rows, dtype=numpy.int32))

    def confine(self, free_below: Sequence[int]) -> None:
        """From now on every column stays beside what `relax` found last; ``free_below`` may also be less."""
        lower = numpy.floor(self._relaxed + 1e-6)
        upper = numpy.minimum(self._uppers, numpy.ceil(self._relaxed - 1e-6))
        lower = numpy.minimum(lower, upper)
        below = numpy.array(free_below, dtype=numpy.int32)
        lower[below] = self._lowers[below]
        upper[below] = numpy.minimum(self._uppers[below], upper[below] + 1)
        self._highs.changeColsBounds(self.width, self._all, lower, upper)

    def restrict(
        self, least: Mapping[int, float], most: Mapping[int, float], rows: Mapping[int, float]
    ) -> None:
        """Columns that must be at least or at most so, rows that must be at most so; no longer confined."""
        for column, value in least.items():
            self._lowers[column] = value
        for column, value in most.items():
            self._uppers[column] = value
        for row, value in rows.items():
            self._highs.changeRowBounds(row, -highspy.kHighsInf, value)
        self._highs.changeColsBounds(self.width, self._all, self._lowers, self._uppers)
        self._highs.setBasis(self._basis)
        self._last = self._relaxed = None

    def _aim(self, terms: Sequence[Term], seconds: float) -> None:
        costs = numpy.zeros(self.width)
        for column, coefficient in terms:
            costs[column] += coefficient
        self._highs.changeColsCost(self.width, self._all, costs)
        self._set("time_limit", max(seconds, 0.01))

    def begin(self, values: Sequence[int]) -> None:
        """A choice from which `maximise` starts."""
        self._last = highspy.HighsSolution()
        self._last.col_value = [float(value) for value in values]

    def hold(self, terms: Sequence[Term], lower: float) -> None:
        """From now on the terms come to at least ``lower``."""
        columns = numpy.array([column for column, _c in terms], dtype=numpy.int32)
        values = numpy.array([coefficient for _c, coefficient in terms], dtype=numpy.float64)
        self._highs.addRow(lower, highspy.kHighsInf, len(columns), columns, values)

    def _set(self, option: str, value: Any) -> None:
        self._highs.setOptionValue(option, value)


def _model(program: Program) -> Any:
    starts: List[int] = [0]
    columns: List[int] = []
    values: List[float] = []
    for _lower, _upper, terms in program.rows:
        columns += [column for column, _c in terms]
        values += [coefficient for _c, coefficient in terms]
        starts.append(len(columns))
    width = len(program.uppers)
    model = highspy.HighsLp()
    model.num_col_ = width
    model.num_row_ = len(program.rows)
    model.col_cost_ = numpy.zeros(width)
    model.col_lower_ = numpy.zeros(width)
    model.col_upper_ = numpy.array(program.uppers, dtype=numpy.float64)
    model.row_lower_ = numpy.array([_or(row[0], -highspy.kHighsInf) for row in program.rows])
    model.row_upper_ = numpy.array([_or(row[1], highspy.kHighsInf) for row in program.rows])
    model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    model.a_matrix_.start_ = numpy.array(starts, dtype=numpy.int32)
    model.a_matrix_.index_ = numpy.array(columns, dtype=numpy.int32)
    model.a_matrix_.value_ = numpy.array(values, dtype=numpy.float64)
    model.integrality_ = [highspy.HighsVarType.kInteger] * width
    return model


def _or(bound: Optional[float], other: float) -> float:
    return other if bound is None else bound
