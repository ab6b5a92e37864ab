# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""mig-parted's configuration file, version v1: read as it is, and written."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any, Dict, List, Mapping, Sequence, Tuple

from ansible_collections.nvidia.mig.plugins.module_utils.errors import InputError
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.entries import (
    GpuLayout,
    LayoutEntry,
    check_keys,
    parse_counts,
    parse_device_ids,
)
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.problems import Problems
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.selector import Selector, parse_selector

_KEYS = ("device-filter", "devices", "mig-enabled", "mig-devices")


def parse_mig_parted(config: Any, name: str, path: str = "config") -> Tuple[LayoutEntry, ...]:
    """Read one named configuration of a mig-parted file.

    A count of 0 means none. The file's other configurations are not looked at.

    Args:
        config: the file's content.
        name: which of its ``mig-configs``.
        path: the option that holds it, for errors.

    Raises:
        InputError: all that is wrong with it.
    """
    content = check_keys(config, path, ("version", "mig-configs"))
    if content.get("version") != "v1":
        raise InputError(
            f"{content.get('version')!r} is not a version that is known", f"{path}.version", "it must be v1"
        )
    configs = content.get("mig-configs")
    path = f"{path}.mig-configs"
    if not isinstance(configs, Mapping) or not configs:
        raise InputError("there is no configuration", path, "it maps names to lists of entries")
    if name not in configs:
        near = get_close_matches(str(name), [str(key) for key in configs], n=3, cutoff=0.5)
        hint = (
            f"did you mean {' or '.join(near)}?" if near else f"it has {', '.join(sorted(map(str, configs)))}"
        )
        raise InputError(f"there is no configuration {name!r}", path, hint)
    path = f"{path}.{name}"
    specs = configs[name]
    if not isinstance(specs, (list, tuple)) or not specs:
        raise InputError("a configuration is a list with at least one entry", path)
    problems = Problems()
    entries = []
    for position, spec in enumerate(specs):
        with problems.catch():
            entries.append(_parse_entry(spec, f"{path}[{position}]", problems))
    problems.raise_all()
    return tuple(entries)


def mig_parted_entries(gpus: Sequence[Mapping[str, Any]]) -> List[Dict[str, Any]]:
    """One configuration of a mig-parted file: these GPUs of one host, whatever they are now.

    Hosts whose GPUs are alike give the same entries. Only indexes name GPUs, as mig-parted knows no other
    names, and ``all`` where every GPU that can do MIG is alike: both it and mig-parted pass over the others.

    Args:
        gpus: ``index``, ``mig_capable``, ``mig`` and ``profiles`` of each GPU, as mig_layout returns them.
    """
    capable = sorted((gpu for gpu in gpus if gpu["mig_capable"]), key=lambda gpu: gpu["index"])
    alike: Dict[Tuple[bool, Tuple[str, ...]], List[int]] = {}
    for gpu in capable:
        alike.setdefault((gpu["mig"], tuple(sorted(gpu["profiles"]))), []).append(gpu["index"])
    entries: List[Dict[str, Any]] = []
    for (mig, profiles), indexes in alike.items():
        entry: Dict[str, Any] = {"devices": "all" if len(alike) == 1 else indexes, "mig-enabled": mig}
        if mig:
            entry["mig-devices"] = {name: profiles.count(name) for name in dict.fromkeys(profiles)}
        entries.append(entry)
    return entries


def _parse_entry(spec: Any, path: str, problems: Problems) -> LayoutEntry:
    spec = check_keys(spec, path, _KEYS)
    for key in ("devices", "mig-enabled"):
        if key not in spec:
            raise InputError(f"{key} is missing", path)
    enabled = spec["mig-enabled"]
    if not isinstance(enabled, bool):
        raise InputError(f"{enabled!r} is neither true nor false", f"{path}.mig-enabled")
    counts_path = f"{path}.mig-devices"
    counts = spec.get("mig-devices")
    if enabled and counts is None:
        raise InputError("mig-devices is missing", path, "write mig-devices: {} for MIG on without devices")
    profiles = parse_counts({} if counts is None else counts, counts_path, problems, zero_ok=True)
    if counts and not enabled:
        raise InputError("MIG devices are asked for with mig-enabled: false", counts_path)
    device_filter = spec.get("device-filter")
    return LayoutEntry(
        path,
        _parse_devices(spec["devices"], f"{path}.devices"),
        GpuLayout(enabled, profiles, counts_path),
        device_ids=() if not device_filter else parse_device_ids(device_filter, f"{path}.device-filter"),
    )


def _parse_devices(value: Any, path: str) -> Selector:
    if value == "all":
        return parse_selector(value, path)
    if not isinstance(value, (list, tuple)) or any(
        isinstance(i, bool) or not isinstance(i, int) for i in value
    ):
        raise InputError(f"{value!r} is neither all nor a list of GPU indexes", path)
    return parse_selector(value, path)
