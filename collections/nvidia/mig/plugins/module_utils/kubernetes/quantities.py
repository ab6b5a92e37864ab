# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kubernetes' quantities (``500m``, ``64Gi``) as whole thousandths, so that sums are exact."""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache
from typing import Any, Optional

from ansible_collections.nvidia.mig.plugins.module_utils.errors import InputError

_QUANTITY = re.compile(
    r"(?P<number>[+-]?(?:\d+\.?\d*|\.\d+))(?P<suffix>[numkMGTPE]|[KMGTPE]i|[eE][+-]?\d{1,2})?"
)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}


def thousandths(value: Any, path: str, up: bool) -> int:
    """The quantity times 1000, rounded: up for what is asked for, down for what there is.

    Raises:
        InputError: it is no quantity, or below zero.
    """
    if isinstance(value, (int, float, str)) and not isinstance(value, bool):
        exact = _exact(str(value))
        if exact is not None and exact >= 0:
            return -(-exact.numerator // exact.denominator) if up else exact.numerator // exact.denominator
    raise InputError(f"{value!r} is not a quantity", path, "such as 4, 500m or 64Gi")


def in_words(amount: int) -> str:
    """Thousandths as people write them: ``4``, ``500m``, ``64Gi``."""
    if amount % 1000:
        return f"{amount}m"
    whole = amount // 1000
    for suffix, power in reversed(_BINARY.items()):
        if whole and whole % (1 << power) == 0:
            return f"{whole >> power}{suffix}"
    return str(whole)


@lru_cache(maxsize=4096)
def _exact(text: str) -> Optional[Fraction]:
    match = _QUANTITY.fullmatch(text.strip())
    if match is None:
        return None
    suffix = match["suffix"] or ""
    number = Fraction(match["number"]) * 1000
    if suffix in _BINARY:
        return number * (1 << _BINARY[suffix])
    power = _DECIMAL[suffix] if suffix in _DECIMAL else int(suffix[1:] or 0)
    return number * Fraction(10) ** power
