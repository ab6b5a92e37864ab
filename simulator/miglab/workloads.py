"""Workloads on simulated nodes: the process that NVML shows and, for a pod, what kubelet writes down."""

from __future__ import annotations

import re
from typing import Any

from miglab import control, fleet, kubelet, paths
from miglab.console import LabError

_POD = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[a-z0-9]([-a-z0-9.]*[a-z0-9])?")


def add(
    node: str,
    gpu: int,
    instance: int | None = None,
    compute: int | None = None,
    *,
    process: str = "python",
    pod: str = "",
    resource: str = "",
    pid: int = 0,
    memory_mib: int = 1024,
) -> int:
    """A compute process on a MIG device, or on the whole GPU (``instance`` None). Returns its pid.

    With ``pod`` ("namespace/name") kubelet's checkpoint lists the device as allocated to it, under
    ``resource`` (default: the extended resource of the mixed strategy).
    """
    state = fleet.existing(node)
    if pod and not _POD.fullmatch(pod):
        raise LabError(f"'{pod}' is not a pod: namespace/name")
    if instance is not None and compute is None:
        compute = 0
    device, default = _device(control.read(state), node, gpu, instance, compute)
    pid = control.add_process(
        state, gpu, instance, compute, name=process, pod=pod, pid=pid, memory_mib=memory_mib
    )
    if pod:
        kubelet.allocate(paths.checkpoint(node), paths.pods_dir(node), pod, resource or default, device)
    return pid


def remove(
    node: str,
    gpu: int | None = None,
    instance: int | None = None,
    compute: int | None = None,
    *,
    pod: str = "",
) -> int:
    """End the processes that fit every criterion given (none: all workloads); returns how many.

    A pod whose processes are all gone loses its allocations, too.
    """
    state = fleet.existing(node)
    before = {process["pod"] for process in control.read(state)["processes"] if process["pod"]}
    removed = control.remove_processes(state, gpu, instance, compute, pod=pod)
    left = {process["pod"] for process in control.read(state)["processes"]}
    ended = {pod} if pod else before - left
    if gpu is None and not pod:
        ended |= {entry["pod"] for entry in kubelet.allocations(paths.checkpoint(node), paths.pods_dir(node))}
    for name in ended - left:
        kubelet.release(paths.checkpoint(node), paths.pods_dir(node), name)
    return removed


def _device(
    content: dict[str, Any], node: str, gpu: int, instance: int | None, compute: int | None
) -> tuple[str, str]:
    """UUID of the device and the name of its resource under the mixed strategy."""
    if not 0 <= gpu < len(content["gpus"]):
        raise LabError(f"{node} has no GPU {gpu}: it has {len(content['gpus'])}")
    found = content["gpus"][gpu]
    if instance is None:
        if found["mig"]["current"]:
            raise LabError(f"GPU {gpu} of {node} is in MIG mode: say which --instance")
        return found["uuid"], "nvidia.com/gpu"
    for candidate in found["instances"]:
        for device in candidate["compute_instances"]:
            if (candidate["id"], device["id"]) == (instance, compute):
                return device["uuid"], "nvidia.com/mig-" + device["profile"].replace("+", ".")
    there = [f"{i['id']}/{c['id']}" for i in found["instances"] for c in i["compute_instances"]]
    listed = ", ".join(there) or "none"
    raise LabError(
        f"GPU {gpu} of {node} has no MIG device {instance}/{compute}; GPU instance/compute instance: {listed}"
    )
