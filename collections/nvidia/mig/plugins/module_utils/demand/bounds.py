# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an operator forbids: bounds on nodes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, FrozenSet, List, Mapping, Optional, Sequence, Tuple

from ansible_collections.nvidia.mig.plugins.module_utils.demand.fleet import Fleet, Node
from ansible_collections.nvidia.mig.plugins.module_utils.errors import InputError, MigError
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.profile import parse_profile
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.resources import mig_resource

_KEYS = ("name", "nodes", "labels", "keep_whole", "keep_whole_per_node", "profiles", "keep_mode", "frozen")


@dataclass(frozen=True)
class Bound:
    """One bound as it was read.

    Args:
        nodes: their names; None: every node.
        keep_whole: of all its nodes together, so many GPUs stay with MIG mode off.
        keep_whole_per_node: of each.
        profiles: resources that may be created; None: all.
        frozen: why nothing may change; empty: it may.
    """

    name: str
    nodes: Optional[FrozenSet[str]]
    labels: Tuple[Tuple[str, str], ...]
    keep_whole: int
    keep_whole_per_node: int
    profiles: Optional[FrozenSet[str]]
    keep_mode: bool
    frozen: str

    def covers(self, name: str, labels: Mapping[str, str]) -> bool:
        """Whether it counts for the node."""
        if self.nodes is not None and name not in self.nodes:
            return False
        return all(labels.get(key) == value for key, value in self.labels)


@dataclass
class Limits:
    """All bounds that cover one node, taken together.

    Args:
        profiles: resources that may be created; None: all.
        sets: numbers of the bounds of several nodes that it counts for.
    """

    profiles: Optional[FrozenSet[str]] = None
    keep_whole: int = 0
    keep_mode: bool = False
    frozen: str = ""
    sets: Tuple[int, ...] = ()

    @property
    def key(self) -> Tuple[object, ...]:
        return self.profiles, self.keep_whole, self.keep_mode, self.frozen, self.sets


@dataclass
class Bounds:
    """All bounds.

    Args:
        sets: by number, how many GPUs stay whole.
        limits: by node.
    """

    sets: List[int] = field(default_factory=list)
    limits: Dict[str, Limits] = field(default_factory=dict)


def read_bounds(
    raw: Sequence[Any],
    fleet: Fleet,
    problems: List[str],
    others: Sequence[Tuple[str, Mapping[str, str]]] = (),
) -> Bounds:
    """Read the option ``bounds``; what is wrong is told and left out, a contradiction softened.

    Args:
        others: name and labels of nodes that are planned elsewhere: a bound may be for them alone.
    """
    found = Bounds(limits={node.name: Limits() for node in fleet.nodes})
    names = {node.name for node in fleet.nodes} | {name for name, _labels in others}
    for position, item in enumerate(raw):
        try:
            bound = _parse(item, f"bounds[{position}]")
        except MigError as error:
            problems.append(f"{error}; the bound is left out")
            continue
        missing = sorted((bound.nodes or frozenset()) - names)
        if missing:
            fleet.problems.append(f"{bound.name}: there is no node {', '.join(missing)}")
        _apply(bound, found, fleet, problems, any(bound.covers(*other) for other in others))
    return found


def frozen_by(raw: Sequence[Any], nodes: Sequence[Tuple[str, Mapping[str, str]]]) -> Dict[str, str]:
    """By name, why a bound keeps the node (name and labels) as it is. What is wrong is passed over."""
    found: Dict[str, str] = {}
    for position, item in enumerate(raw):
        try:
            bound = _parse(item, f"bounds[{position}]")
        except MigError:
            continue
        for name, labels in nodes:
            if bound.frozen and bound.covers(name, labels):
                found.setdefault(name, bound.frozen)
    return found


def whole_gpus(fleet: Fleet, node: Node) -> int:
    """How many of its GPUs have MIG mode off."""
    return sum(not fleet.kind(gpu).mig for gpu in node.gpus)


def _apply(bound: Bound, found: Bounds, fleet: Fleet, problems: List[str], elsewhere: bool) -> None:
    covered = [node for node in fleet.nodes if bound.covers(node.name, node.labels)]
    if not covered:
        if not elsewhere:
            problems.append(f"{bound.name}: it covers no node")
        return
    gpus = sum(len(node.gpus) for node in covered)
    if bound.keep_whole > gpus:
        problems.append(
            f"{bound.name}: keep_whole is {bound.keep_whole}, but its nodes have {gpus} GPUs; all that are "
            "whole stay so"
        )
    if bound.keep_whole:
        number = len(found.sets)
        found.sets.append(min(bound.keep_whole, sum(whole_gpus(fleet, node) for node in covered)))
        for node in covered:
            found.limits[node.name].sets += (number,)
    for node in covered:
        limits = found.limits[node.name]
        if bound.keep_whole_per_node > len(node.gpus):
            problems.append(
                f"{bound.name}: keep_whole_per_node is {bound.keep_whole_per_node}, but {node.name} has "
                f"{len(node.gpus)} GPUs; all that are whole stay so"
            )
        limits.keep_whole = max(limits.keep_whole, min(bound.keep_whole_per_node, whole_gpus(fleet, node)))
        limits.keep_mode = limits.keep_mode or bound.keep_mode
        limits.frozen = limits.frozen or bound.frozen
        if bound.profiles is not None:
            before = limits.profiles
            limits.profiles = bound.profiles if before is None else before & bound.profiles
            if before and bound.profiles and not limits.profiles:
                problems.append(
                    f"{bound.name}: no profile is allowed on {node.name} by this bound and the others that "
                    "cover it; none is created there"
                )


def _parse(raw: Any, path: str) -> Bound:
    if not isinstance(raw, Mapping):
        raise InputError(f"{raw!r} is not a mapping", path, f"its keys are {', '.join(_KEYS)}")
    for key in raw:
        if key not in _KEYS:
            raise InputError(f"unknown key {key!r}", path, f"allowed are {', '.join(_KEYS)}")
    name = str(raw.get("name") or path)
    nodes = raw.get("nodes")
    if nodes is not None:
        if not isinstance(nodes, (list, tuple)):
            raise InputError(f"nodes is {nodes!r}, not a list of names", name)
        nodes = frozenset(str(node) for node in nodes)
    labels = raw.get("labels") or {}
    if not isinstance(labels, Mapping):
        raise InputError(f"labels is {labels!r}, not a mapping", name)
    profiles = raw.get("profiles")
    if profiles is not None:
        if not isinstance(profiles, (list, tuple)):
            raise InputError(f"profiles is {profiles!r}, not a list", name)
        profiles = frozenset(mig_resource(parse_profile(text, f"{name}: profiles")) for text in profiles)
    frozen = raw.get("frozen")
    return Bound(
        name,
        nodes,
        tuple(sorted((str(key), str(value)) for key, value in labels.items())),
        _count(raw, "keep_whole", name),
        _count(raw, "keep_whole_per_node", name),
        profiles,
        bool(raw.get("keep_mode")),
        (frozen if isinstance(frozen, str) else f"{name} forbids it") if frozen else "",
    )


def _count(raw: Mapping[str, Any], key: str, name: str) -> int:
    value = raw.get(key) or 0
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise InputError(f"{key} is {value!r}, not a number of GPUs", name)
    return value
