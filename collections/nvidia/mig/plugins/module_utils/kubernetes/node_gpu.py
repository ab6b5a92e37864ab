# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What Kubernetes can see of one GPU: product, MIG mode and MIG devices. Pure, and independent of NVML."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from ansible_collections.nvidia.mig.plugins.module_utils.errors import InputError
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.profile import Profile, parse_profile


@dataclass(frozen=True)
class ProfileSize:
    """What NVML says about a profile on this GPU; None where it was not read."""

    memory_mib: Optional[int] = None
    multiprocessors: Optional[int] = None


@dataclass(frozen=True)
class NodeGpu:
    """One GPU as the device plugin and GPU feature discovery will find it.

    Args:
        product: NVML's name, such as ``NVIDIA A100-SXM4-40GB``.
        mig: MIG mode is (or will be) on.
        instances: one profile name per MIG device, that is per compute instance.
        sizes: memory and multiprocessors by profile name, where known.
    """

    index: int
    product: str
    mig: bool = False
    instances: Tuple[str, ...] = ()
    mig_capable: bool = True
    sizes: Mapping[str, ProfileSize] = field(default_factory=dict, compare=False)

    def devices(self) -> Tuple[Profile, ...]:
        return tuple(parse_profile(name, f"GPU {self.index}") for name in self.instances)


def gpus_from_info(gpus: Sequence[Mapping[str, Any]]) -> Tuple[NodeGpu, ...]:
    """Build from ``gpus`` as mig_info returns them, or from mig_layout's summary of them.

    Raises:
        InputError: an entry is not of that form.
    """
    found: List[NodeGpu] = []
    for position, gpu in enumerate(gpus):
        path = f"gpus[{position}]"
        if not isinstance(gpu, Mapping) or "index" not in gpu or "product" not in gpu:
            raise InputError(
                "this is not a GPU as nvidia.mig.mig_info returns it",
                path=path,
                hint="pass the value 'gpus' of nvidia.mig.mig_info's result",
            )
        found.append(_from_summary(gpu, path) if "mig" in gpu else _from_info(gpu))
    return tuple(found)


def _from_summary(gpu: Mapping[str, Any], path: str) -> NodeGpu:
    mig = bool(gpu["mig"])
    profiles = gpu.get("profiles") or []
    if not isinstance(profiles, (list, tuple)) or not all(isinstance(name, str) for name in profiles):
        raise InputError(
            "profiles must be a list of names, one per MIG device",
            path=f"{path}.profiles",
            hint="such as ['3g.20gb']",
        )
    return NodeGpu(
        int(gpu["index"]),
        str(gpu["product"]),
        mig,
        tuple(profiles),
        mig_capable=bool(gpu.get("mig_capable", True)),
    )


def _from_info(gpu: Mapping[str, Any]) -> NodeGpu:
    mode = (gpu.get("mig_mode") or {}).get("current")
    names: List[str] = []
    for instance in gpu.get("instances") or []:
        names.extend(str(compute["profile"]) for compute in instance.get("compute_instances") or [])
    sizes: Dict[str, ProfileSize] = {
        str(profile["name"]): ProfileSize(profile.get("memory_mib"), profile.get("multiprocessors"))
        for profile in gpu.get("profiles") or []
    }
    return NodeGpu(
        int(gpu["index"]),
        str(gpu["product"]),
        mode == "enabled",
        tuple(names),
        mig_capable=bool(gpu.get("mig_capable", mode is not None)),
        sizes=sizes,
    )


def gpus_from_layout(states: Sequence[Any], wanted: Mapping[int, Any]) -> Tuple[NodeGpu, ...]:
    """What a node will look like once a layout is applied.

    Args:
        states: geometry's ``GpuState`` of every GPU of the node.
        wanted: geometry's ``GpuLayout`` by GPU index; a GPU that is not in it keeps what it has.
    """
    gpus: List[NodeGpu] = []
    for state in states:
        index = state.identity.index
        layout = wanted.get(index)
        if layout is not None:
            mig, names = bool(layout.mig), tuple(str(profile) for profile in layout.profiles)
        else:
            # A pending mode becomes current at the next reset, and instances do not outlive the mode.
            mig = bool(state.mig_pending)
            names = tuple(map(str, state.devices)) if mig and state.mig_current else ()
        sizes = {
            str(offered.profile): ProfileSize(offered.memory_mib, offered.multiprocessors)
            for offered in state.catalog.profiles
        }
        gpus.append(
            NodeGpu(
                index, state.identity.product, mig, names, mig_capable=bool(state.mig_capable), sizes=sizes
            )
        )
    return tuple(gpus)
