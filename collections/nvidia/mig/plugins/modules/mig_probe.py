#!/usr/bin/python
# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: mig_probe
short_description: Tell in one light call what MIG is like on a node
version_added: 0.1.0
author: MIG provisioning toolkit maintainers (@nvidia)
description:
  - What M(nvidia.mig.mig_layout) asks first, to see whether a node is as wanted already. Of many nodes most
    are, most of the time.
  - It reads modes, profiles and instances only, and does without Ansible's Python library, which takes longer
    to load on the node than all GPUs take to read.
  - In a playbook use M(nvidia.mig.mig_info), which tells much more and says what is wrong if it cannot.
requirements:
  - nvidia-ml-py >= 11.525 on the node
notes:
  - It fails where it does not understand something, even if other modules do.
attributes:
  check_mode:
    support: full
    description: Changes nothing in any mode.
  diff_mode:
    support: N/A
    description: Changes nothing, so there is nothing to compare.
options: {}
seealso:
  - module: nvidia.mig.mig_info
  - module: nvidia.mig.mig_layout
"""

EXAMPLES = r"""
- name: Read the bare facts
  nvidia.mig.mig_probe:
  become: true
  register: probe
"""

RETURN = r"""
driver_version:
  description: Version of the NVIDIA driver.
  returned: success
  type: str
  sample: 580.95.05
gpus:
  description: All GPUs, in the order of their index.
  returned: success
  type: list
  elements: dict
  contains:
    uuid:
      description: UUID of the GPU.
      type: str
      sample: GPU-07fc9e5f-b365-5770-bea9-0c03aee1945a
    pci_bus_id:
      description: PCI address.
      type: str
      sample: 00000000:07:00.0
    pci_device_id:
      description: NVML's number for device and vendor.
      type: int
      sample: 548409566
    pci_subsystem_id:
      description: NVML's number for the board.
      type: int
      sample: 343867614
    product:
      description: NVML's name.
      type: str
      sample: NVIDIA A100-SXM4-40GB
    mig_mode:
      description: >-
        MIG mode as it is and as it will be after the next reset, 1 for enabled. Null for a GPU without MIG.
      type: list
      elements: int
      sample: [1, 1]
    profiles:
      description: >-
        The GPU instance profiles that the GPU offers. Of each its name, number, how many fit on an empty GPU,
        memory in MiB and multiprocessors.
      type: list
      elements: list
      sample: [[MIG 3g.20gb, 9, 2, 19968, 42]]
    instances:
      description: >-
        The GPU instances. Of each its number, the number of its profile, start and size in memory slices, and
        its compute instances, each with number, slices, first slice and number of its profile.
      type: list
      elements: list
      sample: [[1, 9, 4, 4, [[0, 3, 0, 2]]]]
"""

import json
import sys
from ctypes import byref, c_uint

# Because of these words Ansible sends this file as it is, not packed with its library, and puts the options
# in their place.
OPTIONS = r"""
<<INCLUDE_ANSIBLE_MODULE_JSON_ARGS>>
""".strip()

NOT_SUPPORTED = 3
INVALID_ARGUMENT = 2
# No driver has as many profiles; it ends a loop that NVML should end.
MOST = 64


def read(nvml):
    """The module's result. Raises NVMLError, or another exception for what it does not understand."""
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


def main():
    try:
        unknown = [name for name in json.loads(OPTIONS) if not name.startswith("_ansible_")]
        if unknown:
            raise ValueError(f"it has no options, but was given {', '.join(unknown)}")
        import pynvml

        result = dict(read(pynvml), changed=False)
    except Exception as error:  # whatever it is, another module can say it better
        result = {"failed": True, "msg": f"cannot tell: {error}; use nvidia.mig.mig_info"}
    sys.stdout.write(json.dumps(result) + "\n")


# Without the options it is not Ansible that runs it.
if __name__ == "__main__" and OPTIONS.startswith("{"):
    main()
