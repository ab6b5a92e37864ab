"""``mig-lab agent``: plays kubelet, device plugin and GPU feature discovery for the simulated nodes."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

from miglab import paths
from miglab.console import say
from miglab.daemons import Daemon


def daemon() -> Daemon:
    return Daemon("agent", paths.cluster_dir())


def start(rescan: str | None = None) -> None:
    """Start the agent in the background, unless it runs. ``rescan``: as the command's option. LabError."""
    if daemon().pid() is not None:
        say("the agent runs already")
        return
    command = [sys.executable, "-m", "miglab", "agent", "run"]
    environment = {**os.environ, "MIG_LAB_DIR": str(paths.lab_dir())}
    environment["PYTHONPATH"] = os.pathsep.join(
        [str(paths.SIMULATOR), *filter(None, [os.environ.get("PYTHONPATH")])]
    )
    pid = daemon().start(command + (["--rescan", rescan] if rescan else []), environment)
    say(f"the agent follows the fleet (pid {pid}, log {daemon().log})")


def stop() -> bool:
    """False if it was not running."""
    return daemon().stop()


def register(subparsers: Any) -> None:
    """Add ``mig-lab agent``."""
    parser = subparsers.add_parser("agent", help="plays kubelet, device plugin and GPU feature discovery")
    commands = parser.add_subparsers(dest="agent_command", metavar="COMMAND", required=True)
    for name, function, text in (
        ("run", _run, "work in the foreground until it is stopped"),
        ("start", _start, "work in the background"),
        ("sync", _sync, "bring the API server up to date once, and say what changed"),
    ):
        command = commands.add_parser(name, help=text)
        command.add_argument(
            "--rescan",
            choices=("always", "at-start"),
            help="when the device plugin sees a new layout: always at once, or, as in a real cluster, "
            "only at the start of its pod (default: always; where controllers run, at-start)",
        )
        command.set_defaults(run=function)
    commands.add_parser("stop", help="end the one in the background").set_defaults(run=_stop)


def _run(options: argparse.Namespace) -> int:
    from miglab.agent.loop import run

    run(_always(options))
    return 0


def _sync(options: argparse.Namespace) -> int:
    from miglab.agent.loop import sync

    for text in sync(_always(options)) or ["nothing to do"]:
        say(text)
    return 0


def _start(options: argparse.Namespace) -> int:
    start(options.rescan)
    return 0


def _stop(_: argparse.Namespace) -> int:
    say("the agent is stopped" if stop() else "the agent was not running")
    return 0


def _always(options: argparse.Namespace) -> bool | None:
    return None if options.rescan is None else options.rescan == "always"
