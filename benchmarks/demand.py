"""What planning for pending pods costs and gains: ours beside a greedy planner as nos describes its own.

Usage: benchmarks/demand.py [--gpus N] [--pods N] [--seed N] [--rounds N]

By default 10,000 GPUs in mixed states (8 a node, four models) and 50,000 pods, after the same demand per GPU
on fleets of an eighth, a quarter and half of that. Seconds are from plain data to the finished plan, the
fastest of some rounds. The gap is proven: of the pods of a priority and above, no planner can place that part
more.
The greedy planner never changes a MIG mode, so ours is also run with all modes kept.
It ends with an error if ours ever places a less valuable set of pods than the greedy one.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "collections"), str(ROOT / "simulator"), str(ROOT / "benchmarks")]

# ruff: noqa: E402
from ansible_collections.nvidia.mig.plugins.module_utils.demand.plan import Settings, plan
from greedy import greedy
from miglab import demand

SETTINGS = Settings(time_limit=10.0, gap=0.001)
HEADS = ("GPUs", "pods", "planner", "seconds", "placed", "by priority", "changed", "gap")


def ours(nodes: list[Any], pods: list[Any], bounds: list[Any], rounds: int) -> tuple[float, dict[str, Any]]:
    """The fastest of some rounds, and its plan."""
    best: tuple[float, dict[str, Any]] | None = None
    for _ in range(rounds):
        start = time.perf_counter()
        result = plan(nodes, pods, bounds, demand.catalogs(), SETTINGS, time.perf_counter)
        seconds = time.perf_counter() - start
        if best is None or seconds < best[0]:
            best = seconds, result
    assert best is not None
    return best


def measure(gpus: int, count: int, seed: int, rounds: int) -> list[list[str]]:
    """The rows of one fleet."""
    nodes, pods = demand.fleet(seed, gpus // 8), demand.demand(seed, count)
    rows = []
    values = {}
    for name, bounds in (("ours", []), ("ours, modes kept", [{"keep_mode": True}])):
        seconds, result = ours(nodes, pods, bounds, rounds)
        objective = result["objective"]
        values[name] = [level["placed"] for level in objective["pods"]]
        rows.append(
            row(
                gpus,
                count,
                name,
                seconds,
                values[name],
                objective["changed"]["value"],
                f"{result['gap']:.3%}",
            )
        )
    start = time.perf_counter()
    placed, changed, torn = greedy(nodes, pods, demand.catalogs())
    rows.append(row(gpus, count, "greedy", time.perf_counter() - start, placed, changed, f"{torn} torn"))
    for name, own in values.items():
        if own < placed or sum(own) < sum(placed):
            sys.exit(f"{gpus} GPUs, seed {seed}: {name} places {own}, the greedy planner {placed}")
    rows[0].append(f"{sum(values['ours']) / sum(placed):.2f}")
    rows[1].append(f"{sum(values['ours, modes kept']) / sum(placed):.2f}")
    return rows


def row(
    gpus: int, count: int, name: str, seconds: float, placed: list[int], changed: int, gap: str
) -> list[str]:
    """One row of the table."""
    levels = " / ".join(str(number) for number in placed)
    return [str(gpus), str(count), name, f"{seconds:.2f}", str(sum(placed)), levels, str(changed), gap]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpus", type=int, default=10_000)
    parser.add_argument("--pods", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    rows = [[*HEADS, "ratio"]]
    for part in (8, 4, 2, 1):
        rows += measure(options.gpus // part, options.pods // part, options.seed, options.rounds)
    widths = [max(len(line[at]) for line in rows if at < len(line)) for at in range(len(rows[0]))]
    for line in rows:
        print("  ".join(cell.rjust(width) for cell, width in zip(line, widths)))
    print("\nratio: pods that ours places / pods that the greedy planner places. torn: pods of broken gangs.")


if __name__ == "__main__":
    main()
