# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One entry of a layout, whatever form it was written in, and what the forms share."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Dict, List, Mapping, Optional, Tuple

from ansible_collections.nvidia.mig.plugins.module_utils.errors import InputError
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.catalog import short_product
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.problems import Problems
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.profile import (
    Profile,
    canonical,
    parse_profile,
)
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.selector import Selector
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.state import GpuIdentity

_DEVICE_ID = re.compile(r"0x([0-9a-f]{1,8})(?::0x([0-9a-f]{1,8}))?")


@dataclass(frozen=True)
class GpuLayout:
    """What is wanted on one GPU: MIG mode, and one profile per MIG device in canonical order.

    Args:
        path: where the operator wrote it, for errors.
    """

    mig: bool
    profiles: Tuple[Profile, ...] = ()
    path: Optional[str] = field(default=None, compare=False)


@dataclass(frozen=True)
class LayoutEntry:
    """Some GPUs and what is wanted on each of them.

    Args:
        path: where it stands: ``layout[1]``, ``config.mig-configs.all-balanced[2]``.
        layout: its ``path`` is where the profiles stand: ``layout[1].profiles``.
        product: shell glob over the product's name, or None for any.
        device_ids: PCI device ids as ``0x20B010DE`` or ``0x20B010DE:0x134F10DE``; empty: any.
    """

    path: str
    selector: Selector
    layout: GpuLayout
    product: Optional[str] = None
    device_ids: Tuple[str, ...] = ()

    @property
    def filtered(self) -> bool:
        """It is meant for hosts or GPUs of some kind only."""
        return self.product is not None or bool(self.device_ids)

    def admits(self, identity: GpuIdentity) -> bool:
        """The GPU passes the filters."""
        if self.product is not None:
            glob, name = self.product.lower(), identity.product.lower()
            if not fnmatchcase(name, glob) and not fnmatchcase(short_product(identity.product).lower(), glob):
                return False
        if not self.device_ids:
            return True
        device = parse_device_id(identity.pci_device_id, "")
        subsystem = parse_device_id(identity.pci_subsystem_id, "") if identity.pci_subsystem_id else ""
        return any(wanted in (device, f"{device}:{subsystem}") for wanted in self.device_ids)


def check_keys(entry: Any, path: str, allowed: Tuple[str, ...]) -> Mapping[str, Any]:
    """Return the entry if it is a mapping with allowed keys only. Raises InputError."""
    if not isinstance(entry, Mapping):
        raise InputError(f"{entry!r} is not a mapping", path, f"its keys are {', '.join(allowed)}")
    for key in entry:
        if key not in allowed:
            raise InputError(f"unknown key {key!r}", path, f"allowed are {', '.join(allowed)}")
    return entry


def parse_counts(counts: Any, path: str, problems: Problems, zero_ok: bool) -> Tuple[Profile, ...]:
    """Read ``{3g.20gb: 2}`` into one profile per MIG device, in canonical order; adds to ``problems``."""
    if not isinstance(counts, Mapping):
        problems.add(
            InputError(f"{counts!r} is not a mapping", path, "write profile: count, such as 3g.20gb: 2")
        )
        return ()
    names: Dict[Profile, Any] = {}
    found: List[Profile] = []
    for name, count in counts.items():
        place = f"{path}.{name}"
        with problems.catch():
            profile = parse_profile(name, place)
            if profile in names:
                raise InputError(f"{names[profile]} and {name} are the same profile", place, "write it once")
            names[profile] = name
            found += [profile] * _parse_count(count, place, zero_ok)
    return canonical(found)


def parse_device_id(value: Any, path: str) -> str:
    """``0x20b010de`` (or the number, where YAML took it for one) as ``0x20B010DE``. Raises InputError."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 32:
        return f"0x{value:08X}"
    match = _DEVICE_ID.fullmatch(value.strip().lower()) if isinstance(value, str) else None
    if match is None:
        raise InputError(
            f"{value!r} is not a PCI device id", path, "write device before vendor in hex: '0x20B010DE'"
        )
    return ":".join(f"0x{int(part, 16):08X}" for part in match.groups() if part)


def parse_device_ids(value: Any, path: str) -> Tuple[str, ...]:
    """One PCI device id or a list of them. Raises InputError."""
    if not isinstance(value, (list, tuple)):
        return (parse_device_id(value, path),)
    if not value:
        raise InputError("the list of PCI device ids is empty", path, "leave it out to mean any")
    return tuple(parse_device_id(item, f"{path}[{position}]") for position, item in enumerate(value))


def _parse_count(count: Any, path: str, zero_ok: bool) -> int:
    if isinstance(count, bool) or not isinstance(count, int):
        raise InputError(f"{count!r} is not a count", path, "write a whole number")
    if count < 0 or (count == 0 and not zero_ok):
        raise InputError(f"the count {count} is too small", path, "write 1 or more, or leave the profile out")
    if count > _MOST:
        raise InputError(f"the count {count} is too big", path, f"no GPU has more than {_MOST} MIG devices")
    return count


# Far above any GPU; it keeps a slip of the finger from becoming a list of millions.
_MOST = 64
