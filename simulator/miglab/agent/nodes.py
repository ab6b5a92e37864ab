"""The Node objects of the simulated fleet, as kubelet and node feature discovery would make them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Object = Mapping[str, Any]

#: On every Node that the lab made, and on no other.
MARK = "mig-lab/simulated"
# The figures of a DGX A100 in NVIDIA's walk-through; nothing in the lab depends on them.
_CAPACITY = {
    "cpu": "256",
    "ephemeral-storage": "1844244028Ki",
    "hugepages-1Gi": "0",
    "hugepages-2Mi": "0",
    "memory": "2113616652Ki",
    "pods": "110",
}


def new_node(name: str) -> dict[str, Any]:
    """What to POST for a node that has just joined."""
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        # Node feature discovery's, which the device plugin's chart looks for; the lab does not run it.
        "feature.node.kubernetes.io/pci-10de.present": "true",
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels, "annotations": {MARK: "true"}},
    }


def is_simulated(node: Object) -> bool:
    return MARK in (node["metadata"].get("annotations") or {})


def spec_changes(node: Object) -> dict[str, Any]:
    """A merge patch of the spec: the taint that every new node gets goes once the node is ready."""
    taints = (node.get("spec") or {}).get("taints") or []
    kept = [taint for taint in taints if taint["key"] != "node.kubernetes.io/not-ready"]
    return {"spec": {"taints": kept or None}} if len(kept) < len(taints) else {}


def status_changes(node: Object, boot_id: str, version: str, now: str) -> dict[str, Any]:
    """A merge patch of the status with what kubelet reports besides devices; empty if all is there.

    Args:
        node: the Node as it is.
        boot_id: of the machine, new after each reboot.
        version: of Kubernetes.
        now: RFC 3339.
    """
    status = node.get("status") or {}
    found: dict[str, Any] = {}
    for field in ("capacity", "allocatable"):
        missing = {name: value for name, value in _CAPACITY.items() if name not in (status.get(field) or {})}
        if missing:
            found[field] = missing
    if not any(
        each["type"] == "Ready" and each["status"] == "True" for each in status.get("conditions") or []
    ):
        ready = {
            "type": "Ready",
            "status": "True",
            "reason": "KubeletReady",
            "message": "the lab's agent plays this node's kubelet",
            "lastHeartbeatTime": now,
            "lastTransitionTime": now,
        }
        found["conditions"] = [ready]
    if (status.get("nodeInfo") or {}).get("bootID") != boot_id:
        name = node["metadata"]["name"]
        found["nodeInfo"] = {
            "architecture": "amd64",
            "bootID": boot_id,
            "containerRuntimeVersion": "mig-lab://1",
            "kernelVersion": "simulated",
            "kubeProxyVersion": "",
            "kubeletVersion": version,
            "machineID": name,
            "operatingSystem": "linux",
            "osImage": "mig-lab",
            "systemUUID": name,
        }
    return found
