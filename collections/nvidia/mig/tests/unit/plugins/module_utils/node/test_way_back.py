# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A plan's result and the way back, without any hardware."""

from __future__ import annotations

from dataclasses import replace

import pytest
from ansible_collections.nvidia.mig.plugins.module_utils.errors import DeviceError
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.catalog import (
    Catalog,
    OfferedProfile,
    Placement,
)
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.entries import GpuLayout
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.profile import Profile
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.state import (
    ComputeInstance,
    GpuIdentity,
    GpuInstance,
    GpuState,
)
from ansible_collections.nvidia.mig.plugins.module_utils.node.layout import check_result
from ansible_collections.nvidia.mig.plugins.module_utils.node.rollback import restore_steps

THREE, ONE = Profile(3, 20), Profile(1, 5)
CATALOG = Catalog(
    "NVIDIA A100-SXM4-40GB",
    (
        OfferedProfile(THREE, 9, 2, 19968, 42, (Placement(0, 4), Placement(4, 4))),
        OfferedProfile(ONE, 19, 7, 4864, 14, tuple(Placement(start, 1) for start in range(7))),
    ),
)


def instance(profile, start, number=1):
    size = 4 if profile == THREE else 1
    compute = ComputeInstance(0, profile.compute_slices, 0, 0)
    return GpuInstance(number, profile, Placement(start, size), (compute,))


def gpu(*instances, current=True, pending=None):
    identity = GpuIdentity(0, "GPU-0", "00000000:07:00.0", CATALOG.product, "0x20B010DE")
    return GpuState(
        identity, CATALOG, True, current, current if pending is None else pending, False, instances
    )


def lines(before, now):
    return [step.describe().partition(": ")[2] for step in restore_steps(before, now)]


HALVES = gpu(instance(THREE, 0), instance(THREE, 4, 2))
OFF = gpu(current=False)


def test_a_result_as_wanted():
    check_result([HALVES], {0: GpuLayout(True, (THREE, THREE))})
    check_result([OFF], {0: GpuLayout(False)})
    check_result([HALVES], {})


@pytest.mark.parametrize(
    ("after", "wanted", "missing"),
    [
        (gpu(instance(THREE, 0)), GpuLayout(True, (THREE, THREE)), "GPU 0: create 3g.20gb at 4:4"),
        (HALVES, GpuLayout(True, (THREE,)), "GPU 0: destroy 3g.20gb"),
        (OFF, GpuLayout(True), "GPU 0: enable MIG mode"),
        (
            gpu(replace(instance(THREE, 0), compute_instances=())),
            GpuLayout(True, (THREE,)),
            "compute instance",
        ),
    ],
)
def test_a_result_that_is_not_as_wanted(after, wanted, missing):
    with pytest.raises(DeviceError, match="reads back differently") as caught:
        check_result([after], {0: wanted})
    assert missing in caught.value.message
    assert caught.value.details["changed"] is True


def test_nothing_to_put_back():
    assert lines(HALVES, HALVES) == []
    assert lines(OFF, OFF) == []


def test_instances_come_back_where_they_were():
    now = gpu(instance(ONE, 0, 7), instance(THREE, 4, 2))
    assert lines(HALVES, now) == [
        "destroy the compute instance of 1g.5gb at 0:1",
        "destroy 1g.5gb at 0:1",
        "create 3g.20gb at 0:4",
        "create the compute instance of 3g.20gb at 0:4",
    ]


def test_a_mode_that_changed_goes_back_between_destroying_and_creating():
    assert lines(OFF, gpu(instance(ONE, 0))) == [
        "destroy the compute instance of 1g.5gb at 0:1",
        "destroy 1g.5gb at 0:1",
        "disable MIG mode (GPU reset)",
    ]
    assert lines(gpu(instance(THREE, 4)), OFF) == [
        "enable MIG mode (GPU reset)",
        "create 3g.20gb at 4:4",
        "create the compute instance of 3g.20gb at 4:4",
    ]


def test_a_pending_mode_is_taken_back():
    assert lines(HALVES, gpu(pending=False))[-1] == "keep MIG mode enabled (cancel the pending change)"
    # One that was pending before is not set again: where the driver can, it would reset the GPU.
    assert lines(gpu(current=False, pending=True), OFF) == []
