"""Mode changes that need a GPU reset, or an unused GPU, and do not get it at first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from ansible_collections.nvidia.mig.tests.unit.plugins.modules.node_support import Result, Server
from miglab import control

from campaign.bench import Bench, Picture, new_bench
from campaign.judge import (
    CONVERGED,
    OTHER,
    REPORTED,
    SILENT,
    InvariantError,
    Job,
    attempt,
    check_changed,
    check_held,
    check_recovers,
    layout_job,
)
from campaign.kinds.converge import mode_change
from campaign.kinds.sweeps import NEVER_FAIL, calls_of, name_of, read_code
from campaign.layouts import Layout, layouts
from campaign.task import Case, Kind, Size, Task

SERVICE = "nvidia-persistenced"
# What `nvidia-smi --gpu-reset` meets in the driver.
RESET = "migsim_gpu_reset"
REFUSALS = (3, 15, 19, 999)


def cases(server: Server, task: Task, size: Size) -> Iterator[Case]:
    """One for each obstacle."""
    rng = task.rng
    known = layouts(task.model)
    some = rng.choice([layout for layout in known if layout.devices])
    bystander = rng.choice([layout for layout in known if layout.devices])
    before, wanted = (Layout(None), some) if rng.random() < 0.5 else (some, Layout(None))
    job = layout_job([wanted, bystander])
    change = mode_change(task, ("driver", "reset", "reset", "reset", "reboot"))
    with new_bench(server, task.model, [before, bystander], rng, change) as bench:
        mine = [device for device in bench.devices() if device[0] == 1]
        if mine:
            bench.hold(*rng.choice(mine), by_process=True)
        start, held = bench.host.save(), list(bench.held)

        def meet(obstacle: Callable[[Bench, Job], Result]) -> str:
            bench.host.restore(start)
            bench.held = list(held)
            result = obstacle(bench, job)
            _clear(bench)
            done = result.rc == 0 and job.is_done(bench.look())
            check_recovers(bench, job)
            return CONVERGED if done or result.rc < 0 else REPORTED

        for name, obstacle in _obstacles(bench, job, start, size, task):
            yield Case(name, len(held), partial(meet, obstacle))


def _obstacles(
    bench: Bench, job: Job, start: Path, size: Size, task: Task
) -> Iterator[tuple[str, Callable[[Bench, Job], Result]]]:
    for kind in ("open", "compute", "graphics"):
        yield f"client:{kind}", _with_client(kind)
    rng = task.rng
    bench.host.restore(start)
    attempt(bench, job)
    if bench.look().pending:
        for code in REFUSALS:
            yield f"refused:{code}", _with_fault(RESET, {"code": code, "times": 0})
        for moment in ("before", "during", "after"):
            yield f"reset killed:{moment}", _with_fault(RESET, {"kill": moment})
        bench.host.reset_calls()
        _reset(bench)
        for function, count in bench.host.calls().items():
            if not function.startswith("nvml") or function in NEVER_FAIL:
                continue
            for nth in calls_of(count, size.calls, rng):
                for what in ({"kill": "before"}, {"code": read_code(task, function, nth)}):
                    fault = {"nth": nth, **what}
                    yield name_of(function, fault), _with_fault(function, fault)


def _with_client(kind: str) -> Callable[[Bench, Job], Result]:
    """Something holds the GPU outside MIG instances, from the start."""

    def meet(bench: Bench, job: Job) -> Result:
        control.add_process(bench.host.node.state, 0, name=SERVICE, kind=kind)
        result = attempt(bench, job)
        return _reset(bench) if result.rc == 0 and result.reset_required else result

    return meet


def _with_fault(function: str, fault: dict[str, Any]) -> Callable[[Bench, Job], Result]:
    """The mode was set and waits; then the reset goes wrong."""

    def meet(bench: Bench, job: Job) -> Result:
        attempt(bench, job)
        bench.host.fault(function, **fault)
        return _reset(bench, may_be_killed="kill" in fault)

    return meet


def _reset(bench: Bench, may_be_killed: bool = False) -> Result:
    """Run gpu_reset and judge it."""
    before = bench.look()
    result = bench.run("gpu_reset")
    after = bench.look()
    check_held(bench, after)
    _judge(before, after, result, may_be_killed)
    return result


def _judge(before: Picture, after: Picture, result: Result, may_be_killed: bool) -> None:
    if result.rc < 0:
        if not may_be_killed:
            raise InvariantError(OTHER, f"gpu_reset was killed by signal {-result.rc}")
        return
    if result.rc and not result.data.get("msg"):
        raise InvariantError(SILENT, "gpu_reset failed without a message")
    if result.rc == 0 and after.pending and not result.reboot_required:
        raise InvariantError(SILENT, f"gpu_reset succeeded, but {after.pending} are pending")
    check_changed(before, after, result)


def _clear(bench: Bench) -> None:
    bench.host.clear_faults()
    control.remove_processes(bench.host.node.state, name=SERVICE)


def _numbers(model: str, size: Size, seed: int) -> range:
    return range(size.sweeps)


KIND = Kind(_numbers, cases)
