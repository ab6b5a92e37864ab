"""One transition, again and again: killed at every NVML call, or every error at every call."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ansible_collections.nvidia.mig.tests.unit.plugins.modules.node_support import CHANGING, Server

from campaign.bench import Bench, Held, new_bench
from campaign.judge import (
    CONVERGED,
    OTHER,
    REPORTED,
    InvariantError,
    Job,
    attempt,
    check_recovers,
    layout_job,
    mode_job,
)
from campaign.kinds.converge import mode_change
from campaign.layouts import Layout, layouts
from campaign.task import Case, Kind, Size, Task

# nvmlReturn_t: what a call that changes a GPU may come back with.
CODES = (1, 2, 3, 4, 6, 13, 15, 16, 17, 19, 20, 23, 27, 29, 999)
# For a call that only reads, without those that are an answer: not supported, not found, no such function.
READ_CODES = (1, 4, 9, 15, 17, 20, 999)
NEVER_FAIL = ("nvmlShutdown", "nvmlErrorString")
MOMENTS = ("before", "during", "after")

# A function, and the fault: nth, times, code, kill.
Fault = tuple[str, dict[str, Any]]


@dataclass
class Sweep:
    """A node in its start state, which every fault meets anew."""

    bench: Bench
    job: Job
    start: Path
    held: list[Held]
    calls: dict[str, int]

    def meet(self, function: str, fault: dict[str, Any]) -> str:
        """Run with the fault, judge, then without it. Raises InvariantError."""
        bench = self.bench
        bench.host.restore(self.start)
        bench.held = list(self.held)
        bench.host.fault(function, **fault)
        result = attempt(bench, self.job, may_be_killed="kill" in fault)
        if "kill" in fault and result.rc != -9:
            raise InvariantError(OTHER, f"it was to be killed and ended with {result.rc}")
        bench.host.clear_faults()
        done = result.rc == 0 and self.job.is_done(bench.look())
        check_recovers(bench, self.job)
        return CONVERGED if done or result.rc < 0 else REPORTED


def kills(server: Server, task: Task, size: Size) -> Iterator[Case]:
    """mig_layout killed at every call; before, during and after those that change a GPU."""
    with _layouts(server, task) as sweep:
        yield from _cases(sweep, _kills(sweep, size, task))


def errors(server: Server, task: Task, size: Size) -> Iterator[Case]:
    """Every error at every call of mig_layout that changes a GPU, once or always; one where it reads."""
    with _layouts(server, task) as sweep:
        yield from _cases(sweep, _errors(sweep, size, task))


def modes(server: Server, task: Task, size: Size) -> Iterator[Case]:
    """Both with mig_mode."""
    with _modes(server, task) as sweep:
        yield from _cases(sweep, _kills(sweep, size, task))
        yield from _cases(sweep, _errors(sweep, size, task))


def calls_of(count: int, most: int, rng: random.Random) -> list[int]:
    """Which of ``count`` calls: all, or ``most`` of them."""
    every = range(1, count + 1)
    return list(every) if not most or count <= most else sorted(rng.sample(every, most))


def read_code(task: Task, function: str, nth: int) -> int:
    """The error that this call meets, whatever else is tried."""
    return random.Random(f"{task.seed}/{task.name}/{function}/{nth}").choice(READ_CODES)


def name_of(function: str, fault: dict[str, Any]) -> str:
    """``nvmlGpuInstanceDestroy:2:during``, ``nvmlGpuInstanceDestroy:2:999:always``."""
    always = ":always" if fault.get("times") == 0 else ""
    return f"{function}:{fault['nth']}:{fault.get('kill') or fault['code']}{always}"


def _cases(sweep: Sweep, faults: Iterator[Fault]) -> Iterator[Case]:
    for function, fault in faults:
        yield Case(name_of(function, fault), len(sweep.held), partial(sweep.meet, function, fault))


def _kills(sweep: Sweep, size: Size, task: Task) -> Iterator[Fault]:
    rng = task.rng
    for function, count in sweep.calls.items():
        changes = function in CHANGING
        for nth in calls_of(count, 0 if changes else size.calls, rng):
            for moment in MOMENTS if changes else ("before",):
                yield function, {"nth": nth, "kill": moment}


def _errors(sweep: Sweep, size: Size, task: Task) -> Iterator[Fault]:
    rng = task.rng
    for function, count in sweep.calls.items():
        changes = function in CHANGING
        if function in NEVER_FAIL:
            continue
        for nth in calls_of(count, 0 if changes else size.calls, rng):
            some = rng.sample(CODES, size.codes or len(CODES))
            for code in some if changes else [read_code(task, function, nth)]:
                for times in (1, 0):
                    yield function, {"nth": nth, "code": code, "times": times}


@contextmanager
def _layouts(server: Server, task: Task) -> Iterator[Sweep]:
    """Two GPUs, each with a transition of its own, and somebody on what stays."""
    rng = task.rng
    known = layouts(task.model)
    starts = [rng.choice(known) for _ in range(2)]
    job = layout_job([rng.choice(known) for _ in starts])
    with new_bench(server, task.model, starts, rng, mode_change(task)) as bench:
        plan = bench.run(job.module, check=True, **job.args).plan
        left_alone = [
            (gpu, instance, compute)
            for gpu, instance, compute in bench.devices()
            if not any(step["gpu"] == gpu and _takes(step, instance, compute) for step in plan)
        ]
        for device in rng.sample(left_alone, min(2, len(left_alone))):
            bench.hold(*device, by_process=rng.random() < 0.5)
        yield _swept(bench, job)


@contextmanager
def _modes(server: Server, task: Task) -> Iterator[Sweep]:
    """Two GPUs, of which one changes its mode; the other may have instances."""
    rng = task.rng
    enabled = rng.random() < 0.5
    starts = [Layout(None), rng.choice(layouts(task.model))] if enabled else [Layout(()), Layout(None)]
    with new_bench(server, task.model, starts, rng, mode_change(task)) as bench:
        yield _swept(bench, mode_job(enabled))


def _swept(bench: Bench, job: Job) -> Sweep:
    start = bench.host.save()
    bench.host.reset_calls()
    result = attempt(bench, job)
    if result.rc:
        raise InvariantError(OTHER, f"without any fault: {result.msg}")
    return Sweep(bench, job, start, list(bench.held), bench.host.calls())


def _takes(step: dict[str, Any], instance: dict[str, Any], compute: dict[str, Any]) -> bool:
    """Does the step destroy the MIG device, or change the mode of its GPU?"""
    if step["step"] in ("set_mode", "reset_gpu"):
        return True
    if not step["step"].startswith("destroy") or step["placement"] != instance["placement"]:
        return False
    return bool(step.get("slice_start", compute["placement"]["start"]) == compute["placement"]["start"])


def _numbers(model: str, size: Size, seed: int) -> range:
    return range(size.sweeps)


KILL = Kind(_numbers, kills)
ERROR = Kind(_numbers, errors)
MODE = Kind(_numbers, modes)
