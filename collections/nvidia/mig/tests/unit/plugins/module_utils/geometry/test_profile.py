# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from ansible_collections.nvidia.mig.plugins.module_utils.errors import InputError
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.profile import (
    Profile,
    canonical,
    describe_profiles,
    parse_profile,
    strip_nvml_prefix,
)
from ansible_collections.nvidia.mig.tests.unit.plugins.module_utils.geometry.support import profiles
from hypothesis import example, given
from hypothesis import strategies as st

names = st.from_regex(r"[a-z][a-z0-9]{0,4}(\.[a-z0-9]{1,4})?", fullmatch=True)
signed = st.builds(
    lambda sign, found: tuple(sign + name for name in sorted(found)),
    st.sampled_from("+-"),
    st.sets(names, max_size=3),
)
any_profile = st.builds(
    lambda gi, gb, attributes, part: Profile(gi, gb, attributes).with_compute(min(gi, part)),
    st.integers(1, 8),
    st.integers(0, 300),
    signed,
    st.integers(1, 8),
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("3g.20gb", Profile(3, 20)),
        ("3g.20GB", Profile(3, 20)),
        (" 7G.79gb ", Profile(7, 79)),
        ("1g.5gb+me", Profile(1, 5, ("+me",))),
        ("1g.24gb-me", Profile(1, 24, ("-me",))),
        ("2g.48gb+me.all", Profile(2, 48, ("+me.all",))),
        ("4g.96gb+gfx", Profile(4, 96, ("+gfx",))),
        ("1g.5gb+me,gfx", Profile(1, 5, ("+gfx", "+me"))),
        ("1c.3g.20gb", Profile(3, 20, (), 1)),
        ("2c.3g.20gb+me", Profile(3, 20, ("+me",), 2)),
        ("3c.3g.20gb", Profile(3, 20)),
        ("1g.0gb", Profile(1, 0)),
    ],
)
def test_reads(text: str, expected: Profile) -> None:
    assert parse_profile(text) == expected


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("3g20gb", "did you mean 3g.20gb?"),
        ("3g.20", "did you mean 3g.20gb?"),
        ("3g.20g", "did you mean 3g.20gb?"),
        ("MIG 3g.20gb", "did you mean 3g.20gb?"),
        ("mig-3g.20gb", "did you mean 3g.20gb?"),
        ("nvidia.com/mig-1g.5gb.me", "did you mean 1g.5gb+me?"),
        ("1g.5gb.me", "did you mean 1g.5gb+me?"),
        ("1c 3g 20gb", "did you mean 1c.3g.20gb?"),
        ("5c.3g.20", "did you mean 3g.20gb?"),
        ("20gb", "a profile reads like 3g.20gb, 1g.5gb+me or 1c.3g.20gb"),
        ("0g.5gb", "a profile reads like 3g.20gb, 1g.5gb+me or 1c.3g.20gb"),
        ("1g.5gb+me-gfx", "a profile reads like 3g.20gb, 1g.5gb+me or 1c.3g.20gb"),
        ("1g.5gb+me,me", "a profile reads like 3g.20gb, 1g.5gb+me or 1c.3g.20gb"),
        ("4c.3g.20gb", "the number before 'c.' is at most 3"),
        ("", "a profile reads like 3g.20gb, 1g.5gb+me or 1c.3g.20gb"),
        (7, "a profile reads like 3g.20gb, 1g.5gb+me or 1c.3g.20gb"),
        (None, "a profile reads like 3g.20gb, 1g.5gb+me or 1c.3g.20gb"),
    ],
)
def test_refuses_and_says_what_is_near(text: object, hint: str) -> None:
    with pytest.raises(InputError) as error:
        parse_profile(text, "layout[1].profiles")
    assert error.value.path == "layout[1].profiles"
    assert repr(text) in error.value.message
    assert error.value.hint == hint


@given(any_profile)
@example(Profile(3, 20, ("+gfx", "+me"), 1))
def test_round_trip(profile: Profile) -> None:
    assert parse_profile(str(profile)) == profile
    assert parse_profile(str(profile).upper()) == profile


@given(st.text(alphabet="0123456789cg.b+-me ,iMG", max_size=14))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        profile = parse_profile(text)
    except InputError as error:
        near = (error.hint or "").partition("did you mean ")[2].rstrip("?")
        assert not near or str(parse_profile(near)) == near
    else:
        assert parse_profile(str(profile)) == profile


def test_names_of_the_device_and_its_gpu_instance() -> None:
    device = parse_profile("1c.3g.20gb+me")
    assert str(device.gpu_instance) == "3g.20gb+me"
    assert device.device_slices == 1
    assert device.gpu_instance.device_slices == 3
    assert device.gpu_instance.with_compute(1) == device
    assert device.gpu_instance.with_compute(3) == device.gpu_instance


@pytest.mark.parametrize("name", ["MIG 1g.5gb", "1g.5gb", "mig 1g.5gb", " MIG  1g.5gb "])
def test_nvml_names(name: str) -> None:
    assert strip_nvml_prefix(name) == "1g.5gb"


def test_canonical_order_does_not_depend_on_the_order_written() -> None:
    mixed = profiles("1g.5gb 1g.10gb 3g.20gb 1c.3g.20gb 1g.5gb+me 7g.40gb 2g.10gb")
    assert [str(p) for p in canonical(mixed)] == [
        "7g.40gb", "3g.20gb", "1c.3g.20gb", "2g.10gb", "1g.10gb", "1g.5gb", "1g.5gb+me",
    ]  # fmt: skip
    assert canonical(reversed(mixed)) == canonical(mixed)
    assert describe_profiles(profiles("1g.10gb 3g.40gb*2")) == "3g.40gb x2 + 1g.10gb"
