# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""MIG profile names: ``1c.3g.20gb+me`` <-> value. The grammar is NVML's and mig-parted's."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import Iterable, Optional, Tuple

from ansible_collections.nvidia.mig.plugins.module_utils.errors import InputError

_ATTRIBUTE = r"[a-z][a-z0-9]*(?:\.[a-z0-9]+)*"
_PROFILE = re.compile(
    r"(?:(?P<c>[1-9]\d*)c\.)?(?P<g>[1-9]\d*)g\.(?P<gb>\d+)gb"
    rf"(?:(?P<sign>[+-])(?P<attributes>{_ATTRIBUTE}(?:,{_ATTRIBUTE})*))?"
)
# What people write instead: another tool's spelling, a lost dot, a resource or label name.
_NEAR = re.compile(
    r"(?:(?P<c>[1-9]\d*)\s*c[\W_]*)?(?P<g>[1-9]\d*)\s*g[\W_]*(?P<gb>\d+)\s*(?:gib|gb|g)?"
    rf"(?:\s*(?P<sign>[+.-])\s*(?P<attributes>{_ATTRIBUTE}))?"
)
_SHAPE = "a profile reads like 3g.20gb, 1g.5gb+me or 1c.3g.20gb"


@dataclass(frozen=True)
class Profile:
    """A MIG device's profile, or with ``ci_slices=None`` also a GPU instance's.

    Args:
        compute_slices: compute slices of the GPU instance (the ``3`` of ``3g.20gb``).
        memory_gb: the number in the name (the ``20``); a name, not an exact size.
        attributes: with their sign and sorted: ``('+me',)``, ``('-me',)``, ``('+me.all',)``, ``('+gfx',)``.
        ci_slices: slices of a compute instance that is smaller than its GPU instance; None: fills it.
    """

    compute_slices: int
    memory_gb: int
    attributes: Tuple[str, ...] = ()
    ci_slices: Optional[int] = None

    def __str__(self) -> str:
        prefix = f"{self.ci_slices}c." if self.ci_slices is not None else ""
        suffix = self.attributes[0][0] + ",".join(a[1:] for a in self.attributes) if self.attributes else ""
        return f"{prefix}{self.compute_slices}g.{self.memory_gb}gb{suffix}"

    @property
    def gpu_instance(self) -> Profile:
        """The profile of the GPU instance that such a device lives in."""
        if self.ci_slices is None:
            return self
        return Profile(self.compute_slices, self.memory_gb, self.attributes)

    @property
    def device_slices(self) -> int:
        """Compute slices of the device itself: ``ci_slices``, or all of the GPU instance's."""
        return self.compute_slices if self.ci_slices is None else self.ci_slices

    def with_compute(self, slices: int) -> Profile:
        """The device with ``slices`` compute slices in a GPU instance of this profile."""
        ci_slices = None if slices == self.compute_slices else slices
        return Profile(self.compute_slices, self.memory_gb, self.attributes, ci_slices)

    @property
    def sort_key(self) -> Tuple[int, int, Tuple[str, ...], int]:
        """Canonical order: the biggest first, plain before attributes."""
        return (-self.compute_slices, -self.memory_gb, self.attributes, -self.device_slices)


def parse_profile(text: object, path: Optional[str] = None) -> Profile:
    """Read ``[<c>c.]<g>g.<gb>gb[+a[,b]|-a[,b]]`` in any case.

    A compute instance as big as its GPU instance is the plain profile: ``3c.3g.20gb`` is ``3g.20gb``.

    Args:
        text: the name, without NVML's ``MIG `` prefix (see `strip_nvml_prefix`).
        path: where it stands in the operator's input, for the error.

    Raises:
        InputError: not a profile; the hint names the nearest valid form.
    """
    if not isinstance(text, str):
        raise InputError(f"{text!r} is not a MIG profile", path=path, hint=_SHAPE)
    match = _PROFILE.fullmatch(text.strip().lower())
    if match is None:
        raise InputError(f"{text!r} is not a MIG profile", path=path, hint=_hint(text))
    compute_slices = int(match["g"])
    ci_slices = int(match["c"]) if match["c"] else compute_slices
    if ci_slices > compute_slices:
        raise InputError(
            f"{text!r} is not a MIG profile: {ci_slices} compute slices do not fit into {compute_slices}",
            path=path,
            hint=f"the number before 'c.' is at most {compute_slices}",
        )
    names = match["attributes"].split(",") if match["attributes"] else []
    if len(set(names)) != len(names):
        raise InputError(f"{text!r} is not a MIG profile: an attribute stands twice", path=path, hint=_SHAPE)
    attributes = tuple(match["sign"] + name for name in sorted(names))
    return Profile(compute_slices, int(match["gb"]), attributes).with_compute(ci_slices)


def strip_nvml_prefix(name: str) -> str:
    """``MIG 1g.5gb`` as NVML names a profile -> ``1g.5gb``."""
    name = name.strip()
    return name[4:].lstrip() if name[:4].upper() == "MIG " else name


def canonical(profiles: Iterable[Profile]) -> Tuple[Profile, ...]:
    """In canonical order, the biggest first."""
    return tuple(sorted(profiles, key=lambda profile: profile.sort_key))


def describe_profiles(profiles: Iterable[Profile]) -> str:
    """``3g.40gb x2 + 1g.10gb``."""
    counts = Counter(canonical(profiles))
    return " + ".join(f"{profile} x{n}" if n > 1 else str(profile) for profile, n in counts.items())


def _hint(text: str) -> str:
    name = strip_nvml_prefix(text).lower()
    match = _NEAR.fullmatch(name.rpartition("mig-")[2].strip())
    if match is None:
        return _SHAPE
    sign = "-" if match["sign"] == "-" else "+"
    attributes = (sign + match["attributes"],) if match["attributes"] else ()
    compute_slices = int(match["g"])
    near = Profile(compute_slices, int(match["gb"]), attributes)
    if match["c"] and int(match["c"]) <= compute_slices:
        near = near.with_compute(int(match["c"]))
    return f"did you mean {near}?"
