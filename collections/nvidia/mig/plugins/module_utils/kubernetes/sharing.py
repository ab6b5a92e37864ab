# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""GPU sharing in the device plugin's own form, ``sharing: {timeSlicing|mps: {resources: [...]}}``. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, Mapping, Optional

from ansible_collections.nvidia.mig.plugins.module_utils.errors import InputError

_KINDS = {"timeSlicing": "time-slicing", "mps": "mps"}
_COMMON_KEYS = ("renameByDefault", "failRequestsGreaterThanOne", "resources")
_RESOURCE_PREFIX = "nvidia.com/"


@dataclass(frozen=True)
class Sharing:
    """How often each resource is handed out.

    Args:
        kind: none, time-slicing or mps, as the label ``sharing-strategy`` writes it.
        rename: the shared resource gets the suffix ``.shared``.
        replicas: by full resource name, such as ``{'nvidia.com/gpu': 4}``.
    """

    kind: str = "none"
    rename: bool = False
    replicas: Mapping[str, int] = field(default_factory=dict)

    def of(self, resource: str) -> int:
        return self.replicas.get(resource, 1)


def parse_sharing(value: Optional[Mapping[str, Any]], path: str = "sharing") -> Sharing:
    """Read the ``sharing`` part of a device plugin config. None and an empty mapping mean no sharing.

    Raises:
        InputError: naming the key at fault.
    """
    if not value:
        return Sharing()
    if not isinstance(value, Mapping):
        raise InputError(
            f"{value!r} is not a mapping", path=path, hint="write timeSlicing: {resources: [...]}"
        )
    if len(value) != 1 or next(iter(value)) not in _KINDS:
        raise InputError(
            f"unexpected keys {', '.join(sorted(map(str, value)))}",
            path=path,
            hint="use one of timeSlicing, mps",
        )
    key, section = next(iter(value.items()))
    path = f"{path}.{key}"
    if not isinstance(section, Mapping):
        raise InputError(f"{section!r} is not a mapping", path=path, hint="write {resources: [...]}")
    unknown = sorted(str(name) for name in section if name not in _COMMON_KEYS)
    if unknown:
        raise InputError(
            f"unknown keys {', '.join(unknown)}", path=path, hint=f"known are {', '.join(_COMMON_KEYS)}"
        )
    for name in ("renameByDefault", "failRequestsGreaterThanOne"):
        if not isinstance(section.get(name, False), bool):
            raise InputError(
                f"{section[name]!r} is not a boolean", path=f"{path}.{name}", hint="use true or false"
            )
    replicas = _replicas(section.get("resources"), f"{path}.resources")
    return Sharing(_KINDS[key], bool(section.get("renameByDefault", False)), replicas)


def _replicas(resources: Any, path: str) -> Dict[str, int]:
    if not isinstance(resources, (list, tuple)) or not resources:
        raise InputError("a list is wanted", path=path, hint="such as [{name: nvidia.com/gpu, replicas: 4}]")
    found: Dict[str, int] = {}
    for position, entry in enumerate(resources):
        here = f"{path}[{position}]"
        if not isinstance(entry, Mapping) or set(entry) != {"name", "replicas"}:
            raise InputError("exactly the keys name and replicas are wanted", path=here)
        name, count = entry["name"], entry["replicas"]
        if not isinstance(name, str) or not name:
            raise InputError(
                f"{name!r} is not a resource name", path=f"{here}.name", hint="such as nvidia.com/gpu"
            )
        if isinstance(count, bool) or not isinstance(count, int) or count < 2:
            raise InputError(
                f"{count!r} is not a number of replicas", path=f"{here}.replicas", hint="2 or more"
            )
        full = name if name.startswith(_RESOURCE_PREFIX) else _RESOURCE_PREFIX + name
        if full in found:
            raise InputError(f"{full} stands here twice", path=f"{here}.name")
        found[full] = count
    return found
