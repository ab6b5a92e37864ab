"""What is to be done, how much of it, and what came of it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ansible_collections.nvidia.mig.tests.unit.plugins.modules.node_support import Server


@dataclass(frozen=True)
class Size:
    """How much is tried, of each model.

    Args:
        pairs: of layouts; all of them, if there are no more.
        sweeps: transitions that meet every fault, of each kind.
        calls: for how many of the calls of each function that only reads; 0: all of them.
        codes: error codes for each call that changes a GPU; 0: all of them.
    """

    pairs: int
    sweeps: int
    calls: int
    codes: int


FULL = Size(pairs=2000, sweeps=6, calls=0, codes=0)
SHORT = Size(pairs=6, sweeps=1, calls=1, codes=1)


@dataclass(frozen=True)
class Task:
    """One start state and one wanted state of a kind, with one case or with one case for each fault."""

    kind: str
    model: str
    number: int
    seed: int

    @property
    def name(self) -> str:
        return f"{self.kind}/{self.model}/{self.number}"

    @property
    def rng(self) -> random.Random:
        """The same for every run of the task, whatever else runs."""
        return random.Random(f"{self.seed}/{self.name}")


@dataclass(frozen=True)
class Case:
    """One thing that is tried.

    Args:
        fault: what goes wrong, unique in its task; empty: nothing does.
        held: how many MIG devices are held.
        run: gives `judge.CONVERGED` or `judge.REPORTED`; raises what it is that breaks.
    """

    fault: str
    held: int
    run: Callable[[], str]


@dataclass(frozen=True)
class Kind:
    """A kind of cases.

    Args:
        numbers: of its tasks, by model, size and seed.
        cases: of one task.
    """

    numbers: Callable[[str, Size, int], Sequence[int]]
    cases: Callable[[Server, Task, Size], Iterator[Case]]
