# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names in a sentence."""

from __future__ import annotations

from typing import Sequence


def some(names: Sequence[str], most: int) -> str:
    """``a, b and 5 more``, of so many names at most."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
