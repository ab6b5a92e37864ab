# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a node is marked that is held while its GPUs change: cordoned, and free of the GPUs' own pods. Pure.

Everything is written on the node object itself, so an interrupted run is gone on with by the next, from
wherever it is started. A cordon that was there before is somebody else's, and stays.
"""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Sequence

from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.pod_requests import effective_requests
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.resources import is_gpu_resource

# Keeps DaemonSets from making their pods anew on the node. Those of the device plugin, GFD and the exporters
# do not tolerate it; what tolerates every taint (networking, logging) is not bothered.
TAINT = {"key": "nvidia.com/mig-change", "effect": "NoSchedule"}
# On a node: the cordon is ours.
CORDONED = "nvidia.com/mig-change.cordoned"
# On a pod: it is to be drained.
DRAIN = "nvidia.com/mig-change.drain"
MIRROR = "kubernetes.io/config.mirror"


def drain_obstacles(
    pods: Sequence[Mapping[str, Any]],
    wanted: Sequence[Mapping[str, str]],
    unmanaged: bool = False,
    local_data: bool = False,
) -> List[str]:
    """Why pods cannot be drained, a sentence for each; the rules are those of kubectl's drain.

    Args:
        pods: the node's, as the API returns them.
        wanted: ``namespace``, ``name`` and ``uid`` of those that have to go.
        unmanaged: pods may be evicted that nothing makes anew.
        local_data: the content of emptyDir volumes may be lost.
    """
    by_uid = {pod["metadata"]["uid"]: pod for pod in pods}
    found: List[str] = []
    for wish in wanted:
        name = f"{wish['namespace']}/{wish['name']}" if wish["name"] else f"the pod with uid {wish['uid']}"
        pod = by_uid.get(wish["uid"])
        if pod is None:
            found.append(
                f"{name} is on the node as kubelet's checkpoint says, but not in the cluster: end it there"
            )
            continue
        if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
            continue
        metadata, volumes = pod["metadata"], pod["spec"].get("volumes") or []
        owners = [owner["kind"] for owner in metadata.get("ownerReferences") or []]
        if MIRROR in (metadata.get("annotations") or {}):
            found.append(f"{name} is a static pod: take its manifest from the node")
        elif "DaemonSet" in owners:
            found.append(f"{name} belongs to a DaemonSet, which would make it anew: keep that from the node")
        elif any("emptyDir" in volume for volume in volumes) and not local_data:
            found.append(
                f"{name} has emptyDir volumes, which would be lost: set mig_drain_local_data to true"
            )
        elif not owners and not unmanaged:
            found.append(f"{name} would not be made anew by anything: set mig_drain_unmanaged to true")
    return found


def gpu_holders(pods: Sequence[Mapping[str, Any]]) -> List[str]:
    """Names of a node's pods that have GPUs or parts of them: they request some, and have not ended."""
    found = []
    for pod in pods:
        if (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed"):
            requests = effective_requests(pod)
            if any(amount and is_gpu_resource(name) for name, amount in requests.items()):
                found.append(f"{pod['metadata'].get('namespace')}/{pod['metadata'].get('name')}")
    return found


def hold_marks(node: Mapping[str, Any]) -> Dict[str, Any]:
    """Whose the cordon of the node is, and what marks it and its pods.

    Returns:
        ``ours``, ``theirs``: whether there is a cordon of this collection, or of somebody else; ``changing``:
        whether the GPUs' pods are kept away; ``taints``; ``held`` and ``released``: the node's annotations;
        ``drain``: the pods' labels.
    """
    metadata, spec = node.get("metadata") or {}, node.get("spec") or {}
    ours = CORDONED in (metadata.get("annotations") or {})
    return {
        "ours": ours,
        "theirs": bool(spec.get("unschedulable")) and not ours,
        "changing": any(taint.get("key") == TAINT["key"] for taint in spec.get("taints") or []),
        "taints": [dict(TAINT)],
        "held": {CORDONED: "true"},
        "released": {CORDONED: None},
        "drain": {DRAIN: "true"},
    }
