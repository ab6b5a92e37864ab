# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One plan for nodes that are partitioned and for nodes that share their GPUs.

Pods that ask for shares can run on the latter only. Pods that ask for whole GPUs take those that the latter
have free as they are; then they are planned for the former, and what is left for the latter.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Set

from ansible_collections.nvidia.mig.plugins.module_utils.demand.bounds import frozen_by
from ansible_collections.nvidia.mig.plugins.module_utils.demand.plan import plan
from ansible_collections.nvidia.mig.plugins.module_utils.demand.settings import Settings, gap_of
from ansible_collections.nvidia.mig.plugins.module_utils.demand.share_plan import plan_sharing
from ansible_collections.nvidia.mig.plugins.module_utils.demand.shared import (
    SharedNode,
    is_shared,
    read_shared,
)
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.resources import (
    GPU_RESOURCE,
    is_gpu_resource,
)

_A_MOMENT = 5.0  # seconds


def plan_all(
    nodes: Sequence[Any],
    pods: Sequence[Any],
    bounds: Sequence[Any] = (),
    catalogs: Optional[Mapping[str, Any]] = None,
    settings: Settings = Settings(),  # noqa: B008 (frozen)
    clock: Callable[[], float] = lambda: 0.0,
) -> Dict[str, Any]:
    """Plan. Input and result have the forms that the module mig_partition_plan documents."""
    deadline = clock() + settings.time_limit
    problems: List[str] = []
    shared = read_shared([node for node in nodes if is_shared(node)], problems)
    known = [(node.name, node.labels) for node in shared]
    kept_by = frozen_by(bounds, known)
    shared = [_kept(node, kept_by.get(node.name, "")) for node in shared]
    offered = {name for node in shared for name in node.offered}
    apart: Set[int] = set()
    either: Set[int] = set()
    for gang in _gangs(pods):
        names = {name for position in gang for name in _devices(pods[position])}
        if names and names <= offered:
            (either if names == {GPU_RESOURCE} else apart).update(gang)
    at_once: Set[str] = set()
    if either:
        asking = [pods[position] for position in sorted(apart | either)]
        first = plan_sharing(shared, asking, (), settings, clock, deadline)
        at_once = {item["pod"] for item in first["placed"] if not item["needs_change"]}
    kept = {position for position in either if _name(pods[position]) in at_once}
    found = plan(
        [node for node in nodes if not is_shared(node)],
        [pod for position, pod in enumerate(pods) if position not in apart | kept],
        bounds,
        catalogs,
        settings,
        clock,
        known,
    )
    if not shared and not problems:
        return found
    left = {item["pod"] for item in found["unplaced"]}
    again = {position for position in either - kept if _name(pods[position]) in left}
    rest = [pods[position] for position in sorted(apart | kept | again)]
    # Whatever the first took of the time.
    more = plan_sharing(
        shared, rest, {_name(pods[p]) for p in again}, settings, clock, max(deadline, clock() + _A_MOMENT)
    )
    return _merged(found, more, [_name(pod) for pod in pods], problems, bool(either))


def _kept(node: SharedNode, reason: str) -> SharedNode:
    """The node as it is, where a bound says so."""
    return replace(node, ways=node.ways[:1], frozen=reason) if reason and not node.frozen else node


def _merged(
    found: Dict[str, Any], more: Dict[str, Any], names: Sequence[str], problems: List[str], either: bool
) -> Dict[str, Any]:
    """Both results in one.

    Args:
        names: of the pods, in the order of the input.
        either: some pods could run here or there, so the bounds of both say nothing of the sum.
    """
    order = {name: at for at, name in enumerate(names)}
    again = {item["pod"] for item in (*more["placed"], *more["unplaced"])}
    unplaced = [item for item in found["unplaced"] if item["pod"] not in again] + more["unplaced"]
    told = [*problems, *found["problems"], *more["problems"]]
    levels = _levels(found["objective"]["pods"], more["pods"], either)
    gap = gap_of(levels)
    return {
        **found,
        "nodes": found["nodes"] + more["nodes"],
        "placed": sorted(found["placed"] + more["placed"], key=lambda item: order[item["pod"]]),
        "unplaced": sorted(unplaced, key=lambda item: order.get(item["pod"], -1)),
        "problems": list(dict.fromkeys(told)),
        "objective": {**found["objective"], "pods": levels},
        "gap": round(gap, 6),
        "proven": gap == 0,
    }


def _levels(
    here: Sequence[Mapping[str, int]], there: Sequence[Mapping[str, int]], either: bool
) -> List[Dict[str, int]]:
    found: Dict[int, Dict[str, int]] = {}
    for level in (*here, *there):
        own = found.setdefault(level["priority"], {**level, "asked": 0, "placed": 0, "bound": 0})
        for key in ("asked", "placed", "bound"):
            own[key] += level[key]
    for own in found.values():
        own["bound"] = own["asked"] if either else min(own["asked"], own["bound"])
    return [found[priority] for priority in sorted(found, reverse=True)]


def _gangs(pods: Sequence[Any]) -> List[List[int]]:
    """Positions of pods that run all or none."""
    found: Dict[object, List[int]] = {}
    for position, pod in enumerate(pods):
        gang = pod.get("gang") if isinstance(pod, Mapping) else None
        key: object = position if gang is None else (str(pod.get("namespace")), str(gang))
        found.setdefault(key, []).append(position)
    return list(found.values())


def _devices(pod: Any) -> Set[str]:
    """The GPU resources that the pod asks for. What is no pod is for the first planner to tell."""
    requests = pod.get("requests") if isinstance(pod, Mapping) else None
    if not isinstance(requests, Mapping):
        return {""}
    return {str(name) for name, value in requests.items() if is_gpu_resource(str(name)) and str(value) != "0"}


def _name(pod: Any) -> str:
    return f"{pod.get('namespace')}/{pod.get('name')}" if isinstance(pod, Mapping) else ""
