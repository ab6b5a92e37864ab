"""The fault campaign in its short form, and that it notices what it is there to notice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest
from campaign.judge import HELD, OTHER, SILENT
from campaign.kinds import KINDS
from campaign.layouts import MIG_GPUS
from campaign.run import run_all, tasks
from campaign.task import SHORT, Size

UTILS = "ansible_collections.nvidia.mig.plugins.module_utils"
# What somebody could break, where the campaign sees it, and as what.
MUTANTS = {
    "no rollback": (
        f"import {UTILS}.node.apply as m; m.roll_back = lambda *args: args[-1]",
        "error",
        SILENT,
    ),
    "holders are ignored": (
        f"import {UTILS}.geometry.transition as m; m._held = lambda *args: ()",
        "converge",
        HELD,
    ),
    "nothing is kept": (
        f"import {UTILS}.geometry.transition as m; real = m.choose_survivors; "
        "m.choose_survivors = lambda catalog, instances, devices: real(catalog, (), devices)",
        "converge",
        OTHER,
    ),
    "compute instances are forgotten": (
        f"import {UTILS}.nvml.writer as m; m.Writer._create_compute = lambda *args: None\n"
        f"import {UTILS}.node.layout_run as m; m.check_result = lambda *args: None",
        "converge",
        SILENT,
    ),
    "check mode predicts nothing": (
        f"import {UTILS}.node.layout_run as m; m.future = lambda states, plan: states",
        "converge",
        OTHER,
    ),
}


def test_no_fault_breaks_anything():
    tally = run_all(tasks(MIG_GPUS, list(KINDS), SHORT, seed=1), SHORT, os.cpu_count() or 1)
    assert not tally.broken, "\n".join(f"{b.case}: {b.text}" for b in tally.broken[:5])
    rows = {(row["model"], row["kind"]): row for row in tally.rows()}
    assert set(rows) == {*product(MIG_GPUS, KINDS), ("all", "all")}
    assert all(row["cases"] == row["converged"] + row["reported"] > 0 for row in rows.values())
    # Nothing would be proved of what is held, if nothing were.
    assert rows["all", "all"]["held"] > 500


@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_toolkit_is_noticed(name):
    prelude, kind, what = MUTANTS[name]
    size = Size(pairs=40, sweeps=1, calls=1, codes=1)
    tally = run_all(tasks(["A30-24GB"], [kind], size, seed=1), size, os.cpu_count() or 1, prelude)
    assert what in {broken.outcome for broken in tally.broken}


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    program = Path(__file__).with_name("campaign")
    return subprocess.run(
        [sys.executable, program, *arguments], capture_output=True, text=True, check=False, timeout=60
    )


def test_one_case_by_its_name():
    done = command("--json", "--case", "kill/A30-24GB/0/nvmlInitWithFlags:1:before")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["rows"][-1]["converged"] == 1


@pytest.mark.parametrize("name", ["kill", "kill/A30/0", "kill/A30-24GB/0/nvmlNoSuchCall:1:before"])
def test_a_name_that_is_none(name):
    done = command("--case", name)
    assert done.returncode == 2
    assert f"--case {name}: " in done.stderr
