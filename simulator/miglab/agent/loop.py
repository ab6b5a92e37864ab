"""The agent's two ways to work: one pass (``sync``), and a loop that follows every change (``run``)."""

from __future__ import annotations

import datetime
import signal
import threading
import time
from collections.abc import Mapping
from types import FrameType

from miglab import control_plane, paths, workloads
from miglab.agent import pods
from miglab.agent.duties import duties
from miglab.agent.fleet import Fleet
from miglab.agent.heartbeat import Heartbeat
from miglab.agent.mirror import Mirror, fetch
from miglab.agent.model import Change, Machine, Object, Rules, Snapshot
from miglab.api import Api, ApiError
from miglab.console import say
from miglab.control import SimulatorError

_LOOK_SECONDS = 0.3
_GATHER_SECONDS = 0.1
_PASSES = 10
_CLOCK_SECONDS = 1.0  # how often to look at the time, where a pod may be due to end or a lease to be renewed


def sync(rescan_always: bool | None = None) -> list[str]:
    """Bring the API server up to date with the fleet, once. Returns what was done, in words.

    Raises:
        ApiError: no API server, or it refused a change.
    """
    api = Api.from_kubeconfig()
    rules = _rules(api, rescan_always)
    fleet = Fleet()
    fleet.refresh()
    heartbeat = Heartbeat()
    done: list[str] = []
    for _ in range(_PASSES):  # a new node has no status until it is there, and so on
        snapshot = fetch(api)
        if rules.controllers:
            heartbeat.beat(api, _alive(snapshot, fleet.machines))
        changes = duties(snapshot, fleet.machines, rules, _now())
        if not changes:
            break
        for change in changes:
            if _apply(api, change):
                done.append(change.text)
    return done


def run(rescan_always: bool | None = None) -> None:
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
    heartbeat, bound, last = Heartbeat(), pods.Bound(), 0.0
    while not stopping.is_set() and paths.lab_dir().exists():  # nobody can stop it once the lab is deleted
        started = time.monotonic()
        fleet_changed = fleet.refresh()
        looked = time.monotonic() - started
        clock = rules is not None and rules.controllers and started - last >= _CLOCK_SECONDS
        if mirror.changed.is_set() or fleet_changed or clock:
            mirror.changed.clear()
            last = started
            try:
                if api is None or rules is None:
                    api = Api.from_kubeconfig()
                    rules = _rules(api, rescan_always)
                if snapshot := mirror.snapshot():
                    if rules.controllers:
                        heartbeat.beat(api, _alive(snapshot, fleet.machines))
                        for place in bound.vanished(snapshot.pods, set(fleet.machines)):
                            workloads.remove(place["node"], pod=place["pod"])
                    _round(api, snapshot, fleet, rules)
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


def _rules(api: Api, rescan_always: bool | None) -> Rules:
    controllers = control_plane.has_controllers()
    if rescan_always is None:
        rescan_always = not controllers
    return Rules(str(api.get("/version")["gitVersion"]), rescan_always, controllers)


def _alive(snapshot: Snapshot, machines: Mapping[str, Machine]) -> dict[str, Object]:
    """The Nodes whose machines are on."""
    on = {name for name, machine in machines.items() if machine.on}
    return {name: node for name, node in snapshot.nodes.items() if name in on}


def _round(api: Api, snapshot: Snapshot, fleet: Fleet, rules: Rules) -> None:
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
        elif change.method == "start":
            _start(api, change)
        elif change.method == "stop":
            workloads.remove(change.body["node"], pod=change.body["pod"])
            api.patch(change.path, {"status": change.body["status"]})
        else:
            api.patch(change.path, dict(change.body))
    except ApiError as error:
        if error.status in (404, 409):
            return False
        raise
    return True


def _start(api: Api, change: Change) -> None:
    body, status = change.body, change.body["status"]
    if body["wanted"]:
        try:
            workloads.admit(
                body["node"], body["pod"], body["uid"], body["wanted"], body["devices"], body["idle"]
            )
        except workloads.RejectedError as error:
            status = pods.rejected(str(error))
        except SimulatorError as error:  # the device has just gone: the next look will tell
            say(f"pod {body['pod']}: {error}")
            return
    api.patch(change.path, {"status": status})


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.timezone.utc)
