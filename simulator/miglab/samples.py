"""A stand-in for what would run in the sample pods of the role ``gpu_workloads``: the lab runs no containers.

For those pods and no others it does what a cluster would. It binds them to a node that has their devices,
where no scheduler did; gives each a device, in kubelet's checkpoint; and ends them with what would be seen of
it there by ``nvidia-smi -L``. No image is pulled, no CUDA runs: a sample succeeds if its pods got devices.
"""

from __future__ import annotations

import argparse
import datetime
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from miglab import fleet, kubelet, paths, workloads
from miglab.api import Api, ApiError
from miglab.console import say

_SELECTOR = "app.kubernetes.io/managed-by=nvidia.mig.gpu_workloads"
_GPU, _MIG = "nvidia.com/gpu", "nvidia.com/mig-"
_ENDED = ("Succeeded", "Failed")
#: A scheduler, where there is one, has bound a pod by then.
_SCHEDULER_SECONDS = 2
#: What runs in an image of such a name fails.
_BROKEN = "/broken"

Object = Mapping[str, Any]


class Samples:
    """Plays the pods; ``seconds`` is how long each holds its device."""

    def __init__(self, api: Api, seconds: float) -> None:
        self._api = api
        self._seconds = seconds
        self._started: dict[str, float] = {}

    def round(self) -> None:
        """One look at every sample pod. ApiError: the API does not answer."""
        pods = self._api.get("/api/v1/pods", labelSelector=_SELECTOR)["items"]
        nodes = {node["metadata"]["name"]: node for node in self._api.get("/api/v1/nodes")["items"]}
        # Pods of one sample wait for each other, on however slow a machine.
        pods = [pod for pod in pods if pod["status"]["phase"] not in _ENDED]
        late = [_sample(pod) for pod in pods if pod["metadata"]["uid"] not in self._started]
        for pod in pods:
            phase = pod["status"]["phase"]
            if "deletionTimestamp" in pod["metadata"]:
                continue
            try:
                if "nodeName" not in pod["spec"]:
                    if _age(pod) >= _SCHEDULER_SECONDS:
                        self._bind(pod, nodes, pods)
                elif phase != "Running":
                    continue  # the agent sees to that, and where it plays kubelet, to the pod's device too
                elif pod["metadata"]["uid"] not in self._started:
                    self._start(pod, nodes[pod["spec"]["nodeName"]])
                elif self._is_over(pod) and _sample(pod) not in late:
                    self._end(pod)
            except ApiError as error:
                if error.status not in (404, 409):  # it is gone, or somebody else was faster
                    raise

    def _is_over(self, pod: Object) -> bool:
        return time.monotonic() - self._started[pod["metadata"]["uid"]] >= self._seconds

    def _bind(self, pod: Any, nodes: Mapping[str, Object], pods: list[Any]) -> None:
        wanted = _requests(pod)
        for name, node in nodes.items():
            labels = node["metadata"]["labels"]
            selector = pod["spec"].get("nodeSelector") or {}
            held: Counter[str] = Counter()
            for other in pods:
                if other["spec"].get("nodeName") == name and other["status"]["phase"] in (
                    "Pending",
                    "Running",
                ):
                    held.update(_requests(other))
            allocatable = node["status"].get("allocatable") or {}
            if all(labels.get(key) == value for key, value in selector.items()) and all(
                int(allocatable.get(key, 0)) - held[key] >= count for key, count in wanted.items()
            ):
                target = {"apiVersion": "v1", "kind": "Node", "name": name}
                self._api.post(f"{_path(pod)}/binding", {"metadata": {"name": _name(pod)}, "target": target})
                pod["spec"]["nodeName"] = name
                return

    def _start(self, pod: Object, node: Object) -> None:
        name, key = str(pod["spec"]["nodeName"]), f"{pod['metadata']['namespace']}/{_name(pod)}"
        checkpoint, directory = paths.checkpoint(name), paths.pods_dir(name)
        entries = kubelet.allocations(checkpoint, directory)
        if not any(entry["uid"] == pod["metadata"]["uid"] for entry in entries):
            holders = Counter(device for entry in entries for device in entry["devices"])
            for resource in _requests(pod):
                # One that nobody has, unless devices are shared: the node offers no more than it has.
                uuid = min((uuid for uuid, _ in _devices(node, resource)), key=lambda uuid: holders[uuid])
                kubelet.allocate(checkpoint, directory, key, resource, uuid, uid=pod["metadata"]["uid"])
        self._started[pod["metadata"]["uid"]] = time.monotonic()
        self._status(pod, "Running", {"running": {"startedAt": _now()}})
        say(f"pod {key} runs on {name}")

    def _end(self, pod: Object) -> None:
        name, key = str(pod["spec"]["nodeName"]), f"{pod['metadata']['namespace']}/{_name(pod)}"
        broken = str(pod["spec"]["containers"][0]["image"]).endswith(_BROKEN)
        message = "no CUDA-capable device is detected" if broken else self._shown(name, key)
        state = pod["status"]["containerStatuses"][0]["state"]
        terminated = {
            "exitCode": int(broken),
            "reason": "Error" if broken else "Completed",
            "message": message,
            "startedAt": state["running"]["startedAt"],
            "finishedAt": _now(),
        }
        workloads.remove(name, pod=key)
        self._status(pod, "Failed" if broken else "Succeeded", {"terminated": terminated})
        say(f"pod {key} ends")

    def _shown(self, node: str, key: str) -> str:
        """``nvidia-smi -L`` in the pod."""
        content = self._api.get(f"/api/v1/nodes/{node}")
        lines: list[str] = []
        for entry in kubelet.allocations(paths.checkpoint(node), paths.pods_dir(node)):
            if entry["pod"] == key:
                lines += [
                    text for uuid, text in _devices(content, entry["resource"]) if uuid in entry["devices"]
                ]
        return "\n".join(lines) + "\n"

    def _status(self, pod: Object, phase: str, state: Object) -> None:
        container = pod["spec"]["containers"][0]
        entry = {"name": container["name"], "image": container["image"], "imageID": "", "restartCount": 0}
        entry.update(ready=phase == "Running", state=dict(state))
        status = {"phase": phase, "containerStatuses": [entry]}
        self._api.patch(f"{_path(pod)}/status", {"status": status})


def _devices(node: Object, resource: str) -> Iterator[tuple[str, str]]:
    """UUIDs of the devices that a node's resource stands for, each with what ``nvidia-smi -L`` says of it."""
    resource = resource.removesuffix(".shared")
    strategy = node["metadata"]["labels"].get("nvidia.com/mig.strategy", "none")
    for gpu in fleet.read_node(node["metadata"]["name"])["gpus"]:
        line = f"GPU 0: {gpu['name']} (UUID: {gpu['uuid']})"
        if resource == _GPU and (strategy == "none" or not gpu["mig"]["current"]):
            yield gpu["uuid"], line
            continue
        for instance in gpu["instances"]:
            for device in instance["compute_instances"]:
                named = _MIG + device["profile"].replace("+", ".")
                if resource == (_GPU if strategy == "single" else named):
                    shown = f"  MIG {device['profile']} Device  0: (UUID: {device['uuid']})"
                    yield device["uuid"], f"{line}\n{shown}"


def _requests(pod: Object) -> dict[str, int]:
    limits = pod["spec"]["containers"][0].get("resources", {}).get("limits", {})
    return {name: int(count) for name, count in limits.items() if name.startswith((_GPU, _MIG))}


def _sample(pod: Object) -> tuple[str, str]:
    labels = pod["metadata"]["labels"]
    return labels["app.kubernetes.io/instance"], labels["app.kubernetes.io/name"]


def _name(pod: Object) -> str:
    return str(pod["metadata"]["name"])


def _path(pod: Object) -> str:
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{_name(pod)}"


def _age(pod: Object) -> float:
    created = datetime.datetime.fromisoformat(
        str(pod["metadata"]["creationTimestamp"]).replace("Z", "+00:00")
    )
    return (datetime.datetime.now(datetime.timezone.utc) - created).total_seconds()


def _now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def register(subparsers: Any) -> None:
    """Add ``mig-lab samples``."""
    parser = subparsers.add_parser(
        "samples",
        help="stand in for what runs in the pods of playbooks/workloads.yml, until it is interrupted",
    )
    parser.add_argument("--seconds", type=float, default=3, help="how long each pod holds its device (3)")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    samples = Samples(Api.from_kubeconfig(), arguments.seconds)
    say("samples: waiting for pods; Ctrl-C ends it")
    try:
        while True:
            samples.round()
            time.sleep(0.3)
    except KeyboardInterrupt:
        return 0
