"""The command ``mig-lab``."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
from collections.abc import Sequence

from miglab.console import LabError, fail

# Each has register(subparsers); a subcommand's parser sets `run`: arguments -> exit code.
MODULES = ("lifecycle", "nodes", "cluster", "agent", "samples")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code."""
    parser = argparse.ArgumentParser(
        prog="mig-lab", description="Simulated GPU nodes and a Kubernetes API, on this machine."
    )
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name in MODULES:
        if importlib.util.find_spec(f"miglab.{name}") is not None:
            importlib.import_module(f"miglab.{name}").register(subparsers)
    arguments = parser.parse_args(argv)
    try:
        return int(arguments.run(arguments) or 0)
    except LabError as error:
        return fail(error)
    except BrokenPipeError:
        return 0
