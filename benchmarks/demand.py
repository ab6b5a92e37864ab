"""What planning for pending pods costs and gains: ours beside a greedy planner as nos describes its own.

Usage: benchmarks/demand.py [--gpus N] [--pods N] [--seed N] [--rounds N]

By default 10,000 GPUs in mixed states (8 a node, four models) and 50,000 pods, after the same demand per GPU
on fleets of an eighth, a quarter and half of that. Seconds are from plain data to the finished plan, the
fastest of some rounds. The gap is proven: of the pods of a priority and above, no planner can place that part
more.
The greedy planner never changes a MIG mode, so ours is also run with all modes kept; and all of it once more
with one priority for all pods. It ends with an error if ours ever places fewer pods than the greedy one: of
the highest priority; if these are as many, of the next; and so on.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "collections"), str(ROOT / "simulator"), str(ROOT / "benchmarks")]

# ruff: noqa: E402
from ansible_collections.nvidia.mig.plugins.module_utils.demand.fleet import Fleet
from ansible_collections.nvidia.mig.plugins.module_utils.demand.plan import plan
from ansible_collections.nvidia.mig.plugins.module_utils.demand.pods import Demand
from ansible_collections.nvidia.mig.plugins.module_utils.demand.settings import Settings
from greedy import greedy
from miglab import demand

CLOCK = time.perf_counter
SETTINGS = Settings(time_limit=10.0, gap=0.001)
HEADS = (
    "GPUs",
    "states",
    "pods",
    "shapes",
    "planner",
    "seconds",
    "CPU",
    "placed, by priority",
    "changed",
    "gap",
    "ratio",
)


def timed(run: Callable[[], Any], rounds: int) -> tuple[float, float, Any]:
    """Seconds of the fastest of some rounds, its seconds of CPU, and what came out."""
    found = []
    for _ in range(rounds):
        start, used = time.perf_counter(), time.process_time()
        result = run()
        found.append((time.perf_counter() - start, time.process_time() - used, result))
    return min(found, key=lambda own: own[0])


def measure(gpus: int, count: int, seed: int, rounds: int) -> list[list[str]]:
    """The rows of one fleet: with three priorities, and with all pods of one."""
    nodes, catalogs = demand.fleet(seed, gpus // 8), demand.catalogs()
    pods = demand.demand(seed, count)
    equal = [{**pod, "priority": 0} for pod in pods]
    size = [gpus, len(Fleet(nodes, catalogs).kinds), count, len(Demand(pods).shapes)]
    rows = []
    for asked in (pods, equal):
        greedily, used, other = timed(partial(greedy, nodes, asked, catalogs), 1)
        for name, bounds in (("ours", []), ("ours, modes kept", [{"keep_mode": True}])):
            run = partial(plan, nodes, asked, bounds, catalogs, SETTINGS, CLOCK)
            seconds, cpu, result = timed(run, rounds)
            own = [level["placed"] for level in result["objective"]["pods"]]
            if own < other.placed:
                sys.exit(f"{gpus} GPUs, seed {seed}: {name} places {own}, the greedy planner {other.placed}")
            rest = [result["objective"]["changed"]["value"], f"{result['gap']:.3%}"]
            ratio = " / ".join(f"{mine / its:.2f}" if its else "-" for mine, its in zip(own, other.placed))
            rows.append(row(size, name, seconds, cpu, own, rest, ratio))
        rest = [other.changed, f"{other.torn} torn"]
        rows.append(row(size, "greedy", greedily, used, other.placed, rest, ""))
    return rows


def row(
    size: list[int], name: str, seconds: float, cpu: float, placed: list[int], rest: list[Any], ratio: str
) -> list[str]:
    """One row of the table."""
    levels = " / ".join(str(number) for number in placed)
    cells = [*size, name, f"{seconds:.2f}", f"{cpu:.2f}", levels, *rest, ratio]
    return [str(cell) for cell in cells]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpus", type=int, default=10_000)
    parser.add_argument("--pods", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    rows = [list(HEADS)]
    for part in (8, 4, 2, 1):
        rows += measure(options.gpus // part, options.pods // part, options.seed, options.rounds)
    widths = [max(map(len, column)) for column in zip(*rows)]
    for line in rows:
        print("  ".join(cell.rjust(width) for cell, width in zip(line, widths)))
    print("\nratio: pods that ours places / that the greedy planner places, by priority. A pod of a high")
    print("priority may cost several of a lower one, so add up only where all have one.")
    print("torn: pods of broken gangs.")


if __name__ == "__main__":
    main()
