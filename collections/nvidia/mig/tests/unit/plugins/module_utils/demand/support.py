# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Short ways to write nodes and pods, and checks that hold for every plan."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import pytest
from ansible_collections.nvidia.mig.plugins.module_utils.demand import choose
from ansible_collections.nvidia.mig.plugins.module_utils.demand.plan import plan
from ansible_collections.nvidia.mig.plugins.module_utils.demand.settings import Settings
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.catalog import Placement
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.layout import assign, parse_layout
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.profile import parse_profile
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.state import (
    ComputeInstance,
    GpuIdentity,
    GpuInstance,
    GpuState,
)
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.transition import outcome, plan_gpu
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.quantities import thousandths
from ansible_collections.nvidia.mig.tests.unit.plugins.module_utils.geometry.support import (
    A100,
    GPUS,
    catalog,
    execute,
)

GPU = "nvidia.com/gpu"
PLENTY = {"cpu": "1000", "memory": "8Ti", "pods": 500}


def offered(model: str) -> list[dict[str, Any]]:
    """The model's profiles as mig_info tells them."""
    return [
        {
            "name": str(own.profile),
            "id": own.id,
            "max_instances": own.max_instances,
            "placements": [{"start": p.start, "size": p.size} for p in own.placements],
        }
        for own in catalog(model).profiles
    ]


def gpu(index: int, *instances: str, model: str = A100, mig: bool = True, **more: Any) -> dict[str, Any]:
    """A GPU; an instance is written ``1g.5gb@0:1``, with a pod that holds it ``1g.5gb@0:1 ml/a``."""
    found = []
    for text in instances:
        words = text.split()
        name, _at, place = words[0].partition("@")
        start, size = (int(part) for part in place.split(":"))
        holders = [dict(zip(("namespace", "name"), word.split("/"))) for word in words[1:]]
        found.append({"profile": name, "placement": {"start": start, "size": size}, "pods": holders})
    mode = "enabled" if mig else "disabled"
    return {
        "index": index,
        "uuid": f"GPU-{index}",
        "product": GPUS[model]["name"],
        "mig_capable": True,
        "mig_mode": {"current": mode, "pending": mode},
        "profiles": offered(model),
        "instances": found,
        "pods": [],
        "processes": [],
        **more,
    }


def held(name: str) -> dict[str, Any]:
    """What makes a whole GPU one that the pod holds."""
    namespace, _slash, own = name.partition("/")
    return {"mig": False, "pods": [{"namespace": namespace, "name": own}]}


def node(name: str, *gpus: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"name": name, "free": dict(PLENTY), "gpus": list(gpus), **more}


def pod(name: str, asks: str, priority: int = 0, **more: Any) -> dict[str, Any]:
    """A pod; it asks for ``3g.20gb``, ``3g.20gb*2`` or ``gpu*4``, several with blanks between."""
    requests: dict[str, Any] = dict(more.pop("requests", {}))
    for word in asks.split():
        device, _star, count = word.partition("*")
        resource = GPU if device == "gpu" else f"nvidia.com/mig-{device.replace('+', '.')}"
        requests[resource] = int(count or 1)
    return {"namespace": "ml", "name": name, "priority": priority, "requests": requests, **more}


def pods(count: int, asks: str, **more: Any) -> list[dict[str, Any]]:
    return [pod(f"{asks.split('*')[0]}-{number}", asks, **more) for number in range(count)]


def planned(nodes: list[Any], asked: list[Any], **options: Any) -> dict[str, Any]:
    """Plan, and check what must hold for every plan."""
    settings = Settings(**{key: options.pop(key) for key in list(options) if key in Settings.__annotations__})
    result = plan(nodes, asked, settings=settings, clock=time.monotonic, **options)
    check(nodes, asked, result, options.get("catalogs", {}))
    return result


def plan_in_groups(patch: pytest.MonkeyPatch, fine: bool = False) -> None:
    """Plan small fleets for groups of nodes, as big ones are; with ``fine`` for single nodes afterwards."""
    for name in ("_TINY", "_SMALL") if fine else ("_TINY", "_SMALL", "_MIDDLE"):
        patch.setattr(choose, name, 0)


def placed(result: dict[str, Any]) -> dict[str, str]:
    """Node by pod, without the namespace."""
    return {own["pod"].partition("/")[2]: own["node"] for own in result["placed"]}


def reason(result: dict[str, Any], name: str) -> str:
    return next(own["reason"] for own in result["unplaced"] if own["pod"].endswith(f"/{name}"))


def layouts(result: dict[str, Any]) -> dict[str, dict[int, Any]]:
    """By node and GPU, what it becomes: profiles, or False for MIG off."""
    return {
        own["name"]: {g["index"]: g["after"].get("profiles", g["after"].get("mig")) for g in own["gpus"]}
        for own in result["nodes"]
    }


def state_of(raw: dict[str, Any], catalogs: dict[str, Any]) -> GpuState:
    """The GPU as the geometry core sees it, with whoever holds its instances."""
    model = next(name for name, own in GPUS.items() if own["name"] == raw["product"])
    offer = catalog(model)
    on = raw["mig_mode"]["current"] == "enabled"
    instances = []
    for number, own in enumerate(raw["instances"] if on else ()):
        profile = parse_profile(own["profile"])
        holders = tuple(str(p) for p in [*own.get("pods", ()), *own.get("processes", ())])
        compute = ComputeInstance(0, profile.compute_slices, 0, 0, holders)
        instances.append(GpuInstance(number, profile, Placement(**own["placement"]), (compute,)))
    identity = GpuIdentity(
        raw["index"], raw["uuid"], f"00000000:{raw['index'] + 1:02X}:00.0", raw["product"], "0x20B010DE"
    )
    return GpuState(identity, offer, bool(offer.profiles), on, on, False, tuple(instances))


def check(
    nodes: list[Any], asked: list[Any], result: dict[str, Any], catalogs: dict[str, Any] | None = None
) -> None:
    """The geometry core would carry it out and nothing held goes; nodes have enough; gangs are whole."""
    changed = {own["name"]: own for own in result["nodes"]}
    offers: dict[str, Counter[str]] = {}
    by_name: dict[str, Any] = {}
    for own in nodes:
        if isinstance(own, dict) and "name" in own:
            by_name.setdefault(own["name"], own)
    for name, raw in by_name.items():
        if name not in {own["node"] for own in result["placed"]} | set(changed):
            continue
        states = [state_of(own, catalogs or {}) for own in raw["gpus"]]
        wanted = assign(parse_layout(changed[name]["layout"]), states) if name in changed else {}
        assert set(wanted) == {own["index"] for own in changed.get(name, {}).get("gpus", ())}
        found = offers.setdefault(name, Counter())
        for state, own in zip(states, raw["gpus"]):
            after = state
            if state.identity.index in wanted:
                steps = plan_gpu(state, wanted[state.identity.index])  # raises if something held would go
                assert steps, "a GPU that is said to change does"
                execute(state, steps)
                after = outcome(state, steps)
                report = next(g for g in changed[name]["gpus"] if g["index"] == state.identity.index)
                assert report["mode_change"] == (after.mig_current != state.mig_current)
                destroyed = [step for step in steps if type(step).__name__ == "DestroyGpuInstance"]
                assert report["destroyed"] == len(destroyed)
            if not after.mig_current:
                found[GPU] += not own["pods"]
            for instance in after.instances:
                if not any("namespace" in h for c in instance.compute_instances for h in c.holders):
                    found[f"nvidia.com/mig-{str(instance.profile).replace('+', '.')}"] += 1
    raw_pods = {
        f"{own['namespace']}/{own['name']}": own for own in asked if isinstance(own, dict) and "name" in own
    }
    needs: dict[str, Counter[str]] = {}
    for own in result["placed"]:
        need = needs.setdefault(own["node"], Counter())
        need["pods"] += 1000
        for resource, amount in raw_pods[own["pod"]]["requests"].items():
            need[resource] += thousandths(amount, "it", up=True)
    for name, need in needs.items():
        for resource, amount in need.items():
            have = offers[name][resource] * 1000 if resource.startswith("nvidia.com/") else None
            if have is None:
                have = thousandths(by_name[name]["free"].get(resource, 0), "it", up=False)
            assert amount <= have, (name, resource)
    running = {own["pod"] for own in result["placed"]}
    told = [own["pod"] for own in result["unplaced"]]
    assert not running & set(told)
    assert len(running) + len(told) == len(asked)
    gangs: dict[tuple[str, str], set[bool]] = {}
    for name, own in raw_pods.items():
        if own.get("gang") is not None:
            gangs.setdefault((own["namespace"], own["gang"]), set()).add(name in running)
    assert all(len(found) == 1 for found in gangs.values()), "a gang is torn"
