"""A simulated day of demand: pods that come and go, with the clock and a mix that shifts.

Interactive kinds, which ask for little, peak in the afternoon; big ones, which run long, at night; each kind
has an hour of its own besides. Everything follows from the seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from math import cos, exp, pi
from random import Random
from typing import Any

from miglab.demand import Mix, catalogs, kind, product

HOUR = 3600
WHOLE = 7  # GPU slices of a whole GPU
_PRIORITIES = ((1000, 100, 0), (1, 4, 10))
_GANGS = (2, 3, 4, 8)


@dataclass(frozen=True)
class Job:
    """Pods that come together: one, or a gang that runs all or none.

    Args:
        at: when they come, in seconds from the start.
        seconds: how long they run once they have their devices.
        wish: what each of them asks for, in the form of the module mig_partition_plan.
        slices: GPU slices that each of them takes: 2 for a 2g, 7 for a whole GPU.
    """

    at: float
    seconds: float
    pods: int
    priority: int
    wish: dict[str, Any] = field(compare=False)
    slices: int = 1


@dataclass(frozen=True)
class _Kind:
    wish: dict[str, Any]
    slices: int
    weight: float
    peak: float  # hour at which most of them come
    seconds: float  # mean


def jobs(seed: int, hours: float, capacity: int, load: float = 0.9, mix: Mix | None = None) -> list[Job]:
    """The jobs that come in so many hours from midnight on.

    Args:
        capacity: GPU slices of the fleet.
        load: slices that would be held on average if every pod had its devices at once, as a part of them.
    """
    mix = mix or Mix()
    random = Random(f"day {seed}")
    kinds = _kinds(random, mix)
    found: list[Job] = []
    # As many run already at the start as on average: what came in the hours before.
    now = -12.0 * HOUR
    while True:
        weights = [own.weight * _swing(now, own.peak, 0.8) for own in kinds]
        work = sum(w * own.slices * own.seconds for w, own in zip(weights, kinds)) / sum(weights)
        rate = load * capacity * _swing(now, 14, 0.35) / work / (1 + mix.ganged / 4 * (sum(_GANGS) / 4 - 1))
        now = _step(random, kinds, weights, rate, now, hours * HOUR, mix, found)
        if now >= hours * HOUR:
            return found


def _step(
    random: Random,
    kinds: Sequence[_Kind],
    weights: Sequence[float],
    rate: float,
    now: float,
    end: float,
    mix: Mix,
    found: list[Job],
) -> float:
    """Ten minutes of arrivals, at one rate and mix."""
    sums = list(accumulate(weights))
    until = min(now + 600, end)
    while True:
        now += random.expovariate(rate)
        if now >= until:
            return until
        own = random.choices(kinds, cum_weights=sums)[0]
        pods = random.choice(_GANGS) if random.random() < mix.ganged / 4 else 1
        priority = random.choices(*_PRIORITIES)[0]
        # Most are short, few run long; the mean is the kind's.
        seconds = own.seconds * exp(random.gauss(0, 1) - 0.5)
        # What came before the start and is over by then never was.
        if now >= 0 or now + seconds > 0:
            left = seconds if now >= 0 else now + seconds
            found.append(Job(max(0.0, now), left, pods, priority, own.wish, own.slices))


def _kinds(random: Random, mix: Mix) -> list[_Kind]:
    offers = catalogs(mix.models)
    names = {model: product(model).replace(" ", "-") for model in mix.models}
    found = []
    for place in range(mix.kinds):
        wish = kind(random, offers, names, mix)
        slices = sum(_slices(name) * count for name, count in wish["requests"].items() if _is_device(name))
        big = slices > 2
        found.append(
            _Kind(
                wish,
                slices,
                1 / (1 + place) ** 0.7 / max(1, slices / WHOLE),
                random.gauss(2 if big else 14, 4),
                HOUR * (1.0 if slices <= 2 else 2.5 if slices < WHOLE else 4.0),
            )
        )
    return found


def _swing(now: float, peak: float, height: float) -> float:
    """A factor that goes with the clock: 1 on average, the most at the hour ``peak``."""
    return 1 + height * cos(2 * pi * (now / HOUR - peak) / 24)


def _is_device(resource: str) -> bool:
    return resource.startswith("nvidia.com/")


def _slices(resource: str) -> int:
    _prefix, mig, profile = resource.partition("/mig-")
    return int(profile[0]) if mig else WHOLE
