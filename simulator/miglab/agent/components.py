"""The device plugin and GPU feature discovery on a node: what they publish, or why they exit. Pure."""

from __future__ import annotations

from typing import Any

from miglab.agent import discovery, plugin
from miglab.agent.hardware import Hardware
from miglab.agent.model import Machine, Object, Pod, Snapshot
from miglab.agent.settings import RefusedError, WaitingError, component, read_settings

PLUGIN, DISCOVERY = "nvidia-device-plugin", "gpu-feature-discovery"


def running(workload: Object, node: Object, machine: Machine, snapshot: Snapshot) -> Pod:
    """The pod of ``workload`` on the node."""
    metadata = workload["metadata"]
    identity = f"{metadata.get('uid', '')}/{metadata.get('generation', 0)}/{machine.boot_id}"
    try:
        settings = read_settings(workload, node, snapshot.config_maps)
    except WaitingError as error:
        return Pod(workload, identity, None, str(error), waits=True)
    except RefusedError as error:
        return Pod(workload, identity, None, str(error))
    return Pod(workload, f"{identity}/{settings.config}", settings)


def published(pod: Pod | None, hardware: Hardware) -> tuple[dict[str, Any], str]:
    """What the pod publishes, and why it does not if it does not."""
    if pod is None:
        return {}, ""
    if pod.settings is None:
        return {}, pod.trouble
    work = plugin.resources if component(pod.workload) == PLUGIN else discovery.labels
    try:
        return dict(work(hardware, pod.settings)), ""
    except RefusedError as error:
        return {}, str(error)


def trouble(pod: Pod, machine: Machine) -> str:
    """Why the pod is not ready; empty if it is."""
    if machine.hardware is None:
        return pod.trouble
    return published(pod, machine.hardware)[1]
