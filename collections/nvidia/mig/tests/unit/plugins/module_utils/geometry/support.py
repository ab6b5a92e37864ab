# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Real GPUs' catalogs from the simulator's data file, and short ways to write layouts and states."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

from ansible_collections.nvidia.mig.plugins.module_utils.geometry.catalog import (
    Catalog,
    ComputeProfile,
    OfferedProfile,
    Placement,
)
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.profile import Profile, parse_profile
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.state import (
    ComputeInstance,
    GpuIdentity,
    GpuInstance,
    GpuState,
)
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.steps import (
    CreateComputeInstance,
    CreateGpuInstance,
    DestroyComputeInstance,
    DestroyGpuInstance,
    ResetGpu,
    SetMode,
    Step,
)

_FILE = next(
    up / "simulator/gpus.json"
    for up in Path(__file__).resolve().parents
    if (up / "simulator/gpus.json").exists()
)
GPUS = json.loads(_FILE.read_text())["gpus"]
MIG_GPUS = sorted(name for name, gpu in GPUS.items() if gpu.get("mig"))
SEVEN_SLICE = [name for name in MIG_GPUS if GPUS[name]["mig"]["compute_slices"] == 7]

A100 = "A100-SXM4-40GB"
A100_80 = "A100-SXM4-80GB"
A30 = "A30-24GB"
H100 = "H100-SXM5-80GB"
RTX = "RTX-PRO-6000-BLACKWELL-SERVER"
T4 = "T4-16GB"


@cache
def catalog(gpu: str, compute: bool = True) -> Catalog:
    """What the GPU offers; without ``compute`` as NVML tells it before there are GPU instances."""
    mig = GPUS[gpu].get("mig")
    return Catalog(
        GPUS[gpu]["name"],
        tuple(
            OfferedProfile(
                parse_profile(p["name"]),
                p["id"],
                p["max"],
                p["memory_mib"],
                p["sm"],
                tuple(Placement(*pair) for pair in p["placements"]),
                tuple(
                    ComputeProfile(
                        c["slices"],
                        c["id"],
                        c["max"],
                        c["sm"],
                        tuple(Placement(*pair) for pair in c["placements"]),
                    )
                    for c in p["compute_instances"]
                )
                if compute
                else (),
            )
            for p in (mig["profiles"] if mig else ())
        ),
    )


def multisets(offer: Catalog) -> Iterator[tuple[Profile, ...]]:
    """All multisets within each profile's limit and the GPU's compute slices, but the empty one."""
    most = max(o.profile.compute_slices for o in offer.profiles)

    def grow(kinds: tuple[OfferedProfile, ...], slices: int) -> Iterator[tuple[Profile, ...]]:
        if not kinds:
            yield ()
            return
        profile = kinds[0].profile
        for count in range(min(kinds[0].max_instances, slices // profile.compute_slices) + 1):
            for rest in grow(kinds[1:], slices - count * profile.compute_slices):
                yield (profile,) * count + rest

    return (wanted for wanted in grow(offer.profiles, most) if wanted)


def profiles(text: str) -> tuple[Profile, ...]:
    """``3g.20gb*2 1g.5gb`` -> three profiles."""
    found: list[Profile] = []
    for word in text.split():
        name, dummy, count = word.partition("*")
        found += [parse_profile(name)] * int(count or 1)
    return tuple(found)


def instance(text: str, *holders: str, compute: str | None = None, number: int | None = None) -> GpuInstance:
    """``1g.5gb@4:1`` with its whole compute instance, which the holders hold.

    ``compute`` lists others as slices@start: ``2@0 1@2``, or ``""`` for none; the first is then the held one.
    """
    name, dummy, place = text.partition("@")
    start, size = (int(part) for part in place.split(":"))
    profile = parse_profile(name)
    words = [f"{profile.compute_slices}@0"] if compute is None else compute.split()
    pairs = [tuple(int(part) for part in word.split("@")) for word in words]
    computes = tuple(
        ComputeInstance(n, slices, first, 0, holders if n == 0 else ())
        for n, (slices, first) in enumerate(pairs)
    )
    return GpuInstance(start if number is None else number, profile, Placement(start, size), computes)


def state(
    gpu: str,
    *instances: GpuInstance,
    index: int = 0,
    mig: bool = True,
    pending: bool | None = None,
    clients: tuple[str, ...] = (),
) -> GpuState:
    offer = catalog(gpu)
    capable = bool(offer.profiles)
    return GpuState(
        GpuIdentity(
            index, f"GPU-{index:08x}-aaaa", f"00000000:{index + 7:02X}:00.0", offer.product,
            GPUS[gpu]["pci_device_id"] + "10DE",
        ),
        offer,
        capable,
        mig and capable,
        (mig if pending is None else pending) and capable,
        capable and GPUS[gpu]["mig"]["mode_change"] != "reset",
        instances,
        clients,
    )  # fmt: skip


def execute(before: GpuState, steps: tuple[Step, ...]) -> GpuState:
    """Carry out the steps as a strict driver does: whatever it would refuse is an assertion here."""
    instances = {i.placement: i for i in before.instances}
    mode = before.mig_current
    pending = before.mig_pending
    fresh = 1000
    for step in steps:
        fresh += 1
        assert step.gpu == before.identity.index
        if isinstance(step, SetMode):
            assert not instances or step.cancels, "mode change with instances"
            mode = pending = step.enabled
        elif isinstance(step, ResetGpu):
            assert pending == step.enabled != mode and not instances
            mode = pending
        elif isinstance(step, DestroyGpuInstance):
            gone = instances.pop(step.placement)
            assert gone.id == step.id and not gone.compute_instances
        elif isinstance(step, CreateGpuInstance):
            assert mode
            assert step.placement in before.catalog.find(step.profile).placements
            assert not any(step.placement.mask & other.mask for other in instances)
            instances[step.placement] = GpuInstance(fresh, step.profile, step.placement)
        else:
            parent = instances[step.placement]
            assert parent.profile == step.profile
            assert mode
            instances[step.placement] = replace(
                parent, compute_instances=_computes(parent, step, fresh, before.catalog)
            )
    return replace(
        before,
        mig_current=mode,
        mig_pending=pending,
        instances=tuple(instances[p] for p in sorted(instances)),
    )


def _computes(
    parent: GpuInstance, step: DestroyComputeInstance | CreateComputeInstance, fresh: int, offer: Catalog
) -> tuple[ComputeInstance, ...]:
    there = parent.compute_instances
    if isinstance(step, DestroyComputeInstance):
        assert parent.id == step.gpu_instance_id
        left = tuple(c for c in there if c.id != step.id)
        assert len(left) == len(there) - 1
        return left
    spot = Placement(step.start, step.slices)
    assert any(spot in c.placements for c in offer.find(parent.profile).compute_profiles)
    assert not any(spot.mask & Placement(c.start, c.slices).mask for c in there)
    return (*there, ComputeInstance(fresh, step.slices, step.start, 0))
