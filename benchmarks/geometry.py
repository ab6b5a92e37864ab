"""What finding placements costs: our exact search beside trying orders as mig-parted does.

Usage: benchmarks/geometry.py [GPU ...]      (default: every MIG GPU of the simulator)

For each GPU, over all multisets of its profiles that its compute slices allow, those that fit and those that
do not: microseconds on this machine, and what would be done to the GPU. The other way is a model of
mig-parted's: the biggest profile first, the driver picks each placement, on refusal clear the GPU and try the
next distinct order. Its time is without the driver's own, which on a real GPU is most of it; so compare the
calls too. Ours makes none: it searches before anything is touched, and from a fresh catalog each time, as a
module does.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "collections"))

from ansible_collections.nvidia.mig.plugins.module_utils.errors import InfeasibleError
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.catalog import Catalog
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.entries import GpuLayout
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.placement import limit_reason, place
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.profile import (
    Profile,
    canonical,
    describe_profiles,
)
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.transition import plan_host
from ansible_collections.nvidia.mig.tests.unit.plugins.module_utils.geometry.support import (
    A100,
    MIG_GPUS,
    catalog,
    instance,
    multisets,
    profiles,
    state,
)

ROUNDS = 3


class Driver:
    """Creates instances where it likes: where the fewest placements of any shape are lost, then lowest."""

    def __init__(self, offer: Catalog) -> None:
        self.masks = {o.profile: [p.mask for p in o.placements] for o in offer.profiles}
        self.shapes = [mask for masks in dict.fromkeys(map(tuple, self.masks.values())) for mask in masks]
        self.offer = offer
        self.calls = 0
        self.clear()

    def clear(self) -> None:
        self.taken = 0
        self.there: list[Profile] = []

    def create(self, profile: Profile) -> bool:
        self.calls += 1
        free = [mask for mask in self.masks[profile] if not mask & self.taken]
        if not free or limit_reason(self.offer, [*self.there, profile]):
            return False
        left = [mask for mask in self.shapes if not mask & self.taken]
        self.taken |= min(free, key=lambda own: sum(1 for mask in left if mask & own))
        self.there.append(profile)
        return True


def try_orders(driver: Driver, wanted: tuple[Profile, ...]) -> bool:
    """Every distinct order until one works, clearing the GPU in between."""
    order = list(canonical(wanted))

    def attempt() -> bool:
        driver.calls += len(driver.there)
        driver.clear()
        return all(driver.create(profile) for profile in order)

    def permute(first: int) -> bool:
        if first == len(order):
            return attempt()
        for other in range(first, len(order)):
            if order[other] in order[first:other]:
                continue
            order[first], order[other] = order[other], order[first]
            if permute(first + 1):
                return True
            order[first], order[other] = order[other], order[first]
        return False

    return permute(0)


def search(offer: Catalog, wanted: tuple[Profile, ...]) -> bool:
    try:
        place(offer, wanted)
    except InfeasibleError:
        return False
    return True


def search_fresh(offers: list[Catalog], wanted: tuple[Profile, ...]) -> bool:
    return search(offers.pop(), wanted)


def try_orders_fresh(offer: Catalog, wanted: tuple[Profile, ...]) -> bool:
    return try_orders(Driver(offer), wanted)


def fastest(run: Callable[[], object]) -> float:
    """Microseconds."""
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times) * 1e6


def measure(gpu: str) -> list[str]:
    """One row of the table, in the order of its heads."""
    offer = catalog(gpu)
    ours: list[float] = []
    orders: list[float] = []
    calls: list[int] = []
    worst: dict[float, tuple[Profile, ...]] = {}
    fitting = 0
    for wanted in multisets(offer):
        fits = search(offer, wanted)
        fitting += fits
        fresh = [replace(offer) for _ in range(ROUNDS)]  # without what a catalog remembers
        ours.append(fastest(partial(search_fresh, fresh, wanted)))
        worst[ours[-1]] = wanted
        driver = Driver(offer)
        if try_orders(driver, wanted) != fits:
            sys.exit(f"{gpu}: the two ways disagree on {describe_profiles(wanted)}")
        calls.append(driver.calls)
        orders.append(fastest(partial(try_orders_fresh, offer, wanted)))
    return [
        gpu,
        f"{len(ours)}",
        f"{fitting}",
        f"{statistics.mean(ours):.0f}",
        f"{max(ours):.0f}",
        f"{statistics.mean(orders):.0f}",
        f"{max(orders):.0f}",
        f"{sum(orders) / sum(ours):.1f}",
        f"{max(calls)}",
        describe_profiles(worst[max(ours)]),
    ]


def plans() -> Iterator[tuple[str, float]]:
    """Milliseconds for the plan of a host with eight A100, from eight times seven instances."""
    small = [instance(f"1g.5gb@{n}:1") for n in range(7)]
    gpus = [state(A100, *small, index=index) for index in range(8)]
    for name, text in (("nothing to do", "1g.5gb*7"), ("another layout", "3g.20gb 2g.10gb 1g.5gb*2")):
        wanted = dict.fromkeys(range(8), GpuLayout(True, canonical(profiles(text))))
        yield name, fastest(partial(plan_host, gpus, wanted)) / 1000


def main() -> None:
    """Print the table."""
    heads = [
        "GPU",
        "sets",
        "fit",
        "ours µs",
        "worst",
        "orders µs",
        "worst",
        "ratio",
        "calls",
        "our worst case",
    ]
    rows = [heads, *(measure(gpu) for gpu in sys.argv[1:] or MIG_GPUS)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(heads))]
    for row in rows:
        cells = [cell.rjust(width) for cell, width in zip(row[1:-1], widths[1:-1])]
        print("  ".join([row[0].ljust(widths[0]), *cells, row[-1]]))
    print(
        "\nratio: orders / ours, over all sets. calls: the most creations and removals on the GPU for a set."
    )
    for name, milliseconds in plans():
        print(f"plan of a host with 8 GPUs, {name}: {milliseconds:.1f} ms")


if __name__ == "__main__":
    main()
