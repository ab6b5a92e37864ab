# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What every planner has to know of a node, whatever becomes of its GPUs."""

from __future__ import annotations

from typing import Any, Dict, Mapping, NamedTuple, Tuple

from ansible_collections.nvidia.mig.plugins.module_utils.demand.where import Taint, parse_taints
from ansible_collections.nvidia.mig.plugins.module_utils.errors import InputError
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.fields import mapping
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.quantities import thousandths


class Surroundings(NamedTuple):
    """A node without its GPUs.

    Args:
        free: what pods could still request, in thousandths.
    """

    name: str
    labels: Dict[str, str]
    taints: Tuple[Taint, ...]
    unschedulable: bool
    free: Dict[str, int]


def read_surroundings(raw: Any, path: str) -> Surroundings:
    """Read an entry of the option ``nodes``. Raises InputError."""
    name = mapping(raw, path).get("name")
    if not isinstance(name, str) or not name:
        raise InputError("name is missing", path)
    path = f"node {name}"
    free = mapping(raw.get("free"), f"{path}: free")
    for resource in ("cpu", "memory", "pods"):
        if free.get(resource) is None:
            raise InputError(f"{resource} is missing", f"{path}: free")
    return Surroundings(
        name,
        texts(raw.get("labels"), path),
        parse_taints(raw.get("taints"), f"{path}: taints"),
        bool(raw.get("unschedulable")),
        {str(key): thousandths(value, f"{path}: free.{key}", up=False) for key, value in free.items()},
    )


def texts(value: Any, path: str) -> Dict[str, str]:
    """A mapping of texts, such as labels; None is empty. Raises InputError."""
    found: Mapping[Any, Any] = mapping(value or {}, path)
    return {str(key): str(text) for key, text in found.items()}
