# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes whose GPUs are shared as pods ask for it, and in which ways. All GPUs of a node are shared alike."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Optional, Sequence, Set, Tuple

from ansible_collections.nvidia.mig.plugins.module_utils.demand.surroundings import read_surroundings, texts
from ansible_collections.nvidia.mig.plugins.module_utils.demand.where import Taint, Where
from ansible_collections.nvidia.mig.plugins.module_utils.errors import InputError, MigError
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.fields import mapping, sequence
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.sharing import (
    MPS,
    Sharing,
    parse_sharing,
)


@dataclass(frozen=True)
class Way:
    """One sharing of a node's GPUs.

    Args:
        config: the device plugin's; None: the node's label names none.
        offers: what pending pods could get, by resource.
        labels: those that the node has with it.
        changes: the node has another one now.
        replicas: shares of each GPU.
        one_each: a pod gets no more than one share.
        text: in words.
    """

    config: Optional[str]
    offers: Tuple[Tuple[str, int], ...]
    labels: Mapping[str, str]
    changes: bool
    replicas: int
    one_each: bool
    text: str
    sharing: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class SharedNode:
    """One node.

    Args:
        free: what pods could still request besides, in thousandths.
        ways: as it is, then what it could be.
        frozen: why it stays as it is; empty: it need not.
        others: what it could be if it were not frozen.
    """

    name: str
    taints: Tuple[Taint, ...]
    unschedulable: bool
    free: Dict[str, int]
    gpus: Tuple[Mapping[str, Any], ...]
    ways: Tuple[Way, ...]
    frozen: str
    others: Tuple[Way, ...]

    @property
    def labels(self) -> Mapping[str, str]:
        return self.ways[0].labels

    @property
    def offered(self) -> Set[str]:
        """Resources that it has or could have."""
        return {name for way in (*self.ways, *self.others) for name, _count in way.offers}

    def obstacle(self, where: Where, way: Way) -> Optional[str]:
        """Why a pod may not run there in that way, in words."""
        return where.obstacle(self.name, way.labels, self.taints, self.unschedulable)


def is_shared(raw: Any) -> bool:
    """Whether a node of the input is one whose sharing may change."""
    return isinstance(raw, Mapping) and bool(raw.get("sharing"))


def read_shared(nodes: Sequence[Any], problems: List[str]) -> List[SharedNode]:
    """Read them; what is wrong is told, and the node passed over."""
    found: Dict[str, SharedNode] = {}
    for position, raw in enumerate(nodes):
        try:
            node = _node(raw, f"nodes[{position}]")
            if node.name in found:
                raise InputError(f"{node.name} stands twice", f"nodes[{position}]")
            found[node.name] = node
        except MigError as error:
            problems.append(f"{error}; the node is passed over")
    return list(found.values())


def _node(raw: Mapping[str, Any], path: str) -> SharedNode:
    around = read_surroundings(raw, path)
    path = f"node {around.name}"
    sharing = mapping(raw["sharing"], f"{path}: sharing")
    config = sharing.get("config")
    choices = sequence(sharing.get("choices"), f"{path}: sharing.choices")
    ways = [_way(item, config, f"{path}: sharing.choices[{at}]") for at, item in enumerate(choices)]
    now = next((way for way in ways if not way.changes), None)
    offers = _counts(sharing.get("offers"), f"{path}: sharing.offers")
    as_is = Way(
        config,
        offers,
        around.labels,
        False,
        1 if now is None else now.replicas,
        now is None or now.one_each,
        "unknown" if now is None else now.text,
    )
    others = tuple(way for way in ways if way.changes)
    frozen = str(sharing.get("frozen") or "")
    return SharedNode(
        around.name,
        around.taints,
        around.unschedulable,
        around.free,
        tuple(mapping(gpu, f"{path}: gpus") for gpu in sequence(raw.get("gpus"), f"{path}: gpus")),
        (as_is,) if frozen else (as_is, *others),
        frozen,
        others,
    )


def _way(raw: Any, config: Any, path: str) -> Way:
    own = mapping(raw, path)
    name = own.get("config")
    if not isinstance(name, str) or not name:
        raise InputError("config is missing", path)
    sharing = parse_sharing(own.get("sharing"), f"{path}.sharing")
    replicas = max(sharing.replicas.values(), default=1)
    return Way(
        name,
        _counts(own.get("resources"), f"{path}.resources"),
        texts(own.get("labels"), f"{path}.labels"),
        name != config,
        replicas,
        # What the device plugin does where it is not told.
        sharing.kind == MPS if sharing.one_each is None else sharing.one_each,
        _text(sharing, replicas),
        own.get("sharing") or {},
    )


def _text(sharing: Sharing, replicas: int) -> str:
    by = {"mps": "by MPS", "time-slicing": "by time slicing"}.get(sharing.kind)
    return f"{replicas} pods on each GPU {by}" if by else "one pod on each GPU"


def _counts(value: Any, path: str) -> Tuple[Tuple[str, int], ...]:
    found = mapping(value or {}, path)
    for name, count in found.items():
        if not isinstance(count, int) or isinstance(count, bool) or count < 0:
            raise InputError(f"{count!r} is not a number of devices", f"{path}.{name}")
    return tuple(sorted((str(name), count) for name, count in found.items() if count))
