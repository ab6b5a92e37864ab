# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What to do about a node that stays different from what its layout and strategy imply. Pure."""

from __future__ import annotations

from typing import Any, List, Mapping

from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.labels import (
    CONFIG_LABEL,
    PRESENT_LABEL,
    Expected,
    shown,
)
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.resources import (
    GPU_RESOURCE,
    is_gpu_resource,
    quantity,
)

_INVALID = "-MIG-INVALID"
_PODS = "app.kubernetes.io/name in (nvidia-device-plugin, gpu-feature-discovery)"


def remedies(expected: Expected, node: Mapping[str, Any]) -> List[str]:
    """One sentence for each thing to do, the likeliest first.

    Args:
        expected: what the node should show.
        node: a Node object that differs from it.
    """
    name = (node.get("metadata") or {}).get("name", "")
    seen = shown(node)
    resources, labels = seen["resources"], seen["labels"]
    wanted = {resource: count for resource, count in expected.resources.items() if count}
    anew = f"kubectl delete pods -A -l '{_PODS}' --field-selector spec.nodeName={name}"
    found: List[str] = []
    if wanted and not any(resources.values()) and f"{GPU_RESOURCE}.count" not in labels:
        found.append(
            "neither device plugin nor GPU Feature Discovery works on the node; see their pods and logs: "
            f"kubectl get pods -A --field-selector spec.nodeName={name}. Charts from 0.15 on put them only "
            f"on nodes with {PRESENT_LABEL}=true or a label of Node Feature Discovery"
        )
    stale = [resource for resource, count in resources.items() if count and resource not in wanted]
    if stale:
        found.append(
            f"no GPU offers {', '.join(stale)} any more, so the device plugin has not looked since; let its "
            f"pod come anew: {anew}. If it stays then, restart kubelet on the node"
        )
    retained = _retained(node)
    if retained:
        found.append(
            f"no device plugin serves {', '.join(retained)} now: kubelet keeps the capacity for five "
            "minutes, then sets it to 0. The plugin's log says why it does not; if it stays, restart kubelet "
            "on the node"
        )
    if any(str(value).endswith(_INVALID) for value in labels.values()):
        found.append(
            f"GPU Feature Discovery saw GPUs that are unlike each other ({_INVALID[1:]}); it looks again "
            f"every minute by default, or when its pod comes anew: {anew}"
        )
    if CONFIG_LABEL in labels and any(
        resource in wanted and count and count != wanted[resource] for resource, count in resources.items()
    ):
        found.append(
            f"the node's label {CONFIG_LABEL} picks {labels[CONFIG_LABEL]}; if that is not the strategy and "
            "sharing that you want, run playbooks/release.yml"
        )
    return found


def _retained(node: Mapping[str, Any]) -> List[str]:
    """Resources of which kubelet keeps a capacity that nobody can have."""
    status = node.get("status") or {}
    allocatable = status.get("allocatable") or {}
    return sorted(
        name
        for name, count in (status.get("capacity") or {}).items()
        if is_gpu_resource(name) and quantity(count) and not quantity(allocatable.get(name, "0"))
    )
