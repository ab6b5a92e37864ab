# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""GPU sharing in the device plugin's own form, ``sharing: {timeSlicing|mps: {resources: [...]}}``. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Optional

from ansible_collections.nvidia.mig.plugins.module_utils.errors import InputError
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.versions import parse_version

MPS = "mps"
_KINDS = {"timeSlicing": "time-slicing", "mps": MPS}
_COMMON_KEYS = ("renameByDefault", "failRequestsGreaterThanOne", "resources")
_RESOURCE_PREFIX = "nvidia.com/"

# Of one MPS server, from Turing on; the control daemon refuses more.
_MOST_MPS_CLIENTS = 48
_FIRST_VERSION = {"time-slicing": "0.12.0", MPS: "0.15.0"}


@dataclass(frozen=True)
class Sharing:
    """How often each resource is handed out.

    Args:
        kind: none, time-slicing or mps, as the label ``sharing-strategy`` writes it.
        rename: the shared resource gets the suffix ``.shared``.
        replicas: by full resource name, such as ``{'nvidia.com/gpu': 4}``.
        one_each: a pod may ask for one replica at most; None where that is left to the plugin.
    """

    kind: str = "none"
    rename: bool = False
    replicas: Mapping[str, int] = field(default_factory=dict)
    one_each: Optional[bool] = None

    @property
    def key(self) -> Optional[str]:
        """How a config writes the kind; None without sharing."""
        return next((key for key, kind in _KINDS.items() if kind == self.kind), None)

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
    return Sharing(
        _KINDS[key],
        bool(section.get("renameByDefault", False)),
        replicas,
        section.get("failRequestsGreaterThanOne"),
    )


def plain_sharing(value: Optional[Mapping[str, Any]], path: str = "sharing") -> Optional[Dict[str, Any]]:
    """The same in one form only, however it was written; None for no sharing.

    Raises:
        InputError: as parse_sharing.
    """
    sharing = parse_sharing(value, path)
    if sharing.key is None:
        return None
    section: Dict[str, Any] = {}
    if sharing.rename:
        section["renameByDefault"] = True
    # For time slicing false is the default; for MPS it is not.
    if sharing.one_each or (sharing.one_each is not None and sharing.kind == MPS):
        section["failRequestsGreaterThanOne"] = sharing.one_each
    section["resources"] = [
        {"name": name, "replicas": count} for name, count in sorted(sharing.replicas.items())
    ]
    return {sharing.key: section}


def check_sharing(
    sharing: Sharing, strategy: str, path: str = "sharing", chart_version: Optional[str] = None
) -> None:
    """Refuse what the device plugin refuses, or ignores without a word.

    Args:
        strategy: none, single or mixed.
        path: where the sharing stands in the input, for the error.
        chart_version: the device plugin's chart; with it, what only some versions can do is found too.

    Raises:
        InputError: naming what is wrong and what to do.
    """
    if sharing.key is None:
        return
    path = f"{path}.{sharing.key}"
    if sharing.kind == MPS:
        _check_mps(sharing, strategy, path, chart_version)
    if chart_version is None:
        return
    first = _FIRST_VERSION[sharing.kind]
    if not parse_version(chart_version, "version").at_least(first):
        raise InputError(
            f"the device plugin {chart_version} knows no sharing by {sharing.kind}",
            path=path,
            hint=f"use chart {first} or newer",
        )


def _check_mps(sharing: Sharing, strategy: str, path: str, chart_version: Optional[str]) -> None:
    if strategy != "none":
        # The plugin exits with mixed, and on MIG devices; feature discovery on GPUs in MIG mode.
        raise InputError(
            f"MPS does not work with strategy {strategy}: the device plugin shares no MIG devices by MPS",
            path=path,
            hint="use timeSlicing, or strategy none",
        )
    for name, count in sharing.replicas.items():
        if count > _MOST_MPS_CLIENTS:
            raise InputError(
                f"{count} replicas of {name} are more than MPS serves on a GPU",
                path=f"{path}.resources",
                hint=f"at most {_MOST_MPS_CLIENTS}",
            )
    if sharing.one_each is not False or chart_version is None:
        return
    if not parse_version(chart_version, "version").at_least("0.20.0"):
        raise InputError(
            f"false has no effect: with MPS the device plugin {chart_version} refuses every request for more "
            "than one",
            path=f"{path}.failRequestsGreaterThanOne",
            hint="leave it out, or use chart 0.20.0 or newer",
        )


def check_offered(sharing: Sharing, offered: List[str], path: str = "sharing") -> None:
    """Refuse to share what the node does not offer: the device plugin would ignore it.

    Args:
        offered: names of the resources that the node's layout and strategy imply, before any renaming.

    Raises:
        InputError: naming the resource, and those that the node offers.
    """
    missing = [name for name in sharing.replicas if name not in offered]
    if missing:
        raise InputError(
            f"the node's layout and strategy never offer {', '.join(missing)}",
            path=f"{path}.{sharing.key}.resources",
            hint=f"they offer {', '.join(offered)}" if offered else "they offer nothing",
        )


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
