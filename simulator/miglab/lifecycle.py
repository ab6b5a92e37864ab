"""``mig-lab up``, ``down`` and ``status``: the whole lab at once."""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path
from typing import Any

from miglab import agent, build, cluster, fleet, paths
from miglab.console import MissingError, Stopwatch, say


def up(
    fleet_file: Path = fleet.DEFAULT_FLEET, with_cluster: bool = True, control_plane: str | None = None
) -> None:
    """Build, make the nodes, start the Kubernetes API and the agent; whatever is there already stays.

    Without kube-apiserver or helm to be had, the nodes still work, and a line says what is left out; not so
    where a ``control_plane`` was asked for.

    Raises:
        LabError: a step failed.
    """
    whole = Stopwatch()
    _step("simulated NVML", _build)
    _step("simulated nodes", lambda: _create(fleet_file))
    if with_cluster:
        try:
            _step("Kubernetes API", lambda: _start_cluster(control_plane))
            _step("node agent", _start_agent)
        except MissingError as error:
            cluster.down()
            if control_plane is not None:
                raise
            say(f"LEFT OUT: everything about Kubernetes. {error}")
    say(f"the lab is up after {whole}: {paths.lab_dir()}")


def down() -> None:
    """Stop every process of the lab; the nodes' state and the API's data stay."""
    stopped = [name for name, stop in (("agent", agent.stop), ("Kubernetes API", cluster.down)) if stop()]
    say(f"stopped: {', '.join(stopped)}" if stopped else "nothing was running")


def _step(name: str, work: Any) -> None:
    watch = Stopwatch()
    say(f"==> {name}")
    said = work()
    say(f"    {said} ({watch})")


def _build() -> str:
    return str(build.ensure_built(quiet=True))


def _create(fleet_file: Path) -> str:
    done = Counter(fleet.create(fleet.load(fleet_file)).values())
    return ", ".join(f"{count} {what}" for what, count in done.items()) or "none"


def _start_cluster(control_plane: str | None) -> str:
    cluster.up(control_plane)
    return f"helm and kubectl: {paths.bin_dir()}"


def _start_agent() -> str:
    from miglab.agent.loop import sync

    done = sync()  # by the end of this command every node is registered
    agent.start()
    return f"{len(done)} changes made" if done else "nothing to change"


def register(subparsers: Any) -> None:
    """Add the commands."""
    parser = subparsers.add_parser("up", help="start the whole lab")
    parser.add_argument("--fleet", type=Path, default=fleet.DEFAULT_FLEET, help="default: %(default)s")
    parser.add_argument(
        "--no-cluster", action="store_true", help="only the simulated nodes, without Kubernetes"
    )
    cluster.add_option(parser)
    parser.set_defaults(run=_run_up)
    subparsers.add_parser("down", help="stop the lab; its state stays").set_defaults(run=_run_down)
    subparsers.add_parser("status", help="what of the lab is there and runs").set_defaults(run=_run_status)


def _run_up(options: argparse.Namespace) -> int:
    up(options.fleet, not options.no_cluster, options.control_plane)
    return 0


def _run_down(_: argparse.Namespace) -> int:
    down()
    return 0


def _run_status(_: argparse.Namespace) -> int:
    names = fleet.names()
    say(f"nodes: {', '.join(names)}" if names else "nodes: none; 'mig-lab up' makes them")
    whole = cluster.status() if names else False
    pid = agent.daemon().pid()
    say(f"agent: pid {pid}, log {agent.daemon().log}" if pid else "agent: not running")
    return 0 if whole and pid else 1
