"""A simulated cluster with a stand-in for its scheduler and kubelets, in the forms that observers see.

GPUs are kept as mig_info tells them, nodes and pods as the API does. The stand-in for the scheduler goes by
priority, then by age. It takes, of the nodes that a pod may run on and that have room, the one with the least
of its CPU and memory requested, as the default scheduler scores. Gangs are bound whole or not at all; nothing
is preempted. The stand-in for kubelet hands out the free devices of the first GPU.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from heapq import heapify, heappop, heappush
from typing import Any

from ansible_collections.nvidia.mig.plugins.module_utils.demand.where import parse_taints, parse_where
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.pending import GANG
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.quantities import thousandths
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.resources import (
    GPU_RESOURCE,
    dotted,
    is_gpu_resource,
)
from miglab.day import Job

Device = tuple[int, int]  # position of the GPU on its node, first slice of the instance; -1: the whole GPU


def clock(now: float) -> str:
    """A time of the simulated day, as the API writes it."""
    return f"{datetime(2026, 1, 1) + timedelta(seconds=int(now)):%Y-%m-%dT%H:%M:%SZ}"


@dataclass(frozen=True)
class Wish:
    """What pods of a kind ask for, made ready for scheduling."""

    devices: tuple[tuple[str, int], ...]
    needs: tuple[tuple[str, int], ...]
    admitted: frozenset[int]  # numbers of nodes


@dataclass
class Pod:
    """A pod, pending until it has a node."""

    job: Job
    wish: Wish
    object: dict[str, Any]
    node: int = -1
    held: list[tuple[str, Device]] = field(default_factory=list)
    bound: float = -1

    @property
    def holder(self) -> dict[str, str]:
        return {key: self.object["metadata"][key] for key in ("namespace", "name", "uid")}


@dataclass
class Node:
    """A node.

    Args:
        seen: as planners are told it: its name, and GPUs as mig_info tells them.
        object: as the API tells it.
        free: by resource, what no pod has requested, in thousandths; whole: what there is.
        devices: free ones by resource, as heaps.
    """

    seen: dict[str, Any]
    object: dict[str, Any]
    whole: dict[str, int]
    free: dict[str, int]
    devices: dict[str, list[Device]] = field(default_factory=dict)

    @property
    def gpus(self) -> list[dict[str, Any]]:
        return list(self.seen["gpus"])

    def requested(self, needs: Mapping[str, int]) -> float:
        """The part of its CPU and memory that would be requested with these needs."""
        return sum(
            1 - (self.free[name] - needs.get(name, 0)) / self.whole[name] for name in ("cpu", "memory")
        )


class Cluster:
    """Nodes and pods, moved on by whoever keeps the time."""

    def __init__(self, nodes: Iterable[Mapping[str, Any]]) -> None:
        """From nodes without pods, in the form of the module mig_partition_plan."""
        self.nodes: list[Node] = []
        self.pods: dict[int, Pod] = {}  # that have not ended, by number
        self.number: dict[str, int] = {}
        self._having: dict[str, dict[int, None]] = {}  # nodes with a free device, by resource
        self._queues: dict[object, deque[list[int]]] = {}
        self._freed: list[int] = []  # nodes that got something free, in order of time
        self._tried: dict[object, int] = {}  # by queue, how many of them there were when it found no place
        self._wishes: dict[int, Wish] = {}
        self._came = 0
        for raw in nodes:
            self.number[raw["name"]] = len(self.nodes)
            self.nodes.append(_node(raw))
            self.refresh(len(self.nodes) - 1)

    def add(self, job: Job, now: float) -> None:
        """Its pods come."""
        wish = self._wish(job.wish)
        members: list[int] = []
        for _ in range(job.pods):
            name = f"pod-{self._came}"
            gang = f"job-{self._came - len(members)}" if job.pods > 1 else None
            self.pods[self._came] = Pod(job, wish, _object(name, gang, job, now))
            members.append(self._came)
            self._came += 1
        queue = self._queues.setdefault((-job.priority, id(wish), job.pods), deque())
        queue.append(members)

    def end(self, number: int) -> None:
        """A pod that runs ends, and is deleted."""
        pod = self.pods.pop(number)
        self._give_back(pod)

    def schedule(self, now: float) -> list[int]:
        """Bind what can be bound; returns the numbers of these pods."""
        order = [(key[0], queue[0][0], key) for key, queue in self._queues.items() if queue]  # type: ignore[index]
        heapify(order)
        bound: list[int] = []
        among: dict[object, set[int] | None] = {}
        while order:
            priority, _first, key = heappop(order)
            queue = self._queues[key]
            if key not in among:
                among[key] = self._since(key) if len(queue[0]) == 1 else None
            if self._bind(queue[0], now, among[key]):
                bound += queue.popleft()
                if queue:
                    heappush(order, (priority, queue[0][0], key))
            else:
                self._tried[key] = len(self._freed)
        return bound

    def refresh(self, number: int) -> None:
        """The devices of a node that are free, after its GPUs have changed."""
        node = self.nodes[number]
        self._freed.append(number)
        for resource in node.devices:
            self._having[resource].pop(number, None)
        node.devices = {}
        for position, gpu in enumerate(node.gpus):
            if gpu["mig_mode"]["current"] == "disabled":
                if not gpu["pods"]:
                    node.devices.setdefault(GPU_RESOURCE, []).append((position, -1))
                continue
            for instance in gpu["instances"]:
                if not instance["pods"]:
                    resource = f"nvidia.com/mig-{dotted(instance['profile'])}"
                    node.devices.setdefault(resource, []).append((position, instance["placement"]["start"]))
        for resource, devices in node.devices.items():
            heapify(devices)
            self._having.setdefault(resource, {})[number] = None

    def objects(self) -> list[dict[str, Any]]:
        """All pods as the API tells them."""
        return [pod.object for pod in self.pods.values()]

    def _since(self, key: object) -> set[int] | None:
        """Nodes that got something free since the queue found no place: no other has room. None: all."""
        tried = self._tried.get(key)
        if tried is None or len(self._freed) - tried > 2 * len(self.nodes):
            return None
        return set(self._freed[tried:])

    def _bind(self, members: Sequence[int], now: float, among: Iterable[int] | None) -> bool:
        done: list[Pod] = []
        for number in members:
            pod = self.pods[number]
            place = self._best(pod.wish, among)
            if place is None:
                for other in done:
                    self._give_back(other)
                    del other.object["spec"]["nodeName"]
                    other.held = []
                return False
            self._take(pod, place)
            done.append(pod)
        for pod in done:
            pod.bound = now
            pod.object["status"] = {"phase": "Running"}
        return True

    def _best(self, wish: Wish, among: Iterable[int] | None) -> int | None:
        (resource, count), needs = wish.devices[0], dict(wish.needs)
        best: tuple[float, int] | None = None
        for number in self._having.get(resource, ()) if among is None else among:
            node = self.nodes[number]
            if (
                number in wish.admitted
                and len(node.devices.get(resource, ())) >= count
                and all(len(node.devices.get(name, ())) >= n for name, n in wish.devices[1:])
                and all(node.free[name] >= need for name, need in wish.needs)
            ):
                rank = (node.requested(needs), number)
                if best is None or rank < best:
                    best = rank
        return None if best is None else best[1]

    def _take(self, pod: Pod, number: int) -> None:
        node = self.nodes[number]
        pod.node = number
        pod.object["spec"]["nodeName"] = node.seen["name"]
        for name, need in pod.wish.needs:
            node.free[name] -= need
        for resource, count in pod.wish.devices:
            for _ in range(count):
                device = heappop(node.devices[resource])
                pod.held.append((resource, device))
                _holders(node, device).append(pod.holder)
            if not node.devices[resource]:
                del self._having[resource][number]

    def _give_back(self, pod: Pod) -> None:
        node = self.nodes[pod.node]
        self._freed.append(pod.node)
        for name, need in pod.wish.needs:
            node.free[name] += need
        for resource, device in pod.held:
            holders = _holders(node, device)
            if holders != [pod.holder]:
                raise AssertionError(f"{pod.holder} lost its device to {holders}")
            holders.clear()
            heappush(node.devices.setdefault(resource, []), device)
            self._having.setdefault(resource, {})[pod.node] = None

    def _wish(self, raw: Mapping[str, Any]) -> Wish:
        key = id(raw)  # jobs of a kind share it, and live as long as the day
        if key not in self._wishes:
            where = parse_where(
                raw.get("node_selector"), raw.get("node_affinity"), raw.get("tolerations"), "it"
            )
            amounts = {name: thousandths(value, name, up=True) for name, value in raw["requests"].items()}
            admitted = []
            for number, node in enumerate(self.nodes):
                labels, spec = node.object["metadata"]["labels"], node.object["spec"]
                taints = parse_taints(spec["taints"], "it")
                if where.obstacle(node.seen["name"], labels, taints, spec["unschedulable"]) is None:
                    admitted.append(number)
            self._wishes[key] = Wish(
                tuple((name, n // 1000) for name, n in amounts.items() if is_gpu_resource(name)),
                (*((name, n) for name, n in amounts.items() if not is_gpu_resource(name)), ("pods", 1000)),
                frozenset(admitted),
            )
        return self._wishes[key]


def _node(raw: Mapping[str, Any]) -> Node:
    whole = {name: thousandths(value, name, up=False) for name, value in raw["free"].items()}
    metadata = {"name": raw["name"], "labels": dict(raw["labels"]), "annotations": {}}
    spec = {"taints": raw["taints"], "unschedulable": raw["unschedulable"]}
    status = {"allocatable": raw["free"], "conditions": [{"type": "Ready", "status": "True"}]}
    return Node(
        {"name": raw["name"], "strategy": raw["strategy"], "gpus": deepcopy(raw["gpus"])},
        {"metadata": metadata, "spec": spec, "status": status},
        whole,
        dict(whole),
    )


def _object(name: str, gang: str | None, job: Job, now: float) -> dict[str, Any]:
    wish = job.wish
    metadata = {"namespace": "day", "name": name, "uid": name, "creationTimestamp": clock(now)}
    spec: dict[str, Any] = {
        "containers": [{"name": "it", "resources": {"requests": wish["requests"]}}],
        "priority": job.priority,
        "nodeSelector": wish.get("node_selector"),
        "tolerations": wish.get("tolerations"),
    }
    if wish.get("node_affinity"):
        rule = {"requiredDuringSchedulingIgnoredDuringExecution": wish["node_affinity"]}
        spec["affinity"] = {"nodeAffinity": rule}
    judged = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    return {
        "metadata": {**metadata, "annotations": {GANG: gang} if gang else {}},
        "spec": spec,
        "status": {"phase": "Pending", "conditions": [judged]},
    }


def _holders(node: Node, device: Device) -> list[dict[str, str]]:
    """The list of those that hold the device."""
    position, start = device
    gpu = node.seen["gpus"][position]
    if start < 0:
        return gpu["pods"]  # type: ignore[no-any-return]
    return next(i["pods"] for i in gpu["instances"] if i["placement"]["start"] == start)
