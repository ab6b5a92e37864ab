# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fields of objects as they come, from the API or from an operator. Pure."""

from __future__ import annotations

from typing import Any, List, Mapping

from ansible_collections.nvidia.mig.plugins.module_utils.errors import InputError


def mapping(value: Any, path: str) -> Mapping[str, Any]:
    """The value, if it is a mapping. Raises InputError."""
    if not isinstance(value, Mapping):
        raise InputError("it is missing" if value is None else f"{value!r} is not a mapping", path)
    return value


def sequence(value: Any, path: str) -> List[Any]:
    """The value as a list; None: an empty one. Raises InputError."""
    if value is not None and not isinstance(value, (list, tuple)):
        raise InputError(f"{value!r} is not a list", path)
    return list(value or ())
