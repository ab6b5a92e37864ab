"""Kubelet's device checkpoint and pod log directories of a node, in kubelet's own form.

The checkpoint is what kubelet's device manager writes (the form of Kubernetes 1.20 and later: device ids by
NUMA node). Its ``Checksum`` is 0 here: kubelet's is made from Go structures, and no kubelet reads ours.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import shutil
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

NO_NUMA_NODE = "-1"


def clear(checkpoint: Path) -> None:
    """A checkpoint without pods."""
    _write(checkpoint, {"PodDeviceEntries": [], "RegisteredDevices": {}})


def allocations(checkpoint: Path, pods: Path) -> list[dict[str, Any]]:
    """What is allocated: pod ("namespace/name"), uid, container, resource, devices."""
    by_uid = {directory.name.rpartition("_")[2]: directory.name for directory in pods.glob("*_*_*")}
    found = []
    for entry in _read(checkpoint)["PodDeviceEntries"]:
        uid = entry["PodUID"]
        directory = by_uid.get(uid, f"?_?_{uid}")
        namespace, name, _ = directory.split("_", 2)
        found.append(
            {
                "pod": f"{namespace}/{name}",
                "uid": uid,
                "container": entry["ContainerName"],
                "resource": entry["ResourceName"],
                "devices": [device for devices in entry["DeviceIDs"].values() for device in devices],
            }
        )
    return found


def allocate(
    checkpoint: Path,
    pods: Path,
    pod: str,
    resource: str,
    device: str,
    container: str = "main",
    uid: str = "",
) -> str:
    """Give a device to a pod, as kubelet does when it admits the pod; returns the pod's uid.

    ``uid`` is the pod's in the Kubernetes API; by default a new one, of a pod that only kubelet knows.
    """
    uid = uid or _pod_uid(pods, pod) or str(uuid.uuid4())
    namespace, name = pod.split("/")
    (pods / f"{namespace}_{name}_{uid}" / container).mkdir(parents=True, exist_ok=True)

    def change(data: dict[str, Any]) -> None:
        entries = data["PodDeviceEntries"]
        for entry in entries:
            if (entry["PodUID"], entry["ContainerName"], entry["ResourceName"]) == (uid, container, resource):
                devices = entry["DeviceIDs"].setdefault(NO_NUMA_NODE, [])
                if device not in devices:
                    devices.append(device)
                entry["AllocResp"] = _response(devices)
                return
        entries.append(
            {
                "PodUID": uid,
                "ContainerName": container,
                "ResourceName": resource,
                "DeviceIDs": {NO_NUMA_NODE: [device]},
                "AllocResp": _response([device]),
            }
        )

    _change(checkpoint, change)
    return uid


def release(checkpoint: Path, pods: Path, pod: str) -> int:
    """The pod is gone: its allocations and its log directory; returns how many allocations there were."""
    uid = _pod_uid(pods, pod)
    if uid is None:
        return 0
    removed = 0

    def change(data: dict[str, Any]) -> None:
        nonlocal removed
        kept = [entry for entry in data["PodDeviceEntries"] if entry["PodUID"] != uid]
        removed = len(data["PodDeviceEntries"]) - len(kept)
        data["PodDeviceEntries"] = kept

    _change(checkpoint, change)
    namespace, name = pod.split("/")
    shutil.rmtree(pods / f"{namespace}_{name}_{uid}", ignore_errors=True)
    return removed


def _pod_uid(pods: Path, pod: str) -> str | None:
    namespace, name = pod.split("/")
    for directory in pods.glob(f"{namespace}_{name}_*"):
        return directory.name.rpartition("_")[2]
    return None


def _response(devices: list[str]) -> str:
    """The device plugin's answer: ContainerAllocateResponse with one variable (protobuf, base64)."""
    pair = _field(1, b"NVIDIA_VISIBLE_DEVICES") + _field(2, ",".join(devices).encode())
    return base64.b64encode(_field(1, pair)).decode()


def _field(number: int, content: bytes) -> bytes:
    length, head = len(content), bytearray([number << 3 | 2])
    while length > 0x7F:
        head.append(length & 0x7F | 0x80)
        length >>= 7
    head.append(length)
    return bytes(head) + content


def _read(checkpoint: Path) -> dict[str, Any]:
    if not checkpoint.exists():
        return {"PodDeviceEntries": [], "RegisteredDevices": {}}
    data: dict[str, Any] = json.loads(checkpoint.read_text(encoding="utf-8"))["Data"]
    data["PodDeviceEntries"] = data["PodDeviceEntries"] or []  # Go writes null for an empty list
    return data


def _write(checkpoint: Path, data: dict[str, Any]) -> None:
    fresh = checkpoint.with_name(f"{checkpoint.name}.{os.getpid()}")
    fresh.write_text(json.dumps({"Data": data, "Checksum": 0}), encoding="utf-8")
    fresh.replace(checkpoint)


def _change(checkpoint: Path, change: Callable[[dict[str, Any]], None]) -> None:
    with open(checkpoint.with_name(checkpoint.name + ".lock"), "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        data = _read(checkpoint)
        change(data)
        _write(checkpoint, data)
