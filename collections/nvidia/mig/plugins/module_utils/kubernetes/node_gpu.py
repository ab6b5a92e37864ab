# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What Kubernetes can see of one GPU: product, MIG mode and MIG devices. Pure, and independent of NVML."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from ansible_collections.nvidia.mig.plugins.module_utils.errors import InputError

_DEVICE = re.compile(
    r"^(?:(?P<ci>\d+)c\.)?(?P<gi>\d+)g\.(?P<gb>\d+)gb(?P<attributes>(?:[+-][a-z][a-z.]*)(?:,[a-z.]+)*)?$"
)


@dataclass(frozen=True)
class MigDevice:
    """One kind of MIG device, from its name: ``1c.3g.20gb+me`` has 1 compute slice, 3 GPU slices, 20 GB."""

    ci_slices: int
    gi_slices: int
    memory_gb: int
    attributes: str = ""

    @property
    def whole(self) -> bool:
        """True if the one compute instance fills its GPU instance."""
        return self.ci_slices == self.gi_slices

    @property
    def gpu_instance(self) -> str:
        """The GPU instance's base name, without compute slices and attributes: ``3g.20gb``."""
        return f"{self.gi_slices}g.{self.memory_gb}gb"

    @property
    def name(self) -> str:
        prefix = "" if self.whole else f"{self.ci_slices}c."
        return f"{prefix}{self.gpu_instance}{self.attributes}"


def parse_device(name: str, path: Optional[str] = None) -> MigDevice:
    """Read a MIG device's profile name. Raises InputError."""
    match = _DEVICE.match(name)
    if match is None:
        raise InputError(
            f"{name!r} is not a MIG profile",
            path=path,
            hint="a profile reads like 3g.20gb, 1g.5gb+me, 1c.3g.20gb",
        )
    gi = int(match.group("gi"))
    ci = int(match.group("ci")) if match.group("ci") else gi
    return MigDevice(ci, gi, int(match.group("gb")), match.group("attributes") or "")


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

    def devices(self) -> Tuple[MigDevice, ...]:
        return tuple(parse_device(name, f"GPU {self.index}") for name in self.instances)


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
            names = _device_names(state) if mig and state.mig_current else ()
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


def _device_names(state: Any) -> Tuple[str, ...]:
    names: List[str] = []
    for instance in state.instances:
        device = parse_device(str(instance.profile))
        for compute in instance.compute_instances:
            names.append(
                MigDevice(compute.slices, device.gi_slices, device.memory_gb, device.attributes).name
            )
    return tuple(names)
