"""A stand-in for NVIDIA's GPU Operator: as much of it as the toolkit talks to.

From the ClusterPolicy it makes the DaemonSets of the device plugin and of GPU Feature Discovery (the lab's
own), and a pod of MIG Manager on each node that mounts the policy's ConfigMap. MIG Manager obeys and answers
by the labels that the real one uses, and changes the simulated node with a reboot, as the real one may.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import yaml
from lab_runs import ROOT, Lab
from miglab import control
from miglab.api import Api, ApiError

NAMESPACE = "gpu-operator"
CONFIG, STATE = "nvidia.com/mig.config", "nvidia.com/mig.config.state"
DEFAULT = {"all-disabled": [{"devices": "all", "mig-enabled": False}]}
POLICY = {
    "apiVersion": "nvidia.com/v1",
    "kind": "ClusterPolicy",
    "metadata": {"name": "cluster-policy"},
    "spec": {"mig": {"strategy": "single"}, "migManager": {"config": {"default": "all-disabled"}}},
}


class GpuOperator:
    """Works between ``start`` and ``stop``; ``broken`` names nodes whose GPUs it cannot change."""

    def __init__(self, lab: Lab, nodes: tuple[str, ...]) -> None:
        self.lab = lab
        self.nodes = nodes
        self.broken: set[str] = set()
        self.applied: list[str] = []
        self._strategy = ""
        self._seen: dict[str, tuple[str, str]] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def start(self) -> None:
        """Install it, and let it work."""
        self.lab.kubectl("apply", "-f", str(ROOT / "simulator/gpu_operator/clusterpolicies.yaml"), json=False)
        self.lab.kubectl("wait", "--for=condition=Established", "crd/clusterpolicies.nvidia.com", json=False)
        self._apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}, POLICY)
        self._apply(_config_map("default-mig-parted-config", DEFAULT))
        self.lab.kubectl(
            *("patch", "clusterpolicy", "cluster-policy", "--subresource=status", "--type=merge"),
            *("-p", json.dumps({"status": {"state": "ready", "namespace": NAMESPACE}})),
        )
        self._thread.start()

    def stop(self) -> None:
        """End it, and take everything away that is its."""
        self._stopping.set()
        self._thread.join()
        self.lab.kubectl("delete", "crd", "clusterpolicies.nvidia.com", json=False)
        for kinds in ("daemonsets,configmaps", "pods"):
            self.lab.kubectl("delete", kinds, "--all", "-n", NAMESPACE, "--wait=false", json=False)
        for node in self.nodes:
            self.lab.kubectl("label", "node", node, f"{CONFIG}-", f"{STATE}-", json=False)

    def policy(self) -> dict[str, Any]:
        """The ClusterPolicy's spec."""
        return dict(self.lab.kubectl("get", "clusterpolicy", "cluster-policy")["spec"])

    def labels(self, node: str) -> tuple[str | None, str | None]:
        """The node's configuration, and MIG Manager's answer."""
        labels = self.lab.kubectl("get", "node", node)["metadata"]["labels"]
        return labels.get(CONFIG), labels.get(STATE)

    def _run(self) -> None:
        api = Api.from_kubeconfig(self.lab.directory / "kubeconfig")
        while not self._stopping.wait(0.3):
            try:
                spec = api.get("/apis/nvidia.com/v1/clusterpolicies/cluster-policy")["spec"]
                self._operands(spec["mig"]["strategy"])
                name = spec["migManager"]["config"].get("name") or "default-mig-parted-config"
                for node in self.nodes:
                    self._mig_manager(api, node, name)
            except ApiError:
                pass  # something has changed meanwhile: the next look will tell

    def _operands(self, strategy: str) -> None:
        if strategy == self._strategy:
            return
        for chart in ("nvidia-device-plugin", "gpu-feature-discovery"):
            text = self.lab.helm(
                *("template", chart, str(ROOT / "simulator/charts" / chart), "-n", NAMESPACE),
                *("--set", f"migStrategy={strategy}", "--set", "nfd.enabled=false"),
                *("--set", "affinity=null"),
                json=False,
            )
            self.lab.kubectl("apply", "-n", NAMESPACE, "-f", "-", stdin=text, json=False)
        self._strategy = strategy

    def _mig_manager(self, api: Api, node: str, config_map: str) -> None:
        """The pod, and what is due in it: at its start, and when the label changes."""
        label = api.get(f"/api/v1/nodes/{node}")["metadata"]["labels"].get(CONFIG) or ""
        seen = (config_map, label)
        if self._seen.get(node) == seen:
            return
        pods = f"/api/v1/namespaces/{NAMESPACE}/pods"
        if self._seen.get(node, ("", ""))[0] != config_map:
            if node in self._seen:
                api.delete(f"{pods}/nvidia-mig-manager-{node}?gracePeriodSeconds=0")
            api.post(pods, _pod(node, config_map))
        self._seen[node] = seen
        if not label:
            return
        content = api.get(f"/api/v1/namespaces/{NAMESPACE}/configmaps/{config_map}")["data"]["config.yaml"]
        entries = yaml.safe_load(content)["mig-configs"].get(label)
        state = "failed" if entries is None or node in self.broken else "success"
        path = self.lab.directory / "nodes" / node / "nvml.state"
        if state == "success" and not _is_applied(path, entries):
            for step in ("pending", "rebooting"):
                api.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": {STATE: step}}})
            _change(path, entries)
            self.applied.append(node)
        api.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": {STATE: state}}})

    def _apply(self, *objects: dict[str, Any]) -> None:
        items = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
        self.lab.kubectl("apply", "-f", "-", stdin=json.dumps(items), json=False)


def _config_map(name: str, configs: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "data": {"config.yaml": yaml.safe_dump({"version": "v1", "mig-configs": configs})},
    }


def _pod(node: str, config_map: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"nvidia-mig-manager-{node}", "labels": {"app": "nvidia-mig-manager"}},
        "spec": {
            "nodeName": node,
            "containers": [{"name": "nvidia-mig-manager", "image": "nowhere.invalid/none"}],
            "volumes": [{"name": "mig-parted-config", "configMap": {"name": config_map}}],
            "tolerations": [{"operator": "Exists"}],
        },
    }


def _wanted(gpu: int, entries: list[dict[str, Any]]) -> tuple[bool, Counter[str]] | None:
    for entry in entries:
        if entry["devices"] == "all" or gpu in entry["devices"]:
            return entry["mig-enabled"], Counter(entry.get("mig-devices") or {})
    return None


def _is_applied(state: Path, entries: list[dict[str, Any]]) -> bool:
    for index, gpu in enumerate(control.read(state)["gpus"]):
        there = (gpu["mig"]["current"], Counter(each["profile"] for each in gpu["instances"]))
        if _wanted(index, entries) not in (None, there):
            return False
    return True


def _change(state: Path, entries: list[dict[str, Any]]) -> None:
    """A reboot takes all instances away."""
    control.reboot(state)
    for index, _ in enumerate(control.read(state)["gpus"]):
        enabled, profiles = _wanted(index, entries) or (False, Counter())
        control.set_mode(state, index, enabled)
        for profile in sorted(profiles.elements(), reverse=True):  # the biggest first
            control.add_compute(state, index, control.add_instance(state, index, profile))
