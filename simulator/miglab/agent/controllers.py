"""In place of Kubernetes' controllers, where none run: the status of DaemonSets and Deployments. Pure."""

from __future__ import annotations

import datetime
from collections.abc import Iterator

from miglab.agent.model import Change, Key, Object


def daemon_set(key: Key, workload: Object, healthy: list[bool]) -> Iterator[Change]:
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


def deployment(key: Key, workload: Object, now: datetime.datetime) -> Iterator[Change]:
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
