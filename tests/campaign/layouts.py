"""Every layout that a GPU model can have, and pairs of them."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from functools import cache
from typing import Any

from ansible_collections.nvidia.mig.plugins.module_utils.errors import InfeasibleError
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.placement import place
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.profile import Profile, describe_profiles
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.survivors import choose_survivors
from ansible_collections.nvidia.mig.tests.unit.plugins.module_utils.geometry.support import (
    GPUS,
    MIG_GPUS,
    catalog,
    multisets,
)

__all__ = ["GPUS", "MIG_GPUS", "Layout", "Place", "arranged", "layouts", "pair", "pairs"]

VARIANTS = 40  # layouts with compute instances that share a GPU instance, of each model


@dataclass(frozen=True)
class Layout:
    """What is wanted on one GPU; ``devices`` None: MIG mode off."""

    devices: tuple[Profile, ...] | None

    def __str__(self) -> str:
        if self.devices is None:
            return "off"
        return describe_profiles(self.devices) or "empty"

    @property
    def counts(self) -> Counter[str]:
        """How many MIG devices of each name."""
        return Counter(map(str, self.devices or ()))

    def entry(self, gpu: int) -> dict[str, Any]:
        """The entry of mig_layout's option."""
        if self.devices is None:
            return {"gpus": gpu, "mig": False}
        return {"gpus": gpu, "profiles": dict(self.counts)}


@dataclass(frozen=True)
class Place:
    """A GPU instance of a start state, with the slices of its compute instances."""

    profile: Profile
    start: int
    computes: tuple[int, ...]


@cache
def layouts(model: str) -> tuple[Layout, ...]:
    """MIG mode off, no instances, every multiset of whole MIG devices that fits, and some `VARIANTS`."""
    whole = [Layout(devices) for devices in multisets(catalog(model)) if _fits(model, devices)]
    rng = random.Random(f"variants/{model}")
    variants: dict[Layout, None] = {}
    splittable = [layout for layout in whole if any(p.compute_slices > 1 for p in layout.devices or ())]
    for _ in range(20 * VARIANTS):
        layout = Layout(_split(model, rng.choice(splittable).devices or (), rng))
        if layout not in whole and _fits(model, layout.devices or ()):
            variants[layout] = None
        if len(variants) == VARIANTS:
            break
    return (Layout(None), Layout(()), *whole, *variants)


def pairs(model: str, most: int, seed: int) -> list[int]:
    """Numbers of pairs of layouts: all of them, or a sample of ``most``."""
    every = range(len(layouts(model)) ** 2)
    return list(every) if len(every) <= most else random.Random(f"{seed}/{model}").sample(every, most)


def pair(model: str, number: int) -> tuple[Layout, Layout]:
    """The layouts of a pair."""
    known = layouts(model)
    before, wanted = divmod(number, len(known))
    return known[before], known[wanted]


def arranged(model: str, layout: Layout, rng: random.Random) -> list[Place]:
    """GPU instances for a layout: where the planner would put them, or anywhere, as other tools may.

    Now and then one lacks its compute instances, as after a tool that died.
    """
    offer = catalog(model)
    planned = choose_survivors(offer, (), layout.devices or ()).fresh
    places = [Place(p.profile, p.placement.start, tuple(s for s, _ in spots)) for p, spots in planned]
    if rng.random() < 0.5:
        for _ in range(10):
            taken, found = 0, []
            for one in rng.sample(places, len(places)):
                free = [p for p in offer.find(one.profile).placements if not p.mask & taken]
                if not free:
                    break
                chosen = rng.choice(free)
                taken |= chosen.mask
                found.append(Place(one.profile, chosen.start, one.computes))
            else:
                places = found
                break
    if places and rng.random() < 0.1:
        lost = rng.randrange(len(places))
        places[lost] = Place(places[lost].profile, places[lost].start, ())
    return places


def _fits(model: str, devices: tuple[Profile, ...]) -> bool:
    try:
        place(catalog(model), devices)
    except InfeasibleError:
        return False
    return True


def _split(model: str, devices: tuple[Profile, ...], rng: random.Random) -> tuple[Profile, ...]:
    """Some of the devices become several that share their GPU instance, which may stay partly empty."""
    found: list[Profile] = []
    for device in devices:
        sizes = catalog(model).find(device).compute_sizes
        left = device.compute_slices
        if left == 1 or rng.random() < 0.4:
            found.append(device)
            continue
        while left and (left == device.compute_slices or rng.random() < 0.85):
            size = rng.choice([size for size in sizes if size <= left])
            found.append(device.with_compute(size))
            left -= size
    return tuple(found)
