"""``mig-lab cluster``: the lab's Kubernetes, with real servers on loopback, as whoever runs the command.

No kubelets run, and in a light control plane neither controllers nor a scheduler: the lab's agent plays them.
"""

from __future__ import annotations

import argparse
import os
from typing import Any

import yaml

from miglab import binaries, control_plane, existing, paths
from miglab.api import Api, ApiError
from miglab.console import LabError, Stopwatch, say


def up(wanted: str | None = None) -> None:
    """Start what is not running, wait until it is ready, and write the kubeconfig.

    Args:
        wanted: light, whole or existing; None: what is up, else light.

    Raises:
        MissingError: a program of it is not to be had.
        LabError: one of them ended, with the end of its log; or another control plane is up.
    """
    watch = Stopwatch()
    now = _running()
    wanted = wanted or now or control_plane.LIGHT
    if now not in (None, wanted):
        raise LabError(f"the lab is up with the control plane '{now}': 'mig-lab down' stops it")
    if now and is_up():
        say(f"the Kubernetes API is up already: {_server_address()}")
    elif wanted == control_plane.EXISTING:
        existing.join()
        control_plane.note(wanted)
        say(f"the Kubernetes API is that of KUBECONFIG: {_server_address()}, {paths.kubeconfig()}")
    else:
        down()
        try:
            control_plane.start(wanted)
        except BaseException:
            down()
            raise
        say(f"the Kubernetes API is up after {watch}: {_server_address()}, {paths.kubeconfig()}")
    link_tools()


def down() -> bool:
    """Stop what ``up`` started; its data stays. False if nothing was running."""
    if _running() == control_plane.EXISTING:
        existing.leave()
        return True
    paths.kubeconfig().unlink(missing_ok=True)  # playbooks take it for the sign that there is an API
    return control_plane.stop()


def is_up() -> bool:
    """Every program runs and the API is ready."""
    return all(daemon.pid() is not None for daemon in control_plane.daemons()) and _ready()


def status() -> bool:
    """Say what runs and where; True if the API is up."""
    for daemon in control_plane.daemons():
        pid = daemon.pid()
        say(f"{daemon.name}: pid {pid}, log {daemon.log}" if pid else f"{daemon.name}: not running")
    if not is_up():
        say("the Kubernetes API is not up: 'mig-lab cluster up' starts it")
        return False
    version = Api.from_kubeconfig().get("/version")["gitVersion"]
    kind = control_plane.kind()
    say(f"the Kubernetes API is up: {_server_address()}, Kubernetes {version}, control plane {kind}")
    say(f"export KUBECONFIG={paths.kubeconfig()}")
    return True


def link_tools() -> None:
    """Link helm and kubectl into the lab's own bin directory, which is first in a lab process's PATH."""
    paths.bin_dir().mkdir(parents=True, exist_ok=True)
    for program in (binaries.helm(), binaries.find_kubectl()):
        if program is None:
            continue
        link, new = paths.bin_dir() / program.name, paths.bin_dir() / f".{program.name}-{os.getpid()}"
        if program.path == link:
            continue
        new.symlink_to(program.path.absolute())
        os.replace(new, link)


def _running() -> str | None:
    """The control plane that is up, at least in part."""
    kind = control_plane.kind()
    if kind == control_plane.EXISTING:
        return kind if paths.kubeconfig().exists() else None
    return kind if any(daemon.pid() is not None for daemon in control_plane.daemons()) else None


def _ready() -> bool:
    try:
        return Api.from_kubeconfig(timeout=3).get_text("/readyz") == "ok"
    except ApiError:
        return False


def _server_address() -> str:
    return str(yaml.safe_load(paths.kubeconfig().read_text())["clusters"][0]["cluster"]["server"])


def add_option(parser: argparse.ArgumentParser) -> None:
    """``--control-plane``, of the commands that start the cluster."""
    parser.add_argument(
        "--control-plane",
        choices=control_plane.KINDS,
        help="light: API server and etcd, the agent plays the rest; whole: controllers and scheduler, too; "
        "existing: the cluster that KUBECONFIG names (default: what is up, else light)",
    )


def register(subparsers: Any) -> None:
    """Add ``mig-lab cluster``."""
    parser = subparsers.add_parser("cluster", help="the lab's Kubernetes API, on loopback")
    commands = parser.add_subparsers(dest="cluster_command", metavar="COMMAND", required=True)
    start = commands.add_parser("up", help="start it; the agent then registers the fleet's nodes")
    add_option(start)
    start.set_defaults(run=_run_up)
    commands.add_parser("down", help="stop it; what is stored in it stays").set_defaults(run=_run_down)
    commands.add_parser("status", help="is it up, and where").set_defaults(run=_run_status)
    binaries.register(commands)


def _run_up(options: argparse.Namespace) -> int:
    up(options.control_plane)
    return 0


def _run_down(_: argparse.Namespace) -> int:
    say("the Kubernetes API is stopped" if down() else "the Kubernetes API was not running")
    return 0


def _run_status(_: argparse.Namespace) -> int:
    return 0 if status() else 1
