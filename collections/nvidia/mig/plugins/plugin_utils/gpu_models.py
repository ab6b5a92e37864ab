# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""GPUs that nobody can ask, from the table beside this file: what a layout of them is checked against."""

from __future__ import annotations

import json
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any, Dict, Mapping, Tuple

from ansible_collections.nvidia.mig.plugins.module_utils.errors import InputError
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.catalog import (
    Catalog,
    OfferedProfile,
    Placement,
)
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.profile import parse_profile
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.state import GpuState
from ansible_collections.nvidia.mig.plugins.module_utils.nvml.values import identify

_VENDOR = 0x10DE
_MOST = 16  # GPUs of a host


@cache
def models() -> Dict[str, Dict[str, Any]]:
    """The table, by model."""
    return dict(json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8")))


def declared(gpus: Any, path: str) -> Tuple[GpuState, ...]:
    """GPUs as they come from the factory: MIG mode off.

    Args:
        gpus: how many of which model: ``{"A100-SXM4-40GB": 8}``. Indexes go in this order.

    Raises:
        InputError: no such mapping; a model that the table lacks.
    """
    if not isinstance(gpus, Mapping):
        raise InputError(f"{gpus!r} is not a mapping", path, "write it like {A100-SXM4-40GB: 8}")
    found = []
    for model, count in gpus.items():
        if model not in models():
            near = get_close_matches(str(model), models(), 1, 0.5)
            raise InputError(
                f"no GPU model {model} is known",
                path,
                f"did you mean {near[0]}?" if near else f"known are {', '.join(models())}",
            )
        if isinstance(count, bool) or not str(count).isdigit() or not 0 < int(count) <= _MOST:
            raise InputError(f"{count!r} is not a number of GPUs", f"{path}.{model}", f"use 1 to {_MOST}")
        found += [_state(len(found) + number, model) for number in range(int(count))]
    return tuple(found)


def _state(index: int, model: str) -> GpuState:
    own = models()[model]
    offers = catalog(model)
    identity = identify(
        index, f"GPU-{index}", "", own["product"], (int(own["pci_device_id"], 16) << 16) | _VENDOR, 0
    )
    return GpuState(identity, offers, bool(offers.profiles), False, False, own["resetless"])


@cache
def catalog(model: str) -> Catalog:
    """What GPUs of the model offer."""
    own = models()[model]
    return Catalog(
        own["product"],
        tuple(
            OfferedProfile(
                parse_profile(each["name"]),
                each["id"],
                each["max"],
                each["memory_mib"],
                each["sm"],
                tuple(Placement(*pair) for pair in each["placements"]),
            )
            for each in own["profiles"]
        ),
    )
