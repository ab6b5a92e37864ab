# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One Helm release: which one is meant, and what separates it from what is wanted. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from ansible_collections.nvidia.mig.plugins.module_utils.errors import ClusterError

_BUSY = {
    "pending-install": "helm uninstall {name} -n {namespace}",
    "pending-upgrade": "helm rollback {name} -n {namespace}",
    "pending-rollback": "helm rollback {name} -n {namespace}",
    "uninstalling": "helm uninstall {name} -n {namespace}",
}


@dataclass(frozen=True)
class Release:
    """A release as helm lists it. ``version`` is the chart's."""

    name: str
    namespace: str
    revision: int
    status: str
    chart: str
    version: str
    app_version: str = ""

    def __str__(self) -> str:
        return f"{self.name} in namespace {self.namespace} ({self.chart} {self.version}, {self.status})"


@dataclass(frozen=True)
class Target:
    """The release to work on.

    Args:
        release: None if there is none yet.
        adopted: it was made under another name, and is kept under that.
    """

    name: str
    namespace: str
    release: Optional[Release] = None
    adopted: bool = False


@dataclass(frozen=True)
class Difference:
    """What must be done to a release, and how it looks before and after; ``actions`` empty means nothing."""

    actions: Tuple[str, ...] = ()
    before: Dict[str, Any] = field(default_factory=dict)
    after: Dict[str, Any] = field(default_factory=dict)


def find(releases: Sequence[Release], chart: str, name: str, namespace: str, adopt: bool) -> Target:
    """Find the one release of a chart in the cluster, whatever its name.

    Two device plugins on one node overwrite each other's socket, so a second release is never the answer.

    Args:
        adopt: take over a release of another name.

    Raises:
        ClusterError: several releases, one that may not be adopted, a taken name, or helm is busy with it.
    """
    own = [release for release in releases if (release.name, release.namespace) == (name, namespace)]
    if own and own[0].chart != chart:
        raise ClusterError(
            f"the release name is taken: {own[0]}", path="release_name", hint="choose another release_name"
        )
    found = [release for release in releases if release.chart == chart]
    if len(found) > 1:
        text = "; ".join(str(release) for release in found)
        keep = own[0] if own else found[0]
        commands = [f"helm uninstall {one.name} -n {one.namespace}" for one in found if one != keep]
        raise ClusterError(
            f"there are {len(found)} releases of {chart} in the cluster: {text}",
            hint=f"keep one; to keep {keep.name}, run: {'; '.join(commands)}",
        )
    if not found:
        return Target(name, namespace)
    (release,) = found
    if not own and not adopt:
        raise ClusterError(
            f"there is a release of {chart} under another name: {release}",
            path="adopt",
            hint="set adopt to true to manage it as it is, set release_name and namespace to its own, "
            f"or run: helm uninstall {release.name} -n {release.namespace}",
        )
    if release.status in _BUSY:
        command = _BUSY[release.status].format(name=release.name, namespace=release.namespace)
        raise ClusterError(
            f"helm is busy with the release, or was interrupted: {release}",
            hint=f"wait for it; if no helm is running any more: {command}",
        )
    return Target(release.name, release.namespace, release, adopted=not own)


def check_gpu_operator(
    releases: Sequence[Release], operator_values: Mapping[str, Mapping[str, Any]], component: str
) -> None:
    """Refuse to work beside a GPU Operator that runs the same component.

    Args:
        operator_values: user values of each release of gpu-operator, by release name.
        component: the operator's switch, devicePlugin or gfd.

    Raises:
        ClusterError: the operator runs the component.
    """
    for release in releases:
        if release.chart != "gpu-operator":
            continue
        section = operator_values.get(release.name, {}).get(component)
        if not isinstance(section, Mapping) or section.get("enabled") is not False:
            raise ClusterError(
                f"the GPU Operator runs this component already: {release}",
                hint=f"set {component}.enabled to false in the operator's values, or leave it to it",
            )


def compare(
    target: Target,
    current_values: Mapping[str, Any],
    chart: str,
    version: str,
    values: Mapping[str, Any],
) -> Difference:
    """What separates a release from what is wanted.

    Args:
        current_values: the release's user values; empty if there is no release.
        version: the wanted chart version.
        values: all wanted user values. They are the whole truth: what is not in them goes.
    """
    wanted = normal(values)
    after = {"chart": f"{chart} {version}", "values": wanted}
    release = target.release
    where = f"release {target.name} in namespace {target.namespace}"
    if release is None:
        return Difference((f"install {where}: chart {chart} {version}",), {}, after)
    current = normal(current_values)
    reasons: List[str] = []
    if release.version != version:
        reasons.append(f"chart {release.version} -> {version}")
    names = changed_names(current, wanted)
    if names:
        reasons.append(f"values {', '.join(names)}")
    before: Dict[str, Any] = {"chart": f"{release.chart} {release.version}", "values": current}
    if release.status != "deployed":
        # A failed attempt may have applied anything, even with the same values.
        reasons.append(f"the last attempt is {release.status}")
        before["status"], after["status"] = release.status, "deployed"
    if not reasons:
        return Difference((), before, after)
    return Difference((f"upgrade {where}: {'; '.join(reasons)}",), before, after)


def removal(target: Target) -> Difference:
    """What state absent takes."""
    release = target.release
    if release is None:
        return Difference()
    chart = f"{release.chart} {release.version}"
    action = f"uninstall release {release.name} in namespace {release.namespace}: chart {chart}"
    return Difference((action,), {"chart": chart}, {})


def normal(values: Mapping[str, Any]) -> Dict[str, Any]:
    """Values as helm returns them: JSON's types only."""
    found: Dict[str, Any] = json.loads(json.dumps(values))
    return found


def changed_names(before: Mapping[str, Any], after: Mapping[str, Any], above: str = "") -> List[str]:
    """Dotted names of the values that differ, in order."""
    names: List[str] = []
    for key in sorted({*before, *after}):
        old, new = before.get(key), after.get(key)
        if isinstance(old, Mapping) and isinstance(new, Mapping) and old and new:
            names.extend(changed_names(old, new, f"{above}{key}."))
        elif key not in before or key not in after or not _same(old, new):
            names.append(f"{above}{key}")
    return names


def _same(old: Any, new: Any) -> bool:
    """Equality as a chart's template sees it: true is not 1, but 1.0 is 1, as helm stores it."""
    if isinstance(old, list) and isinstance(new, list):
        return len(old) == len(new) and all(_same(one, other) for one, other in zip(old, new))
    if isinstance(old, dict) and isinstance(new, dict):
        return set(old) == set(new) and all(_same(value, new[key]) for key, value in old.items())
    return isinstance(old, bool) == isinstance(new, bool) and bool(old == new)
