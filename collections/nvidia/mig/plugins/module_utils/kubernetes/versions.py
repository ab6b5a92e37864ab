# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Chart versions: parse and compare. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Optional, Tuple

from ansible_collections.nvidia.mig.plugins.module_utils.errors import InputError

_SEMVER = re.compile(r"^v?(\d+)\.(\d+)\.(\d+)(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?$")

# A release sorts after its own pre-releases; numeric identifiers sort before text (semver, rule 11).
_Identifier = Tuple[int, int, str]
_RELEASE: Tuple[_Identifier, ...] = ((2, 0, ""),)


@dataclass(frozen=True, order=True)
class Version:
    """A chart version. Orders as semantic versions do; build metadata is ignored."""

    number: Tuple[int, int, int]
    pre: Tuple[_Identifier, ...] = _RELEASE

    def at_least(self, text: str) -> bool:
        """True if this version's number is that of ``text`` or newer; pre-releases count as their release."""
        return self.number >= parse_version(text).number

    def __str__(self) -> str:
        text = ".".join(str(part) for part in self.number)
        if self.pre == _RELEASE:
            return text
        return text + "-" + ".".join(str(number) if kind == 0 else word for kind, number, word in self.pre)


def parse_version(text: object, path: Optional[str] = None) -> Version:
    """Read ``0.17.0``, ``v0.17.0`` or ``0.17.0-rc.1``.

    Raises:
        InputError: it is no full semantic version (a YAML number such as 0.2 is one common case).
    """
    match = _SEMVER.match(text) if isinstance(text, str) else None
    if match is None:
        raise InputError(
            f"{text!r} is not a chart version",
            path=path,
            hint="write all three numbers as a string, such as '0.17.4'",
        )
    number = (int(match.group(1)), int(match.group(2)), int(match.group(3)))
    if match.group(4) is None:
        return Version(number)
    pre = tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in match.group(4).split("."))
    return Version(number, pre)
