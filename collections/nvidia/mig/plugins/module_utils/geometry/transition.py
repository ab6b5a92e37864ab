# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From what is to what is wanted, destroying least: the ordered steps of one GPU and of one host."""

from __future__ import annotations

from dataclasses import replace
from typing import Dict, List, Mapping, Sequence, Tuple

from ansible_collections.nvidia.mig.plugins.module_utils.errors import (
    InfeasibleError,
    InputError,
    InUseError,
    MigError,
)
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.catalog import short_product
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.compute import Spot
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.entries import GpuLayout
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.placement import Placed
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.problems import Problems
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.state import (
    ComputeInstance,
    GpuInstance,
    GpuState,
)
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.steps import (
    CreateComputeInstance,
    CreateGpuInstance,
    DestroyComputeInstance,
    DestroyGpuInstance,
    InUse,
    Plan,
    ResetGpu,
    SetMode,
    Step,
)
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.survivors import Choice, choose_survivors

__all__ = [
    "ComputeInstance",
    "CreateComputeInstance",
    "CreateGpuInstance",
    "DestroyComputeInstance",
    "DestroyGpuInstance",
    "GpuInstance",
    "GpuState",
    "IN_USE_HINT",
    "InUse",
    "Plan",
    "ResetGpu",
    "SetMode",
    "Step",
    "is_as_wanted",
    "outcome",
    "plan_gpu",
    "plan_host",
    "plan_restore",
]

IN_USE_HINT = (
    "drain its pods, as the role does with mig_drain: true, or end the processes; "
    "or set destroy_in_use to true to destroy it all the same"
)


def plan_gpu(state: GpuState, wanted: GpuLayout, destroy_in_use: bool = False) -> Tuple[Step, ...]:
    """The steps for one GPU: destroy, set the mode, create; none if it is as wanted.

    Of all ways, the one that destroys least; see `survivors`. A GPU instance that lost its compute instance
    is completed, not made anew. A mode that is pending against the wish is set back; one that is pending as
    wished needs only the reset.

    Raises:
        InputError: the GPU cannot do MIG or does not offer a profile.
        InfeasibleError: the profiles do not fit, or the GPU has instances of unknown profiles.
        InUseError: a MIG device that has to go is held, and ``destroy_in_use`` is false.
    """
    steps = _steps(state, wanted)
    held = _held(state, steps)
    if held and not destroy_in_use:
        raise _in_use_error(state, steps, held)
    return steps


def plan_host(
    states: Sequence[GpuState], wanted: Mapping[int, GpuLayout], destroy_in_use: bool = False
) -> Plan:
    """The plan of one host. GPUs without a wanted layout are left as they are.

    To learn what is in use without failing, plan with ``destroy_in_use``: the steps are the same, and
    ``Plan.in_use`` says what they would take away. Processes on a GPU outside MIG instances do not stop a
    plan; they are in ``Plan.clients`` where the GPU must be free.

    Raises:
        InputError, InfeasibleError, InUseError: as `plan_gpu`, for all GPUs at once.
    """
    by_index = {state.identity.index: state for state in states}
    problems = Problems()
    steps: Dict[int, Tuple[Step, ...]] = {}
    for index in sorted(wanted):
        with problems.catch(gpu=index):
            if index not in by_index:
                raise InputError("it is not there", wanted[index].path)
            steps[index] = _steps(by_index[index], wanted[index])
    problems.raise_all()
    held = {index: _held(by_index[index], steps[index]) for index in steps}
    if not destroy_in_use:
        for index in steps:
            if held[index]:
                problems.add(_in_use_error(by_index[index], steps[index], held[index]))
        problems.raise_all()
    must_be_free = tuple(index for index in steps if _must_be_free(by_index[index], steps[index]))
    return Plan(
        steps=_in_order(steps),
        before={f"GPU {index}": by_index[index].summary() for index in steps},
        after={f"GPU {index}": outcome(by_index[index], steps[index]).summary() for index in steps},
        in_use=tuple(device for index in steps for device in held[index]),
        must_be_free=must_be_free,
        clients={index: by_index[index].clients for index in must_be_free if by_index[index].clients},
    )


def is_as_wanted(state: GpuState, wanted: GpuLayout) -> bool:
    """`plan_gpu` has nothing to do. Told without a search, so the catalog's placements are not needed."""
    if not state.mig_capable:
        return not wanted.mig
    if state.unknown or not state.mig_current == state.mig_pending == wanted.mig:
        return False
    if not wanted.mig:
        return True
    # A GPU instance without compute instances is no MIG device, and nothing that was wanted.
    whole = all(instance.compute_instances for instance in state.instances)
    return whole and state.devices == wanted.profiles


def plan_restore(before: GpuState, now: GpuState) -> Tuple[Step, ...]:
    """The steps that bring back the instances of ``before`` at their placements, in the same MIG mode.

    What is there now and was not before is destroyed, whether it is held or not.
    """
    index = now.identity.index
    old = {(i.profile, i.placement): i for i in before.instances}
    present = {(i.profile, i.placement): i for i in now.instances}
    destroyed: List[Step] = []
    created: List[Step] = []
    for key, instance in present.items():
        keep = {(c.slices, c.start) for c in old[key].compute_instances} if key in old else set()
        destroyed += _destroy_computes(
            index,
            instance,
            [c for c in instance.compute_instances if (c.slices, c.start) not in keep],
            key not in old,
        )
    destroyed += [_destroy(index, instance) for key, instance in present.items() if key not in old]
    for key, instance in old.items():
        there = {(c.slices, c.start) for c in present[key].compute_instances} if key in present else set()
        if key not in present:
            created.append(CreateGpuInstance(index, *key))
        spots = [(c.slices, c.start) for c in instance.compute_instances]
        created += _create_computes(
            index, Placed(*key), [s for s in spots if s not in there], key not in present
        )
    return (*destroyed, *created)


def outcome(state: GpuState, steps: Sequence[Step]) -> GpuState:
    """The GPU after the steps, resets included. New instances have the id -1, as the driver gives ids."""
    instances = {instance.placement: instance for instance in state.instances}
    mode = state.mig_current
    for step in steps:
        if isinstance(step, (SetMode, ResetGpu)):
            mode = step.enabled
        elif isinstance(step, DestroyGpuInstance):
            del instances[step.placement]
        elif isinstance(step, CreateGpuInstance):
            instances[step.placement] = GpuInstance(-1, step.profile, step.placement)
        else:
            instance = instances[step.placement]
            computes = instance.compute_instances
            if isinstance(step, DestroyComputeInstance):
                computes = tuple(compute for compute in computes if compute.id != step.id)
            else:
                computes = (*computes, ComputeInstance(-1, step.slices, step.start, -1))
            instances[step.placement] = replace(instance, compute_instances=computes)
    # Whatever resets or sets the mode leaves nothing pending; without such a step nothing was pending.
    return replace(
        state,
        mig_current=mode,
        mig_pending=mode if _has_mode_step(steps) else state.mig_pending,
        instances=tuple(instances[placement] for placement in sorted(instances)),
    )


def _steps(state: GpuState, wanted: GpuLayout) -> Tuple[Step, ...]:
    index = state.identity.index
    if not state.mig_capable:
        if wanted.mig:
            raise InputError(f"{short_product(state.identity.product)} cannot do MIG", wanted.path)
        return ()
    if state.unknown:
        raise InfeasibleError(
            f"it has GPU instances of unknown profiles: {', '.join(state.unknown)}",
            wanted.path,
            hint="leave the GPU out of the layout, or destroy them with nvidia-smi mig",
        )
    stays_on = state.mig_current and wanted.mig
    instances = state.instances if state.mig_current else ()
    devices = wanted.profiles if wanted.mig else ()
    try:
        choice = choose_survivors(state.catalog, instances if stays_on else (), devices)
    except MigError as error:
        error.path = error.path or wanted.path
        raise
    destroyed, created = _instance_steps(index, instances, choice)
    return (*destroyed, *_mode_steps(state, wanted.mig), *created)


def _mode_steps(state: GpuState, wanted: bool) -> Tuple[Step, ...]:
    index = state.identity.index
    if state.mig_current == wanted:
        return () if state.mig_pending == wanted else (SetMode(index, wanted, resets=False, cancels=True),)
    # Where no reset is needed, a pending mode is one that was set while the GPU was busy: set it again.
    if state.mig_pending == wanted and not state.resetless:
        return (ResetGpu(index, wanted),)
    return (SetMode(index, wanted, resets=not state.resetless),)


def _instance_steps(
    index: int, instances: Sequence[GpuInstance], choice: Choice
) -> Tuple[Tuple[Step, ...], Tuple[Step, ...]]:
    survivors = {survivor.instance.placement: survivor for survivor in choice.survivors}
    destroyed: List[Step] = []
    for instance in instances:
        survivor = survivors.get(instance.placement)
        kept = survivor.kept if survivor else ()
        gone = [compute for compute in instance.compute_instances if compute not in kept]
        destroyed += _destroy_computes(index, instance, gone, survivor is None)
    destroyed += [_destroy(index, instance) for instance in instances if instance.placement not in survivors]
    created: List[Step] = [CreateGpuInstance(index, p.profile, p.placement) for p, _spots in choice.fresh]
    for survivor in choice.survivors:
        there = Placed(survivor.instance.profile, survivor.instance.placement)
        created += _create_computes(index, there, survivor.created, False)
    for placed, spots in choice.fresh:
        created += _create_computes(index, placed, spots, True)
    return tuple(destroyed), tuple(created)


def _destroy(index: int, instance: GpuInstance) -> Step:
    return DestroyGpuInstance(index, instance.id, instance.profile, instance.placement)


def _destroy_computes(
    index: int, instance: GpuInstance, computes: Sequence[ComputeInstance], whole: bool
) -> List[Step]:
    profile, placement = instance.profile, instance.placement
    return [
        DestroyComputeInstance(index, instance.id, c.id, profile, placement, c.slices, c.start, whole)
        for c in computes
    ]


def _create_computes(index: int, placed: Placed, spots: Sequence[Spot], is_new: bool) -> List[Step]:
    return [
        CreateComputeInstance(
            index,
            placed.profile,
            placed.placement,
            slices,
            start,
            is_new and slices == placed.profile.compute_slices,
        )
        for slices, start in spots
    ]


def _held(state: GpuState, steps: Sequence[Step]) -> Tuple[InUse, ...]:
    """The MIG devices that the steps destroy although they are held."""
    index = state.identity.index
    computes = {(s.placement, s.id) for s in steps if isinstance(s, DestroyComputeInstance)}
    instances = {s.placement for s in steps if isinstance(s, DestroyGpuInstance)}
    found: List[InUse] = []
    for instance in state.instances:
        for compute in instance.compute_instances:
            if compute.holders and (instance.placement, compute.id) in computes:
                device = instance.profile.with_compute(compute.slices)
                found.append(InUse(index, device, instance.placement, compute.holders))
        if instance.holders and instance.placement in instances:
            found.append(InUse(index, instance.profile, instance.placement, instance.holders))
    return tuple(found)


def _in_use_error(state: GpuState, steps: Sequence[Step], held: Sequence[InUse]) -> InUseError:
    index = state.identity.index
    text = "; ".join(str(device) for device in held)
    if _changes_mode(steps):
        mode = next(s for s in steps if isinstance(s, (SetMode, ResetGpu)))
        text += f"; it would be lost as MIG mode is to be {'enabled' if mode.enabled else 'disabled'}"
        if state.clients:
            text += f"; GPU {index} itself is used by {', '.join(state.clients)}"
    return InUseError(text, hint=IN_USE_HINT, details={"in_use": [device.as_dict() for device in held]})


def _changes_mode(steps: Sequence[Step]) -> bool:
    return any(isinstance(s, ResetGpu) or (isinstance(s, SetMode) and not s.cancels) for s in steps)


def _must_be_free(state: GpuState, steps: Sequence[Step]) -> bool:
    """Where the mode changes without a reset, the driver splits the GPU when the first instance comes."""
    destroyed = sum(isinstance(step, DestroyGpuInstance) for step in steps)
    creates = any(isinstance(step, CreateGpuInstance) for step in steps)
    first = creates and destroyed == len(state.instances)
    return _changes_mode(steps) or (state.resetless and first)


def _has_mode_step(steps: Sequence[Step]) -> bool:
    return any(isinstance(step, (SetMode, ResetGpu)) for step in steps)


def _in_order(steps: Mapping[int, Sequence[Step]]) -> Tuple[Step, ...]:
    """First what leads up to each mode and its reset, on all GPUs; then the instances, GPU by GPU."""
    removals: List[Step] = []
    modes: List[Step] = []
    resets: List[Step] = []
    rest: List[Step] = []
    for own in steps.values():
        at = next((n for n, step in enumerate(own) if isinstance(step, (SetMode, ResetGpu))), None)
        if at is None:
            rest += own
            continue
        removals += own[:at]
        (resets if isinstance(own[at], ResetGpu) else modes).append(own[at])
        rest += own[at + 1 :]
    return (*removals, *modes, *resets, *rest)
