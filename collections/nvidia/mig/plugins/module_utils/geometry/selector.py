# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which GPUs are meant: ``all``, an index, a UUID, a PCI bus id, or a list of them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

from ansible_collections.nvidia.mig.plugins.module_utils.errors import InputError
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.catalog import short_product
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.problems import Problems
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.state import GpuIdentity, GpuState

_BUS_ID = re.compile(r"(?:([0-9a-f]{1,8}):)?([0-9a-f]{2}):([0-9a-f]{2})\.([0-7])")
_FORMS = "write all, an index such as 0, a UUID such as 'GPU-...', or a PCI bus id such as '0000:07:00.0'"

Name = Union[int, str]


@dataclass(frozen=True)
class Selector:
    """Names of GPUs; with ``every`` all of the host.

    Args:
        names: indexes as int; UUIDs and PCI bus ids as lower-case text, the bus id with an 8-digit domain.
        path: where it stands in the operator's input.
    """

    every: bool
    names: Tuple[Name, ...]
    path: str

    def select(self, gpus: Sequence[GpuState], problems: Optional[Problems] = None) -> Tuple[int, ...]:
        """Indexes of the GPUs, in ascending order.

        Args:
            problems: collects the errors, if given.

        Raises:
            InputError: a GPU that is not there, or one that is named twice; names the GPUs that are there.
        """
        if self.every:
            return tuple(sorted(gpu.identity.index for gpu in gpus))
        by_name: Dict[Name, int] = {}
        for gpu in gpus:
            by_name.update(dict.fromkeys(_names(gpu.identity), gpu.identity.index))
        collected = Problems() if problems is None else problems
        found: Dict[int, Name] = {}
        for name in self.names:
            index = by_name.get(name)
            if index is None:
                collected.add(InputError(f"there is no GPU {name} on this host", self.path, _there(gpus)))
            elif index in found:
                collected.add(InputError(f"{found[index]} and {name} are the same GPU", self.path))
            else:
                found[index] = name
        if problems is None:
            collected.raise_all()
        return tuple(sorted(found))


def parse_selector(value: Any, path: str = "gpus") -> Selector:
    """Read ``all``, an index, a UUID, a PCI bus id or a list of those.

    Raises:
        InputError: anything else, an empty list, or a name that stands twice.
    """
    if isinstance(value, str) and value.strip().lower() == "all":
        return Selector(True, (), path)
    if not isinstance(value, (list, tuple)):
        return Selector(False, (_parse_name(value, path),), path)
    if not value:
        raise InputError("the list of GPUs is empty", path, _FORMS)
    names: List[Name] = []
    for position, item in enumerate(value):
        name = _parse_name(item, f"{path}[{position}]")
        if name in names:
            raise InputError(f"{item} stands twice", f"{path}[{position}]")
        names.append(name)
    return Selector(False, tuple(names), path)


def normalize_bus_id(text: str) -> Optional[str]:
    """``0000:07:00.0``, ``07:00.0`` and NVML's ``00000000:07:00.0`` as the last; None for anything else."""
    match = _BUS_ID.fullmatch(text.strip().lower())
    if match is None:
        return None
    return f"{int(match[1] or '0', 16):08x}:{match[2]}:{match[3]}.{match[4]}"


def _parse_name(value: Any, path: str) -> Name:
    if isinstance(value, int) and not isinstance(value, bool):
        if value < 0:
            raise InputError(f"{value} is not a GPU's index", path, _FORMS)
        return value
    if isinstance(value, float):
        # YAML 1.1 reads an unquoted 00000000:07:00.0 as a number to the base of 60.
        raise InputError(f"{value!r} is not a GPU", path, "put quotes around a PCI bus id: '0000:07:00.0'")
    if isinstance(value, str):
        text = value.strip()
        if text.isdecimal():
            return int(text)
        if text.lower().startswith("gpu-"):
            return text.lower()
        bus_id = normalize_bus_id(text)
        if bus_id is not None:
            return bus_id
        if text.lower() == "all":
            raise InputError("all cannot stand in a list", path, "write it alone: 'gpus: all'")
    raise InputError(f"{value!r} is not a GPU", path, _FORMS)


def _names(identity: GpuIdentity) -> Tuple[Name, ...]:
    bus_id = normalize_bus_id(identity.pci_bus_id)
    return (identity.index, identity.uuid.lower(), bus_id or identity.pci_bus_id.lower())


def _there(gpus: Sequence[GpuState]) -> str:
    if not gpus:
        return "this host has no GPU"
    names = (
        f"{gpu.identity.index} ({short_product(gpu.identity.product)}, {gpu.identity.pci_bus_id})"
        for gpu in sorted(gpus, key=lambda gpu: gpu.identity.index)
    )
    return f"it has {', '.join(names)}"
