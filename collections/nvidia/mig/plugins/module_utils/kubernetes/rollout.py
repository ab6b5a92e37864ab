# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Are a release's DaemonSets rolled out?

Helm's own wait is no answer: it passes a DaemonSet that matches no node, or whose only pod crashes.
"""

from __future__ import annotations

import time
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ansible_collections.nvidia.mig.plugins.module_utils.errors import ClusterError
from ansible_collections.nvidia.mig.plugins.module_utils.progress import tell

# It runs only where MPS is in use, by a label that feature discovery sets.
_OPTIONAL = "-mps-control-daemon"


class Rollout(NamedTuple):
    """State of one DaemonSet: ``waiting_for`` is empty once it is rolled out."""

    name: str
    waiting_for: str
    no_nodes: bool = False


def rollout(name: str, daemonset: Optional[Mapping[str, Any]]) -> Rollout:
    """Judge one DaemonSet object of the Kubernetes API."""
    if daemonset is None:
        return Rollout(name, "does not exist")
    status = daemonset.get("status") or {}
    if (status.get("observedGeneration") or 0) < (daemonset["metadata"].get("generation") or 0):
        return Rollout(name, "the DaemonSet controller has not seen it yet")
    wanted = status.get("desiredNumberScheduled") or 0
    if wanted == 0:
        return Rollout(name, "", no_nodes=not name.endswith(_OPTIONAL))
    counts = {"ready": status.get("numberReady") or 0}
    strategy = ((daemonset.get("spec") or {}).get("updateStrategy") or {}).get("type")
    if strategy != "OnDelete":
        counts["up to date"] = status.get("updatedNumberScheduled") or 0
    missing = [f"{count} of {wanted} pods {word}" for word, count in counts.items() if count < wanted]
    return Rollout(name, ", ".join(missing))


def wait_for_rollout(
    api: Any, names: Sequence[Tuple[str, str]], timeout: int, poll: float = 2.0
) -> List[str]:
    """Wait until every DaemonSet is rolled out.

    Args:
        api: see ``api.Api``.
        names: namespace and name of each.
        timeout: seconds.

    Returns:
        A warning for each DaemonSet that no node matches.

    Raises:
        ClusterError: not all were in time; it names pods and what holds them.
    """
    end = time.monotonic() + timeout
    while True:
        found: Dict[Tuple[str, str], Rollout] = {
            (namespace, name): rollout(name, api.get("DaemonSet", "apps/v1", name, namespace))
            for namespace, name in names
        }
        late = {key: state for key, state in found.items() if state.waiting_for}
        if not late:
            return [_no_nodes(state.name) for state in found.values() if state.no_nodes]
        text = "; ".join(f"{state.name}: {state.waiting_for}" for state in late.values())
        if time.monotonic() >= end:
            pods = [line for namespace, name in late for line in _stuck_pods(api, namespace, name)]
            raise ClusterError(
                f"not rolled out after {timeout} seconds: {text}" + "".join(f"; {pod}" for pod in pods),
                hint="the release is installed; see the pods, then run again",
            )
        tell(f"rollout: {text}")
        time.sleep(min(poll, max(0.1, end - time.monotonic())))


def _no_nodes(name: str) -> str:
    return (
        f"DaemonSet {name} matches no node. The charts run only on nodes with one of the labels "
        "feature.node.kubernetes.io/pci-10de.present=true (which Node Feature Discovery sets) and "
        "nvidia.com/gpu.present=true."
    )


def _stuck_pods(api: Any, namespace: str, name: str) -> List[str]:
    daemonset = api.get("DaemonSet", "apps/v1", name, namespace)
    if daemonset is None:
        return []
    selector = daemonset["spec"]["selector"].get("matchLabels") or {}
    lines: List[str] = []
    for pod in api.pods(namespace, selector):
        owners = [owner.get("name") for owner in pod["metadata"].get("ownerReferences") or []]
        reason = pod_trouble(pod)
        if name in owners and reason:
            node = (pod.get("spec") or {}).get("nodeName") or "no node"
            lines.append(f"pod {pod['metadata']['name']} on {node}: {reason}")
    return lines


def pod_trouble(pod: Mapping[str, Any]) -> str:
    """Why a pod is not ready; empty if it is."""
    status = pod.get("status") or {}
    statuses = (status.get("initContainerStatuses") or []) + (status.get("containerStatuses") or [])
    for container in statuses:
        waiting = (container.get("state") or {}).get("waiting") or {}
        if waiting.get("reason") in (None, "PodInitializing"):
            continue
        last = ((container.get("lastState") or {}).get("terminated") or {}).get("message") or waiting.get(
            "message"
        )
        return f"{container['name']}: {waiting['reason']}" + (f" ({last.strip()})" if last else "")
    conditions = {one["type"]: one for one in status.get("conditions") or []}
    ready = conditions.get("Ready", {})
    if ready.get("status") == "True":
        return ""
    cause = conditions.get("PodScheduled", {})
    if cause.get("status") == "False":
        return str(cause.get("message") or cause.get("reason"))
    return str(ready.get("message") or status.get("phase") or "no status")
