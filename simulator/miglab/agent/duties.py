"""What the agent has to do: compare what the API server holds with what it should hold. Pure.

The agent plays, for every simulated node: kubelet (Node status), the pods of the device plugin (extended
resources) and of GPU feature discovery (labels), and, since no controllers run, the status of DaemonSets and
Deployments.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from miglab.agent import discovery, nodes, plugin
from miglab.agent.hardware import Hardware
from miglab.agent.scheduling import runs_on
from miglab.agent.settings import RefusedError, Settings, WaitingError, component, read_settings

Object = Mapping[str, Any]
Key = tuple[str, str]

PLUGIN, DISCOVERY = "nvidia-device-plugin", "gpu-feature-discovery"
#: Node feature discovery's own note of the labels that it set, and may take away again.
OWNED_LABELS = "nfd.node.kubernetes.io/feature-labels"
_PREFIX = "nvidia.com/"


@dataclass
class Snapshot:
    """The API server's objects that matter here: nodes by name, the others by (namespace, name)."""

    nodes: dict[str, Object] = field(default_factory=dict)
    daemon_sets: dict[Key, Object] = field(default_factory=dict)
    deployments: dict[Key, Object] = field(default_factory=dict)
    config_maps: dict[Key, Object] = field(default_factory=dict)
    pods: dict[Key, Object] = field(default_factory=dict)


@dataclass(frozen=True)
class Machine:
    """One simulated node as it is now. ``hardware`` is None while NVML cannot be read."""

    hardware: Hardware | None
    boot_id: str = ""


@dataclass(frozen=True)
class Change:
    """One call to the API server. ``text`` says for people what changes."""

    method: str  # post, patch, delete; or end: what runs of a pod ends first
    path: str
    body: Mapping[str, Any]
    text: str


@dataclass(frozen=True)
class Pod:
    """A DaemonSet's pod on a node: settings, or why it is not running. ``identity`` changes at a restart."""

    workload: Object
    identity: str
    settings: Settings | None
    trouble: str = ""


@dataclass(frozen=True)
class Rules:
    """How the agent behaves.

    ``rescan_always``: the device plugin's pods see a new layout at once. False: as in a real cluster, only
    once they are restarted (a changed DaemonSet or named configuration, or a reboot).
    """

    kubernetes_version: str
    rescan_always: bool = True


def duties(
    snapshot: Snapshot, machines: Mapping[str, Machine], rules: Rules, now: datetime.datetime
) -> list[Change]:
    """Every call that is due, nodes before workloads. Nothing if all is as it should be."""
    changes: list[Change] = []
    running: dict[Key, list[bool]] = {key: [] for key in snapshot.daemon_sets}
    for name in machines.keys() - snapshot.nodes.keys():
        changes.append(Change("post", "/api/v1/nodes", nodes.new_node(name), f"node {name} joins"))
    for name, node in snapshot.nodes.items():
        if not nodes.is_simulated(node):
            continue
        if name not in machines:
            changes.append(Change("delete", f"/api/v1/nodes/{name}", {}, f"node {name} is gone"))
            continue
        changes += _node(node, snapshot, machines[name], rules, now, running)
    for key, workload in snapshot.daemon_sets.items():
        changes += _daemon_set(key, workload, running[key])
    for key, workload in snapshot.deployments.items():
        changes += _deployment(key, workload, now)
    for key, pod in snapshot.pods.items():
        if pod["spec"].get("nodeName") in machines:
            changes += _kubelet(key, pod, now)
    return changes


def _kubelet(key: Key, pod: Object, now: datetime.datetime) -> Iterator[Change]:
    """A pod that is bound to a simulated node runs; one that is deleted ends, and is gone."""
    name, path = "/".join(key), f"/api/v1/namespaces/{key[0]}/pods/{key[1]}"
    if "deletionTimestamp" in pod["metadata"]:
        body = {"node": pod["spec"]["nodeName"], "pod": name}
        yield Change("end", f"{path}?gracePeriodSeconds=0", body, f"pod {name} ends")
    elif (pod.get("status") or {}).get("phase") == "Pending":
        condition = {
            "type": "Ready",
            "status": "True",
            "lastTransitionTime": now.strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        status = {"phase": "Running", "conditions": [condition]}
        yield Change("patch", f"{path}/status", {"status": status}, f"pod {name} runs")


def _node(
    node: Object,
    snapshot: Snapshot,
    machine: Machine,
    rules: Rules,
    now: datetime.datetime,
    running: dict[Key, list[bool]],
) -> Iterator[Change]:
    name = node["metadata"]["name"]
    path = f"/api/v1/nodes/{name}"
    plugin_pod = discovery_pod = None
    for key, workload in sorted(snapshot.daemon_sets.items(), key=_age):
        if not runs_on(workload, node):
            continue
        kind = component(workload)
        if kind is None:
            running[key].append(True)
            continue
        pod = _pod(workload, node, machine, snapshot)
        # Of two releases on one node the later takes over the earlier one's socket, or feature file.
        if kind == PLUGIN:
            plugin_pod = pod
        else:
            discovery_pod = pod
        running[key].append(_healthy(pod, machine))

    if spec := nodes.spec_changes(node):
        yield Change("patch", path, spec, f"node {name} is ready")
    status = nodes.status_changes(
        node, machine.boot_id, rules.kubernetes_version, now.strftime("%Y-%m-%dT%H:%M:%SZ")
    )
    metadata: dict[str, Any] = {}
    text: list[str] = []
    if machine.hardware is not None:
        metadata, text = _metadata(node, machine.hardware, plugin_pod, discovery_pod, now)
        if _may_rescan(node, plugin_pod, rules):
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


def _pod(workload: Object, node: Object, machine: Machine, snapshot: Snapshot) -> Pod:
    metadata = workload["metadata"]
    identity = f"{metadata.get('uid', '')}/{metadata.get('generation', 0)}/{machine.boot_id}"
    try:
        settings = read_settings(workload, node, snapshot.config_maps)
    except (RefusedError, WaitingError) as error:
        return Pod(workload, identity, None, str(error))
    return Pod(workload, f"{identity}/{settings.config}", settings)


def _work(pod: Pod, hardware: Hardware) -> dict[str, int] | dict[str, str]:
    """What the pod publishes. RefusedError."""
    if pod.settings is None:
        raise RefusedError(pod.trouble)
    if component(pod.workload) == PLUGIN:
        return plugin.resources(hardware, pod.settings)
    return discovery.labels(hardware, pod.settings)


def _healthy(pod: Pod, machine: Machine) -> bool:
    if machine.hardware is None:
        return pod.settings is not None
    try:
        _work(pod, machine.hardware)
    except RefusedError:
        return False
    return True


def _published(pod: Pod | None, hardware: Hardware) -> tuple[dict[str, Any], str]:
    """What the pod publishes, and why it does not if it does not."""
    if pod is None:
        return {}, ""
    try:
        return dict(_work(pod, hardware)), ""
    except RefusedError as error:
        return {}, str(error)


def _may_rescan(node: Object, pod: Pod | None, rules: Rules) -> bool:
    annotations = node["metadata"].get("annotations") or {}
    if rules.rescan_always or pod is None or f"mig-lab/{PLUGIN}-error" in annotations:
        return True
    return bool(annotations.get(f"mig-lab/{PLUGIN}") != pod.identity)


def _resources(node: Object, hardware: Hardware, pod: Pod | None) -> dict[str, dict[str, str]]:
    """Changes of capacity and allocatable. What is no longer offered stays at 0, as kubelet leaves it."""
    offered, _ = _published(pod, hardware)
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
    now: datetime.datetime,
) -> tuple[dict[str, Any], list[str]]:
    """A merge patch of labels and annotations, and what it does in words."""
    metadata = node["metadata"]
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    published, refusal = _published(discovery_pod, hardware)
    if discovery_pod and discovery_pod.settings and discovery_pod.settings.timestamp and published:
        restarted = annotations.get(f"mig-lab/{DISCOVERY}") != discovery_pod.identity
        stamp = None if restarted else labels.get("nvidia.com/gfd.timestamp")
        published["nvidia.com/gfd.timestamp"] = stamp or str(int(now.timestamp()))
    owned = [label for label in (annotations.get(OWNED_LABELS) or "").split(",") if label]
    wanted_labels: dict[str, str | None] = {label: None for label in owned if label not in published}
    wanted_labels.update(published)
    _, plugin_refusal = _published(plugin_pod, hardware)
    wanted_annotations = {
        OWNED_LABELS: ",".join(sorted(published)) or None,
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


def _daemon_set(key: Key, workload: Object, healthy: list[bool]) -> Iterator[Change]:
    desired, ready = len(healthy), sum(healthy)
    wanted = {
        "currentNumberScheduled": desired,
        "desiredNumberScheduled": desired,
        "numberMisscheduled": 0,
        "numberReady": ready,
        "numberAvailable": ready,
        "numberUnavailable": desired - ready,
        "updatedNumberScheduled": desired,
        "observedGeneration": workload["metadata"].get("generation", 0),
    }
    status = workload.get("status") or {}
    changed = {name: value for name, value in wanted.items() if (status.get(name) or 0) != value}
    if changed:
        path = f"/apis/apps/v1/namespaces/{key[0]}/daemonsets/{key[1]}/status"
        yield Change(
            "patch", path, {"status": wanted}, f"daemonset {key[0]}/{key[1]}: {ready} of {desired} ready"
        )


def _deployment(key: Key, workload: Object, now: datetime.datetime) -> Iterator[Change]:
    """Deployments beside the plugin (node feature discovery's) are simply ready."""
    generation = workload["metadata"].get("generation", 0)
    replicas = workload["spec"].get("replicas", 1)
    status = workload.get("status") or {}
    if status.get("observedGeneration") == generation and (status.get("readyReplicas") or 0) == replicas:
        return
    stamp = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    condition = {"status": "True", "lastUpdateTime": stamp, "lastTransitionTime": stamp, "message": "mig-lab"}
    wanted = {
        "observedGeneration": generation,
        "conditions": [
            {**condition, "type": "Available", "reason": "MinimumReplicasAvailable"},
            {**condition, "type": "Progressing", "reason": "NewReplicaSetAvailable"},
        ],
    }
    for name in ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"):
        wanted[name] = replicas
    path = f"/apis/apps/v1/namespaces/{key[0]}/deployments/{key[1]}/status"
    yield Change("patch", path, {"status": wanted}, f"deployment {key[0]}/{key[1]}: ready")
