"""What the agent has to do: compare what the API server holds with what it should hold. Pure.

The agent plays, for every simulated node, kubelet and the programs of the device plugin's pods (extended
resources) and of GPU feature discovery's (labels). Where no controllers run, it plays what is needed of them.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping
from typing import Any

from miglab.agent import controllers, nodes, pods
from miglab.agent.components import DISCOVERY, PLUGIN, published, running, trouble
from miglab.agent.hardware import Hardware
from miglab.agent.model import Change, Key, Machine, Object, Pod, Rules, Snapshot
from miglab.agent.scheduling import runs_on
from miglab.agent.settings import component

#: Node feature discovery's own note of the labels that it set, and may take away again.
OWNED_LABELS = "nfd.node.kubernetes.io/feature-labels"
_PREFIX = "nvidia.com/"


def duties(
    snapshot: Snapshot, machines: Mapping[str, Machine], rules: Rules, now: datetime.datetime
) -> list[Change]:
    """Every call that is due, nodes before workloads. Nothing if all is as it should be."""
    changes: list[Change] = []
    ready: dict[Key, list[bool]] = {key: [] for key in snapshot.daemon_sets}
    for name in machines.keys() - snapshot.nodes.keys():
        changes.append(Change("post", "/api/v1/nodes", nodes.new_node(name), f"node {name} joins"))
    for name, node in snapshot.nodes.items():
        if not nodes.is_simulated(node):
            continue
        if name not in machines:
            changes.append(Change("delete", f"/api/v1/nodes/{name}", {}, f"node {name} is gone"))
            continue
        if rules.controllers:
            changes += _kubelet(node, snapshot, machines[name], rules, now)
        else:
            changes += _stand_in(node, snapshot, machines[name], rules, now, ready)
    if not rules.controllers:
        for key, workload in snapshot.daemon_sets.items():
            changes += controllers.daemon_set(key, workload, ready[key])
        for key, workload in snapshot.deployments.items():
            changes += controllers.deployment(key, workload, now)
        for key, pod in snapshot.pods.items():
            if pod["spec"].get("nodeName") in machines:
                changes += pods.stand_in(key, pod, now)
    return changes


def _kubelet(
    node: Object, snapshot: Snapshot, machine: Machine, rules: Rules, now: datetime.datetime
) -> Iterator[Change]:
    """A node of a cluster with controllers: its pods are there, and do what runs in them."""
    if not machine.on:
        return
    bound = {
        key: pod
        for key, pod in sorted(snapshot.pods.items(), key=_age)
        if pod["spec"].get("nodeName") == node["metadata"]["name"]
    }
    programs: dict[Key, Pod] = {}
    for key, pod in bound.items():
        workload = {"metadata": pod["metadata"], "spec": {"template": {"spec": pod["spec"]}}}
        if component(workload) is not None:
            programs[key] = running(workload, node, machine, snapshot)
    active = [program for key, program in programs.items() if pods.is_active(bound[key])]
    plugin_pod, discovery_pod = _last(PLUGIN, active), _last(DISCOVERY, active)
    yield from _node(node, machine, plugin_pod, discovery_pod, rules, now)
    troubles = {key: trouble(program, machine) for key, program in programs.items()}
    if plugin_pod and not _may_rescan(node, plugin_pod, rules):
        troubles = {key: text for key, text in troubles.items() if programs[key] is not plugin_pod}
    for key, pod in bound.items():
        waits = key in programs and programs[key].waits
        yield from pods.kubelet(key, pod, machine, plugin_pod, troubles.get(key, ""), waits, now)


def _stand_in(
    node: Object,
    snapshot: Snapshot,
    machine: Machine,
    rules: Rules,
    now: datetime.datetime,
    ready: dict[Key, list[bool]],
) -> Iterator[Change]:
    """A node of a cluster without controllers: every DaemonSet that fits is at home there, without a pod."""
    programs: list[Pod] = []
    for key, workload in sorted(snapshot.daemon_sets.items(), key=_age):
        if not runs_on(workload, node):
            continue
        if component(workload) is None:
            ready[key].append(True)
            continue
        programs.append(running(workload, node, machine, snapshot))
        ready[key].append(not trouble(programs[-1], machine))
    if spec := nodes.spec_changes(node):
        path = f"/api/v1/nodes/{node['metadata']['name']}"
        yield Change("patch", path, spec, f"node {node['metadata']['name']} is ready")
    yield from _node(node, machine, _last(PLUGIN, programs), _last(DISCOVERY, programs), rules, now)


def _last(kind: str, programs: list[Pod]) -> Pod | None:
    """Of two releases on one node the later takes over the earlier one's socket, or feature file."""
    found = [program for program in programs if component(program.workload) == kind]
    return found[-1] if found else None


def _node(
    node: Object,
    machine: Machine,
    plugin_pod: Pod | None,
    discovery_pod: Pod | None,
    rules: Rules,
    now: datetime.datetime,
) -> Iterator[Change]:
    """The node's status, labels and annotations."""
    name = node["metadata"]["name"]
    path = f"/api/v1/nodes/{name}"
    status = nodes.status_changes(
        node, machine.boot_id, rules.kubernetes_version, now.strftime("%Y-%m-%dT%H:%M:%SZ")
    )
    metadata: dict[str, Any] = {}
    text: list[str] = []
    if machine.hardware is not None:
        looks = _may_rescan(node, plugin_pod, rules)
        metadata, text = _metadata(node, machine.hardware, plugin_pod, discovery_pod, looks, now)
        if looks:
            for part, values in _resources(node, machine.hardware, plugin_pod).items():
                status[part] = {**status.get(part, {}), **values}
    # The status goes first: the annotations say that it has been done.
    if status:
        offered = {**status.get("capacity", {}), **status.get("allocatable", {})}
        news = [f"{key} {value}" for key, value in sorted(offered.items()) if key.startswith(_PREFIX)]
        yield Change(
            "patch", f"{path}/status", {"status": status}, f"node {name}: {', '.join(news) or 'status'}"
        )
    if metadata:
        yield Change("patch", path, {"metadata": metadata}, f"node {name}: {'; '.join(text) or 'notes'}")


def _age(item: tuple[Key, Object]) -> tuple[str, Key]:
    return item[1]["metadata"].get("creationTimestamp") or "", item[0]


def _may_rescan(node: Object, pod: Pod | None, rules: Rules) -> bool:
    """Whether the device plugin looks at the GPUs now. One that exited is started again and again."""
    annotations = node["metadata"].get("annotations") or {}
    if rules.rescan_always or pod is None or f"mig-lab/{PLUGIN}-error" in annotations:
        return True
    return bool(annotations.get(f"mig-lab/{PLUGIN}") != pod.identity)


def _resources(node: Object, hardware: Hardware, pod: Pod | None) -> dict[str, dict[str, str]]:
    """Changes of capacity and allocatable. What is no longer offered stays at 0, as kubelet leaves it."""
    offered, _ = published(pod, hardware)
    wanted = {name: str(count) for name, count in offered.items()}
    found: dict[str, dict[str, str]] = {}
    for part in ("capacity", "allocatable"):
        current = (node.get("status") or {}).get(part) or {}
        gone = {name: "0" for name in current if name.startswith(_PREFIX) and name not in wanted}
        changed = {name: value for name, value in {**gone, **wanted}.items() if current.get(name) != value}
        if changed:
            found[part] = changed
    return found


def _metadata(
    node: Object,
    hardware: Hardware,
    plugin_pod: Pod | None,
    discovery_pod: Pod | None,
    looks: bool,
    now: datetime.datetime,
) -> tuple[dict[str, Any], list[str]]:
    """A merge patch of labels and annotations, and what it does in words. ``looks``: so does the plugin."""
    metadata = node["metadata"]
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    labelled, refusal = published(discovery_pod, hardware)
    if discovery_pod and discovery_pod.settings and discovery_pod.settings.timestamp and labelled:
        restarted = annotations.get(f"mig-lab/{DISCOVERY}") != discovery_pod.identity
        stamp = None if restarted else labels.get("nvidia.com/gfd.timestamp")
        labelled["nvidia.com/gfd.timestamp"] = stamp or str(int(now.timestamp()))
    owned = [label for label in (annotations.get(OWNED_LABELS) or "").split(",") if label]
    wanted_labels: dict[str, str | None] = {label: None for label in owned if label not in labelled}
    wanted_labels.update(labelled)
    plugin_refusal = published(plugin_pod, hardware)[1] if looks else ""
    wanted_annotations = {
        OWNED_LABELS: ",".join(sorted(labelled)) or None,
        f"mig-lab/{PLUGIN}": plugin_pod.identity if plugin_pod else None,
        f"mig-lab/{PLUGIN}-error": plugin_refusal or None,
        f"mig-lab/{DISCOVERY}": discovery_pod.identity if discovery_pod else None,
        f"mig-lab/{DISCOVERY}-error": refusal or None,
    }
    changed_labels = _differing(labels, wanted_labels)
    changed_annotations = _differing(annotations, wanted_annotations)
    text = [f"{len(changed_labels)} labels"] if changed_labels else []
    for kind in (PLUGIN, DISCOVERY):
        if error := changed_annotations.get(f"mig-lab/{kind}-error"):
            text.append(f"{kind} exits: {error}")
    patch = {"labels": changed_labels, "annotations": changed_annotations}
    return {name: value for name, value in patch.items() if value}, text


def _differing(current: Mapping[str, str], wanted: Mapping[str, str | None]) -> dict[str, str | None]:
    return {name: value for name, value in wanted.items() if current.get(name) != value}
