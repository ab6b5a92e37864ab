"""Workloads on simulated nodes: the process that NVML shows and, for a pod, what kubelet writes down."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from miglab import control, control_plane, fleet, kubelet, paths
from miglab.api import Api, ApiError
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
    idle: bool = False,
    managed: bool = False,
) -> int:
    """A compute process on a MIG device, or on the whole GPU (``instance`` None). Returns its pid.

    With ``pod`` ("namespace/name") kubelet's checkpoint lists the device as allocated to it, under
    ``resource`` (default: the extended resource of the mixed strategy). An ``idle`` pod holds the device
    without a process on it; the pid is then 0. A ``managed`` pod is one in the Kubernetes API, too: a Job's,
    which can be drained.
    """
    if idle and not pod:
        raise LabError("only a pod can hold a device without a process: name it")
    if managed and control_plane.has_controllers():
        raise LabError(
            "a pod of a Job is made by the cluster's own controllers: deploy a Job that asks for the resource"
        )
    state = fleet.existing(node)
    if pod and not _POD.fullmatch(pod):
        raise LabError(f"'{pod}' is not a pod: namespace/name")
    if instance is not None and compute is None:
        compute = 0
    device, default = _device(control.read(state), node, gpu, instance, compute)
    started = 0
    if not idle:
        started = control.add_process(
            state, gpu, instance, compute, name=process, pod=pod, pid=pid, memory_mib=memory_mib
        )
    if pod:
        kubelet.allocate(
            paths.checkpoint(node),
            paths.pods_dir(node),
            pod,
            resource or default,
            device,
            uid=_create(node, pod, resource or default) if managed else "",
        )
    return started


class RejectedError(LabError):
    """Kubelet does not admit the pod. The text is what it says."""


def admit(
    node: str,
    pod: str,
    uid: str,
    wanted: Mapping[str, Mapping[str, int]],
    offered: Mapping[str, Sequence[str]],
    idle: bool,
) -> None:
    """Give a pod of the Kubernetes API its devices, as kubelet does, and let it run on them.

    Args:
        wanted: number of devices by container and resource.
        offered: device ids by resource, as the device plugin registered them.
        idle: it holds its devices, and runs nothing.

    Raises:
        RejectedError: not enough of them are free.
    """
    checkpoint, directory = paths.checkpoint(node), paths.pods_dir(node)
    held = kubelet.allocations(checkpoint, directory)
    if any(entry["uid"] == uid for entry in held):
        return
    taken = {(entry["resource"], device) for entry in held for device in entry["devices"]}
    chosen = []
    for container, counts in wanted.items():
        for resource, count in counts.items():
            free = [device for device in offered.get(resource, ()) if (resource, device) not in taken]
            if len(free) < count:
                raise RejectedError(
                    f"Allocate failed due to requested number of devices unavailable for {resource}. "
                    f"Requested: {count}, Available: {len(free)}, which is unexpected"
                )
            chosen += [(container, resource, device) for device in free[:count]]
            taken |= {(resource, device) for device in free[:count]}
    state = fleet.existing(node)
    places = _places(control.read(state))
    for container, resource, device in chosen:
        kubelet.allocate(checkpoint, directory, pod, resource, device, container, uid)
        if not idle:
            control.add_process(state, *places[device.partition("::")[0]], name=container, pod=pod)


def _places(content: dict[str, Any]) -> dict[str, tuple[int, int | None, int | None]]:
    """GPU, GPU instance and compute instance by UUID."""
    found: dict[str, tuple[int, int | None, int | None]] = {}
    for gpu in content["gpus"]:
        found[gpu["uuid"]] = (gpu["index"], None, None)
        for instance in gpu["instances"]:
            for compute in instance["compute_instances"]:
                found[compute["uuid"]] = (gpu["index"], instance["id"], compute["id"])
    return found


def _create(node: str, pod: str, resource: str) -> str:
    """Make the pod in the Kubernetes API, owned by a Job and bound to the node; returns its uid."""
    namespace, name = pod.split("/")
    api = Api.from_kubeconfig()
    container = {"name": "main", "image": "workload", "resources": {"limits": {resource: "1"}}}
    template = {"metadata": {}, "spec": {"containers": [container], "restartPolicy": "Never"}}
    try:
        _post(api, "/api/v1/namespaces", {"metadata": {"name": namespace}})
        _post(
            api,
            f"/apis/batch/v1/namespaces/{namespace}/jobs",
            {"metadata": {"name": name}, "spec": {"template": template}},
        )
        job = api.get(f"/apis/batch/v1/namespaces/{namespace}/jobs/{name}")
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": job["metadata"]["uid"]}
        _post(
            api,
            f"/api/v1/namespaces/{namespace}/pods",
            {
                "metadata": {
                    "name": name,
                    "labels": {"job-name": name},
                    "ownerReferences": [{**owner, "controller": True}],
                },
                "spec": {**template["spec"], "nodeName": node},
            },
        )
        found = api.get(f"/api/v1/namespaces/{namespace}/pods/{name}")
    except ApiError as error:
        raise LabError(f"no pod {pod} in the lab's cluster: {error}") from error
    return str(found["metadata"]["uid"])


def _post(api: Api, path: str, body: dict[str, Any]) -> None:
    try:
        api.post(path, body)
    except ApiError as error:
        if error.status != 409:
            raise


def remove(
    node: str,
    gpu: int | None = None,
    instance: int | None = None,
    compute: int | None = None,
    *,
    pod: str = "",
) -> int:
    """End the processes that fit every criterion given (none: every process); returns how many.

    A pod that holds a device so named and has no process left on any GPU is gone, with its allocations.
    """
    state = fleet.existing(node)
    named = _uuids(control.read(state), gpu, instance, compute)
    held = kubelet.allocations(paths.checkpoint(node), paths.pods_dir(node))
    removed = control.remove_processes(state, gpu, instance, compute, pod=pod)
    running = {process["pod"] for process in control.read(state)["processes"]}
    for entry in held:
        fits = (not pod or entry["pod"] == pod) and (gpu is None or named.intersection(entry["devices"]))
        if fits and entry["pod"] not in running:
            kubelet.release(paths.checkpoint(node), paths.pods_dir(node), entry["pod"])
    return removed


def _uuids(content: dict[str, Any], gpu: int | None, instance: int | None, compute: int | None) -> set[str]:
    """The GPUs and MIG devices that fit."""
    found = set()
    for item in content["gpus"]:
        if gpu not in (None, item["index"]):
            continue
        if instance is None:
            found.add(item["uuid"])
        for candidate in item["instances"]:
            for device in candidate["compute_instances"]:
                if instance in (None, candidate["id"]) and compute in (None, device["id"]):
                    found.add(device["uuid"])
    return found


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
