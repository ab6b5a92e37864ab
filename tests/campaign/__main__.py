"""The fault campaign's command."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / room) for room in ("collections", "simulator", "tests")]

from campaign.kinds import KINDS  # noqa: E402
from campaign.layouts import MIG_GPUS  # noqa: E402
from campaign.run import run_all, tasks  # noqa: E402
from campaign.task import FULL, SHORT, Task  # noqa: E402


def main() -> int:
    """Run what the command line says; 1 if an invariant does not hold."""
    options = _options()
    size = SHORT if options.short else FULL
    if options.case:
        kind, model, number, *fault = options.case.split("/", 3)
        todo, only = [Task(kind, model, int(number), options.seed)], "".join(fault)
    else:
        todo, only = tasks(options.model or MIG_GPUS, options.kind or list(KINDS), size, options.seed), ""
    tally = run_all(todo, size, options.jobs, only=only, progress=not options.case)
    if options.json:
        print(json.dumps(tally.as_dict(), indent=2))
    else:
        print(tally.table())
        print(f"{tally.wall:.0f} s on {options.jobs} cores, seed {options.seed}")
    for broken in tally.broken:
        print(f"\n{broken.case}: {broken.outcome}\n  {broken.text}", file=sys.stderr)
    return 1 if tally.broken else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="tests/campaign",
        description="Runs mig_layout, mig_mode and gpu_reset on simulated GPUs: from every layout to every "
        "other, killed at every NVML call, with every error at every change, with resets that are refused. "
        "Counts what converged or was cleanly reported, what was destroyed though held, and what was left "
        "half-changed without a word.",
    )
    some = "only this one (repeat for more)"
    parser.add_argument("--short", action="store_true", help="a minute's worth, as in the tests")
    parser.add_argument("--model", action="append", choices=MIG_GPUS, help=some)
    parser.add_argument("--kind", action="append", choices=list(KINDS), help=some)
    parser.add_argument("--seed", type=int, default=1, help="what is drawn by lot (default 1)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: cores)")
    parser.add_argument("--json", action="store_true", help="the figure as JSON")
    parser.add_argument("--case", metavar="NAME", help="one case, by the name that it was reported with")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
