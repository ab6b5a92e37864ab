# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""On tiny fleets, no plan is better: every choice of pods, nodes and layouts is tried."""

from __future__ import annotations

from itertools import combinations, product
from random import Random
from typing import Any

import pytest
from ansible_collections.nvidia.mig.plugins.module_utils.errors import MigError
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.placement import Placed, place
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.profile import parse_profile
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.quantities import thousandths
from ansible_collections.nvidia.mig.tests.unit.plugins.module_utils.demand.support import (
    GPU,
    gpu,
    node,
    planned,
    pod,
    state_of,
)
from ansible_collections.nvidia.mig.tests.unit.plugins.module_utils.geometry.support import A30, A100, catalog

pytest.importorskip("highspy")

Cost = tuple[int, int, int]  # free instances destroyed, GPUs changed, modes changed


def ways(raw: dict[str, Any], names: list[str]) -> dict[tuple[int, ...], Cost]:
    """What the GPU could offer of these profiles (the last is the whole GPU), and the least that it costs."""
    state = state_of(raw, {})
    offer = state.catalog
    pinned = [Placed(i.profile, i.placement) for i in state.instances if i.compute_instances[0].holders]
    free = [Placed(i.profile, i.placement) for i in state.instances if not i.compute_instances[0].holders]
    found: dict[tuple[int, ...], Cost] = {}

    def add(offers: tuple[int, ...], cost: Cost) -> None:
        found[offers] = min(cost, found.get(offers, cost))

    def counts(kept: tuple[Placed, ...], new: tuple[str, ...], whole: int) -> tuple[int, ...]:
        there = [str(own.profile) for own in kept]
        return (*(there.count(name) + new.count(name) for name in names), whole)

    if not state.mig_current:
        add(counts((), (), 0 if raw["pods"] else 1), (0, 0, 0))
        if raw["pods"]:
            return found
    else:
        add(counts(tuple(free), (), 0), (0, 0, 0))
        if not pinned:
            add(counts((), (), 1), (len(free), 1, 1))
    mode = int(not state.mig_current)
    fits = [name for name in names if any(str(own.profile) == name for own in offer.profiles)]
    for number in range(len(free) + 1):
        for kept in combinations(free, number):
            for size in range(1, 8):
                for new in combinations_with(fits, size):
                    try:
                        place(offer, [parse_profile(name) for name in new], [*pinned, *kept])
                    except MigError:
                        continue
                    add(counts(kept, new, 0), (len(free) - number, 1, mode))
    return found


def combinations_with(names: list[str], size: int) -> list[tuple[str, ...]]:
    if not size:
        return [()]
    return [
        (name, *rest) for at, name in enumerate(names) for rest in combinations_with(names[at:], size - 1)
    ]


def best(nodes: list[dict[str, Any]], asked: list[dict[str, Any]], names: list[str]) -> tuple[Any, ...]:
    """Pods per priority, the highest first, then the least cost, over everything."""
    resources = [*(f"nvidia.com/mig-{name}" for name in names), GPU]
    totals = []
    for own in nodes:
        sums: dict[tuple[int, ...], Cost] = {(0,) * len(resources): (0, 0, 0)}
        for raw in own["gpus"]:
            following: dict[tuple[int, ...], Cost] = {}
            for (left, cost), (right, more) in product(sums.items(), ways(raw, names).items()):
                key = tuple(a + b for a, b in zip(left, right))
                total = tuple(a + b for a, b in zip(cost, more))
                following[key] = min(total, following.get(key, total))  # type: ignore[assignment, type-var]
            sums = following
        totals.append(sums)
    levels = sorted({own["priority"] for own in asked}, reverse=True)
    known: dict[tuple[int, tuple[int, ...]], Cost | None] = {}

    def cheapest(number: int, need: tuple[int, ...]) -> Cost | None:
        if (number, need) not in known:
            fitting = [c for offers, c in totals[number].items() if all(a >= b for a, b in zip(offers, need))]
            known[number, need] = min(fitting, default=None)
        return known[number, need]

    found: tuple[Any, ...] = ()
    for where in product(range(-1, len(nodes)), repeat=len(asked)):
        gangs: dict[str, set[bool]] = {}
        for own, at in zip(asked, where):
            if own.get("gang"):
                gangs.setdefault(own["gang"], set()).add(at >= 0)
        if any(len(both) > 1 for both in gangs.values()):
            continue
        value = tuple(
            sum(at >= 0 and own["priority"] == level for own, at in zip(asked, where)) for level in levels
        )
        if found and value < found[0]:
            continue
        cost = (0, 0, 0)
        for number, raw in enumerate(nodes):
            here = [own for own, at in zip(asked, where) if at == number]
            need = tuple(sum(own["requests"].get(name, 0) for own in here) for name in resources)
            cpu = sum(thousandths(own["requests"].get("cpu", 0), "", True) for own in here)
            least = cheapest(number, need)
            if least is None or cpu > thousandths(raw["free"]["cpu"], "", False):
                break
            cost = tuple(a + b for a, b in zip(cost, least))  # type: ignore[assignment]
        else:
            rank = (value, tuple(-part for part in cost))
            if not found or rank > found:
                found = rank
    return found


def case(seed: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]], list[str]]:
    random = Random(seed)
    model, names = random.choice(
        ((A30, ["1g.6gb", "2g.12gb", "4g.24gb"]), (A100, ["1g.5gb", "2g.10gb", "3g.20gb"]))
    )
    offers = [own for own in catalog(model).profiles if str(own.profile) in names]
    nodes = []
    for number in range(random.randint(1, 2)):
        gpus = []
        for index in range(random.randint(1, 2)):
            if random.random() < 0.2:
                holder = [{"namespace": "run", "name": "w"}] if random.random() < 0.5 else []
                gpus.append(gpu(index, model=model, mig=False, pods=holder))
                continue
            taken, texts = 0, []
            for _try in range(random.randint(0, 4)):
                own = random.choice(offers)
                spot = random.choice(own.placements)
                if not spot.mask & taken:
                    taken |= spot.mask
                    texts.append(f"{own.profile}@{spot}" + (" run/x" if random.random() < 0.5 else ""))
            gpus.append(gpu(index, *texts, model=model))
        nodes.append(
            node(f"n{number}", *gpus, free={"cpu": random.choice((3, 8)), "memory": "1Ti", "pods": 9})
        )
    asked = []
    for number in range(random.randint(1, 6)):
        asks = random.choice([*names, names[0], "gpu"]) + random.choice(("", "", "", "*2"))
        asked.append(
            pod(
                f"p{number}",
                asks,
                random.choice((0, 10)),
                requests={"cpu": random.choice((1, 1, 2)), "memory": "1Gi"},
                gang=random.choice((None, None, None, "g")),
            )
        )
    return nodes, asked, names


@pytest.mark.parametrize("batch", range(12))
def test_nothing_is_better(batch: int) -> None:
    for seed in range(batch * 10, batch * 10 + 10):
        nodes, asked, names = case(seed)
        value, cost = best(nodes, asked, names)
        result = planned(nodes, asked)
        objective = result["objective"]
        assert tuple(own["placed"] for own in objective["pods"]) == value, seed
        assert result["proven"], seed
        reached = tuple(-objective[part]["value"] for part in ("destroyed", "changed", "mode_changes"))
        assert reached == cost, seed
        for part in ("destroyed", "changed", "mode_changes"):
            assert objective[part]["bound"] == objective[part]["value"], seed
