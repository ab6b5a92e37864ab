# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NVIDIA's MIG Manager, as GPU Operator runs it: what it is asked for and what it answers. Pure.

On each node it reads a mig-parted file from a ConfigMap that it mounts, obeys a node label that names one of
the file's configurations, and tells by another label how that went. It does nothing more until the first
label changes.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence

from ansible_collections.nvidia.mig.plugins.module_utils.geometry.mig_parted import mig_parted_entries

CONFIG = "nvidia.com/mig.config"
STATE = "nvidia.com/mig.config.state"
DONE = ("success", "failed")
PODS = {"app": "nvidia-mig-manager"}
DATA_KEY = "config.yaml"
# What the operator labels a node with that has no label yet. Its own files have it, so ours has it, too.
DISABLED = {"all-disabled": [{"devices": "all", "mig-enabled": False}]}

_PREFIX = "nvidia-mig-"


def mig_manager_plan(
    plan: Mapping[str, Any],
    node: Mapping[str, Any],
    pods: Sequence[Mapping[str, Any]] = (),
) -> Dict[str, Any]:
    """A plan of mig_layout as MIG Manager carries it out.

    It replaces every instance of a GPU that is not as wanted, and resets all GPUs of a node to change a MIG
    mode, so all pods that hold a GPU are in the way.

    Args:
        plan: what mig_layout returned.
        node: the node object.
        pods: those of the node.

    Returns:
        The plan, with ``gpu_actions`` as mig_layout gave them; ``actions``, which has the label, too;
        ``pods``; ``config``: the name of the node's configuration, or an empty text where no GPU can do MIG;
        ``entries``: that configuration; ``config_before``: what the label says now.
    """
    entries = mig_parted_entries(plan["gpus"])
    name = _name(entries) if entries else ""
    labels = (node.get("metadata") or {}).get("labels") or {}
    actions = list(plan["actions"])
    asked = not name or (labels.get(CONFIG) == name and labels.get(STATE) == "success")
    if not asked or (actions and name):
        actions.append(f"label {CONFIG}={name}")
    return {
        **plan,
        "gpu_actions": list(plan["actions"]),
        "actions": actions,
        "pods": gpu_pods(pods) if plan["actions"] else [],
        "config": name,
        "entries": entries,
        "config_before": labels.get(CONFIG) or "",
    }


def mig_manager_configs(
    plans: Iterable[Mapping[str, Any]],
    current: Optional[Mapping[str, Any]] = None,
    nodes: Sequence[Mapping[str, Any]] = (),
) -> Dict[str, Any]:
    """The mig-parted file of a cluster, and the name of its ConfigMap.

    A configuration's name, and the ConfigMap's, follow from the content. So MIG Manager cannot take an old
    file for the new one, and pods that mount the new one are new themselves.

    Args:
        plans: those of `mig_manager_plan`, of the hosts that are about to change.
        current: ``name`` of the ConfigMap that is there, and its ``content``.
        nodes: all nodes; the configurations that their labels name stay.
    """
    wanted = {plan["config"]: plan["entries"] for plan in plans if plan["config"]}
    there = dict((current or {}).get("content", {}).get("mig-configs") or {})
    if current and all(there.get(name) == entries for name, entries in {**DISABLED, **wanted}.items()):
        return {"name": current["name"], "content": current["content"]}
    named = {(node["metadata"].get("labels") or {}).get(CONFIG) for node in nodes}
    kept = {name: entries for name, entries in there.items() if name in named}
    content = {"version": "v1", "mig-configs": {**kept, **DISABLED, **wanted}}
    return {"name": _name(content), "content": content}


def gpu_pods(pods: Sequence[Mapping[str, Any]]) -> List[Dict[str, str]]:
    """Pods that hold devices of NVIDIA's plugin, as `drain_obstacles` takes them."""
    found = []
    for pod in pods:
        if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
            continue
        containers = [*(pod["spec"].get("containers") or []), *(pod["spec"].get("initContainers") or [])]
        limits = [name for each in containers for name in (each.get("resources") or {}).get("limits") or {}]
        if any(name.startswith("nvidia.com/") for name in limits):
            found.append({key: pod["metadata"][key] for key in ("namespace", "name", "uid")})
    return found


def mig_manager_reads(pods: Sequence[Mapping[str, Any]], config_map: str) -> bool:
    """Whether MIG Manager runs, and has the file of this ConfigMap.

    Args:
        pods: MIG Manager's pods of one node.
    """
    return any(
        _ready(pod)
        and any(
            (volume.get("configMap") or {}).get("name") == config_map
            for volume in pod["spec"].get("volumes") or []
        )
        for pod in pods
        if "deletionTimestamp" not in pod["metadata"]
    )


def _ready(pod: Mapping[str, Any]) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or []
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _name(content: Any) -> str:
    return _PREFIX + hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:12]
