# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NVIDIA's two Helm charts: which values each version knows. Pure; the only place that names a chart's value.

Read from the released charts 0.7.0-0.20.0 (nvidia-device-plugin) and 0.2.0-0.20.0 (gpu-feature-discovery).
The unit tests render every row with real charts when they have them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Optional, Tuple

from ansible_collections.nvidia.mig.plugins.module_utils.errors import InputError
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.selection import (
    Selection,
    config_document,
)
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.sharing import (
    check_sharing,
    parse_sharing,
)
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.versions import Version, parse_version

DEVICE_PLUGIN = "nvidia-device-plugin"
FEATURE_DISCOVERY = "gpu-feature-discovery"

_PLUGIN_REPOSITORY = "https://nvidia.github.io/k8s-device-plugin"
_DISCOVERY_REPOSITORY = "https://nvidia.github.io/gpu-feature-discovery"


@dataclass(frozen=True)
class Row:
    """What a chart takes from one version on.

    Args:
        since: the first version of the row.
        fixed: values that are always written.
        nfd: path of the switch for Node Feature Discovery, where it is ours to set.
        namespace_value: the namespace is a value; later it is the release's.
        configs: named configs, chosen by node label.
        allow_default: a release in the namespace default is refused without the value allowDefaultNamespace.
        ignored: documented values that the chart's templates never read, and what to write instead.
        with_none: values that strategy none needs, unless the operator sets them.
    """

    since: str
    fixed: Mapping[str, Any] = field(default_factory=dict)
    nfd: Tuple[str, ...] = ()
    namespace_value: bool = False
    configs: bool = False
    allow_default: bool = True
    ignored: Mapping[str, str] = field(default_factory=dict)
    with_none: Mapping[str, Any] = field(default_factory=dict)


# gfd.sleepInterval and gfd.noTimestamp stand in values.yaml, but the template reads the top level.
_UNREAD = {"gfd.sleepInterval": "sleepInterval", "gfd.noTimestamp": "noTimestamp"}

# Up to 0.12.2 the template writes these two itself, at depths that are no YAML.
_NO_PRIVILEGES = {
    "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
}
_PLUGIN_ONLY = {"gfd": {"enabled": False}, "nfd": {"enabled": False}}

# nfd.enabled is unset by default and then follows gfd.enabled, so it is always written.
TABLES: Dict[str, Tuple[Row, ...]] = {
    DEVICE_PLUGIN: (
        Row("0.7.0", namespace_value=True, allow_default=False),
        Row("0.12.0", _PLUGIN_ONLY, configs=True, with_none=_NO_PRIVILEGES),
        Row("0.12.3", _PLUGIN_ONLY, configs=True),
        Row("0.15.0", {"devicePlugin": {"enabled": True}, **_PLUGIN_ONLY}, configs=True, ignored=_UNREAD),
    ),
    FEATURE_DISCOVERY: (
        Row("0.2.0", nfd=("nfd", "deploy"), namespace_value=True, allow_default=False),
        Row("0.6.0", nfd=("nfd", "enabled")),
        # From here on it is the device plugin's chart under another name.
        Row(
            "0.15.0",
            {"devicePlugin": {"enabled": False}, "gfd": {"enabled": True}},
            nfd=("nfd", "enabled"),
            configs=True,
            ignored=_UNREAD,
        ),
    ),
}

# The templates emit these only for real booleans: the string "false" is dropped without a word.
_BOOLEANS = (
    "failOnInitError",
    "compatWithCPUManager",
    "gdrcopyEnabled",
    "gdsEnabled",
    "mofedEnabled",
    "noTimestamp",
    "allowDefaultNamespace",
    "legacyDaemonsetAPI",
    "devicePlugin.enabled",
    "gfd.enabled",
    "nfd.enabled",
    "nfd.deploy",
    "nfd.enableNodeFeatureApi",
)

# Strategy and configs come from their own options, or the two charts would drift apart.
_RESERVED = {
    "migStrategy": "the option strategy",
    "config.map": "the option configs",
    "config.default": "the option default_config",
    "config.name": "the option configs",
    "namespace": "the option namespace",
}


def default_repository(chart: str, version: Version) -> str:
    """NVIDIA's public repository for a chart; feature discovery moved to the device plugin's with 0.15.0."""
    if chart == FEATURE_DISCOVERY and not version.at_least("0.15.0"):
        return _DISCOVERY_REPOSITORY
    return _PLUGIN_REPOSITORY


def row_for(chart: str, version: str, path: str = "version") -> Row:
    """The table's row for a chart version. Raises InputError if it is older than the oldest."""
    wanted = parse_version(version, path)
    rows = TABLES[chart]
    if wanted < parse_version(rows[0].since):
        raise InputError(
            f"chart {chart} {wanted} is too old for MIG",
            path=path,
            hint=f"use {rows[0].since} or newer",
        )
    return [row for row in rows if wanted.at_least(row.since)][-1]


def release_values(
    chart: str,
    version: str,
    selection: Selection,
    namespace: str,
    extra: Optional[Mapping[str, Any]] = None,
    nfd: Optional[bool] = None,
    sleep_interval: Optional[int] = None,
) -> Dict[str, Any]:
    """All values of a release: those that strategy and version demand, with the operator's own merged in.

    Args:
        chart: DEVICE_PLUGIN or FEATURE_DISCOVERY.
        version: the chart's version.
        selection: see ``select``.
        namespace: the release's namespace.
        extra: the operator's values. They may add, but not contradict.
        nfd: deploy Node Feature Discovery with the release (feature discovery only).
        sleep_interval: seconds between two labellings (feature discovery only).

    Raises:
        InputError: the version cannot do what is wanted, or ``extra`` contradicts.
    """
    row = row_for(chart, version)
    values = _copy(row.fixed)
    if selection.strategy is not None:
        values["migStrategy"] = selection.strategy
        if selection.strategy == "none":
            values.update({key: value for key, value in row.with_none.items() if key not in (extra or {})})
    else:
        if not row.configs:
            first = next(candidate.since for candidate in TABLES[chart] if candidate.configs)
            raise InputError(
                f"chart {chart} {version} knows no named configs, so the cluster can have one strategy only, "
                "and share no GPUs",
                path="configs",
                hint=f"use version {first} or newer, or one strategy for all nodes and no sharing",
            )
        for name, config in selection.configs.items():
            path = f"configs.{name}.sharing"
            check_sharing(parse_sharing(config["sharing"], path), config["strategy"], path, version)
        # With migStrategy set too, the environment variable would win over every config.
        values["config"] = {
            "map": {name: config_document(config) for name, config in sorted(selection.configs.items())},
            "default": selection.default_config,
        }
    if row.namespace_value:
        values["namespace"] = namespace
    if row.nfd and nfd is not None:
        _put(values, row.nfd, nfd)
    if sleep_interval is not None:
        values["sleepInterval"] = f"{sleep_interval}s"
    merged = merge(values, _check_extra(extra or {}, row, version, values))
    if row.allow_default and namespace == "default" and merged.get("allowDefaultNamespace") is not True:
        raise InputError(
            "the chart refuses the namespace default",
            path="namespace",
            hint="use another namespace, or set values.allowDefaultNamespace to true",
        )
    return merged


def allow_default_namespace(chart: str, version: str) -> Dict[str, Any]:
    """What a release in the namespace default needs to stay there."""
    return {"allowDefaultNamespace": True} if row_for(chart, version).allow_default else {}


def warnings(chart: str, version: str, selection: Selection, nfd: Optional[bool] = None) -> List[str]:
    """What works on paper but deserves a word."""
    found: List[str] = []
    wanted = parse_version(version)
    uses_mig = selection.strategy in ("single", "mixed")
    if chart == DEVICE_PLUGIN and uses_mig and not wanted.at_least("0.12.0"):
        found.append(
            f"chart {chart} {wanted} gives its container no access to MIG's monitor device; where the "
            "runtime demands it, the plugin reports 'Insufficient Permissions'. Use 0.12.0 or newer."
        )
    if chart == FEATURE_DISCOVERY and wanted.at_least("0.19.0") and nfd is False:
        found.append(
            f"chart {chart} {wanted} publishes labels as NodeFeature objects: without nfd, the cluster must "
            "have Node Feature Discovery's custom resources and master already."
        )
    return found


def _check_extra(
    extra: Mapping[str, Any], row: Row, version: str, values: Mapping[str, Any]
) -> Mapping[str, Any]:
    if not isinstance(extra, Mapping):
        raise InputError("a mapping is wanted", path="values", hint="write values as in a Helm values file")
    for path, value in _leaves(extra):
        dotted = ".".join(path)
        reserved = next((name for name in _RESERVED if dotted == name or dotted.startswith(name + ".")), None)
        if reserved is not None:
            raise InputError(
                f"{reserved} is not for values", path=f"values.{dotted}", hint=f"use {_RESERVED[reserved]}"
            )
        if dotted in row.ignored:
            raise InputError(
                f"chart {version} documents {dotted} but never reads it",
                path=f"values.{dotted}",
                hint=f"set values.{row.ignored[dotted]}",
            )
        if dotted in _BOOLEANS and value is not None and not isinstance(value, bool):
            raise InputError(
                f"{value!r} is not a boolean, and the chart would drop it silently",
                path=f"values.{dotted}",
                hint="use true or false without quotes; for a variable, the filter bool",
            )
        ours = _get(values, path)
        if ours is not _NOTHING and ours != value:
            raise InputError(
                f"{value!r} contradicts {ours!r}, which the other options and the chart's version demand",
                path=f"values.{dotted}",
                hint="leave it out",
            )
    return extra


def unlisted(current: Mapping[str, Any], wanted: Mapping[str, Any]) -> Dict[str, Any]:
    """What a release that is taken over has set, and our values neither set nor forbid."""
    found: Dict[str, Any] = {}
    for path, value in _leaves(current):
        dotted = ".".join(path)
        reserved = any(dotted == name or dotted.startswith(name + ".") for name in _RESERVED)
        if not reserved and _get(wanted, path) is _NOTHING:
            _put(found, path, value)
    return found


def dotted_names(values: Mapping[str, Any]) -> List[str]:
    """``['affinity', 'nfd.enabled']``, in order."""
    return sorted(".".join(path) for path, _value in _leaves(values))


def merge(base: Mapping[str, Any], extra: Mapping[str, Any]) -> Dict[str, Any]:
    """Helm's way: mappings merge key by key, everything else is replaced."""
    merged = _copy(base)
    for key, value in extra.items():
        if isinstance(value, Mapping) and isinstance(merged.get(key), Mapping):
            merged[key] = merge(merged[key], value)
        else:
            merged[key] = _copy(value) if isinstance(value, Mapping) else value
    return merged


_NOTHING = object()


def _get(values: Mapping[str, Any], path: Tuple[str, ...]) -> Any:
    found: Any = values
    for key in path:
        if not isinstance(found, Mapping):
            return found  # a leaf of ours stands where the operator has a mapping
        if key not in found:
            return _NOTHING
        found = found[key]
    return found


def _put(values: Dict[str, Any], path: Tuple[str, ...], value: Any) -> None:
    for key in path[:-1]:
        values = values.setdefault(key, {})
    values[path[-1]] = value


def _leaves(values: Mapping[str, Any], above: Tuple[str, ...] = ()) -> List[Tuple[Tuple[str, ...], Any]]:
    found: List[Tuple[Tuple[str, ...], Any]] = []
    for key, value in values.items():
        path = above + (str(key),)
        if isinstance(value, Mapping) and value:
            found.extend(_leaves(value, path))
        else:
            found.append((path, value))
    return found


def _copy(values: Mapping[str, Any]) -> Dict[str, Any]:
    return {key: _copy(value) if isinstance(value, Mapping) else value for key, value in values.items()}
