"""The agent's two ways to work: one pass (``sync``), and a loop that follows every change (``run``)."""

from __future__ import annotations

import datetime
import signal
import threading
import time
from types import FrameType

from miglab import paths, workloads
from miglab.agent.duties import Change, Rules, Snapshot, duties
from miglab.agent.fleet import Fleet
from miglab.agent.mirror import Mirror, fetch
from miglab.api import Api, ApiError
from miglab.console import say

_LOOK_SECONDS = 0.3
_GATHER_SECONDS = 0.1
_PASSES = 10


def sync(rescan_always: bool = True) -> list[str]:
    """Bring the API server up to date with the fleet, once. Returns what was done, in words.

    Raises:
        ApiError: no API server, or it refused a change.
    """
    api = Api.from_kubeconfig()
    rules = Rules(str(api.get("/version")["gitVersion"]), rescan_always)
    fleet = Fleet()
    fleet.refresh()
    done: list[str] = []
    for _ in range(_PASSES):  # a new node has no status until it is there, and so on
        changes = duties(fetch(api), fleet.machines, rules, _now())
        if not changes:
            break
        for change in changes:
            if _apply(api, change):
                done.append(change.text)
    return done


def run(rescan_always: bool = True) -> None:
    """Follow the fleet and the API server until SIGTERM or SIGINT."""
    stopping = threading.Event()

    mirror = Mirror(lambda timeout: Api.from_kubeconfig(timeout=timeout))

    def stop(_: int, __: FrameType | None) -> None:
        stopping.set()
        mirror.changed.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    fleet = Fleet()
    say(f"agent: following {paths.nodes_dir()}")
    api: Api | None = None
    rules: Rules | None = None
    while not stopping.is_set() and paths.lab_dir().exists():  # nobody can stop it once the lab is deleted
        started = time.monotonic()
        fleet_changed = fleet.refresh()
        looked = time.monotonic() - started
        if mirror.changed.is_set() or fleet_changed:
            mirror.changed.clear()
            try:
                if api is None or rules is None:
                    api = Api.from_kubeconfig()
                    rules = Rules(str(api.get("/version")["gitVersion"]), rescan_always)
                _round(api, mirror.snapshot(), fleet, rules)
            except ApiError as error:
                say(f"{error.status or 'no answer'}: {error}")
                api = None
                mirror.changed.set()  # whatever was due is due still
                stopping.wait(1)
        # A larger fleet is looked at less often, so that looking never takes much of a core.
        pause = _LOOK_SECONDS if fleet_changed else max(_LOOK_SECONDS, 10 * looked)
        if mirror.changed.wait(pause):
            stopping.wait(_GATHER_SECONDS)  # changes come in groups
    mirror.stop()
    say("agent: stopped")


def _round(api: Api, snapshot: Snapshot | None, fleet: Fleet, rules: Rules) -> None:
    if snapshot is None:
        return
    for change in duties(snapshot, fleet.machines, rules, _now()):
        if _apply(api, change):
            say(change.text)


def _apply(api: Api, change: Change) -> bool:
    """Make the call. False if the server has moved on since it was asked: the next look will tell."""
    try:
        if change.method == "post":
            api.post(change.path, dict(change.body))
        elif change.method == "end":
            workloads.remove(change.body["node"], pod=change.body["pod"])
            api.delete(change.path)
        elif change.method == "delete":
            api.delete(change.path)
        else:
            api.patch(change.path, dict(change.body))
    except ApiError as error:
        if error.status in (404, 409):
            return False
        raise
    return True


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.timezone.utc)
