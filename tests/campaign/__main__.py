"""The fault campaign's command."""

from __future__ import annotations

import argparse
import json
import os
import shlex
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
    parser = _parser()
    options = parser.parse_args()
    size = SHORT if options.short else FULL
    if options.case:
        todo, only = _one(parser, options.case, options.seed)
        # The long form has every case of the short one.
        tally = run_all(todo, FULL, 1, only=only)
        if not tally.cases:
            parser.error(f"--case {options.case}: with seed {options.seed} there is no such case")
    else:
        todo = tasks(options.model or MIG_GPUS, options.kind or list(KINDS), size, options.seed)
        tally = run_all(todo, size, options.jobs, progress=True)
    if options.json:
        print(json.dumps({"seed": options.seed, **tally.as_dict()}, indent=2))
    else:
        print(tally.table())
        print(f"{tally.wall:.0f} s, {options.jobs} at a time, seed {options.seed}")
    for broken in tally.broken:
        again = shlex.join(["tests/campaign", "--seed", str(options.seed), "--case", broken.case])
        print(f"\n{broken.outcome}: {broken.case}\n  {broken.text}\n  again: python {again}", file=sys.stderr)
    return 1 if tally.broken else 0


def _one(parser: argparse.ArgumentParser, name: str, seed: int) -> tuple[list[Task], str]:
    """The task of a case, and its fault."""
    kind, model, number, fault = [*name.split("/", 3), "", "", ""][:4]
    if kind not in KINDS or model not in MIG_GPUS or not number.isdigit():
        parser.error(f"--case {name}: it reads like kill/{MIG_GPUS[0]}/0/nvmlGpuInstanceDestroy:1:during")
    return [Task(kind, model, int(number), seed)], fault


def _parser() -> argparse.ArgumentParser:
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
    return parser


if __name__ == "__main__":
    sys.exit(main())
