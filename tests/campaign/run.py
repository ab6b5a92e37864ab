"""Runs the campaign over the cores, and counts."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.nvidia.mig.tests.unit.plugins.modules.node_support import Server, running_server

from campaign.judge import HELD, OTHER, SILENT, InvariantError
from campaign.kinds import KINDS
from campaign.task import Case, Size, Task

BREACHES = (HELD, SILENT, OTHER)
HEADS = ("model", "kind", "cases", "converged", "reported", "held", *BREACHES, "seconds")
# So many tasks go to a process at once: enough to hide the passing, few enough to share the work evenly.
_CHUNK = 5


@dataclass(frozen=True)
class Verdict:
    """What came of one case.

    Args:
        case: the task's name, and the fault's.
        outcome: `judge.CONVERGED`, `judge.REPORTED`, or one of `BREACHES`.
        held: how many MIG devices were held.
        text: what broke.
    """

    case: str
    outcome: str
    held: int = 0
    text: str = ""


@dataclass
class Tally:
    """The figure: verdicts by model and kind."""

    counts: dict[tuple[str, str], Counter[str]] = field(default_factory=dict)
    broken: list[Verdict] = field(default_factory=list)
    wall: float = 0.0

    def add(self, task: Task, verdicts: Sequence[Verdict], seconds: float) -> None:
        row = self.counts.setdefault((task.model, task.kind), Counter())
        row["seconds"] += seconds  # type: ignore[assignment]
        for one in verdicts:
            row["cases"] += 1
            row[one.outcome] += 1
            row["held"] += one.held
        self.broken += [one for one in verdicts if one.outcome in BREACHES]

    @property
    def cases(self) -> int:
        return sum(row["cases"] for row in self.counts.values())

    def rows(self) -> list[dict[str, Any]]:
        """One for each model and kind, and the sum."""
        order = list(KINDS)
        found: list[dict[str, Any]] = [
            {"model": model, "kind": kind, **{head: row[head] for head in HEADS[2:]}}
            for (model, kind), row in sorted(
                self.counts.items(), key=lambda item: (item[0][0], order.index(item[0][1]))
            )
        ]
        total = {head: sum(row[head] for row in found) for head in HEADS[2:]}
        return [*found, {"model": "all", "kind": "all", **total}]

    def table(self) -> str:
        """For people."""
        cells = [list(HEADS)]
        for row in self.rows():
            cells.append([f"{row[head]:.0f}" if head == "seconds" else str(row[head]) for head in HEADS])
        widths = [max(len(line[column]) for line in cells) for column in range(len(HEADS))]
        return "\n".join(
            "  ".join(
                text.ljust(width) if column < 2 else text.rjust(width)
                for column, (text, width) in enumerate(zip(line, widths, strict=True))
            )
            for line in cells
        )

    def as_dict(self) -> dict[str, Any]:
        """For programs."""
        broken = [{"case": b.case, "what": b.outcome, "text": b.text} for b in self.broken]
        return {"rows": self.rows(), "broken": broken, "wall_seconds": round(self.wall, 1)}


def tasks(models: Sequence[str], kinds: Sequence[str], size: Size, seed: int) -> list[Task]:
    """Everything to do, the kinds with the longest tasks first."""
    return [
        Task(kind, model, number, seed)
        for kind in sorted(kinds, key=lambda kind: kind == "converge")
        for model in models
        for number in KINDS[kind].numbers(model, size, seed)
    ]


def run_all(
    todo: Sequence[Task], size: Size, jobs: int, prelude: str = "", only: str = "", progress: bool = False
) -> Tally:
    """Run the tasks in ``jobs`` processes.

    Args:
        prelude: see `node_support.running_server`.
        only: the one fault that is to be met.
        progress: tell now and then on stderr how far it is.
    """
    tally, began, told = Tally(), time.monotonic(), 0.0
    left = Counter(task.kind for task in todo)
    with ProcessPoolExecutor(jobs, initializer=_start, initargs=(prelude,)) as pool:
        for future in as_completed([pool.submit(_work, chunk, size, only) for chunk in _chunks(todo)]):
            for task, verdicts, seconds in future.result():
                tally.add(task, verdicts, seconds)
                left[task.kind] -= 1
            tally.wall = time.monotonic() - began
            if progress and tally.wall - told > 10:
                told = tally.wall
                to_do = ", ".join(f"{number} {kind}" for kind, number in left.items() if number)
                done = f"{tally.cases} cases, {len(tally.broken)} broken; left: {to_do or 'none'}"
                print(f"{tally.wall:5.0f} s  {done}", file=sys.stderr, flush=True)
    return tally


_server: Server
_stack = ExitStack()


def _start(prelude: str) -> None:
    global _server
    _server = _stack.enter_context(running_server(prelude))


def _work(chunk: Sequence[Task], size: Size, only: str) -> list[tuple[Task, list[Verdict], float]]:
    done = []
    for task in chunk:
        began = time.monotonic()
        verdicts = list(_verdicts(task, size, only))
        done.append((task, verdicts, time.monotonic() - began))
    return done


def _verdicts(task: Task, size: Size, only: str) -> Iterator[Verdict]:
    """Its verdicts; what breaks before its cases, or between them, is one, too."""
    try:
        for case in KINDS[task.kind].cases(_server, task, size):
            if only in ("", case.fault):
                yield _verdict("/".join(filter(None, (task.name, case.fault))), case)
    except Exception as error:
        yield _broken(task.name, 0, error)


def _verdict(name: str, case: Case) -> Verdict:
    try:
        return Verdict(name, case.run(), case.held)
    except Exception as error:
        return _broken(name, case.held, error)


def _broken(name: str, held: int, error: Exception) -> Verdict:
    if isinstance(error, InvariantError):
        return Verdict(name, error.kind, held, str(error))
    return Verdict(name, OTHER, held, f"{type(error).__name__}: {error}")


def _chunks(todo: Sequence[Task]) -> list[Sequence[Task]]:
    chunks: list[Sequence[Task]] = [[task] for task in todo if task.kind != "converge"]
    rest = [task for task in todo if task.kind == "converge"]
    return [*chunks, *(rest[at : at + _CHUNK] for at in range(0, len(rest), _CHUNK))]
