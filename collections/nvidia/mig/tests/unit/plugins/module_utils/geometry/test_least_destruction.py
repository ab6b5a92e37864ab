# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans against brute force: every state that a GPU can be in, and the price of going there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import product

import pytest
from ansible_collections.nvidia.mig.plugins.module_utils.errors import InUseError
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.catalog import Catalog, Placement
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.entries import GpuLayout
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.profile import Profile, canonical
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
    Step,
)
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.transition import (
    is_as_wanted,
    plan_gpu,
    plan_host,
)
from ansible_collections.nvidia.mig.tests.unit.plugins.module_utils.geometry.support import (
    A30,
    A100,
    RTX,
    catalog,
    execute,
    state,
)
from hypothesis import given, settings
from hypothesis import strategies as st

# MIG mode, current and pending.
MODES = [(True, True), (True, True), (True, False), (False, True), (False, False)]

Spot = tuple[int, int]  # slices, start
There = tuple[Profile, Placement, frozenset[Spot]]  # a GPU instance with its compute instances
Config = tuple[There, ...]
Cost = tuple[int, int, int, int]


def contents(gpu: str, profile: Profile) -> list[frozenset[Spot]]:
    """Every set of compute instances in one GPU instance, but none."""
    spots = [(c.slices, p.start) for c in catalog(gpu).find(profile).compute_profiles for p in c.placements]
    found = {frozenset[Spot]()}
    for slices, start in spots:
        own = Placement(start, slices).mask
        found |= {
            there | {(slices, start)}
            for there in found
            if not any(own & Placement(first, size).mask for size, first in there)
        }
    return sorted((there for there in found if there), key=sorted)


@cache
def configs(gpu: str) -> dict[tuple[Profile, ...], list[Config]]:
    """Every state of a GPU, by its MIG devices. To keep them few, profiles with attributes are only whole."""
    offer = catalog(gpu)

    def grow(unit: int, used: tuple[Profile, ...]) -> Iterator[tuple[tuple[Profile, Placement], ...]]:
        if unit >= offer.units:
            yield ()
            return
        yield from grow(unit + 1, used)
        for offered in offer.profiles:
            for placement in offered.placements:
                now = (*used, offered.profile)
                if placement.start == unit and sum("+me" in p.attributes for p in now) <= 1 and media(now):
                    for rest in grow(unit + placement.size, now):
                        yield ((offered.profile, placement), *rest)

    def media(now: tuple[Profile, ...]) -> bool:
        hungry = sum("+me.all" in p.attributes for p in now)
        return hungry == 0 or (hungry == 1 and sum("-me" in p.attributes for p in now) == len(now) - 1)

    inside = {
        o.profile: [frozenset({(o.profile.compute_slices, 0)})]
        if o.profile.attributes
        else contents(gpu, o.profile)
        for o in offer.profiles
    }
    found: dict[tuple[Profile, ...], list[Config]] = {}
    for placed in grow(0, ()):
        for spots in product(*(inside[profile] for profile, dummy in placed)):
            config = tuple((p, where, there) for (p, where), there in zip(placed, spots))
            devices = canonical(
                p.with_compute(slices) for p, dummy, there in config for slices, dummy in there
            )
            found.setdefault(devices, []).append(config)
    return found


def weight(holders: tuple[str, ...]) -> int:
    """A process outweighs all pods: nobody can destroy what it is in."""
    return 1000 if any("process" in holder for holder in holders) else len(holders[:1])


def price(gpu: GpuState, config: Config) -> Cost:
    """What it costs to get there, keeping all that is the same."""
    target = {(profile, where): spots for profile, where, spots in config}
    in_use = destroyed = computes = kept = 0
    for there in gpu.instances:
        spots = target.get((there.profile, there.placement))
        if spots is None:
            destroyed += 1
            in_use += weight(there.holders)
        for compute in there.compute_instances:
            computes += 1
            if spots is not None and (compute.slices, compute.start) in spots:
                kept += 1
            else:
                in_use += weight(compute.holders)
    created = len(config) - (len(gpu.instances) - destroyed)
    wanted = sum(len(spots) for dummy, dummy, spots in config)
    return (in_use, destroyed, created, computes + wanted - 2 * kept)


def cost(gpu: GpuState, steps: tuple[Step, ...]) -> Cost:
    counts = [
        sum(isinstance(step, kind) for step in steps) for kind in (DestroyGpuInstance, CreateGpuInstance)
    ]
    computes = sum(isinstance(step, (DestroyComputeInstance, CreateComputeInstance)) for step in steps)
    in_use = 0
    for there in gpu.instances:
        gone = any(isinstance(s, DestroyGpuInstance) and s.id == there.id for s in steps)
        in_use += weight(there.holders) if gone else 0
        for compute in there.compute_instances:
            in_use += weight(compute.holders) * any(
                isinstance(s, DestroyComputeInstance) and (s.gpu_instance_id, s.id) == (there.id, compute.id)
                for s in steps
            )
    return (in_use, counts[0], counts[1], computes)


@st.composite
def task(draw: st.DrawFn, busy: bool = True) -> tuple[str, GpuState, tuple[Profile, ...]]:
    """A GPU in any state, partly held, maybe with a GPU instance without content; and what is wanted."""
    gpu = draw(st.sampled_from([A30, A100, A100, RTX]))
    keys = sorted(configs(gpu), key=lambda devices: [p.sort_key for p in devices])
    config = draw(st.sampled_from(draw(st.sampled_from(list(configs(gpu).values())))))
    holders = [(), ("process 7 (python)",), ("pod ml/a",), ("pod ml/a", "process 7 (python)")]
    holder = st.sampled_from(holders) if busy else st.just(())
    instances = []
    for number, (profile, placement, spots) in enumerate(config):
        lost = draw(st.integers(0, 5)) == 0
        computes = tuple(
            ComputeInstance(n, slices, start, 0, draw(holder))
            for n, (slices, start) in enumerate(() if lost else sorted(spots))
        )
        instances.append(GpuInstance(number, profile, placement, computes, draw(holder) if lost else ()))
    return gpu, state(gpu, *instances), draw(st.sampled_from(keys))


@settings(max_examples=400, deadline=None)
@given(task())
def test_no_way_is_cheaper(given_task: tuple[str, GpuState, tuple[Profile, ...]]) -> None:
    gpu, before, devices = given_task
    wanted = GpuLayout(True, devices)
    best = min(price(before, config) for config in configs(gpu)[devices])
    plan = plan_host([before], {0: wanted}, destroy_in_use=True)
    assert cost(before, plan.steps) == best
    assert sum(weight(own.holders) for own in plan.in_use) == best[0]
    after = execute(before, plan.steps)
    assert after.devices == devices
    assert all(there.compute_instances for there in after.instances)
    assert plan_gpu(after, wanted) == ()
    assert plan.after["GPU 0"] == after.summary()

    if best[0]:
        with pytest.raises(InUseError):
            plan_gpu(before, wanted)
    else:
        assert plan_gpu(before, wanted) == plan.steps


@settings(max_examples=400, deadline=None)
@given(
    task(),
    st.booleans(),
    st.sampled_from([(True, True)] * 3 + [(True, False), (False, True), (False, False)]),
)
def test_as_wanted_is_an_empty_plan(
    given_task: tuple[str, GpuState, tuple[Profile, ...]], same: bool, mode: tuple[bool, bool]
) -> None:
    """Told without search and placements in just the cases where the search finds nothing to do."""
    gpu, before, devices = given_task
    current, pending = mode
    before = replace(
        before,
        mig_current=current,
        mig_pending=pending,
        instances=before.instances if current else (),
    )
    blind = replace(before, catalog=Catalog(before.catalog.product))
    for wanted in (GpuLayout(True, before.devices if same else devices), GpuLayout(False)):
        nothing_to_do = not plan_host([before], {0: wanted}, destroy_in_use=True).changed
        assert is_as_wanted(blind, wanted) == nothing_to_do


@settings(max_examples=150, deadline=None)
@given(task(busy=False), st.data())
def test_a_run_that_is_cut_off_is_finished_by_the_next(
    given_task: tuple[str, GpuState, tuple[Profile, ...]], data: st.DataObject
) -> None:
    dummy, before, devices = given_task
    wanted = GpuLayout(True, devices)
    steps = plan_gpu(before, wanted)
    done = data.draw(st.integers(0, len(steps)))
    between = execute(before, steps[:done])
    rest = plan_gpu(between, wanted)
    # Never more work than the first plan had left.
    assert cost(between, rest) <= cost(between, steps[done:])
    assert execute(between, rest).devices == devices


def test_the_brute_force_knows_enough_states() -> None:
    plain = [
        c for found in configs(A30).values() for c in found if not any(p.attributes for p, dummy, dummy in c)
    ]
    whole = [c for c in plain if all(spots == {(p.compute_slices, 0)} for p, dummy, spots in c)]
    # By hand: 4g alone, or each half empty, 2g, or any of its two 1g: 1 + 5 * 5.
    assert len(whole) == 26
    assert len(configs(A100)) > 500
