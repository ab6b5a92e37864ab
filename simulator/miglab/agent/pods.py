"""What the nodes' kubelets do with the pods that are bound to them. No container runs. Pure."""

from __future__ import annotations

import datetime
import ipaddress
import math
import zlib
from collections.abc import Iterator
from typing import Any

from miglab.agent import plugin
from miglab.agent.model import Change, Key, Machine, Object, Pod
from miglab.agent.settings import RefusedError

#: How many seconds the pod's containers run until they end with success. Without it they run until deleted.
SECONDS = "mig-lab/seconds"
#: Set to "true": the pod holds its devices, and no process runs on them.
IDLE = "mig-lab/idle"
_PREFIX = "nvidia.com/"
_FIRST_ADDRESS = ipaddress.IPv4Address("10.128.0.0")


def stand_in(key: Key, pod: Object, now: datetime.datetime) -> Iterator[Change]:
    """Without controllers: a pod that is bound to a node runs; one that is deleted ends, and is gone."""
    path = _path(key)
    if "deletionTimestamp" in pod["metadata"]:
        yield _end(key, pod)
    elif _phase(pod) == "Pending":
        status = {"phase": "Running", "conditions": [_condition("Ready", True, now)]}
        yield Change("patch", f"{path}/status", {"status": status}, f"pod {'/'.join(key)} runs")


def is_active(pod: Object) -> bool:
    """Whether its containers run."""
    return _phase(pod) == "Running" and "deletionTimestamp" not in pod["metadata"]


def kubelet(
    key: Key,
    pod: Object,
    machine: Machine,
    plugin_pod: Pod | None,
    trouble: str,
    waits: bool,
    now: datetime.datetime,
) -> Iterator[Change]:
    """What is due for one pod.

    Args:
        plugin_pod: the device plugin that runs on the node.
        trouble: why the pod's program exits; empty if it does not.
        waits: the pod cannot start yet.
    """
    name, path = "/".join(key), f"{_path(key)}/status"
    metadata, annotations = pod["metadata"], pod["metadata"].get("annotations") or {}
    if "deletionTimestamp" in metadata:
        if metadata.get("deletionGracePeriodSeconds") == 0:
            return  # it has ended, and stays for a finalizer
        if _phase(pod) not in ("Succeeded", "Failed"):
            yield Change("stop", path, _ended(pod, "Failed", now), f"pod {name} is told to end")
        yield _end(key, pod)
    elif _phase(pod) == "Pending" and not waits:
        body = {**_place(key, pod), **_running(pod, trouble, now), "wanted": _wanted(pod)}
        if body["wanted"]:
            if machine.hardware is None:
                return
            body |= {"devices": _devices(machine, plugin_pod), "idle": annotations.get(IDLE) == "true"}
        yield Change("start", path, body, f"pod {name} runs{f', and exits: {trouble}' if trouble else ''}")
    elif _phase(pod) == "Running":
        if _age(pod, now) >= _seconds(annotations):
            yield Change("stop", path, _ended(pod, "Succeeded", now), f"pod {name} has succeeded")
        elif _is_ready(pod) != (not trouble):
            status = {"status": _running(pod, trouble, now)["status"]}
            yield Change(
                "patch", path, status, f"pod {name} {f'exits: {trouble}' if trouble else 'is ready'}"
            )


def rejected(reason: str) -> dict[str, Any]:
    """The status of a pod that the node does not admit, though the scheduler put it there."""
    return {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": f"Pod was rejected: {reason}"}


class Bound:
    """The pods of the nodes, as last seen: one may be gone from the API server before its node knows."""

    def __init__(self) -> None:
        self._pods: dict[str, dict[str, str]] = {}

    def vanished(self, pods: dict[Key, Object], nodes: set[str]) -> list[dict[str, str]]:
        """Node and name of every pod that was there the last time."""
        now = {
            str(pod["metadata"]["uid"]): {"node": pod["spec"]["nodeName"], "pod": "/".join(key)}
            for key, pod in pods.items()
            if pod["spec"].get("nodeName") in nodes
        }
        gone = [place for uid, place in self._pods.items() if uid not in now]
        self._pods = now
        return gone


def _end(key: Key, pod: Object) -> Change:
    body = {"node": pod["spec"]["nodeName"], "pod": "/".join(key)}
    return Change("end", f"{_path(key)}?gracePeriodSeconds=0", body, f"pod {'/'.join(key)} ends")


def _path(key: Key) -> str:
    return f"/api/v1/namespaces/{key[0]}/pods/{key[1]}"


def _place(key: Key, pod: Object) -> dict[str, str]:
    return {"node": pod["spec"]["nodeName"], "pod": "/".join(key), "uid": pod["metadata"]["uid"]}


def _phase(pod: Object) -> str:
    return str((pod.get("status") or {}).get("phase") or "Pending")


def _is_ready(pod: Object) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or []
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _age(pod: Object, now: datetime.datetime) -> float:
    started = datetime.datetime.fromisoformat(pod["status"]["startTime"].replace("Z", "+00:00"))
    return (now - started).total_seconds()


def _seconds(annotations: Object) -> float:
    try:
        return float(annotations.get(SECONDS, "inf"))
    except ValueError:
        return math.inf


def _wanted(pod: Object) -> dict[str, dict[str, int]]:
    """Devices by container and resource."""
    found: dict[str, dict[str, int]] = {}
    for container in pod["spec"]["containers"]:
        limits = (container.get("resources") or {}).get("limits") or {}
        counts = {name: int(count) for name, count in limits.items() if name.startswith(_PREFIX)}
        if counts:
            found[container["name"]] = counts
    return found


def _devices(machine: Machine, plugin_pod: Pod | None) -> dict[str, list[str]]:
    if machine.hardware is None or plugin_pod is None or plugin_pod.settings is None:
        return {}
    try:
        return plugin.devices(machine.hardware, plugin_pod.settings)
    except RefusedError:
        return {}


def _running(pod: Object, trouble: str, now: datetime.datetime) -> dict[str, Any]:
    before = pod.get("status") or {}
    started = before.get("startTime") or _stamp(now)
    state: dict[str, Any] = {"running": {"startedAt": started}}
    if trouble:
        state = {"waiting": {"reason": "CrashLoopBackOff", "message": trouble}}
    address = str(_FIRST_ADDRESS + zlib.crc32(str(pod["metadata"]["uid"]).encode()) % 2**22)
    return {
        "status": {
            "phase": "Running",
            "startTime": started,
            "podIP": address,
            "podIPs": [{"ip": address}],
            "conditions": _conditions(pod, not trouble, now),
            "containerStatuses": _containers(pod, state, not trouble),
        }
    }


def _ended(pod: Object, phase: str, now: datetime.datetime) -> dict[str, Any]:
    """Where it ran, and the status of a pod whose containers have ended."""
    code, reason = (0, "Completed") if phase == "Succeeded" else (143, "Error")  # 143: by SIGTERM
    state = {"terminated": {"exitCode": code, "reason": reason, "finishedAt": _stamp(now)}}
    status = {
        "phase": phase,
        "conditions": _conditions(pod, False, now),
        "containerStatuses": _containers(pod, state, False),
    }
    key = (pod["metadata"]["namespace"], pod["metadata"]["name"])
    return {**_place(key, pod), "status": status}


def _conditions(pod: Object, ready: bool, now: datetime.datetime) -> list[Object]:
    """A merge patch replaces the list: what others put in stays."""
    wanted = {"Initialized": True, "Ready": ready, "ContainersReady": ready}
    before = (pod.get("status") or {}).get("conditions") or []
    kept = [each for each in before if each["type"] not in wanted]
    return [*kept, *(_condition(name, value, now) for name, value in wanted.items())]


def _condition(name: str, value: bool, now: datetime.datetime) -> dict[str, str]:
    return {"type": name, "status": str(value), "lastTransitionTime": _stamp(now)}


def _containers(pod: Object, state: Object, ready: bool) -> list[dict[str, Any]]:
    before = (pod.get("status") or {}).get("containerStatuses") or []
    restarts = {each["name"]: each["restartCount"] for each in before}
    return [
        {
            "name": container["name"],
            "image": container["image"],
            "imageID": "",
            "ready": ready,
            "started": ready,
            "restartCount": restarts.get(container["name"], 0) + ("waiting" in state),
            "state": state,
        }
        for container in pod["spec"]["containers"]
    ]


def _stamp(now: datetime.datetime) -> str:
    return now.strftime("%Y-%m-%dT%H:%M:%SZ")
