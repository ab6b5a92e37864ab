# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What was observed: nodes and their GPUs, as mig_info tells them.

Whatever is wrong with one is told, and the node or GPU is passed over; the others are planned.

GPUs in the same state share one `Kind`, whatever their names, so that what a kind could become is found once.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from ansible_collections.nvidia.mig.plugins.module_utils.demand.surroundings import read_surroundings
from ansible_collections.nvidia.mig.plugins.module_utils.demand.where import Taint
from ansible_collections.nvidia.mig.plugins.module_utils.errors import InputError, MigError
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.catalog import (
    Catalog,
    OfferedProfile,
    Placement,
    short_product,
)
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.placement import Placed
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.profile import Profile, parse_profile
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.state import PROCESS
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.fields import mapping
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.resources import (
    GPU_RESOURCE,
    mig_resource,
)

STRATEGIES = ("none", "single", "mixed")
PENDING = "its MIG mode waits for a reset"
PROCESSES = "processes use it outside of any pod"


@dataclass(frozen=True)
class Instance:
    """A GPU instance as it matters for planning.

    Args:
        devices: profiles of its MIG devices, as a layout writes them.
        offers: the resource that a pending pod could take with it now; None: it is held, or no device.
        pinned: a pod or process is in it, so it stays.
    """

    placed: Placed
    devices: Tuple[Profile, ...]
    offers: Optional[str]
    pinned: bool


@dataclass(frozen=True)
class Kind:
    """The state that GPUs have in common.

    Args:
        capable: it can do MIG, and tells which profiles it offers.
        mig: its MIG mode.
        held: without MIG, a pod has it.
        frozen: why its layout must stay; empty: it may change.
        mixed: its node's strategy is mixed, so each MIG device is a resource of its profile.
    """

    catalog: Catalog
    capable: bool
    mig: bool
    held: bool
    frozen: str
    mixed: bool
    instances: Tuple[Instance, ...] = ()

    @cached_property
    def offers(self) -> Tuple[str, ...]:
        """The resources that pending pods could take as it is."""
        if not self.mig:
            return () if self.held else (GPU_RESOURCE,)
        found = tuple(instance.offers for instance in self.instances if instance.offers is not None)
        return found if self.mixed else (GPU_RESOURCE,) * len(found)

    @cached_property
    def pinned(self) -> Tuple[Instance, ...]:
        return tuple(instance for instance in self.instances if instance.pinned)

    @cached_property
    def free(self) -> Tuple[Instance, ...]:
        return tuple(instance for instance in self.instances if not instance.pinned)


@dataclass
class Gpu:
    """One GPU.

    Args:
        kind: the number of its `Kind`.
        raw: as it was observed.
    """

    node: str
    index: int
    uuid: str
    kind: int
    raw: Mapping[str, Any]

    @property
    def selector(self) -> Any:
        """What a layout calls it by: its UUID, which no reboot can move to another GPU."""
        return self.uuid or self.index

    def __str__(self) -> str:
        return f"{self.node}/GPU{self.index}"


@dataclass
class Node:
    """One node.

    Args:
        free: what pods could still request, in thousandths.
        keep_mode: why no GPU of it may change its MIG mode; empty: it may.
    """

    name: str
    labels: Mapping[str, str]
    taints: Tuple[Taint, ...]
    unschedulable: bool
    free: Dict[str, int]
    gpus: List[Gpu]
    keep_mode: str = ""


class Fleet:
    """Nodes, kinds, and what was wrong with the input."""

    def __init__(self, nodes: Sequence[Any], catalogs: Mapping[str, Any]) -> None:
        self.nodes: List[Node] = []
        self.kinds: List[Kind] = []
        self.problems: List[str] = []
        self._kinds: Dict[Any, int] = {}
        self._catalogs: Dict[str, Catalog] = {}
        self._named = {str(name): profiles for name, profiles in catalogs.items()}
        names = set()
        for position, raw in enumerate(nodes):
            try:
                node = self._node(raw, f"nodes[{position}]")
                if node.name in names:
                    raise InputError(f"{node.name} stands twice", f"nodes[{position}]")
            except MigError as error:
                self.problems.append(f"{error}; the node is passed over")
                continue
            names.add(node.name)
            self.nodes.append(node)

    def kind(self, gpu: Gpu) -> Kind:
        return self.kinds[gpu.kind]

    def _node(self, raw: Any, path: str) -> Node:
        around = read_surroundings(raw, path)
        strategy = raw.get("strategy") or "mixed"
        if strategy not in STRATEGIES:
            raise InputError(
                f"{strategy!r} is no strategy", f"node {around.name}", f"it is one of {', '.join(STRATEGIES)}"
            )
        frozen = _reason(raw.get("frozen"), "the node is frozen")
        if not frozen and strategy != "mixed":
            frozen = f"its node's strategy is {strategy}, not mixed"
        gpus = self._gpus(raw.get("gpus") or [], around.name, strategy == "mixed", frozen)
        return Node(*around, gpus, _reason(raw.get("keep_mode"), "its node keeps its MIG modes"))

    def _gpus(self, raw: Any, node: str, mixed: bool, frozen: str) -> List[Gpu]:
        if not isinstance(raw, (list, tuple)):
            raise InputError("gpus is not a list", f"node {node}")
        found: List[Gpu] = []
        indexes = set()
        for position, gpu in enumerate(raw):
            path = f"node {node}: gpus[{position}]"
            try:
                index = mapping(gpu, path).get("index")
                if not isinstance(index, int) or isinstance(index, bool):
                    raise InputError("index is missing", path)
                path = f"{node}/GPU{index}"
                if index in indexes:
                    raise InputError("its index stands twice", path)
                kind = self._kind(gpu, path, mixed, frozen)
            except MigError as error:
                self.problems.append(f"{error}; the GPU is left as it is")
                continue
            indexes.add(index)
            found.append(Gpu(node, index, str(gpu.get("uuid") or ""), kind, gpu))
        return found

    def _kind(self, gpu: Mapping[str, Any], path: str, mixed: bool, frozen: str) -> int:
        try:
            profiles = gpu.get("profiles")
            mode = gpu.get("mig_mode") or {}
            key = (
                gpu.get("catalog") if profiles is None else repr(profiles),
                gpu.get("product"),
                gpu.get("mig_capable"),
                mode.get("current"),
                mode.get("pending"),
                gpu.get("frozen"),
                bool(gpu.get("pods")),
                bool(gpu.get("processes")),
                mixed,
                frozen,
                tuple(
                    [
                        (
                            i["profile"],
                            i["placement"]["start"],
                            i["placement"]["size"],
                            bool(i.get("pods")),
                            bool(i.get("processes")),
                            _inside(i),
                        )
                        for i in gpu.get("instances") or ()
                    ]
                ),
            )
            number = self._kinds.get(key)
        except (KeyError, TypeError, AttributeError) as error:
            raise InputError(_complaint(error, gpu), path) from error
        if number is None:
            kind = self._parse(gpu, path, mixed, frozen)
            number = self._kinds.setdefault(kind, len(self.kinds))
            if number == len(self.kinds):
                self.kinds.append(kind)
            self._kinds[key] = number
        return number

    def _parse(self, gpu: Mapping[str, Any], path: str, mixed: bool, frozen: str) -> Kind:
        frozen = _reason(gpu.get("frozen"), "it is frozen") or frozen
        product = gpu.get("product")
        if not isinstance(product, str) or not product:
            raise InputError("product is missing", path)
        mode = gpu.get("mig_mode") or {}
        current, pending = mode.get("current"), mode.get("pending")
        if gpu.get("mig_capable") is False or (current is None and not gpu.get("mig_capable")):
            return Kind(Catalog(product), False, False, bool(gpu.get("pods")), frozen, mixed)
        if current not in ("enabled", "disabled") or pending not in ("enabled", "disabled", None):
            raise InputError("mig_mode does not tell the current mode", path, "enabled or disabled")
        catalog = self._catalog(gpu, product, path)
        if not catalog.profiles and current == "enabled":
            raise InputError(f"{short_product(product)} does not tell which profiles it offers", path)
        if pending not in (current, None):
            frozen = frozen or PENDING
        if gpu.get("processes") and current == "disabled" and not gpu.get("pods"):
            frozen = frozen or PROCESSES
        if not catalog.profiles:
            self.problems.append(
                f"{path}: {short_product(product)} does not tell which profiles it offers; it stays whole"
            )
        instances = [_instance(raw, catalog, path) for raw in gpu.get("instances") or ()]
        taken = 0
        for instance in instances:
            if instance.placed.placement.mask & taken:
                raise InputError(f"{instance.placed} overlaps another instance", path)
            taken |= instance.placed.placement.mask
        return Kind(
            catalog,
            bool(catalog.profiles),
            current == "enabled",
            bool(gpu.get("pods")) and current == "disabled",
            frozen,
            mixed,
            tuple(sorted(instances, key=lambda i: i.placed.placement)) if current == "enabled" else (),
        )

    def _catalog(self, gpu: Mapping[str, Any], product: str, path: str) -> Catalog:
        profiles, name = gpu.get("profiles"), gpu.get("catalog")
        if profiles is None and name is not None:
            if name not in self._named:
                raise InputError(f"there is no catalog {name!r}", path)
            profiles = self._named[name]
        key = f"{product} {profiles!r}"
        if key not in self._catalogs:
            try:
                self._catalogs[key] = Catalog(product, tuple(_offered(raw) for raw in profiles or ()))
            except (KeyError, TypeError, AttributeError, ValueError) as error:
                raise InputError(f"the profiles that it offers are incomplete: {error!r}", path) from error
        return self._catalogs[key]


def pods_in(instance: Mapping[str, Any]) -> List[str]:
    """``ns/name`` of each pod that holds something, as mig_info tells them; processes, if no pod does."""
    found = [
        f"{pod.get('namespace')}/{pod.get('name')}" if isinstance(pod, Mapping) else str(pod)
        for pod in instance.get("pods") or ()
    ]
    if not found:
        found = [
            f"{PROCESS}{p.get('pid')} ({p.get('name')})" if isinstance(p, Mapping) else f"{PROCESS}{p}"
            for p in instance.get("processes") or ()
        ]
    return list(dict.fromkeys(found))


def _offered(raw: Mapping[str, Any]) -> OfferedProfile:
    return OfferedProfile(
        parse_profile(raw["name"]),
        int(raw.get("id", -1)),
        int(raw["max_instances"]),
        int(raw.get("memory_mib") or 0),
        int(raw.get("multiprocessors") or 0),
        tuple(Placement(int(p["start"]), int(p["size"])) for p in raw["placements"]),
    )


def _instance(raw: Mapping[str, Any], catalog: Catalog, path: str) -> Instance:
    profile = parse_profile(raw["profile"], path)
    offered = catalog.find(profile, path)
    placement = Placement(int(raw["placement"]["start"]), int(raw["placement"]["size"]))
    if placement not in offered.placements:
        raise InputError(f"{short_product(catalog.product)} has no {profile} at {placement}", path)
    inside = _inside(raw)
    devices = (profile,) if inside is None else tuple(parse_profile(name, path) for name in inside)
    pods = bool(raw.get("pods"))
    return Instance(
        Placed(profile, placement),
        devices,
        mig_resource(profile) if devices == (profile,) and not pods else None,
        pods or bool(raw.get("processes")),
    )


def _inside(raw: Mapping[str, Any]) -> Optional[Tuple[str, ...]]:
    """Profiles of its MIG devices; None where it is one that fills it, or where nothing is told."""
    computes = raw.get("compute_instances")
    if computes is None or (len(computes) == 1 and computes[0]["profile"] == raw["profile"]):
        return None
    return tuple([compute["profile"] for compute in computes])


def _reason(value: Any, otherwise: str) -> str:
    if not value:
        return ""
    return value if isinstance(value, str) else otherwise


def _complaint(error: Exception, gpu: Mapping[str, Any]) -> str:
    if isinstance(error, KeyError):
        return f"an instance has no {error.args[0]}"
    for key, kind in (("mig_mode", Mapping), ("instances", (list, tuple))):
        if gpu.get(key) is not None and not isinstance(gpu[key], kind):
            return f"{key} is {gpu[key]!r}"
    return f"an instance is not as it should be: {error}"
