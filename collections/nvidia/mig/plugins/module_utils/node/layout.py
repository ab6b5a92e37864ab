# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What stands in a plan's way, and the results that modules return."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from ansible_collections.nvidia.mig.plugins.module_utils.errors import DeviceError, InUseError
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.layout import GpuLayout
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.state import GpuState
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.steps import InUse, Plan
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.transition import (
    IN_USE_HINT,
    outcome,
    plan_host,
)
from ansible_collections.nvidia.mig.plugins.module_utils.node.kubelet import Pod
from ansible_collections.nvidia.mig.plugins.module_utils.nvml.values import HostReading


@dataclass(frozen=True)
class Applied:
    """What was done, or is predicted.

    Args:
        actions: one line a step that took effect.
        after: the GPUs as read back, or as they will be.
        pending: indexes of the GPUs that still need a reset for their mode. Then nothing that comes after the
            modes was done.
    """

    actions: List[str]
    after: Tuple[GpuState, ...]
    pending: Tuple[int, ...] = ()


def check_held(plan: Plan, left: HostReading) -> None:
    """Refuse to destroy what is held by anyone on ``left``, the host after a drain.

    Raises:
        InUseError: names the MIG devices and who holds them.
    """
    still = {
        (gpu.state.identity.index, instance.placement, who)
        for gpu in left.gpus
        for instance in gpu.state.instances
        for holders in (instance.holders, *(compute.holders for compute in instance.compute_instances))
        for who in holders
    }
    held = _held_by(plan, lambda device, who: (device.gpu, device.placement, who) in still)
    if held:
        raise InUseError(
            "; ".join(map(str, held)),
            hint=IN_USE_HINT,
            details={"in_use": [device.as_dict() for device in held]},
        )


def check_clients(plan: Plan, left: HostReading) -> None:
    """Refuse to go on where a GPU must be free and someone uses it.

    Its MIG mode would stay pending, or from Hopper on its first instance be refused.

    Args:
        left: the host as it is, or after a drain.

    Raises:
        InUseError: names the GPUs and who uses them.
    """
    now = {gpu.state.identity.index: gpu.state.clients for gpu in left.gpus}
    clients = {index: now[index] for index in plan.clients if now[index]}
    if clients:
        text = "; ".join(f"GPU {index} is used by {', '.join(who)}" for index, who in clients.items())
        raise InUseError(
            f"its MIG mode cannot change, nor its first instance be created, while it is in use: {text}",
            hint="drain its pods, as the role does with mig_drain: true, or end the processes",
            details={"clients": clients_of(clients)},
        )


def check_processes(host: HostReading, plan: Plan) -> None:
    """Refuse to destroy MIG devices that have running processes, whatever the operator allows: NVML would.

    Raises:
        InUseError: names the MIG devices and the processes.
    """
    running = {(gpu.state.identity.index, str(process)) for gpu in host.gpus for process in gpu.processes}
    held = _held_by(plan, lambda device, who: (device.gpu, who) in running)
    if held:
        raise InUseError(
            f"NVML does not destroy a MIG device with running processes: {'; '.join(map(str, held))}",
            hint="end the processes, or drain their pods",
            details={"in_use": [device.as_dict() for device in held]},
        )


def _held_by(plan: Plan, holds: Callable[[InUse, str], bool]) -> List[InUse]:
    """What the plan destroys although somebody holds it, of whom ``holds`` is true."""
    held = [
        replace(device, holders=tuple(who for who in device.holders if holds(device, who)))
        for device in plan.in_use
    ]
    return [device for device in held if device.holders]


def clients_of(clients: Mapping[int, Sequence[str]]) -> List[Dict[str, Any]]:
    """Who uses the GPUs that must be free, as plain data."""
    return [{"gpu": index, "clients": list(who)} for index, who in clients.items()]


def check_result(after: Sequence[GpuState], wanted: Mapping[int, GpuLayout]) -> None:
    """What was read back is what was wanted. Raises DeviceError."""
    left = plan_host(after, wanted, destroy_in_use=True)
    if left.steps:
        raise DeviceError(
            f"NVML accepted every step, but reads back differently; missing: {'; '.join(left.actions)}",
            hint="something else may be changing the GPUs; run it again",
            details={"changed": True, "after": left.before, "actions_left": left.actions},
        )


def future(states: Sequence[GpuState], plan: Plan) -> Tuple[GpuState, ...]:
    """The GPUs as they will be after the plan."""
    return tuple(
        outcome(state, [step for step in plan.steps if step.gpu == state.identity.index]) for state in states
    )


def layout_result(
    driver: str,
    states: Sequence[GpuState],
    wanted: Mapping[int, GpuLayout],
    plan: Plan,
    applied: Applied,
    with_diff: bool,
    pods: Sequence[Pod] = (),
    guests: Sequence[int] = (),
) -> Dict[str, Any]:
    """What mig_layout returns; see there.

    Args:
        states: all GPUs as they were.
        applied: what was done, or is predicted.
        pods: those in the way of the plan.
        guests: indexes of the GPUs to reset that this machine cannot reset.
    """
    before, after = summaries(states, tuple(wanted)), summaries(applied.after, tuple(wanted))
    result: Dict[str, Any] = {
        "changed": bool(applied.actions),
        "actions": applied.actions,
        "plan": plan.as_dicts(),
        "before": before,
        "after": after,
        "gpus": gpu_list(applied.after),
        "complete": not applied.pending,
        "reset_required": list(applied.pending),
        "in_use": [device.as_dict() for device in plan.in_use],
        "must_be_free": list(plan.must_be_free),
        "clients": clients_of(plan.clients),
        "pods": [pod.as_dict() for pod in pods],
        "way_back": way_back(states, plan),
        "touched": touched(states, plan),
        "reboot_expected": bool(guests),
        "driver_version": driver,
    }
    if with_diff:
        result["diff"] = diff(before, after)
    return result


def touched(states: Sequence[GpuState], plan: Plan) -> List[Dict[str, Any]]:
    """What it takes to draw the GPUs that the plan touches, as they were."""
    return [
        {
            "gpu": state.identity.index,
            "memory_slices": state.catalog.memory_slices,
            "resets": state.identity.index in plan.resets,
            "held": state.held,
        }
        for state in states
        if state.identity.index in plan.gpus
    ]


def way_back(states: Sequence[GpuState], plan: Plan) -> List[Dict[str, Any]]:
    """A layout that asks for what was on the GPUs that the plan touches, as ``layout`` takes it."""
    entries: List[Dict[str, Any]] = []
    for state in states:
        index = state.identity.index
        if index not in plan.gpus:
            continue
        if state.mig_current:
            counts = Counter(str(device) for device in state.devices)
            entries.append({"gpus": index, "profiles": dict(counts)})
        else:
            entries.append({"gpus": index, "mig": False})
    return entries


def summaries(states: Sequence[GpuState], indexes: Optional[Sequence[int]] = None) -> Dict[str, Any]:
    """Small dicts for diffs, of these GPUs."""
    return {
        f"GPU {state.identity.index}": state.summary()
        for state in states
        if indexes is None or state.identity.index in indexes
    }


def gpu_list(states: Sequence[GpuState]) -> List[Dict[str, Any]]:
    """One line of plain data a GPU: what the releases and the verification need to know."""
    return [
        {
            "index": state.identity.index,
            "product": state.identity.product,
            "mig_capable": state.mig_capable,
            "mig": state.mig_current,
            "profiles": [str(device) for device in state.devices],
        }
        for state in states
    ]


def diff(before: Mapping[str, Any], after: Mapping[str, Any]) -> Dict[str, Any]:
    """For ``--diff``."""
    return {"before_header": "MIG", "after_header": "MIG", "before": dict(before), "after": dict(after)}
