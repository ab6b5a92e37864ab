# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which hosts change together: canaries first, never more of a group at once than it can spare. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Sequence

from ansible_collections.nvidia.mig.plugins.module_utils.errors import ClusterError, InputError
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.hold import hold_marks


@dataclass(frozen=True)
class Limit:
    """At most ``count`` of ``members`` may be out."""

    group: str
    members: frozenset[str]
    count: int


def limits(max_unavailable: object, groups: Mapping[str, Sequence[str]]) -> List[Limit]:
    """Read ``{'gpu_nodes': '25%', 'dgx': 1}``; a percentage is rounded down, but never to none.

    Raises:
        InputError: no such group, or no such number.
    """
    if not isinstance(max_unavailable, Mapping):
        raise InputError(
            f"{max_unavailable!r} is not a dictionary",
            path="mig_max_unavailable",
            hint="name a group and how many of its hosts may be out at once, such as {gpu_nodes: 25%}",
        )
    found: List[Limit] = []
    for group, value in max_unavailable.items():
        path = f"mig_max_unavailable.{group}"
        if group not in groups:
            known = ", ".join(sorted(set(groups) - {"ungrouped", "mig_rollout"}))
            raise InputError("the inventory has no such group", path=path, hint=f"it has {known}")
        members = frozenset(groups[group])
        found.append(Limit(group, members, _count(value, len(members), path)))
    return found


def _count(value: object, size: int, path: str) -> int:
    text = str(value).strip()
    percent = text.endswith("%")
    number = text[:-1].strip() if percent else text
    if isinstance(value, bool) or not number.isdigit() or int(number) < 1 or (percent and int(number) > 100):
        raise InputError(
            f"{value!r} is not a number of hosts",
            path=path,
            hint="use a number from 1 on, or a percentage from 1% to 100%",
        )
    return max(1, size * int(number) // 100) if percent else int(number)


def out(nodes: Sequence[Mapping[str, Any]], node_names: Mapping[str, str]) -> Dict[str, str]:
    """Why hosts are out already, by host: 'cordoned' or 'not ready'."""
    by_name = {node["metadata"]["name"]: node for node in nodes}
    found: Dict[str, str] = {}
    for host, name in node_names.items():
        node = by_name.get(name)
        if node is None:
            continue
        conditions = {
            one["type"]: one["status"] for one in (node.get("status") or {}).get("conditions") or []
        }
        if (node.get("spec") or {}).get("unschedulable"):
            found[host] = "cordoned"
        elif conditions.get("Ready", "True") != "True":
            found[host] = "not ready"
    return found


def interrupted(nodes: Sequence[Mapping[str, Any]], node_names: Mapping[str, str]) -> List[str]:
    """Hosts whose nodes an earlier run holds."""
    held = {node["metadata"]["name"] for node in nodes if hold_marks(node)["ours"]}
    return [host for host, name in node_names.items() if name in held]


def batches(
    due: Sequence[str], limited: Sequence[Limit], canaries: object = 1, away: Mapping[str, str] | None = None
) -> List[List[str]]:
    """Put hosts into batches.

    Args:
        due: hosts to change, in the order that is wanted. Those that are out already come first.
        limited: how many may be out.
        canaries: at most so many hosts in the first batch; 0 for no canaries.
        away: hosts that are out already, and why. One that is not due stays out.

    Raises:
        InputError: canaries is not a number of hosts.
        ClusterError: so many are out that no more may be.
    """
    # The command line gives a text.
    if isinstance(canaries, bool) or not str(canaries).isdigit():
        raise InputError(
            f"{canaries!r} is not a number of hosts",
            path="mig_canaries",
            hint="use 0 or more; 1 is the default",
        )
    most = int(str(canaries))
    away = dict(away or {})
    left = sorted(dict.fromkeys(due), key=lambda host: host not in away)
    found: List[List[str]] = []
    while left:
        batch: List[str] = []
        room = most if most and not found else len(left)
        for host in left:
            if len(batch) < room and not _full(limited, host, {*away, *batch}):
                batch.append(host)
        if not batch:
            raise _no_room(limited, left[0], away)
        found.append(batch)
        left = [host for host in left if host not in batch]
        away = {host: why for host, why in away.items() if host not in batch}
    return found


def _full(limited: Sequence[Limit], host: str, absent: set[str]) -> List[Limit]:
    """The limits that would be passed if the host went out too."""
    if host in absent:
        return []
    return [one for one in limited if host in one.members and len(absent & one.members) >= one.count]


def _no_room(limited: Sequence[Limit], host: str, away: Mapping[str, str]) -> ClusterError:
    limit = _full(limited, host, set(away))[0]
    absent = ", ".join(f"{name} is {away[name]}" for name in sorted(limit.members & set(away)))
    return ClusterError(
        f"{host} cannot be taken out: of group {limit.group}, {absent}",
        path=f"mig_max_unavailable.{limit.group}",
        hint=f"it allows {limit.count} at once; bring those back, or allow more. Nothing was changed",
    )
