# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Is the driver new enough for MIG at all, for these GPUs, and for what is wanted of them?"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import Optional, Sequence, Tuple

from ansible_collections.nvidia.mig.plugins.module_utils.errors import InputError
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.catalog import short_product
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.entries import GpuLayout, LayoutEntry
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.problems import Problems
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.state import GpuState

# The first driver with MIG.
MINIMUM = "450.80.02"

# The first driver with MIG on each GPU, from NVIDIA's MIG User Guide; the first pattern that fits counts.
_BY_PRODUCT = (
    ("a30*", "460.73.01"),
    ("h100*", "525.85.12"),
    ("h200*", "550.90.07"),
    ("h20", "535.161.07"),
    ("b200*", "570.133.20"),
    ("gb200*", "570.133.20"),
    ("b300*", "580.82.07"),
    ("gb300*", "595.58.03"),
    ("rtx pro 6000 blackwell*", "575.51.03"),
    ("rtx pro 5000 blackwell*", "575.57.08"),
    ("rtx pro 4500 blackwell*", "575.64"),
)
# Before, a 4-slice and a 3-slice GPU instance could not stand on one GPU.
_FOUR_AND_THREE = "510"

_VERSION = re.compile(r"\d+(\.\d+)*")


def check_minimum(driver: str, minimum: str, path: str = "minimum_driver") -> None:
    """Refuse a driver older than ``minimum``. Raises InputError."""
    if _VERSION.fullmatch(minimum.strip()) is None:
        raise InputError(f"{minimum!r} is not a driver version", path, f"write it like {MINIMUM}")
    if _parse(driver) < _parse(minimum):
        raise InputError(
            f"the NVIDIA driver is {driver}, but {minimum.strip()} or newer is wanted",
            path,
            "update the driver and reboot the node",
        )


def check_driver(driver: str, states: Sequence[GpuState], entries: Sequence[LayoutEntry]) -> None:
    """Refuse a layout that the driver is too old for. Raises InputError.

    To be asked before the layout is assigned: a driver without MIG for a GPU says that the GPU cannot do it.
    """
    problems = Problems()
    for entry in entries:
        if not entry.layout.mig:
            continue
        # Names that are not there are for the assignment to report.
        selected = entry.selector.select(states, Problems())
        for state in states:
            index = state.identity.index
            if index not in selected or not entry.admits(state.identity):
                continue
            needed = _needed(state, entry.layout)
            if needed is not None and _parse(driver) < _parse(needed[0]):
                problems.add(
                    InputError(
                        f"{needed[1]} needs driver {needed[0]} or newer, this host has {driver}",
                        entry.path,
                        "update the driver and reboot the node",
                    ),
                    index,
                )
    problems.raise_all()


def _needed(state: GpuState, layout: GpuLayout) -> Optional[Tuple[str, str]]:
    """The oldest driver for it, and what needs it."""
    product = short_product(state.identity.product)
    for pattern, version in _BY_PRODUCT:
        if fnmatchcase(product.lower(), pattern):
            return version, f"MIG on {product}"
    if {3, 4} <= {profile.compute_slices for profile in layout.profiles}:
        return _FOUR_AND_THREE, "a 4-slice instance beside a 3-slice one"
    return None


def _parse(version: str) -> Tuple[int, ...]:
    """``580.95.05`` -> (580, 95, 5). What follows the numbers does not count."""
    match = _VERSION.match(version.strip())
    return tuple(int(part) for part in match[0].split(".")) if match else ()
