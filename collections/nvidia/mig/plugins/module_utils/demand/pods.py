# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is asked for: pending pods, and how many of them are alike.

Pods that ask for the same on the same nodes have one `Shape`; gangs of the same shapes have one `Form`.
Whatever is wrong with a pod is told, and only that pod (with its gang) is left out.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from ansible_collections.nvidia.mig.plugins.module_utils.demand.where import Where, parse_where
from ansible_collections.nvidia.mig.plugins.module_utils.errors import InputError, MigError
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.quantities import thousandths
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.resources import (
    GPU_RESOURCE,
    bare_name,
    is_gpu_resource,
)

_NOTHING = "asks for no GPU and no MIG device"
_MOST = 1024  # no node has more devices of a kind; it keeps a slip of the finger out of the program


@dataclass(frozen=True)
class Shape:
    """What one pod asks for.

    Args:
        devices: GPUs and MIG devices by resource.
        needs: the rest by resource, in thousandths, with its place among the node's pods.
    """

    devices: Tuple[Tuple[str, int], ...]
    needs: Tuple[Tuple[str, int], ...]
    where: Where

    @property
    def size(self) -> int:
        """How many devices it asks for."""
        return sum(count for _resource, count in self.devices)


@dataclass(frozen=True)
class Form:
    """What a gang asks for: how many pods of which shape (its number) at which level."""

    members: Tuple[Tuple[int, int, int], ...]  # shape, level, pods

    @property
    def pods(self) -> int:
        return sum(count for _shape, _level, count in self.members)


class Demand:
    """Pending pods by what they ask for.

    Attributes:
        shapes: by number.
        levels: priorities, the highest first; a level is an index into it.
        single: pods outside gangs by (shape, level), as positions in the input, the first come first.
        forms: gangs by form, each as the positions of its pods.
        refused: why a pod cannot be planned, by position.
        named: ``ns/name`` by position.
    """

    def __init__(self, pods: Sequence[Any]) -> None:
        self.shapes: List[Shape] = []
        self.problems: List[str] = []
        self.refused: Dict[int, str] = {}
        self.named: List[str] = []
        self.shape_of: List[int] = []
        self._read: Dict[str, Union[int, str]] = {}
        self._numbers: Dict[Shape, int] = {}
        priorities: List[Optional[int]] = []  # None: the pod is refused
        gangs: Dict[Tuple[str, str], List[int]] = {}
        alone: List[int] = []
        seen: Dict[str, int] = {}
        for position, raw in enumerate(pods):
            try:
                name = f"{raw['namespace']}/{raw['name']}"
                priority = raw.get("priority") or 0
                gang = raw.get("gang")
                if not isinstance(priority, int) or isinstance(priority, bool):
                    raise InputError(f"priority is {priority!r}, not a whole number")
                if seen.setdefault(name, position) != position:
                    raise InputError("it stands twice")
                shape = self._shape(raw)
            except MigError as error:
                self._refuse(position, name, str(error))
                priorities.append(None)
                continue
            except (KeyError, TypeError, AttributeError):
                self._refuse(position, f"pods[{position}]", "namespace or name is missing")
                priorities.append(None)
                continue
            self.named.append(name)
            self.shape_of.append(shape)
            priorities.append(priority)
            if gang is None:
                alone.append(position)
            else:
                gangs.setdefault((str(raw["namespace"]), str(gang)), []).append(position)
        self.levels = tuple(sorted({p for p in priorities if p is not None}, reverse=True))
        at = {priority: level for level, priority in enumerate(self.levels)}
        self.level_of = [-1 if priority is None else at[priority] for priority in priorities]
        self.gangs = self._whole(pods, gangs)
        self.single: Dict[Tuple[int, int], List[int]] = {}
        shapes, levels, refused = self.shape_of, self.level_of, self.refused
        for position in alone:
            if not self.shapes[shapes[position]].devices:
                refused[position] = _NOTHING
                self.problems.append(f"pod {self.named[position]}: {_NOTHING}")
                continue
            self.single.setdefault((shapes[position], levels[position]), []).append(position)
        self.forms: Dict[Form, List[Tuple[int, ...]]] = {}
        for members in self.gangs.values():
            counts = Counter((shapes[position], levels[position]) for position in members)
            form = Form(tuple(sorted((shape, level, count) for (shape, level), count in counts.items())))
            self.forms.setdefault(form, []).append(tuple(members))

    def count(self) -> List[int]:
        """Pods per shape."""
        found = [0] * len(self.shapes)
        for (shape, _level), positions in self.single.items():
            found[shape] += len(positions)
        for form, gangs in self.forms.items():
            for shape, _level, count in form.members:
                found[shape] += count * len(gangs)
        return found

    def planned(self) -> List[int]:
        """Positions of the pods that are not refused."""
        found = [position for positions in self.single.values() for position in positions]
        return found + [p for gangs in self.forms.values() for members in gangs for p in members]

    def _shape(self, raw: Mapping[str, Any]) -> int:
        requests, selector = raw.get("requests"), raw.get("node_selector")
        affinity, tolerations = raw.get("node_affinity"), raw.get("tolerations")
        key = repr((requests, selector, affinity, tolerations))
        found = self._read.get(key)
        if found is None:
            try:
                shape = _parse(requests, parse_where(selector, affinity, tolerations, "it"))
                found = self._numbers.setdefault(shape, len(self.shapes))
                if found == len(self.shapes):
                    self.shapes.append(shape)
            except MigError as error:
                found = str(error)
            self._read[key] = found
        if isinstance(found, str):
            raise InputError(found)
        return found

    def _refuse(self, position: int, name: str, why: str) -> None:
        self.refused[position] = why
        self.named.append(name)
        self.shape_of.append(-1)
        self.problems.append(f"pod {name}: {why}")

    def _whole(
        self, pods: Sequence[Any], gangs: Dict[Tuple[str, str], List[int]]
    ) -> Dict[Tuple[str, str], List[int]]:
        """The gangs without those of which a pod cannot be planned."""
        for position in list(self.refused):
            raw = pods[position]
            gang = raw.get("gang") if isinstance(raw, Mapping) else None
            for other in gangs.pop((str(raw.get("namespace")), str(gang)), ()) if gang is not None else ():
                self.refused[other] = f"{self.named[position]} of its gang cannot be planned"
        return gangs


def device_name(resource: str) -> str:
    """The resource as people say it: ``whole GPU``, ``3g.20gb``, ``gpu.shared``."""
    return "whole GPU" if resource == GPU_RESOURCE else bare_name(resource)


def describe_devices(devices: Sequence[Tuple[str, int]]) -> str:
    """``3g.20gb``, ``2 x 3g.20gb and 1g.5gb``."""
    texts = [device_name(name) if count == 1 else f"{count} x {device_name(name)}" for name, count in devices]
    return " and ".join(texts) or "no GPU"


def _parse(requests: Any, where: Where) -> Shape:
    if not isinstance(requests, Mapping):
        raise InputError("requests are missing")
    devices: Dict[str, int] = {}
    needs: Dict[str, int] = {"pods": 1000}
    for name, value in requests.items():
        name = str(name)
        amount = thousandths(value, f"requests.{name}", up=True)
        if not amount:
            continue
        if not is_gpu_resource(name):
            needs[name] = amount
        elif amount % 1000 or amount > _MOST * 1000:
            raise InputError(f"requests.{name}: {value!r} is no number of devices")
        else:
            devices[name] = amount // 1000
    return Shape(tuple(sorted(devices.items())), tuple(sorted(needs.items())), where)
