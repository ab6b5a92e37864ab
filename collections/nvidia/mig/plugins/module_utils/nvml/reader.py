# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read all GPUs of a host in one pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, Optional, Sequence, Tuple

from ansible_collections.nvidia.mig.plugins.module_utils.geometry.catalog import (
    Catalog,
    ComputeProfile,
    OfferedProfile,
)
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.state import (
    GpuIdentity,
    GpuInstance,
    GpuState,
)
from ansible_collections.nvidia.mig.plugins.module_utils.nvml.catalogs import (
    read_catalog,
    read_compute_profiles,
)
from ansible_collections.nvidia.mig.plugins.module_utils.nvml.instances import (
    read_instances,
    read_mig_devices,
    read_unknown,
)
from ansible_collections.nvidia.mig.plugins.module_utils.nvml.processes import read_processes
from ansible_collections.nvidia.mig.plugins.module_utils.nvml.session import (
    INVALID_ARGUMENT,
    NO_PERMISSION,
    NOT_SUPPORTED,
    Session,
)
from ansible_collections.nvidia.mig.plugins.module_utils.nvml.values import (
    GpuReading,
    HostReading,
    Process,
    identify,
)

_ARCHITECTURES = {
    2: "kepler",
    3: "maxwell",
    4: "pascal",
    5: "volta",
    6: "turing",
    7: "ampere",
    8: "ada",
    9: "hopper",
    10: "blackwell",
    13: "rubin",
}
_HOPPER = 9


@dataclass(frozen=True)
class _Kind:
    """What GPUs of one PCI device id have in common, so it is read once for all of them."""

    catalog: Catalog
    architecture: str
    resetless: bool


class Reader:
    """Reads a host as often as asked; what GPUs of one kind have in common it reads only once.

    Args:
        mig_devices: read the MIG devices' UUIDs, too.
        details: read memory sizes and remaining capacities, too.
    """

    def __init__(self, nvml: Session, mig_devices: bool = False, details: bool = False) -> None:
        self._nvml = nvml
        self._mig_devices = mig_devices
        self._details = details
        self._kinds: Dict[Tuple[str, str, str], _Kind] = {}
        self._compute_profiles: Dict[Tuple[str, int], Sequence[ComputeProfile]] = {}

    def read(self) -> HostReading:
        """The host as it is now. Raises NvmlError."""
        count = self._nvml.call("nvmlDeviceGetCount")
        return HostReading(tuple(self._gpu(index) for index in range(count)))

    def _gpu(self, index: int) -> GpuReading:
        nvml = self._nvml
        handle = nvml.device(index)
        identity = self._identity(index, handle)
        # NVML has no other way to say that a GPU cannot do MIG.
        mode = nvml.ask("nvmlDeviceGetMigMode", handle, gpu=index, absent=(NOT_SUPPORTED,))
        kind = self._kind(index, handle, identity, capable=mode is not None)
        current, pending = (bool(value) for value in mode or (0, 0))
        processes = read_processes(nvml, index, handle)
        instances: Tuple[GpuInstance, ...] = ()
        if current:
            instances = read_instances(
                nvml,
                index,
                handle,
                kind.catalog,
                lambda offered, instance: self._compute(index, identity, offered, instance),
                processes,
            )
        return GpuReading(
            GpuState(
                identity,
                kind.catalog,
                mode is not None,
                current,
                pending,
                kind.resetless,
                instances,
                _outside(processes),
                read_unknown(nvml, index, handle, kind.catalog) if current else (),
            ),
            processes,
            read_mig_devices(nvml, index, handle) if current and self._mig_devices else (),
            kind.architecture,
            self._memory(index, handle) if self._details else None,
            self._remaining(index, handle, kind.catalog) if current and self._details else {},
        )

    def _identity(self, index: int, handle: Any) -> GpuIdentity:
        nvml = self._nvml
        pci = nvml.call("nvmlDeviceGetPciInfo_v3", handle, gpu=index)
        bus_id = pci.busId.decode() if isinstance(pci.busId, bytes) else str(pci.busId)
        return identify(
            index,
            str(nvml.call("nvmlDeviceGetUUID", handle, gpu=index)),
            bus_id,
            str(nvml.call("nvmlDeviceGetName", handle, gpu=index)),
            pci.pciDeviceId,
            pci.pciSubSystemId,
        )

    def _kind(self, index: int, handle: Any, identity: GpuIdentity, capable: bool) -> _Kind:
        key = (identity.pci_device_id, identity.pci_subsystem_id, identity.product)
        kind = self._kinds.get(key)
        if kind is None:
            nvml = self._nvml
            catalog = Catalog(identity.product)
            if capable:
                catalog = read_catalog(nvml, index, handle, identity.product)
            number = nvml.ask("nvmlDeviceGetArchitecture", handle, gpu=index, absent=(NOT_SUPPORTED,))
            kind = _Kind(
                catalog,
                _ARCHITECTURES.get(number or 0, ""),
                capable and self._resetless(index, handle, number),
            )
            self._kinds[key] = kind
        return kind

    def _resetless(self, index: int, handle: Any, architecture: Optional[int]) -> bool:
        """Drivers of 2024 and later tell it; before, it goes by the architecture."""
        field = getattr(self._nvml.pynvml, "NVML_FI_DEV_IS_RESETLESS_MIG_SUPPORTED", None)
        if field is not None:
            values = self._nvml.ask(
                "nvmlDeviceGetFieldValues",
                handle,
                [field],
                gpu=index,
                absent=(NOT_SUPPORTED, INVALID_ARGUMENT),
            )
            if values is not None and values[0].nvmlReturn == 0:
                return bool(values[0].value.uiVal)
        return architecture in _ARCHITECTURES and (architecture or 0) >= _HOPPER

    def _compute(
        self, index: int, identity: GpuIdentity, offered: OfferedProfile, instance: Any
    ) -> Sequence[ComputeProfile]:
        key = (identity.pci_device_id, offered.id)
        if key not in self._compute_profiles:
            self._compute_profiles[key] = read_compute_profiles(self._nvml, index, instance)
        return self._compute_profiles[key]

    def _memory(self, index: int, handle: Any) -> Optional[int]:
        memory = self._nvml.ask(
            "nvmlDeviceGetMemoryInfo", handle, gpu=index, absent=(NO_PERMISSION, NOT_SUPPORTED)
        )
        return None if memory is None else int(memory.total) >> 20

    def _remaining(self, index: int, handle: Any, catalog: Catalog) -> Dict[int, int]:
        function = "nvmlDeviceGetGpuInstanceRemainingCapacity"
        return {
            offered.id: int(self._nvml.call(function, handle, offered.id, gpu=index))
            for offered in catalog.profiles
        }


def _outside(processes: Sequence[Process]) -> Tuple[str, ...]:
    return tuple(str(process) for process in processes if process.gpu_instance is None)
