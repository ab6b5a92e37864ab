"""Simulated clusters for the planner: seeded fleets in mixed states, and pods that wait for MIG devices.

The forms are those of the module mig_partition_plan. Everything follows from the seed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from miglab import paths

MODELS = ("A100-SXM4-40GB", "A100-SXM4-80GB", "H100-SXM5-80GB", "H200-141GB")
GIB = 1 << 30


@dataclass(frozen=True)
class Mix:
    """What a fleet and its demand are made of.

    Args:
        whole_held: part of the GPUs that are whole and held by a pod.
        whole_free: part that are whole and free; the others are in MIG mode.
        busy: part of the instances that a pod holds.
        selective: part of the pods' kinds with a node selector.
        several: part of the kinds that ask for several MIG devices of one node.
        ganged: part of the pods that belong to a gang.
        kinds: how many kinds of pods there are.
        layouts: how many layouts of each model are in use.
    """

    models: Sequence[str] = MODELS
    whole_held: float = 0.25
    whole_free: float = 0.1
    busy: float = 0.6
    selective: float = 0.3
    several: float = 0.04
    ganged: float = 0.05
    kinds: int = 120
    layouts: int = 6


def catalogs(models: Sequence[str] = MODELS) -> dict[str, list[dict[str, Any]]]:
    """What each model offers, as mig_info tells it."""
    gpus = json.loads((paths.SIMULATOR / "gpus.json").read_text(encoding="utf-8"))["gpus"]
    return {
        model: [
            {
                "name": profile["name"],
                "id": profile["id"],
                "max_instances": profile["max"],
                "memory_mib": profile["memory_mib"],
                "multiprocessors": profile["sm"],
                "placements": [{"start": start, "size": size} for start, size in profile["placements"]],
            }
            for profile in gpus[model]["mig"]["profiles"]
        ]
        for model in models
    }


def product(model: str) -> str:
    """NVML's name of the model."""
    gpus = json.loads((paths.SIMULATOR / "gpus.json").read_text(encoding="utf-8"))["gpus"]
    return str(gpus[model]["name"])


def fleet(seed: int, nodes: int, gpus: int = 8, mix: Mix | None = None) -> list[dict[str, Any]]:
    """Nodes as they are in the middle of a day."""
    mix = mix or Mix()
    random = Random(f"fleet {seed}")
    offers = catalogs(mix.models)
    names = {model: product(model) for model in mix.models}
    layouts = {model: [layout(random, offers[model]) for _ in range(mix.layouts)] for model in mix.models}
    return [
        _node(random, f"node{number:04}", model, names[model], layouts[model], gpus, mix)
        for number, model in enumerate(random.choices(mix.models, k=nodes))
    ]


def demand(seed: int, pods: int, mix: Mix | None = None) -> list[dict[str, Any]]:
    """Pending pods: of many kinds, some popular, some rare, some in gangs."""
    mix = mix or Mix()
    random = Random(f"demand {seed}")
    offers = catalogs(mix.models)
    names = {model: product(model).replace(" ", "-") for model in mix.models}
    kinds = [kind(random, offers, names, mix) for _ in range(mix.kinds)]
    weights = [1 / (1 + place) ** 0.7 for place in range(mix.kinds)]
    found: list[dict[str, Any]] = []
    gangs = 0
    while len(found) < pods:
        wish = random.choices(kinds, weights)[0]
        size = 1
        gang = None
        if random.random() < mix.ganged / 4:
            gangs += 1
            gang, size = f"job-{gangs}", random.choice((2, 3, 4, 8))
        priority = random.choices((1000, 100, 0), (1, 4, 10))[0]
        for _ in range(min(size, pods - len(found))):
            pod = {"namespace": f"team-{len(found) % 7}" if gang is None else "jobs", **wish}
            found.append({**pod, "name": f"pod-{len(found)}", "priority": priority, "gang": gang})
    return found


def layout(random: Random, offers: Sequence[Mapping[str, Any]]) -> list[tuple[str, dict[str, int]]]:
    """Profiles with their placements, at random; each sits where it may."""
    found: list[tuple[str, dict[str, int]]] = []
    taken = media = 0
    for _ in range(12):
        profile = random.choices(offers, [0.1 if "+" in profile["name"] else 1 for profile in offers])[0]
        shared = any(mark in profile["name"] for mark in ("+", "-"))
        spots = [p for p in profile["placements"] if not taken >> p["start"] & ((1 << p["size"]) - 1)]
        if not spots or (shared and media):
            continue
        media += shared
        spot = random.choice(spots)
        taken |= ((1 << spot["size"]) - 1) << spot["start"]
        found.append((profile["name"], spot))
    return sorted(found, key=lambda placed: placed[1]["start"])


def _instance(random: Random, profile: str, spot: Mapping[str, int], busy: float) -> dict[str, Any]:
    pods = [{"namespace": "run", "name": f"r-{random.randrange(1 << 32):08x}"}]
    return {
        "profile": profile,
        "placement": dict(spot),
        "pods": pods if random.random() < busy else [],
        "processes": [],
    }


def _node(
    random: Random,
    name: str,
    model: str,
    product_name: str,
    layouts: Sequence[Sequence[tuple[str, dict[str, int]]]],
    gpus: int,
    mix: Mix,
) -> dict[str, Any]:
    found = []
    used = 0
    for index in range(gpus):
        state = random.random()
        whole = state < mix.whole_held + mix.whole_free
        held = state < mix.whole_held
        # Some instances are gone: the layout is what was planned once.
        there = [
            _instance(random, profile, spot, mix.busy)
            for profile, spot in ([] if whole else random.choice(layouts))
            if random.random() < 0.9
        ]
        used += 7 * held + sum(i["placement"]["size"] for i in there if i["pods"])
        mode = "disabled" if whole else "enabled"
        found.append(
            {
                "index": index,
                "uuid": f"GPU-{name}-{index}",
                "product": product_name,
                "catalog": model,
                "mig_capable": True,
                "mig_mode": {"current": mode, "pending": mode},
                "instances": there,
                "pods": [{"namespace": "run", "name": f"w-{random.randrange(1 << 32):08x}"}] if held else [],
                "processes": [],
            }
        )
    cpus = random.choice((128, 192, 256)) * gpus / 8
    busy = used * random.choice((1, 1, 2))
    return {
        "name": name,
        "labels": {
            "nvidia.com/gpu.product": product_name.replace(" ", "-"),
            "pool": random.choice(("batch", "serve")),
        },
        "taints": [{"key": "team", "value": "x", "effect": "NoSchedule"}] if random.random() < 0.05 else [],
        "unschedulable": random.random() < 0.02,
        "free": {
            "cpu": f"{max(0, int(cpus - busy)) * 1000}m",
            "memory": int(max(0.0, cpus * 8 - busy * 8) * GIB),
            "pods": max(0, 110 - 12 - used // 2),
        },
        "strategy": "mixed",
        "gpus": found,
    }


def kind(
    random: Random, offers: Mapping[str, Sequence[Mapping[str, Any]]], names: Mapping[str, str], mix: Mix
) -> dict[str, Any]:
    """What all pods of one kind have in common."""
    model = random.choice(mix.models)
    plain = [profile for profile in offers[model] if not any(mark in profile["name"] for mark in "+-")]
    several = random.random() < mix.several
    if random.random() < 0.12:
        count = random.choice((1, 1, 2, 4, 8))
        devices, slices = {"nvidia.com/gpu": count}, 7 * count
    else:
        # Small ones are asked for more often.
        profile = random.choices(plain, [1 / profile["placements"][0]["size"] for profile in plain])[0]
        count = random.choice((2, 3, 4)) if several else 1
        devices, slices = (
            {f"nvidia.com/mig-{profile['name']}": count},
            profile["placements"][0]["size"] * count,
        )
    found: dict[str, Any] = {
        "requests": {
            **devices,
            "cpu": f"{random.choice((250, 500, 1000, 2000)) * slices}m",
            "memory": f"{random.choice((2, 4, 8)) * slices}Gi",
        }
    }
    selective = random.random()
    if selective < mix.selective / 2:
        found["node_selector"] = {"nvidia.com/gpu.product": names[model]}
    elif selective < mix.selective:
        found["node_affinity"] = {
            "nodeSelectorTerms": [
                {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["batch"]}]}
            ]
        }
    if random.random() < 0.1:
        found["tolerations"] = [{"key": "team", "operator": "Exists"}]
    return found
