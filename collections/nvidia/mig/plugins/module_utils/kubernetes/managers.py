# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who else manages the GPUs of a cluster: NVIDIA's GPU Operator and NVIDIA's DRA driver. Pure.

GPU Operator is told what to run by an object of the kind ClusterPolicy. What it may run beside drivers and
container engines is what this collection brings: MIG Manager, the device plugin, GPU Feature Discovery.
"""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

CLUSTER_POLICIES = ("nvidia.com", "v1", "clusterpolicies")
# The versions that the DRA driver's chart knows, the newest first: a cluster serves several.
DEVICE_CLASSES = (
    ("resource.k8s.io", "v1", "deviceclasses"),
    ("resource.k8s.io", "v1beta2", "deviceclasses"),
    ("resource.k8s.io", "v1beta1", "deviceclasses"),
)

# Parts of a ClusterPolicy's spec that do the work of this collection. Each runs unless it is switched off.
_PARTS = {"migManager": "MIG Manager", "devicePlugin": "the device plugin", "gfd": "GPU Feature Discovery"}
# Device classes of the DRA driver that hand out GPUs. Those for compute domains leave GPUs alone.
_GPU_CLASSES = ("gpu.nvidia.com", "mig.nvidia.com", "vfio.gpu.nvidia.com")


def gpu_operator(policies: Sequence[Mapping[str, Any]]) -> Optional[Dict[str, Any]]:
    """What the operator manages; None if there is none that is active.

    Returns:
        ``policy``: the object's name; ``api_version``: that of its kind; ``parts``: the keys of its spec that
        this collection does the work of; ``manages``: the same in words; ``strategy`` and ``mig_config``: its
        MIG strategy, and the name of MIG Manager's ConfigMap, as they are set; ``namespace``: where the
        operator says that it is.
    """
    active = [policy for policy in policies if (policy.get("status") or {}).get("state") != "ignored"]
    if not active:
        return None
    # As the operator itself does it, where it has not yet said which it ignores.
    policy = min(active, key=_age)
    spec = policy.get("spec") or {}
    parts = [part for part in _PARTS if (spec.get(part) or {}).get("enabled") is not False]
    return {
        "policy": policy["metadata"]["name"],
        "api_version": "/".join(CLUSTER_POLICIES[:2]),
        "parts": parts,
        "manages": [_PARTS[part] for part in parts],
        "strategy": (spec.get("mig") or {}).get("strategy"),
        "mig_config": ((spec.get("migManager") or {}).get("config") or {}).get("name") or None,
        "namespace": (policy.get("status") or {}).get("namespace") or None,
    }


def _age(policy: Mapping[str, Any]) -> Tuple[str, str]:
    metadata = policy["metadata"]
    return metadata.get("creationTimestamp") or "", metadata["name"]


def dra_classes(device_classes: Sequence[Mapping[str, Any]]) -> List[str]:
    """The DRA driver's device classes that hand out GPUs or MIG devices."""
    names = {each["metadata"]["name"] for each in device_classes}
    return [name for name in _GPU_CLASSES if name in names]
