# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A program: what MIG is like on this node, as JSON. It imports nothing but pynvml.

The action of mig_layout sends it to a node as it is, to see whether the module has anything to do there: to
load Ansible's library takes longer than to read eight GPUs. It reads modes, profiles and instances only, and
ends with an error where it does not understand something. The module can say then what is wrong.
"""

from __future__ import annotations

import json
import sys
from ctypes import byref, c_uint

INVALID_ARGUMENT = 2
NOT_SUPPORTED = 3
# No driver has as many profiles; it ends a loop that NVML should end.
MOST = 64


def read(nvml):
    """What `node.unchanged` reads.

    Returns:
        ``driver_version``, and ``gpus`` in the order of their index: ``uuid``, ``pci_bus_id``, ``product``;
        ``pci_device_id`` and ``pci_subsystem_id`` as NVML's numbers; ``mig_mode`` as [current, pending], None
        for a GPU without MIG; ``profiles`` as [name, id, instances at most, MiB, multiprocessors];
        ``instances`` as [id, profile id, start, size, [[id, slices, start, profile id], ...]].

    Raises:
        Exception: NVMLError, or whatever comes of something that it does not understand.
    """
    nvml.nvmlInit()
    try:
        kinds = {}
        return {
            "driver_version": text(nvml.nvmlSystemGetDriverVersion()),
            "gpus": [read_gpu(nvml, index, kinds) for index in range(nvml.nvmlDeviceGetCount())],
        }
    finally:
        nvml.nvmlShutdown()


def read_gpu(nvml, index, kinds):
    """One GPU; ``kinds`` remembers what GPUs of one kind have in common."""
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    pci = nvml.nvmlDeviceGetPciInfo_v3(handle)
    product = text(nvml.nvmlDeviceGetName(handle))
    try:
        mode = list(nvml.nvmlDeviceGetMigMode(handle))
    except nvml.NVMLError as error:
        if error.value != NOT_SUPPORTED:
            raise
        mode = None
    kind = (product, pci.pciDeviceId, pci.pciSubSystemId)
    if mode is not None and kind not in kinds:
        infos = offered(nvml, nvml.nvmlDeviceGetGpuInstanceProfileInfo, handle)
        profiles = [
            [text(info.name), info.id, info.instanceCount, info.memorySizeMB, info.multiprocessorCount]
            for info in infos
        ]
        kinds[kind] = (profiles, {})
    profiles, compute_profiles = kinds[kind] if mode is not None else ([], {})
    return {
        "uuid": text(nvml.nvmlDeviceGetUUID(handle)),
        "pci_bus_id": text(pci.busId),
        "pci_device_id": pci.pciDeviceId,
        "pci_subsystem_id": pci.pciSubSystemId,
        "product": product,
        "mig_mode": mode,
        "profiles": profiles,
        "instances": read_instances(nvml, handle, profiles, compute_profiles) if mode and mode[0] else [],
    }


def read_instances(nvml, handle, profiles, compute_profiles):
    """The GPU instances; ``compute_profiles`` remembers those of a GPU instance profile."""
    found = []
    for profile in profiles:
        number, most = profile[1:3]
        for instance in listed(
            nvml.nvmlDeviceGetGpuInstances, handle, number, nvml.c_nvmlGpuInstance_t, most
        ):
            info = nvml.nvmlGpuInstanceGetInfo(instance)
            if number not in compute_profiles:
                compute_profiles[number] = offered(
                    nvml,
                    nvml.nvmlGpuInstanceGetComputeInstanceProfileInfo,
                    instance,
                    nvml.NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED,
                )
            computes = read_computes(nvml, instance, compute_profiles[number])
            found.append([info.id, number, info.placement.start, info.placement.size, computes])
    return found


def read_computes(nvml, instance, profiles):
    """The compute instances of a GPU instance."""
    found = []
    for profile in profiles:
        for compute in listed(
            nvml.nvmlGpuInstanceGetComputeInstances,
            instance,
            profile.id,
            nvml.c_nvmlComputeInstance_t,
            profile.instanceCount,
        ):
            info = nvml.nvmlComputeInstanceGetInfo(compute)
            found.append([info.id, profile.sliceCount, info.placement.start, profile.id])
    return found


def offered(nvml, function, owner, *more):
    """NVML's answer for the number of each profile; it says by its error where they end."""
    found = []
    for number in range(MOST):
        try:
            found.append(function(owner, number, *more))
        except nvml.NVMLError as error:
            if error.value == INVALID_ARGUMENT:
                break
            if error.value != NOT_SUPPORTED:
                raise
    return found


def listed(function, owner, profile, kind, most):
    """The instances of one profile; ``kind`` is their type in C."""
    count = c_uint(0)
    array = (kind * max(1, most))()
    function(owner, profile, array, byref(count))
    return array[: count.value]


def text(value):
    """Old versions of nvidia-ml-py return bytes."""
    return value.decode() if isinstance(value, bytes) else value


if __name__ == "__main__":
    import pynvml

    sys.stdout.write(json.dumps(read(pynvml)) + "\n")
