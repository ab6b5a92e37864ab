# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Layout + strategy + sharing -> the extended resources that a Kubernetes node must offer. Pure.

The only place that knows the name of a resource. What each version of the device plugin publishes was read in
NVIDIA's k8s-device-plugin at its release tags.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any, Dict, Optional, Sequence

from ansible_collections.nvidia.mig.plugins.module_utils.geometry.profile import Profile
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.node_gpu import NodeGpu
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.sharing import (
    Sharing,
    check_offered,
    check_sharing,
)
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.versions import Version, parse_version

_PREFIX = "nvidia.com/"
GPU_RESOURCE = f"{_PREFIX}gpu"
MIG_RESOURCE_PREFIX = f"{_PREFIX}mig-"
SHARED_SUFFIX = ".shared"


def expected_resources(
    strategy: str, gpus: Sequence[NodeGpu], chart_version: str, sharing: Sharing, path: str = "sharing"
) -> Dict[str, int]:
    """How many of each resource the node must offer.

    Args:
        strategy: none, single or mixed; the layout agrees with it.
        gpus: every GPU of the node, as it is or will be.
        chart_version: the device plugin's chart.
        sharing: time slicing or MPS of this node.
        path: where the sharing stands in the input, for the error.

    Raises:
        InputError: the node cannot share so.
    """
    check_sharing(sharing, strategy, path, chart_version)
    counts = _devices(strategy, gpus, parse_version(chart_version, "chart_version"))
    check_offered(sharing, [name for name, count in counts.items() if count], path)
    found: Dict[str, int] = {}
    for name, count in counts.items():
        replicas = sharing.of(name)
        renamed = sharing.rename and replicas > 1
        found[name] = 0 if renamed else count * replicas
        if renamed:
            found[name + SHARED_SUFFIX] = count * replicas
    return found


def quantity(text: Any) -> Any:
    """A resource count as an integer; what is no plain number stays as it is and differs from every count."""
    try:
        return int(str(text))
    except ValueError:
        return text


def is_gpu_resource(name: str) -> bool:
    """True for the resources that the device plugin publishes for GPUs and MIG devices."""
    return name in (GPU_RESOURCE, GPU_RESOURCE + SHARED_SUFFIX) or name.startswith(MIG_RESOURCE_PREFIX)


def bare_name(name: str) -> str:
    """A GPU resource without what all have in common: ``3g.20gb``, ``gpu.shared``."""
    prefix = MIG_RESOURCE_PREFIX if name.startswith(MIG_RESOURCE_PREFIX) else _PREFIX
    return name[len(prefix) :]


def _devices(strategy: str, gpus: Sequence[NodeGpu], plugin: Version) -> Dict[str, int]:
    """GPUs and MIG devices by resource."""
    counts: Counter[str] = Counter({GPU_RESOURCE: 0})
    for gpu in gpus:
        if strategy == "none" or not gpu.mig:
            counts[GPU_RESOURCE] += 1
            continue
        for device in gpu.devices():
            name = GPU_RESOURCE if strategy == "single" else _mig_resource(device, plugin)
            if name is not None:
                counts[name] += 1
    return counts


def _mig_resource(device: Profile, plugin: Version) -> Optional[str]:
    """The extended resource of one MIG device under strategy mixed."""
    if plugin.at_least("0.20.0"):
        return mig_resource(device)
    # Profiles were matched as substrings up to 0.19, so +me and 1c devices count as the plain profile.
    if device.ci_slices is None or plugin.at_least("0.12.0"):
        return MIG_RESOURCE_PREFIX + plain(device)
    return None  # older plugins skip compute instances smaller than their GPU instance


@cache  # a planner of a fleet asks for the same few again and again
def mig_resource(device: Profile) -> str:
    """The extended resource of a MIG device under strategy mixed, as device plugins from 0.20 on name it."""
    return MIG_RESOURCE_PREFIX + dotted(str(device))


def plain(device: Profile) -> str:
    """``3g.20gb``, whatever its compute slices and attributes."""
    return str(Profile(device.compute_slices, device.memory_gb))


def dotted(name: str) -> str:
    """A profile as it stands in names: ``1g.5gb.me``."""
    return name.replace("+", ".")
