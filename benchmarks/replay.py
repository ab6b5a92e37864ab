"""A simulated day of a fleet whose GPUs follow demand, beside a static layout and a greedy planner.

Usage: benchmarks/replay.py [--nodes N] [--hours N] [--seed N] [--load N] [--every MINUTES] [--figure FILE]

By default 1,000 nodes of 8 GPUs (four models) from midnight to midnight. Pods come and go with the clock, and
what they ask for shifts. All start from the static layout that turned out best for this very day: some are
planned with the whole day known, and the one is taken with which the most runs. Then, every ten minutes, the
pods that wait are planned for. A run ends with an error if a pod loses a device by that.

The cluster and its scheduler are simulated (simulated.py); the greedy planner is greedy.py. Same seed, same
table, but for the seconds.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "collections"), str(ROOT / "simulator"), str(ROOT / "benchmarks")]

# ruff: noqa: E402
import curves
from ansible_collections.nvidia.mig.plugins.module_utils.demand.plan import plan
from ansible_collections.nvidia.mig.plugins.module_utils.demand.settings import Settings
from greedy import greedy
from miglab import demand
from miglab.day import HOUR, WHOLE, jobs
from played import Day, Planner, Record, Run, Way

COOL_DOWN = 1800.0
EMPTY = demand.Mix(whole_held=0, whole_free=1)
CATALOGS = demand.catalogs()
HEADS = (
    "way",
    "pods",
    "slice hours",
    "wait 50%",
    "90%",
    "99%",
    "idle",
    "split",
    "changed/h",
    "modes/h",
    "back",
    "disturbed",
    "pass",
    "longest",
)
LEGEND = """
pods, slice hours: what ran, of what was asked for within these hours; a 2g has 2 slices, a whole GPU 7.
wait: of all pods, also of those that never ran. idle: slices that are free while pods wait for as many, of
all slices; split: of the free slices, those on GPUs of which a pod holds a part; both on average.
changed, modes: GPUs partitioned anew and MIG modes changed, by hour. back: changes that bring back, within an
hour, what the GPU was before. disturbed: pods that lost a device. pass: to observe and plan, median and
longest.
"""


def the_day(seed: int, nodes: int, hours: float, load: float = 0.9, gpus: int = 8, every: int = 600) -> Day:
    """A day of a fleet that has so many nodes."""
    fleet = demand.fleet(seed, nodes, gpus, EMPTY)
    return Day(fleet, jobs(seed, hours, nodes * gpus * WHOLE, load), hours, every)


def ours(bounds: Sequence[Any] = (), clock: Callable[[], float] = time.monotonic, **settings: Any) -> Planner:
    """The planner of mig_partition_plan."""
    how = Settings(**{"time_limit": 10.0, "gap": 0.001, **settings})

    def run(nodes: Sequence[Any], pods: Sequence[Any]) -> list[dict[str, Any]]:
        return list(plan(nodes, pods, bounds, CATALOGS, how, clock)["nodes"])

    return run


def as_nos(nodes: Sequence[Any], pods: Sequence[Any]) -> list[dict[str, Any]]:
    """The greedy planner."""
    return greedy(nodes, pods, CATALOGS).nodes


def ways() -> list[Way]:
    """What is compared with the static layout."""
    return [
        Way("greedy", as_nos),
        Way("ours", ours(), COOL_DOWN),
        Way("ours, modes kept", ours([{"keep_mode": True}]), COOL_DOWN),
        Way("ours, a change costs a pod", ours(change_cost=1.0), COOL_DOWN),
        Way("ours, no cool-down", ours()),
    ]


def hindsight(day: Day, planner: Planner) -> dict[str, list[dict[str, Any]]]:
    """Static layouts for the day as it will be: for its mean, for more, for its busiest hour."""
    hours = [_running(day, hour * HOUR) for hour in range(int(day.hours))]
    mean = sum(hours, Counter[int]())
    busiest = max(hours, key=lambda own: sum(own.values()))
    wishes = {id(job.wish): job.wish for job in day.jobs}
    found = {}
    for name, counts, scale in (
        ("its mean", mean, 1 / len(hours)),
        ("its mean x 1.3", mean, 1.3 / len(hours)),
        ("its busiest hour", busiest, 1.0),
    ):
        pods = [
            {**wishes[key], "namespace": "day", "name": f"{place}-{number}"}
            for place, key in enumerate(key for key in wishes if key in counts)
            for number in range(round(counts[key] * scale))
        ]
        found[name] = planner(day.nodes, pods)
    return found


def _running(day: Day, now: float) -> Counter[int]:
    """Pods by kind that would run then if each had its devices at once."""
    found: Counter[int] = Counter()
    for job in day.jobs:
        if job.at <= now < job.at + job.seconds:
            found[id(job.wish)] += job.pods
    return found


def row(name: str, day: Day, record: Record) -> list[str]:
    """One row of the table."""
    waits = sorted(record.waits)
    quantiles = [waits[min(len(waits) - 1, int(part * len(waits)))] / 60 for part in (0.5, 0.9, 0.99)]
    passes = record.passes or [0.0]
    return [
        name,
        f"{record.placed / record.came:.1%}",
        f"{record.ran / record.wanted:.1%}",
        *(f"{own:.0f} min" for own in quantiles),
        f"{statistics.mean(record.idle) / day.slices:.1%}",
        f"{statistics.mean(record.split):.0%}",
        f"{len(record.changes) / day.hours:.0f}",
        f"{sum(change.mode for change in record.changes) / day.hours:.0f}",
        f"{record.returns(HOUR)}",
        f"{record.disturbed}",
        f"{statistics.median(passes):.2f} s",
        f"{max(passes):.2f} s",
    ]


def main() -> None:
    """Play, print the table, draw the figure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--hours", type=int, default=24)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--load", type=float, default=0.9, help="slices asked for on average, as a part of all"
    )
    parser.add_argument("--every", type=int, default=10, help="minutes between two passes")
    parser.add_argument("--figure", type=Path, help="an SVG")
    options = parser.parse_args()
    day = the_day(options.seed, options.nodes, options.hours, options.load, every=60 * options.every)
    layouts = hindsight(day, ours(time_limit=60.0))
    statics = {name: Run(day, Way(name), own).play() for name, own in layouts.items()}
    best = max(statics, key=lambda name: statics[name].ran)
    records = {f"static, for {best}": statics[best]}
    for way in ways():
        records[way.name] = record = Run(day, way, layouts[best]).play()
        if record.disturbed:
            sys.exit(f"{way.name}: {record.disturbed} pods lost a device")
    rows = [list(HEADS), *(row(name, day, record) for name, record in records.items())]
    widths = [max(map(len, column)) for column in zip(*rows)]
    for line in rows:
        print("  ".join(cell.rjust(width) for cell, width in zip(line, widths)))
    print(
        f"\n{len(day.nodes)} nodes, {day.slices} slices, {record.came} pods in {options.hours} hours.", LEGEND
    )
    if options.figure:
        shown = {"asked for": day.wanted(), **{name: own.held for name, own in list(records.items())[:3]}}
        title = "GPU slices that pods ask for, and that they hold"
        drawn = curves.draw(title, "hour of the day", day.hours, shown, day.slices)
        options.figure.write_text(drawn, encoding="utf-8")


if __name__ == "__main__":
    main()
