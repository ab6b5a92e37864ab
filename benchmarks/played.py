"""One way through a simulated day: pods come and go, passes observe, plan and apply.

A pass is what mig_demand_info and mig_partition_plan do, on plain data. The geometry core carries out the
layouts; what it refuses ends the run. Pods are scheduled every minute, before the pass, so what it cuts is
used a minute later.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import accumulate
from typing import Any

from ansible_collections.nvidia.mig.plugins.module_utils.geometry.layout import assign, parse_layout
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.state import GpuState
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.transition import outcome, plan_gpu
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.capacity import Rules, plannable_nodes
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.cooldown import noted, seconds
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.pending import Window, pending_pods
from ansible_collections.nvidia.mig.tests.unit.plugins.module_utils.demand.support import state_of
from miglab.day import HOUR, WHOLE, Job
from simulated import Cluster, Pod, clock

STEP = 60  # seconds
WINDOW = Window(batch=60, idle=10)

Planner = Callable[[Sequence[Any], Sequence[Any]], list[dict[str, Any]]]  # nodes, pods -> new layouts


@dataclass(frozen=True)
class Day:
    """What is the same for all: nodes without pods, the jobs that come, for how long, and when passes are."""

    nodes: list[dict[str, Any]]
    jobs: list[Job]
    hours: float
    every: int = 600

    @property
    def slices(self) -> int:
        return sum(WHOLE * len(node["gpus"]) for node in self.nodes)

    def wanted(self) -> list[int]:
        """Slices by step that pods would hold if each had its devices at once."""
        turns = [0] * (int(self.hours * HOUR // STEP) + 1)
        for job in self.jobs:
            turns[int(job.at // STEP)] += job.slices * job.pods
            turns[min(int((job.at + job.seconds) // STEP), len(turns) - 1)] -= job.slices * job.pods
        return list(accumulate(turns[:-1]))


@dataclass(frozen=True)
class Way:
    """A way to run the fleet; without a planner, its layout is static."""

    name: str
    planner: Planner | None = None
    cool_down: float = 0


@dataclass(frozen=True)
class Change:
    """A GPU that became something else: ``4 x 1g.10gb``, or ``whole``; and how many pods lost a device."""

    now: float
    node: str
    gpu: str
    before: str
    after: str
    lost: int

    @property
    def mode(self) -> bool:
        return (self.before == "whole") != (self.after == "whole")


@dataclass
class Record:
    """What happened.

    Attributes:
        came, placed: pods.
        ran, wanted: slices times seconds.
        waits: of each pod in seconds; of those that never ran, so far as the day goes.
        held: slices that pods hold, by step; idle: those that were free while pods waited for as many.
        split: of the free slices, by hour, those on GPUs of which a pod holds a part.
        passes: seconds that it took to observe and plan.
    """

    came: int = 0
    placed: int = 0
    ran: float = 0
    wanted: float = 0
    waits: list[float] = field(default_factory=list)
    held: list[int] = field(default_factory=list)
    idle: list[int] = field(default_factory=list)
    split: list[float] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    passes: list[float] = field(default_factory=list)

    @property
    def disturbed(self) -> int:
        return sum(change.lost for change in self.changes)

    def returns(self, within: float) -> int:
        """Changes that bring back what the GPU was before its last change, so soon after that one."""
        last: dict[str, Change] = {}
        found = 0
        for change in self.changes:
            before = last.get(change.gpu)
            found += before is not None and change.now - before.now < within and before.before == change.after
            last[change.gpu] = change
        return found

    def soonest(self) -> float:
        """The shortest time between two changes of a GPU."""
        last: dict[str, float] = {}
        found = float("inf")
        for change in self.changes:
            found = min(found, change.now - last.get(change.gpu, float("-inf")))
            last[change.gpu] = change.now
        return found


class Run:
    """One way through the day, from the layouts that the GPUs have at first."""

    def __init__(self, day: Day, way: Way, layouts: Sequence[Mapping[str, Any]]) -> None:
        self.day = day
        self.way = way
        self.record = Record()
        self.cluster = Cluster(day.nodes)
        carry_out(self.cluster, layouts, 0)
        self._end = day.hours * HOUR
        self._ends: list[tuple[float, int]] = []
        self._held = 0
        self._waiting = 0

    def play(self) -> Record:
        """From the first to the last minute."""
        record = self.record
        coming = sorted(self.day.jobs, key=lambda job: -job.at)
        for step in range(int(self._end // STEP)):
            now = float(step * STEP)
            while self._ends and self._ends[0][0] <= now:
                number = heappop(self._ends)[1]
                self._held -= self.cluster.pods[number].job.slices
                self.cluster.end(number)
            while coming and coming[-1].at <= now:
                self._come(coming.pop(), now)
            for number in self.cluster.schedule(now):
                self._start(self.cluster.pods[number], number, now)
            if self.way.planner is not None and now % self.day.every == 0 and self._waiting:
                self._repartition(self.way.planner, now)
            record.held.append(self._held)
            record.idle.append(min(self.day.slices - self._held, self._waiting))
            if now % HOUR == 0:
                record.split.append(_split(self.cluster))
        record.waits += [self._end - _came(pod) for pod in self.cluster.pods.values() if pod.node < 0]
        return record

    def _come(self, job: Job, now: float) -> None:
        self.cluster.add(job, now)
        self._waiting += job.slices * job.pods
        self.record.came += job.pods
        self.record.wanted += job.slices * job.pods * min(job.seconds, self._end - now)

    def _start(self, pod: Pod, number: int, now: float) -> None:
        slices = pod.job.slices
        self._held += slices
        self._waiting -= slices
        self.record.placed += 1
        self.record.ran += slices * min(pod.job.seconds, self._end - now)
        self.record.waits.append(now - _came(pod))
        heappush(self._ends, (now + pod.job.seconds, number))

    def _repartition(self, planner: Planner, now: float) -> None:
        """One pass."""
        cluster, record = self.cluster, self.record
        start = time.perf_counter()
        objects = cluster.objects()
        at = _seconds(clock(now))
        pending = pending_pods(objects, at, WINDOW, whole_gpus=True)
        seen = [node.seen for node in cluster.nodes]
        rules = Rules(self.way.cool_down)
        nodes, problems = plannable_nodes(seen, [node.object for node in cluster.nodes], objects, rules, at)
        if problems or pending.problems:
            raise AssertionError(f"what was observed is not understood: {problems + pending.problems}")
        layouts = planner(nodes, pending.pods) if pending.pods else []
        record.passes.append(time.perf_counter() - start)
        changes = carry_out(cluster, layouts, now)
        record.changes += changes
        for change in changes:
            metadata = cluster.nodes[cluster.number[change.node]].object["metadata"]
            metadata["annotations"].update(noted(metadata["annotations"], [change.gpu], clock(now), 86400))


def carry_out(cluster: Cluster, layouts: Sequence[Mapping[str, Any]], now: float) -> list[Change]:
    """Let the geometry core carry them out; it raises if an instance that a pod holds would go."""
    found = []
    for entry in layouts:
        number = cluster.number[entry["name"]]
        gpus = {gpu["index"]: gpu for gpu in cluster.nodes[number].gpus}
        states = {index: state_of(gpu, {}) for index, gpu in gpus.items()}
        for index, wanted in assign(parse_layout(entry["layout"]), list(states.values())).items():
            gpu, state = gpus[index], states[index]
            before, held = _described(gpu), _held(gpu)
            _become(gpu, outcome(state, plan_gpu(state, wanted)))
            lost = len(held - _held(gpu))
            found.append(Change(now, entry["name"], gpu["uuid"], before, _described(gpu), lost))
        cluster.refresh(number)
    return found


def _become(gpu: dict[str, Any], state: GpuState) -> None:
    """What mig_info would tell of it now. Who held an instance that is still there holds it."""
    old = {instance["placement"]["start"]: instance for instance in gpu["instances"]}
    mode = "enabled" if state.mig_current else "disabled"
    gpu["mig_mode"] = {"current": mode, "pending": mode}
    gpu["instances"] = [
        {
            "profile": str(instance.profile),
            "placement": {"start": instance.placement.start, "size": instance.placement.size},
            # One that was made anew has no id yet, and nobody holds it.
            "pods": old[instance.placement.start]["pods"] if instance.id >= 0 else [],
            "processes": [],
        }
        for instance in state.instances
    ]


def _held(gpu: Mapping[str, Any]) -> set[tuple[str, str, int]]:
    """What pods hold of it: the pod, the profile and the first slice; of a whole GPU, its mode."""
    found = {(pod["name"], gpu["mig_mode"]["current"], -1) for pod in gpu["pods"]}
    for instance in gpu["instances"]:
        start = instance["placement"]["start"]
        found.update((pod["name"], instance["profile"], start) for pod in instance["pods"])
    return found


def _described(gpu: Mapping[str, Any]) -> str:
    if gpu["mig_mode"]["current"] == "disabled":
        return "whole"
    counts = Counter(instance["profile"] for instance in gpu["instances"])
    return ", ".join(f"{count} x {name}" for name, count in sorted(counts.items()))


def _split(cluster: Cluster) -> float:
    """Of the free slices, the part on GPUs of which a pod holds some."""
    free = split = 0
    for node in cluster.nodes:
        for gpu in node.gpus:
            held = WHOLE if gpu["pods"] else sum(int(i["profile"][0]) for i in gpu["instances"] if i["pods"])
            free += WHOLE - held
            split += WHOLE - held if held else 0
    return split / free if free else 0.0


def _came(pod: Pod) -> float:
    return _seconds(pod.object["metadata"]["creationTimestamp"]) - _seconds(clock(0))


def _seconds(text: str) -> float:
    found = seconds(text)
    if found is None:
        raise AssertionError(f"{text!r} is no time")
    return float(found)
