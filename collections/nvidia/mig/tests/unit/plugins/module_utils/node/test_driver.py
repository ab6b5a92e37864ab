# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Drivers that are too old, before anything is touched."""

from __future__ import annotations

import pytest
from ansible_collections.nvidia.mig.plugins.module_utils.errors import InputError
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.catalog import Catalog
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.layout import parse_layout
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.state import GpuIdentity, GpuState
from ansible_collections.nvidia.mig.plugins.module_utils.node.driver import check_driver, check_minimum


def gpu(product, index=0):
    identity = GpuIdentity(index, f"GPU-{index}", f"00000000:0{index}:00.0", product, "0x20B010DE")
    return GpuState(identity, Catalog(product), False, False, False, False)


@pytest.mark.parametrize(
    ("driver", "minimum", "ok"),
    [
        ("450.80.02", "450.80.02", True),
        ("450.80.2", "450.80.02", True),
        ("450.102.04", "450.80.02", True),
        ("580.95.05", "580", True),
        ("580", "580.95.05", False),
        ("450.66", "450.80.02", False),
        ("99.9", "450.80.02", False),
        ("580.95.05-grid", "580.95.05", True),
        ("unknown", "450.80.02", False),
    ],
)
def test_versions_are_compared_by_number(driver, minimum, ok):
    if ok:
        check_minimum(driver, minimum)
    else:
        with pytest.raises(InputError, match=driver) as caught:
            check_minimum(driver, minimum)
        assert caught.value.path == "minimum_driver"


@pytest.mark.parametrize("minimum", ["", "new", "R470", "470.", "470.x"])
def test_a_minimum_that_is_no_version(minimum):
    with pytest.raises(InputError, match="is not a driver version"):
        check_minimum("580.95.05", minimum)


@pytest.mark.parametrize(
    ("product", "needed"),
    [
        ("NVIDIA A30", "460.73.01"),
        ("A30", "460.73.01"),
        ("NVIDIA H100 80GB HBM3", "525.85.12"),
        ("NVIDIA H20", "535.161.07"),
        ("NVIDIA H200", "550.90.07"),
        ("NVIDIA B200", "570.133.20"),
        ("NVIDIA GB200", "570.133.20"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "575.51.03"),
    ],
)
def test_each_gpu_has_its_first_driver(product, needed):
    entries = parse_layout([{"gpus": "all", "profiles": {}}])
    check_driver(needed, [gpu(product)], entries)
    with pytest.raises(InputError, match=needed) as caught:
        check_driver("450.80.02", [gpu(product)], entries)
    assert caught.value.path == "layout[0]"
    # Without MIG any driver does, and so for a GPU that is not meant.
    check_driver("450.80.02", [gpu(product)], parse_layout([{"gpus": 0, "mig": False}]))
    check_driver("450.80.02", [gpu(product)], parse_layout([{"gpus": 1, "profiles": {}}]))


def test_four_beside_three_came_later():
    entries = parse_layout([{"gpus": "all", "profiles": {"4g.20gb": 1, "3g.20gb": 1}}])
    state = gpu("NVIDIA A100-SXM4-40GB")
    check_driver("510.39.01", [state], entries)
    with pytest.raises(InputError, match="4-slice"):
        check_driver("470.57.02", [state], entries)
