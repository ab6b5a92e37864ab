# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pending pods and nodes that share their GPUs -> another sharing per node, with reasons."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any, Callable, Collection, Dict, List, Optional, Sequence, Set, Tuple

from ansible_collections.nvidia.mig.plugins.module_utils.demand.pods import Demand, describe_devices
from ansible_collections.nvidia.mig.plugins.module_utils.demand.settings import Settings, some
from ansible_collections.nvidia.mig.plugins.module_utils.demand.share import Shares, Turn, admitted, share
from ansible_collections.nvidia.mig.plugins.module_utils.demand.shared import SharedNode, Way
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.labels import CONFIG_LABEL
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.quantities import in_words


def plan_sharing(
    nodes: Sequence[SharedNode],
    pods: Sequence[Any],
    known: Collection[str],
    settings: Settings,
    clock: Callable[[], float],
    deadline: float,
) -> Dict[str, Any]:
    """Plan. The result has the keys of `plan` that concern these nodes, and ``pods`` for its objective.

    Args:
        known: pods that are counted as asked for elsewhere.
    """
    demand = Demand(pods)
    chosen = share(nodes, demand, settings.change_cost, settings.gap, clock, deadline)
    return _Result(nodes, demand, chosen, known, settings).as_dict()


class _Result:
    """The plan with names."""

    def __init__(
        self,
        nodes: Sequence[SharedNode],
        demand: Demand,
        chosen: Shares,
        known: Collection[str],
        settings: Settings,
    ) -> None:
        self.nodes = nodes
        self.demand = demand
        self.chosen = chosen
        self.known = known
        self.settings = settings
        self._reasons: Dict[int, Tuple[str, bool]] = {}

    def as_dict(self) -> Dict[str, Any]:
        queues = {shape: iter(positions) for shape, positions in self._running().items()}
        nodes: List[Dict[str, Any]] = []
        placed: List[Tuple[int, str, bool]] = []
        for turn in self.chosen.turns:
            here = sorted(next(queues[shape]) for shape, count in turn.pods.items() for _n in range(count))
            placed += [(position, turn.node.name, turn.way.changes) for position in here]
            if turn.way.changes:
                nodes.append(self._node(turn, [self.demand.named[position] for position in here]))
        placed.sort()
        named = self.demand.named
        return {
            "nodes": sorted(nodes, key=lambda node: str(node["name"])),
            "placed": [{"pod": named[at], "node": node, "needs_change": waits} for at, node, waits in placed],
            "unplaced": self._unplaced({at for at, _node, _waits in placed}),
            "problems": list(self.demand.problems),
            "pods": self._levels([at for at, _node, _waits in placed]),
        }

    def _running(self) -> Dict[int, List[int]]:
        """Pods that run, by shape."""
        demand = self.demand
        found: Dict[int, List[int]] = defaultdict(list)
        for key, count in self.chosen.single.items():
            found[key[0]] += demand.single[key][:count]
        for form, count in self.chosen.gangs.items():
            for members in demand.forms[form][:count]:
                for position in members:
                    found[demand.shape_of[position]].append(position)
        return found

    def _node(self, turn: Turn, pods: List[str]) -> Dict[str, Any]:
        node, way = turn.node, turn.way
        return {
            "name": node.name,
            "config": way.config,
            "node_labels": {CONFIG_LABEL: way.config},
            "sharing": dict(way.sharing),
            "gpus": [{key: gpu.get(key) for key in ("index", "uuid", "product")} for gpu in node.gpus],
            "pods": pods,
            "reason": f"{way.text} for {some(pods)}; it was {node.ways[0].text}",
        }

    def _levels(self, running: Sequence[int]) -> List[Dict[str, int]]:
        demand = self.demand
        bounds = {part.name: part.bound for part in self.chosen.parts}
        new = [at for at in demand.planned() if demand.named[at] not in self.known]
        asked = Counter(demand.level_of[at] for at in new)
        reached = Counter(demand.level_of[at] for at in running)
        return [
            {
                "priority": priority,
                "asked": asked[level],
                "placed": reached[level],
                "bound": max(reached[level], bounds.get(f"level {level}", 0)),
            }
            for level, priority in enumerate(demand.levels)
        ]

    def _unplaced(self, running: Set[int]) -> List[Dict[str, str]]:
        demand = self.demand
        found: Dict[int, str] = dict(demand.refused)
        for (shape, _level), positions in demand.single.items():
            found.update((at, self._why(shape)[0]) for at in positions if at not in running)
        for gangs in demand.forms.values():
            for members in gangs:
                if members[0] not in running:
                    found.update(self._of_gang(members))
        return [{"pod": demand.named[at], "reason": found[at]} for at in sorted(found)]

    def _of_gang(self, members: Sequence[int]) -> Dict[int, str]:
        whys = {at: self._why(self.demand.shape_of[at]) for at in members}
        hard = next((at for at in members if whys[at][1]), None)
        found = {}
        for at, (text, alone) in whys.items():
            if alone:
                found[at] = text
            elif hard is not None:
                found[at] = f"its gang's other pods do not fit: {self.demand.named[hard]} {whys[hard][0]}"
            else:
                found[at] = f"its gang of {len(members)} pods does not fit as a whole; it {text}"
        return found

    def _why(self, shape: int) -> Tuple[str, bool]:
        """Why pods of the shape are left, and whether that would be so if they were alone."""
        if shape not in self._reasons:
            text = self._hard(shape)
            if text is None:
                asked = describe_devices(self.demand.shapes[shape].devices)
                text = f"asks for {asked}; what could offer it goes to other pods"
                text += ", as they come first or more of them fit so"
                if self.settings.change_cost:
                    text += ", or is not worth changing"
                self._reasons[shape] = text, False
            else:
                self._reasons[shape] = text, True
        return self._reasons[shape]

    def _hard(self, number: int) -> Optional[str]:
        """Why no node could take one such pod; None if one could."""
        demand = self.demand
        if any(number in admitted(node, way, demand) for node in self.nodes for way in node.ways):
            return None
        shape = demand.shapes[number]
        asked = describe_devices(shape.devices)
        for node in self.nodes:
            way = next((way for way in node.others if number in admitted(node, way, demand)), None)
            if way is not None:
                return f"asks for {asked}: {node.name} could offer that with {way.text}, but {node.frozen}"
        every = [(node, way) for node in self.nodes for way in (*node.ways, *node.others)]
        fits = [(node, way) for node, way in every if node.obstacle(shape.where, way) is None]
        if not fits:
            return f"may run on no node: {self._closed(number)}"
        if any(count > 1 for _name, count in shape.devices) and all(way.one_each for _node, way in fits):
            return f"asks for {asked}, but a pod gets no more than one share there"
        able = [node for node, way in fits if _offers(way, shape.devices)]
        if not able:
            return f"asks for {asked}, which no sharing of the nodes that it may run on offers"
        for name, need in shape.needs:
            best = max(able, key=lambda node: node.free.get(name, 0))
            have = best.free.get(name, 0)
            if have < need:
                return (
                    f"asks for {in_words(need)} {name}; of the nodes that could offer {asked}, none has more "
                    f"than {in_words(have)} free ({best.name})"
                )
        return f"finds no node that could offer {asked} with enough of the rest free"

    def _closed(self, number: int) -> str:
        """What keeps it from each node, as that is."""
        where = self.demand.shapes[number].where
        counts = Counter(node.obstacle(where, node.ways[0]) or "" for node in self.nodes)
        texts = [f"{count} x {text}" if count > 1 else f"one {text}" for text, count in counts.most_common(3)]
        return "; ".join(texts) or "there is none"


def _offers(way: Way, devices: Sequence[Tuple[str, int]]) -> bool:
    offers = dict(way.offers)
    return all(offers.get(name, 0) >= count for name, count in devices)
