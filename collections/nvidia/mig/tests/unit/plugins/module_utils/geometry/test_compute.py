# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pytest
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.catalog import Placement
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.compute import Spot, pack, share
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.profile import (
    describe_profiles,
    parse_profile,
)
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.state import ComputeInstance, GpuInstance
from ansible_collections.nvidia.mig.tests.unit.plugins.module_utils.geometry.support import (
    A100,
    catalog,
    profiles,
)
from hypothesis import given, settings
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("wanted", "instances"),
    [
        ("", ""),
        ("3g.20gb*2", "3g.20gb x2"),
        ("1c.3g.20gb", "3g.20gb"),
        ("1c.3g.20gb*3", "3g.20gb"),
        ("1c.3g.20gb*4", "3g.20gb x2"),
        ("2c.3g.20gb 1c.3g.20gb", "3g.20gb"),
        ("2c.3g.20gb*2 1c.3g.20gb*2", "3g.20gb x2"),
        ("1c.3g.20gb 3g.20gb", "3g.20gb x2"),
        ("1c.3g.20gb 1c.4g.20gb", "4g.20gb + 3g.20gb"),
        ("2c.7g.40gb*3 1c.7g.40gb", "7g.40gb"),
        ("1c.2g.10gb*2 2g.10gb 1g.5gb", "2g.10gb x2 + 1g.5gb"),
        # 3 + 2 + 2 slices are 7, but a 3c starts at 0 or 3 and leaves only one place for a 2c.
        ("3c.7g.40gb 2c.7g.40gb*2", "7g.40gb x2"),
    ],
)
@pytest.mark.parametrize("compute", [True, False])
def test_share(wanted: str, instances: str, compute: bool) -> None:
    assert describe_profiles(share(catalog(A100, compute), profiles(wanted))) == instances


@cache
def contents(profile: str) -> list[tuple[Spot, ...]]:
    """Every set of compute instances that a GPU instance can hold."""
    offered = catalog(A100).find(parse_profile(profile))
    spots = [(c.slices, p.start) for c in offered.compute_profiles for p in c.placements]

    def grow(first: int, used: int) -> Iterator[tuple[Spot, ...]]:
        yield ()
        for position in range(first, len(spots)):
            size, start = spots[position]
            own = Placement(start, size).mask
            if not own & used:
                for rest in grow(position + 1, used | own):
                    yield (spots[position], *rest)

    return list(grow(0, 0))


def cheapest(
    profile: str, slices: tuple[int, ...], existing: tuple[GpuInstance, ...], fresh: int
) -> tuple[int, int] | None:
    """Brute force over every content of every GPU instance: (lost in use, lost), least."""
    best: tuple[int, int] | None = None
    bins: tuple[GpuInstance | None, ...] = (*existing, *[None] * fresh)

    def fill(position: int, left: tuple[int, ...], in_use: int, lost: int) -> None:
        nonlocal best
        if position == len(bins):
            if not left and (best is None or (in_use, lost) < best):
                best = (in_use, lost)
            return
        there = bins[position]
        before = there.compute_instances if there else ()
        for content in contents(profile):
            rest = list(left)
            try:
                for size, _start in content:
                    rest.remove(size)
            except ValueError:
                continue
            if content:
                gone = [c for c in before if (c.slices, c.start) not in content]
                # A process outweighs all pods.
                held = sum(1000 if "process 1 (a)" in c.holders else bool(c.holders) for c in gone)
                fill(position + 1, tuple(rest), in_use + held, lost + len(gone))

    fill(0, slices, 0, 0)
    return best


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_keeps_most_compute_instances(data: st.DataObject) -> None:
    profile = data.draw(st.sampled_from(["1g.5gb", "2g.10gb", "3g.20gb", "4g.20gb"]))
    offered = catalog(A100).find(parse_profile(profile))
    existing = []
    for number in range(data.draw(st.integers(0, 2))):
        spots = data.draw(st.sampled_from(contents(profile)))
        computes = tuple(
            ComputeInstance(
                n, size, start, 0, data.draw(st.sampled_from([(), ("process 1 (a)",), ("pod b",)]))
            )
            for n, (size, start) in enumerate(spots)
        )
        existing.append(GpuInstance(number, offered.profile, Placement(number, 1), computes))
    sizes = st.lists(st.sampled_from(offered.compute_sizes), max_size=5)
    slices = tuple(sorted(data.draw(sizes), reverse=True))
    fresh = data.draw(st.integers(0, 2))

    packing = pack(offered, slices, tuple(existing), fresh)
    assert (None if packing is None else (packing.lost_in_use, packing.lost)) == cheapest(
        profile, slices, tuple(existing), fresh
    )
    if packing is None:
        return
    filled = [
        tuple(sorted([*((c.slices, c.start) for c in kept), *created]))
        for kept, created in zip(packing.kept, packing.created)
    ] + [tuple(sorted(created)) for created in packing.fresh]
    assert all(content in [tuple(sorted(c)) for c in contents(profile)] and content for content in filled)
    assert sorted(size for content in filled for size, _start in content) == sorted(slices)
