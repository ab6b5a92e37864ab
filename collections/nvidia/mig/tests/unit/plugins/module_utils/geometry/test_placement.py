# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import combinations_with_replacement, product

import pytest
from ansible_collections.nvidia.mig.plugins.module_utils.errors import InfeasibleError, InputError
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.catalog import Catalog, Placement
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.placement import (
    Placed,
    limit_reason,
    place,
    search,
)
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.profile import Profile, parse_profile
from ansible_collections.nvidia.mig.tests.unit.plugins.module_utils.geometry.support import (
    A30,
    A100,
    H100,
    MIG_GPUS,
    RTX,
    SEVEN_SLICE,
    catalog,
    profiles,
)
from hypothesis import given, settings
from hypothesis import strategies as st

# NVIDIA's MIG user guide, "Supported MIG Profiles": the maximal configurations of the 7-slice GPUs, one digit
# an instance, d the 1-slice instance with double memory; and of the 4-slice GPUs.
SEVEN = (
    "7 4dd 4d11 4d1 43 42d 421 4111 33 32d 322 3211 321 31111 3111 3dd 3d11 3d1 222d 2221 22dd 22d11 22d1 "
    "22111 2ddd 2dd11 2dd1 2d1111 2d111 211111 dddd ddd11 ddd1 dd1111 dd111 d111111 d11111 1111111"
)
FOUR = "4 22 211 1111"


def shape(gpu: str, letters: str) -> tuple[Profile, ...]:
    """``3d1`` on an A100 -> 3g.20gb, 1g.10gb, 1g.5gb."""
    plain = sorted(
        (o.profile for o in catalog(gpu).profiles if not o.profile.attributes), key=lambda p: p.sort_key
    )
    by_letter = {str(p.compute_slices): p for p in plain}
    ones = [p for p in plain if p.compute_slices == 1]
    by_letter["d"] = ones[0]
    return tuple(by_letter[letter] for letter in letters)


def oracle(gpu: str) -> tuple[str, set[str]]:
    """The letters of a GPU, and every combination of them that is part of a maximal configuration."""
    letters, maximal = ("7432d1", SEVEN) if gpu in SEVEN_SLICE else ("421", FOUR)
    fits = {
        "".join(letter * n for letter, n in zip(letters, counts))
        for whole in maximal.split()
        for counts in product(*(range(whole.count(letter) + 1) for letter in letters))
    }
    return letters, fits


@pytest.mark.parametrize("gpu", MIG_GPUS)
def test_fits_exactly_what_the_guide_lists(gpu: str) -> None:
    letters, fits = oracle(gpu)
    checked = 0
    for count in range(9):
        for combination in combinations_with_replacement(letters, count):
            wanted = shape(gpu, "".join(combination))
            placed = None if limit_reason(catalog(gpu), wanted) else search(catalog(gpu), wanted)
            assert (placed is not None) == ("".join(combination) in fits), combination
            checked += 1
            if placed is not None:
                assert_legal(catalog(gpu), placed)
                assert Counter(p.profile for p in placed) == Counter(wanted)
    assert checked == (3003 if gpu in SEVEN_SLICE else 165)


def assert_legal(offer: Catalog, placed: tuple[Placed, ...]) -> None:
    used = 0
    for p in placed:
        assert p.placement in offer.find(p.profile).placements
        assert not used & p.placement.mask
        used |= p.placement.mask
    slices = max(o.profile.compute_slices for o in offer.profiles)
    assert sum(p.profile.compute_slices for p in placed) <= slices


def all_ways(offer: Catalog, wanted: tuple[Profile, ...], used: int) -> Iterator[tuple[Placed, ...]]:
    """Brute force: every choice of one placement each, without overlap."""
    if not wanted:
        yield ()
        return
    for placement in offer.find(wanted[0]).placements:
        if not used & placement.mask:
            for rest in all_ways(offer, wanted[1:], used | placement.mask):
                yield (Placed(wanted[0], placement), *rest)


def room(offer: Catalog, used: int) -> tuple[int, ...]:
    """The documented rule, written anew: free placements, the biggest shape first."""
    shapes: list[tuple[Placement, ...]] = []
    for offered in sorted(offer.profiles, key=lambda o: (-o.placements[0].size, -o.profile.compute_slices)):
        if offered.placements not in shapes:
            shapes.append(offered.placements)
    return tuple(len([p for p in placements if not p.mask & used]) for placements in shapes)


def mask(placed: tuple[Placed, ...]) -> int:
    return sum(p.placement.mask for p in placed)


@st.composite
def problem(draw: st.DrawFn) -> tuple[str, tuple[Profile, ...], tuple[Placed, ...]]:
    """A GPU, instances that are there (anywhere without overlap), and wanted ones."""
    gpu = draw(st.sampled_from([A30, A100, H100, RTX]))
    offer = catalog(gpu)
    spots = [Placed(o.profile, p) for o in offer.profiles for p in o.placements]
    pinned: list[Placed] = []
    for spot in draw(st.lists(st.sampled_from(spots), max_size=3)):
        if not any(spot.placement.mask & other.placement.mask for other in pinned):
            pinned.append(spot)
    wanted = draw(st.lists(st.sampled_from([o.profile for o in offer.profiles]), max_size=5))
    return gpu, tuple(wanted), tuple(pinned)


@settings(max_examples=250, deadline=None)
@given(problem())
def test_is_exact_beside_any_pinned_instances(
    task: tuple[str, tuple[Profile, ...], tuple[Placed, ...]],
) -> None:
    gpu, wanted, pinned = task
    offer = catalog(gpu)
    ways = list(all_ways(offer, wanted, mask(pinned)))
    found = search(offer, wanted, pinned)
    assert (found is not None) == bool(ways)
    if found is None:
        return
    assert_legal(offer, found)
    assert not mask(found) & mask(pinned)
    assert Counter(p.profile for p in found) == Counter(wanted)
    assert room(offer, mask(found + pinned)) == max(room(offer, mask(way + pinned)) for way in ways)
    assert search(offer, tuple(reversed(wanted)), pinned) == found


@settings(max_examples=150, deadline=None)
@given(problem())
def test_says_why_not_and_never_fails_otherwise(
    task: tuple[str, tuple[Profile, ...], tuple[Placed, ...]],
) -> None:
    gpu, wanted, pinned = task
    if limit_reason(catalog(gpu), [p.profile for p in pinned]):
        pinned = ()
    try:
        place(catalog(gpu), wanted, pinned)
    except InfeasibleError as error:
        assert any(str(profile) in error.message for profile in wanted)


def test_leaves_most_room_for_big_profiles() -> None:
    def placed(text: str, *pinned: Placed) -> list[str]:
        return [str(p) for p in place(catalog(A100), profiles(text), pinned)]

    assert placed("1g.5gb") == ["1g.5gb at 6:1"]
    assert placed("2g.10gb") == ["2g.10gb at 4:2"]
    assert placed("3g.20gb") == ["3g.20gb at 4:4"]
    assert placed("1g.5gb*2") == ["1g.5gb at 4:1", "1g.5gb at 5:1"]
    assert placed("1g.5gb*2 3g.20gb 2g.10gb") == [
        "3g.20gb at 4:4", "2g.10gb at 0:2", "1g.5gb at 2:1", "1g.5gb at 3:1",
    ]  # fmt: skip
    one = Placed(parse_profile("1g.5gb"), Placement(1, 1))
    assert placed("1g.5gb", one) == ["1g.5gb at 0:1"]
    assert placed("2g.10gb", one) == ["2g.10gb at 2:2"]
    assert placed("") == []


def test_compute_instances_share_a_gpu_instance() -> None:
    assert [str(p) for p in place(catalog(A100), profiles("1c.3g.20gb*3 2g.10gb"))] == [
        "3g.20gb at 4:4", "2g.10gb at 0:2",
    ]  # fmt: skip
    assert [str(p.profile) for p in place(catalog(A100), profiles("1c.3g.20gb*4"))] == ["3g.20gb", "3g.20gb"]


PINNED = (
    Placed(parse_profile("1g.10gb"), Placement(0, 1)),
    Placed(parse_profile("1g.10gb"), Placement(4, 1)),
)


@pytest.mark.parametrize(
    ("gpu", "text", "pinned", "message"),
    [
        (
            H100,
            "3g.40gb*2 1g.10gb",
            (),
            "3g.40gb x2 + 1g.10gb: no free placement for 1g.10gb"
            " on H100 80GB HBM3: both 4-slice spans are taken",
        ),
        (
            H100,
            "7g.80gb 1g.10gb",
            (),
            "7g.80gb + 1g.10gb: no free placement for 1g.10gb"
            " on H100 80GB HBM3: the only 8-slice span is taken",
        ),
        (
            H100,
            "1g.20gb*4 1g.10gb",
            (),
            "1g.20gb x4 + 1g.10gb: no free placement for 1g.10gb"
            " on H100 80GB HBM3: all 4 2-slice spans are taken",
        ),
        (H100, "4g.40gb*2", (), "4g.40gb x2: H100 80GB HBM3 takes at most 1 of 4g.40gb"),
        (
            H100,
            "3g.40gb 2g.20gb 1g.10gb*3",
            (),
            "3g.40gb + 2g.20gb + 1g.10gb x3: no free placement for 1g.10gb on H100 80GB HBM3: taken are "
            "4:4 by 3g.40gb, 0:2 by 2g.20gb, 2:1 by 1g.10gb, 3:1 by 1g.10gb",
        ),
        (
            H100,
            "3g.40gb",
            PINNED,
            "3g.40gb: no free placement for 3g.40gb on H100 80GB HBM3: 0:4 is blocked by 1g.10gb at 0:1; "
            "4:4 is blocked by 1g.10gb at 4:1",
        ),
        (
            H100,
            "2g.20gb*2 1g.20gb",
            PINNED,
            "2g.20gb x2 + 1g.20gb: no free placement for 2g.20gb on H100 80GB HBM3: taken are "
            "0:1 by 1g.10gb (which stays), 4:1 by 1g.10gb (which stays), 2:2 by 2g.20gb",
        ),
        (RTX, "2g.48gb*2 1g.24gb", (), "both 6-unit spans are taken"),
        (A100, "1g.5gb+me*2", (), "1g.5gb+me x2: A100-SXM4-40GB takes at most 1 of 1g.5gb+me"),
        (
            A30,
            "1g.6gb+me 2g.12gb+me",
            (),
            "A30 has its media engines once, so at most one instance can have +me",
        ),
        (
            RTX,
            "1g.24gb+me.all 1g.24gb",
            (),
            "1g.24gb+me.all takes all media engines: 1g.24gb cannot stand beside it, only -me profiles can",
        ),
        (RTX, "1g.24gb+me.all 2g.48gb+me.all", (), "at most one instance can have +me.all"),
        (A100, "1c.3g.20gb*7", (), "1c.3g.20gb x7: A100-SXM4-40GB takes at most 2 of 3g.20gb"),
        (A100, "2c.3g.20gb*64", (), "2c.3g.20gb x64: A100-SXM4-40GB takes at most 2 of 3g.20gb"),
    ],
)
def test_reasons(gpu: str, text: str, pinned: tuple[Placed, ...], message: str) -> None:
    with pytest.raises(InfeasibleError) as error:
        place(catalog(gpu), profiles(text), pinned)
    assert error.value.message.endswith(message)


@pytest.mark.parametrize(
    ("gpu", "text"),
    [
        (A100, "1g.5gb+me 1g.5gb*6"),
        (RTX, "1g.24gb+me.all 1g.24gb-me*3"),
        (RTX, "2g.48gb+me.all 2g.48gb-me"),
        (RTX, "1g.24gb+me 1g.24gb 1g.24gb-me 1g.24gb+gfx"),
        (A30, "2g.12gb+me 1g.6gb*2"),
    ],
)
def test_media_engines_that_suffice(gpu: str, text: str) -> None:
    assert len(place(catalog(gpu), profiles(text))) == len(profiles(text))


def test_unknown_profile() -> None:
    with pytest.raises(InputError, match=r"A30 does not offer 3g\.20gb"):
        place(catalog(A30), profiles("3g.20gb"))
