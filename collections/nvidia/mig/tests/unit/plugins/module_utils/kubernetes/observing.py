# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Short ways to write Pod and Node objects as the API returns them."""

from __future__ import annotations

from typing import Any

UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
NOW = 1_769_839_924  # 2026-01-31T06:12:04Z


def stamp(ago: int) -> str:
    """The time so many seconds ago; less than a minute, or whole minutes."""
    hour, minute, second = 6, 12, 4
    total = hour * 3600 + minute * 60 + second - ago
    return f"2026-01-31T{total // 3600:02}:{total // 60 % 60:02}:{total % 60:02}Z"


def container(name: str = "main", **requests: Any) -> dict[str, Any]:
    """A container; ``mig_1g_5gb`` stands for the resource of 1g.5gb, ``gpu`` for whole GPUs."""
    return {"name": name, "resources": {"requests": {_resource(key): str(v) for key, v in requests.items()}}}


def pod(name: str, *containers: dict[str, Any], ago: int = 600, **more: Any) -> dict[str, Any]:
    """A pod that the scheduler found unschedulable. ``spec``, ``status``, ``metadata`` are merged in."""
    return {
        "metadata": {
            "namespace": "ml",
            "name": name,
            "uid": f"uid-{name}",
            "creationTimestamp": stamp(ago),
            **more.get("metadata", {}),
        },
        "spec": {"containers": list(containers), "priority": 0, **more.get("spec", {})},
        "status": {"phase": "Pending", "conditions": [UNSCHEDULABLE], **more.get("status", {})},
    }


def bound(name: str, node: str, *containers: dict[str, Any], phase: str = "Running") -> dict[str, Any]:
    """A pod that has a node."""
    return pod(name, *containers, spec={"nodeName": node}, status={"phase": phase, "conditions": []})


def node(name: str, ready: str = "True", **more: Any) -> dict[str, Any]:
    """A node with 8 CPUs, 32Gi and room for 10 pods."""
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}, **more.get("metadata", {})},
        "spec": more.get("spec", {}),
        "status": {
            "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "10", "nvidia.com/mig-1g.5gb": "7"},
            "conditions": [{"type": "Ready", "status": ready}],
            **more.get("status", {}),
        },
    }


def gpu(index: int, *instances: str, mig: bool = True, **more: Any) -> dict[str, Any]:
    """What mig_info tells of a GPU; ``1g.5gb@0:1`` is an instance, ``1g.5gb@0:1 ml/a`` one that pod holds."""
    found = []
    for text in instances:
        words = text.split()
        profile, _at, place = words[0].partition("@")
        start, size = (int(part) for part in place.split(":"))
        pods = [
            dict(zip(("namespace", "name"), word.split("/")), uid=f"uid-{word[3:]}") for word in words[1:]
        ]
        found.append({"profile": profile, "placement": {"start": start, "size": size}, "pods": pods})
    mode = "enabled" if mig else "disabled"
    return {
        "index": index,
        "uuid": f"GPU-{index}",
        "mig_mode": {"current": mode, "pending": mode},
        "instances": found,
        "pods": [],
        **more,
    }


def _resource(key: str) -> str:
    if key == "gpu":
        return "nvidia.com/gpu"
    return f"nvidia.com/{key.replace('mig_', 'mig-').replace('_', '.')}" if key.startswith("mig_") else key
