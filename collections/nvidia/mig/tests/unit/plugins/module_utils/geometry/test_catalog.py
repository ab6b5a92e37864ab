# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from ansible_collections.nvidia.mig.plugins.module_utils.errors import InputError
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.catalog import (
    ComputeProfile,
    Placement,
    pick_compute_profile,
)
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.profile import parse_profile
from ansible_collections.nvidia.mig.tests.unit.plugins.module_utils.geometry.support import (
    A30,
    A100,
    H100,
    MIG_GPUS,
    RTX,
    T4,
    catalog,
)


def test_finds_by_name_and_by_id() -> None:
    offer = catalog(A100)
    assert offer.find(parse_profile("1c.3g.20gb")).id == 9
    assert str(offer.by_id(19).profile) == "1g.5gb"  # type: ignore[union-attr]
    assert offer.by_id(99) is None


@pytest.mark.parametrize(("gpu", "units"), [(A30, 4), (A100, 8), (RTX, 12), (T4, 0)])
def test_units(gpu: str, units: int) -> None:
    assert catalog(gpu).units == units


@pytest.mark.parametrize(
    ("gpu", "name", "message", "hint"),
    [
        (
            A100,
            "2g.20gb",
            "A100-SXM4-40GB does not offer 2g.20gb",
            "the nearest is 2g.10gb; it offers 7g.40gb, 4g",
        ),
        (A100, "1g.20gb", "A100-SXM4-40GB does not offer 1g.20gb", "the nearest is 1g.10gb"),
        (A100, "1g.10gb+me", "A100-SXM4-40GB does not offer 1g.10gb+me", "the nearest is 1g.5gb+me"),
        (H100, "7g.79gb", "H100 80GB HBM3 does not offer 7g.79gb", "the nearest is 7g.80gb"),
        (
            A100,
            "3c.4g.20gb",
            "does not offer 3c.4g.20gb",
            "in 4g.20gb it offers 1c.4g.20gb, 2c.4g.20gb, 4g.20gb",
        ),
        (T4, "1g.5gb", "Tesla T4 does not offer 1g.5gb", "this GPU cannot do MIG"),
    ],
)
@pytest.mark.parametrize("compute", [True, False])
def test_unknown_profile(gpu: str, name: str, message: str, hint: str, compute: bool) -> None:
    with pytest.raises(InputError) as error:
        catalog(gpu, compute).find(parse_profile(name), "layout[0].profiles." + name)
    assert message in error.value.message
    assert hint in str(error.value.hint)
    assert error.value.path == "layout[0].profiles." + name


@pytest.mark.parametrize("gpu", MIG_GPUS)
def test_rules_for_what_nvml_does_not_tell_are_the_same_as_what_it_tells(gpu: str) -> None:
    told, untold = catalog(gpu), catalog(gpu, compute=False)
    for offered in told.profiles:
        assert untold.find(offered.profile).compute_sizes == offered.compute_sizes


def test_a_whole_compute_instance_takes_all_multiprocessors() -> None:
    # What an H100 lists in 2g.20gb: the one with id 7 has one slice and more than its multiprocessors.
    offered = [ComputeProfile(1, 0, 2, 16), ComputeProfile(1, 7, 1, 26), ComputeProfile(2, 1, 1, 32)]
    assert pick_compute_profile(offered, 2, 2).id == 1  # type: ignore[union-attr]
    assert pick_compute_profile(offered, 1, 2).id == 0  # type: ignore[union-attr]
    # And in 1g.20gb, where only id 7 reaches all of it.
    assert pick_compute_profile(offered[:2], 1, 1).id == 7  # type: ignore[union-attr]
    assert pick_compute_profile(offered, 3, 3) is None


def test_capacity_counts_free_placements_of_each_shape() -> None:
    # Shapes of an A100: 7g, 4g, 3g, 2g, 1g.10gb, 1g.5gb.
    assert catalog(A100).capacity(0) == (1, 1, 2, 3, 4, 7)
    assert catalog(A100).capacity(Placement(6, 1).mask) == (0, 1, 1, 3, 3, 6)
    assert catalog(A100).capacity(Placement(4, 4).mask) == (0, 1, 1, 2, 2, 4)
    assert catalog(A100).capacity(0xFF) == (0, 0, 0, 0, 0, 0)
