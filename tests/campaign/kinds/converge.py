"""Every pair of layouts: from the one to the other, with or without somebody on some MIG devices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ansible_collections.nvidia.mig.tests.unit.plugins.modules.node_support import Server

from campaign.bench import Bench, new_bench
from campaign.judge import (
    CONVERGED,
    OTHER,
    REPORTED,
    InvariantError,
    Job,
    attempt,
    check_nothing_left,
    check_prediction,
    compare_prediction,
    could_keep_all,
    layout_job,
    operate,
)
from campaign.layouts import GPUS, Layout, pair, pairs
from campaign.task import Case, Kind, Size, Task


def cases(server: Server, task: Task, size: Size) -> Iterator[Case]:
    """One case: check mode, the run, the run again."""
    rng = task.rng
    before, wanted = pair(task.model, task.number)
    with new_bench(server, task.model, [before], rng, mode_change(task)) as bench:
        for _ in range(rng.choice([0, 0, 1, 2])):
            if devices := bench.devices():
                bench.hold(*rng.choice(devices), by_process=rng.random() < 0.5)
        if bench.held and rng.random() < 0.25:
            bench.options["destroy_in_use"] = True
        job = layout_job([wanted])
        yield Case("", len(bench.sacred), lambda: _run(bench, task.model, job, wanted))


def mode_change(task: Task, ways: Sequence[str] = ("driver", "driver", "reset", "reboot")) -> str | None:
    """How the GPUs of this task's node change their mode; None: in the only way they can."""
    if GPUS[task.model]["mig"]["mode_change"] == "resetless":
        return None
    return task.rng.choice(ways)


def _run(bench: Bench, model: str, job: Job, wanted: Layout) -> str:
    predicted = check_prediction(bench, job)
    keepable = could_keep_all(bench, model, [wanted])
    there = bench.look()
    real = attempt(bench, job)
    compare_prediction(predicted, real)
    if real.rc:
        if not bench.held:
            raise InvariantError(OTHER, f"nobody holds anything, but: {real.msg}")
        if keepable and bench.sacred:
            raise InvariantError(OTHER, f"there is a way that keeps all that is held, but: {real.msg}")
        if bench.look() != there:
            raise InvariantError(OTHER, f"refused, but something changed: {real.msg}")
        return REPORTED
    if real.reset_required:
        real = operate(bench, job)
        if real.rc:
            raise InvariantError(OTHER, f"does not converge: {real.msg}")
    check_nothing_left(bench, job)
    return CONVERGED


def _numbers(model: str, size: Size, seed: int) -> list[int]:
    return pairs(model, size.pairs, seed)


KIND = Kind(_numbers, cases)
