# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why a pod finds no place, in words, with the names of what is in its way. Found once per shape."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Dict, List, Optional, Sequence, Tuple

from ansible_collections.nvidia.mig.plugins.module_utils.demand.fleet import Gpu, Kind, pods_in
from ansible_collections.nvidia.mig.plugins.module_utils.demand.pods import describe_devices, device_name
from ansible_collections.nvidia.mig.plugins.module_utils.demand.problem import Problem, Site
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.catalog import (
    OfferedProfile,
    Placement,
    short_product,
)
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.state import PROCESS
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.quantities import in_words
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.resources import GPU_RESOURCE


@dataclass(frozen=True)
class Why:
    """A reason.

    Args:
        alone: the pod would not fit even if it were the only one.
    """

    text: str
    alone: bool


@dataclass(frozen=True)
class _Blocked:
    """Instances that must become free for a device on a kind of GPU; ``units``: what the device takes."""

    held: Tuple[Placement, ...]
    units: int


class Reasons:
    """Reasons by shape."""

    def __init__(self, problem: Problem, late: bool, cost: float) -> None:
        self.problem = problem
        self._late = late
        self._cost = cost
        self._found: Dict[int, Why] = {}
        self._blocked: Dict[Tuple[int, str], Optional[_Blocked]] = {}
        self._freed: Dict[object, str] = {}
        self._pools: Dict[Tuple[int, ...], List[Site]] = {}
        for site in problem.sites:
            self._pools.setdefault(site.admitted, []).append(site)
        self._firsts: Dict[Tuple[Tuple[int, ...], ...], List[Gpu]] = {}
        self._open = {admitted: frozenset(admitted) for admitted in self._pools}

    def of(self, shape: int) -> Why:
        if shape not in self._found:
            self._found[shape] = self._why(shape)
        return self._found[shape]

    def of_gang(self, members: Sequence[Tuple[int, str]]) -> Dict[str, str]:
        """Of each pod (shape, name) of a gang."""
        hard = next(((name, self.of(shape)) for shape, name in members if self.of(shape).alone), None)
        found = {}
        for shape, name in members:
            own = self.of(shape)
            if own.alone:
                found[name] = own.text
            elif hard is not None:
                found[name] = f"its gang's other pods do not fit: {hard[0]} {hard[1].text}"
            else:
                found[name] = f"its gang of {len(members)} pods does not fit as a whole; it {own.text}"
        return found

    def _why(self, number: int) -> Why:
        problem = self.problem
        shape = problem.demand.shapes[number]
        for resource, _count in shape.devices:
            if not self._exists(resource):
                return Why(f"asks for {device_name(resource)}, which no GPU here offers", True)
        pools = [admitted for admitted, shapes in self._open.items() if number in shapes]
        sites = [site for admitted in pools for site in self._pools[admitted]]
        if not sites:
            return Why(f"may run on no node: {self._closed(number)}", True)
        for at, count in enumerate(problem.devices[number]):
            if count and max([site.most[at] for site in sites]) < count:
                return Why(self._short(problem.resources[at], at, count, pools, sites), True)
        able = sites
        for at, count in problem.asked[number]:
            able = [site for site in able if site.most[at] >= count]
        asked = describe_devices(shape.devices)
        if not able:
            return Why(f"asks for {asked} on one node, which no node can offer together", True)
        for at, need in enumerate(problem.demands[number]):
            if max([site.free[at] for site in able]) < need:
                best = max(able, key=lambda site: site.free[at])
                name = problem.needs[at]
                return Why(
                    f"asks for {in_words(need)} {name}; of the nodes that could offer {asked}, none has more "
                    f"than {in_words(best.free[at])} free ({best.node.name})",
                    True,
                )
        if not any(problem.fits(number, site.free) for site in able):
            return Why(f"finds no node that could offer {asked} with enough {self._rare(number)} free", True)
        text = f"asks for {asked}; what could offer it goes to other pods"
        text += ", as they come first or more of them fit so"
        if self._cost:
            text += ", or is not worth changing"
        if self._late:
            text += "; there was no time to prove that this is the best plan"
        for resource, _count in shape.devices:
            freeing = self._freeing(resource, pools)
            if freeing:
                return Why(f"{text}. {freeing}", False)
        return Why(text, False)

    def _rare(self, number: int) -> str:
        names = [name for name, need in zip(self.problem.needs, self.problem.demands[number]) if need]
        return " and ".join(names)

    def _exists(self, resource: str) -> bool:
        return any(
            resource in kind.offers or resource == GPU_RESOURCE or self._offered(kind, resource) is not None
            for kind in self.problem.fleet.kinds
        )

    def _closed(self, number: int) -> str:
        where = self.problem.demand.shapes[number].where
        counts: Counter[str] = Counter()
        for site in self.problem.sites:
            node = site.node
            text = where.obstacle(node.name, node.labels, node.taints, node.unschedulable)
            counts[text or ""] += 1
        if not counts:
            return "there is none"
        return "; ".join(
            f"one {text}" if count == 1 else f"{count} {_plural(text)}"
            for text, count in counts.most_common(3)
        )

    def _short(
        self, resource: str, at: int, count: int, pools: Sequence[Tuple[int, ...]], sites: Sequence[Site]
    ) -> str:
        best = max(sites, key=lambda site: site.most[at])
        name = device_name(resource)
        if best.most[at]:
            return (
                f"asks for {count} x {name} on one node; the most that a node can offer is {best.most[at]} "
                f"({best.node.name})"
            )
        return self._none(resource, pools, sites) or f"asks for {name}; nothing may offer it"

    def _none(self, resource: str, pools: Sequence[Tuple[int, ...]], sites: Sequence[Site]) -> str:
        """Why no GPU of these nodes can offer even one."""
        problem = self.problem
        name = device_name(resource)
        freeing = self._freeing(resource, pools)
        if freeing:
            return f"asks for {name}: {freeing[0].lower()}{freeing[1:]}"
        for site in sites:
            for gpu in site.node.gpus:
                kind = problem.fleet.kind(gpu)
                if kind.held or (resource != GPU_RESOURCE and self._offered(kind, resource) is None):
                    continue
                limits = problem.bounds.limits[site.node.name]
                mode = f"{gpu} would have to change its MIG mode"
                if kind.frozen or limits.frozen:
                    return f"asks for {name}: {gpu} could become that, but {kind.frozen or limits.frozen}"
                if limits.profiles is not None and resource not in limits.profiles:
                    return f"asks for {name}, which no bound allows to create on the nodes that it may run on"
                if limits.keep_mode:
                    return f"asks for {name}: {mode}, which a bound forbids"
                if site.node.keep_mode:
                    return f"asks for {name}: {mode}, but {site.node.keep_mode}"
        return f"asks for {name}, which no GPU of the nodes that it may run on offers"

    def _freeing(self, resource: str, pools: Sequence[Tuple[int, ...]]) -> str:
        """The GPU on which the fewest instances must become free, and the pods in them."""
        key = (resource, *pools)
        if key not in self._freed:
            self._freed[key] = self._find_freeing(resource, pools)
        return self._freed[key]

    def _first(self, pools: Tuple[Tuple[int, ...], ...]) -> List[Gpu]:
        """The first GPU of each kind under each bound, of the nodes that admit these shapes."""
        found = self._firsts.get(pools)
        if found is None:
            firsts: Dict[object, Gpu] = {}
            for site in [site for admitted in pools for site in self._pools[admitted]]:
                bound = self.problem.bounds.limits[site.node.name].key
                for gpu in site.node.gpus:
                    firsts.setdefault((gpu.kind, bound), gpu)
            found = self._firsts[pools] = list(firsts.values())
        return found

    def _find_freeing(self, resource: str, pools: Sequence[Tuple[int, ...]]) -> str:
        problem = self.problem
        best: Optional[Tuple[int, Gpu, _Blocked]] = None
        products: List[str] = []
        for gpu in self._first(tuple(pools)):
            limits = problem.bounds.limits[gpu.node]
            allowed = limits.profiles is None or resource in limits.profiles | {GPU_RESOURCE}
            blocked = self._block(gpu.kind, resource) if allowed and not limits.frozen else None
            if blocked is None:
                continue
            product = short_product(problem.fleet.kind(gpu).catalog.product)
            if product not in products:
                products.append(product)
            if best is None or len(blocked.held) < best[0]:
                best = (len(blocked.held), gpu, blocked)
        if best is None:
            return ""
        _number, gpu, blocked = best
        pods = _holders(gpu, blocked.held)
        if not pods:
            return ""
        what = "no GPU that may become whole is free"
        if resource != GPU_RESOURCE:
            span = f"{blocked.units} contiguous free slices" if blocked.units > 1 else "a free slice"
            which = products[0] if len(products) == 1 else "GPU that it may use"
            what = f"No {which} has {span} for it"
        else:
            what = what[0].upper() + what[1:]
        verb = "needs" if len(pods) == 1 else "needs all of"
        return f"{what}; freeing {gpu} {verb} {_pods(pods)} to end"

    def _block(self, number: int, resource: str) -> Optional[_Blocked]:
        key = (number, resource)
        if key not in self._blocked:
            kind = self.problem.fleet.kinds[number]
            self._blocked[key] = _find_block(kind, resource, self._offered(kind, resource))
        return self._blocked[key]

    def _offered(self, kind: Kind, resource: str) -> Optional[OfferedProfile]:
        return self.problem.geometry.menu(kind.catalog).offered.get(resource)


def _find_block(kind: Kind, resource: str, offered: Optional[OfferedProfile]) -> Optional[_Blocked]:
    """None where nothing is in the way, or more than pods are."""
    if kind.frozen or not kind.mixed:
        return None
    if resource == GPU_RESOURCE:
        held = tuple(i.placed.placement for i in kind.pinned)
        return _Blocked(held, 0) if held else (_Blocked((), 0) if kind.held else None)
    if offered is None:
        return None
    if not kind.mig:
        return _Blocked((), offered.size) if kind.held else None
    pinned = [(i.placed.placement, i.placed.placement.mask) for i in kind.pinned]
    masks = [own.mask for own in offered.placements]
    ways = [tuple([own for own, mask in pinned if mask & other]) for other in masks]
    best = min(ways, key=lambda way: (len(way), way), default=())
    return _Blocked(best, offered.size) if best else None


def _holders(gpu: Gpu, placements: Sequence[Placement]) -> List[str]:
    if not placements:
        return pods_in(gpu.raw)
    starts = {placement.start for placement in placements}
    return [
        name
        for raw in gpu.raw.get("instances") or ()
        if raw["placement"]["start"] in starts
        for name in pods_in(raw)
    ]


def _pods(names: Sequence[str]) -> str:
    texts = [name if name.startswith(PROCESS) else f"pod {name}" for name in names]
    if len(texts) > 4:
        texts = [*texts[:3], f"{len(texts) - 3} more"]
    return " and ".join([", ".join(texts[:-1]), texts[-1]] if len(texts) > 1 else texts)


def _plural(text: str) -> str:
    for one, many in (("lacks ", "lack "), ("has ", "have "), ("is ", "are "), ("does ", "do ")):
        if text.startswith(one):
            return many + text[len(one) :]
    return text
