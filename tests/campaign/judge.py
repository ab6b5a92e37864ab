"""What must hold after every run, told from the simulator's own state."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ansible_collections.nvidia.mig.plugins.module_utils.geometry.catalog import Placement
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.placement import (
    Placed,
    limit_reason,
    search,
)
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.profile import parse_profile
from ansible_collections.nvidia.mig.tests.unit.plugins.module_utils.geometry.support import catalog
from ansible_collections.nvidia.mig.tests.unit.plugins.modules.node_support import Result
from miglab import control

from campaign.bench import Bench, Picture
from campaign.layouts import Layout

CONVERGED, REPORTED = "converged", "reported"
HELD, SILENT, OTHER = "held destroyed", "silently half-changed", "other"


class InvariantError(Exception):
    """An invariant does not hold. ``kind``: HELD, SILENT or OTHER."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


@dataclass(frozen=True)
class Job:
    """A module's call, and how to see in the simulator's state that it did what it was called for."""

    module: str
    args: dict[str, Any]
    is_done: Callable[[Picture], bool]


def layout_job(wanted: list[Layout]) -> Job:
    """mig_layout with an entry for each GPU."""

    def is_done(now: Picture) -> bool:
        return all(_is_as_wanted(now, gpu, layout) for gpu, layout in enumerate(wanted))

    return Job("mig_layout", {"layout": [layout.entry(gpu) for gpu, layout in enumerate(wanted)]}, is_done)


def mode_job(enabled: bool) -> Job:
    """mig_mode for all GPUs."""

    def is_done(now: Picture) -> bool:
        return all(gpu["mig"] == {"current": enabled, "pending": enabled} for gpu in now.gpus)

    return Job("mig_mode", {"gpus": "all", "enabled": enabled}, is_done)


def attempt(bench: Bench, job: Job, may_be_killed: bool = False) -> Result:
    """Run the module once and judge it."""
    before = bench.look()
    result = bench.run(job.module, **job.args, **bench.options)
    judge(bench, job, before, bench.look(), result, may_be_killed)
    return result


def judge(
    bench: Bench, job: Job, before: Picture, after: Picture, result: Result, may_be_killed: bool = False
) -> None:
    """Raise InvariantError if what is there now should not be, or is not what the module said."""
    check_held(bench, after)
    if result.rc < 0:
        if not may_be_killed:
            raise InvariantError(OTHER, f"{job.module} was killed by signal {-result.rc}")
        return
    differs = before.shape != after.shape
    said = result.data
    if result.rc:
        _judge_failure(job, after, differs, said)
    else:
        _judge_success(job, after, said)
    check_changed(before, after, result)


def check_changed(before: Picture, after: Picture, result: Result) -> None:
    """``changed`` says whether anything differs; where it cannot be read any more, that it may."""
    differs, says = before.shape != after.shape, bool(result.data.get("changed"))
    if says != differs and not (says and "cannot be read" in result.data.get("msg", "")):
        there = "differ" if differs else "do not differ"
        raise InvariantError(SILENT, f"the GPUs {there}, but it said {result.data}")


def check_held(bench: Bench, now: Picture) -> None:
    """No MIG device that somebody holds is gone, not even if one like it is back."""
    for held in bench.sacred:
        if (held.gpu, held.instance, held.compute) not in now.serials:
            raise InvariantError(HELD, f"GPU {held.gpu}: {held} is gone; now {now.texts(held.gpu)}")


def operate(bench: Bench, job: Job) -> Result:
    """Do as an operator does: run, reset or reboot where the result asks for it, run again."""
    for _ in range(4):
        result = attempt(bench, job)
        if result.rc or not result.reset_required:
            return result
        reset = bench.run("gpu_reset")
        check_held(bench, bench.look())
        if reset.rc:
            return reset
        if reset.reboot_required:
            bench.held.clear()
            control.reboot(bench.host.node.state)
    raise InvariantError(OTHER, f"never complete: {result.data}")


def check_converges(bench: Bench, job: Job) -> None:
    """The command comes to its end, and again it does nothing."""
    result = operate(bench, job)
    if result.rc:
        raise InvariantError(OTHER, f"does not converge: {result.data.get('msg')}")
    check_nothing_left(bench, job)


def check_recovers(bench: Bench, job: Job) -> None:
    """`check_converges`, once from equal states: the modules remember nothing outside NVML."""
    shape = repr(bench.look().shape)
    if shape not in bench.recovered:
        check_converges(bench, job)
        bench.recovered.add(shape)


def check_nothing_left(bench: Bench, job: Job) -> None:
    """It is done, and another run changes nothing."""
    there = bench.look()
    if not job.is_done(there):
        raise InvariantError(SILENT, f"it said done, but there is {there.shape}")
    bench.host.reset_calls()
    result = attempt(bench, job)
    if result.rc or result.changed or bench.host.changing_calls() or bench.look() != there:
        raise InvariantError(OTHER, f"the second run is no no-op: {result.data}")


def check_prediction(bench: Bench, job: Job) -> Result:
    """Check mode touches nothing."""
    before = bench.look()
    bench.host.reset_calls()
    result = bench.run(job.module, check=True, **job.args, **bench.options)
    if bench.host.changing_calls() or bench.look() != before:
        raise InvariantError(OTHER, "check mode changed something")
    return result


def compare_prediction(predicted: Result, real: Result) -> None:
    """What check mode said came true; where a reset is still needed, only so far."""
    if real.rc or predicted.rc:
        if (real.rc, real.data.get("msg")) != (predicted.rc, predicted.data.get("msg")):
            raise InvariantError(OTHER, f"check mode said {predicted.data}, the run {real.data}")
        return
    keys = () if real.reset_required else ("changed", "actions", "plan", "after", "gpus")
    for key in keys:
        said, came = predicted.data.get(key), real.data.get(key)
        if said != came:
            raise InvariantError(OTHER, f"{key}: check mode said {said}, the run {came}")


def could_keep_all(bench: Bench, model: str, wanted: list[Layout]) -> bool:
    """Is there a way that keeps everything held? Only told where whole GPU instances are held and wanted."""
    offer = catalog(model)
    now = bench.look()
    for gpu, layout in enumerate(wanted):
        mine = {held.instance: held for held in bench.sacred if held.gpu == gpu}
        if not mine:
            continue
        if layout.devices is None or any(d.ci_slices is not None for d in layout.devices):
            return False
        left = list(layout.devices)
        pinned = []
        for instance in now.gpus[gpu]["instances"]:
            if instance["serial"] not in mine:
                continue
            profile = parse_profile(instance["profile"])
            if not mine[instance["serial"]].alone or profile not in left:
                return False
            left.remove(profile)
            place = instance["placement"]
            pinned.append(Placed(profile, Placement(place["start"], place["size"])))
        if limit_reason(offer, layout.devices) or (left and search(offer, left, pinned) is None):
            return False
    return True


def _is_as_wanted(now: Picture, gpu: int, layout: Layout) -> bool:
    on = layout.devices is not None
    if now.gpus[gpu]["mig"] != {"current": on, "pending": on}:
        return False
    whole = all(instance["compute_instances"] for instance in now.gpus[gpu]["instances"])
    return whole and sorted(now.devices(gpu)) == sorted(layout.counts.elements())


def _judge_failure(job: Job, after: Picture, differs: bool, said: dict[str, Any]) -> None:
    text = said.get("msg", "")
    if not text:
        raise InvariantError(SILENT, "it failed without a message")
    if not differs or "cannot be read" in text or job.is_done(after):
        return
    for gpu in range(len(after.gpus)):
        name, there = f"GPU {gpu}", after.summary(gpu)
        if said.get("after", {}).get(name) != there:
            raise InvariantError(SILENT, f"it failed and left {name} as {there}, but said {said}")
        if said["before"][name] == there:
            continue
        if name not in text or not all(word in text for word in after.texts(gpu)):
            raise InvariantError(SILENT, f"the message does not name what {name} has, {there}: {text}")


def _judge_success(job: Job, after: Picture, said: dict[str, Any]) -> None:
    if said["reset_required"] != after.pending:
        raise InvariantError(
            SILENT, f"reset_required {said['reset_required']}, but {after.pending} are pending"
        )
    if not after.pending and not job.is_done(after):
        raise InvariantError(SILENT, f"it succeeded, but there is {after.shape}")
    if job.module == "mig_layout":
        there = {f"GPU {gpu}": after.summary(gpu) for gpu in range(len(after.gpus))}
        if said["after"] != there:
            raise InvariantError(SILENT, f"it said {said['after']}, but there is {there}")
