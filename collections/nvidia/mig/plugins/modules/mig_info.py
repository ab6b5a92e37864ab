#!/usr/bin/python
# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: mig_info
short_description: Tell the MIG state of the GPUs of a node
version_added: 0.1.0
author: MIG provisioning toolkit maintainers (@nvidia)
description:
  - Reads all GPUs of a node through NVML in one pass. For each it tells the MIG mode, what profiles it
    offers and where they can be placed, the instances that are there, the MIG devices with their UUIDs, and
    which processes and pods hold them.
extends_documentation_fragment:
  - nvidia.mig.node
options:
  restore_status:
    description:
      - The file on the node in which the boot-time program tells how it went.
    type: path
    default: /run/nvidia-mig/restore.json
attributes:
  check_mode:
    support: full
    description: Changes nothing in any mode.
  diff_mode:
    support: N/A
    description: Changes nothing, so there is nothing to compare.
seealso:
  - module: nvidia.mig.mig_layout
"""

EXAMPLES = r"""
- name: Read the GPUs
  nvidia.mig.mig_info:
  become: true
  register: node

- name: Show what the first GPU offers
  ansible.builtin.debug:
    msg: "{{ node.gpus[0].profiles | map(attribute='name') }}"

- name: Show the pods that hold MIG devices
  ansible.builtin.debug:
    msg: "{{ node.gpus | map(attribute='mig_devices') | flatten | map(attribute='pods') | flatten }}"
"""

RETURN = r"""
driver_version:
  description: Version of the NVIDIA driver.
  returned: success
  type: str
  sample: 580.95.05
nvml_version:
  description: Version of NVML.
  returned: success
  type: str
  sample: 13.580.95.05
boot_restore:
  description:
    - How the layout was restored since the node was booted, by the program that the role
      P(nvidia.mig.mig_boot#role) installs. If it ran more than once, the last time counts.
    - Null if it has not run.
  returned: success
  type: dict
  contains:
    result:
      description:
        - V(restored) if something had to be done, V(unchanged) if the GPUs were as wanted, V(failed) if the
          layout is not there.
        - V(unreadable) if the file is there but cannot be read; then there is only C(message).
      type: str
      sample: restored
    message:
      description: What happened, or what is wrong.
      type: str
      sample: The layout is back.
    actions:
      description: One line for each step that was carried out.
      type: list
      elements: str
      sample: ['GPU 0: create 3g.20gb at 0:4', 'GPU 0: create 3g.20gb at 4:4']
    booted_at:
      description: When the node was booted.
      type: str
      sample: '2026-01-31T06:12:04Z'
    finished_at:
      description: When the program ended.
      type: str
      sample: '2026-01-31T06:12:21Z'
gpus:
  description: All GPUs, in the order of their index.
  returned: success
  type: list
  elements: dict
  contains:
    index:
      description: NVML's index.
      type: int
      sample: 0
    uuid:
      description: UUID of the GPU.
      type: str
      sample: GPU-07fc9e5f-b365-5770-bea9-0c03aee1945a
    pci_bus_id:
      description: PCI address.
      type: str
      sample: 00000000:07:00.0
    pci_device_id:
      description: PCI device and vendor, as in a device filter of mig-parted.
      type: str
      sample: '0x20B010DE'
    product:
      description: NVML's name.
      type: str
      sample: NVIDIA A100-SXM4-40GB
    architecture:
      description: Architecture, in lower case. Empty if it is not known.
      type: str
      sample: ampere
    memory_mib:
      description: Memory of the whole GPU. Null if NVML does not tell.
      type: int
      sample: 40960
    mig_capable:
      description: Whether the GPU can do MIG.
      type: bool
      sample: true
    mig_mode:
      description: MIG mode as it is and as it will be after the next reset.
      type: dict
      contains:
        current:
          description: V(enabled) or V(disabled); null for a GPU without MIG.
          type: str
          sample: enabled
        pending:
          description: V(enabled) or V(disabled); null for a GPU without MIG.
          type: str
          sample: enabled
        needs_reset:
          description: Whether a change of it takes effect only with a GPU reset.
          type: bool
          sample: true
    reset_required:
      description: Whether a changed MIG mode waits for a GPU reset.
      type: bool
      sample: false
    profiles:
      description: The GPU instance profiles that the GPU offers.
      type: list
      elements: dict
      contains:
        name:
          description: Name of the profile.
          type: str
          sample: 3g.20gb
        id:
          description: NVML's and C(nvidia-smi)'s number of the profile.
          type: int
          sample: 9
        max_instances:
          description: How many fit on an empty GPU.
          type: int
          sample: 2
        remaining:
          description: How many more fit now. Null while MIG mode is disabled.
          type: int
          sample: 1
        memory_mib:
          description: Memory of one instance.
          type: int
          sample: 19968
        multiprocessors:
          description: Multiprocessors of one instance.
          type: int
          sample: 42
        placements:
          description: All possible placements, free or not, in memory slices.
          type: list
          elements: dict
          sample: [{start: 0, size: 4}, {start: 4, size: 4}]
    instances:
      description: The GPU instances, in the order of their placement.
      type: list
      elements: dict
      contains:
        id:
          description: NVML's number.
          type: int
          sample: 2
        profile:
          description: Name of the profile.
          type: str
          sample: 3g.20gb
        profile_id:
          description: Number of the profile.
          type: int
          sample: 9
        placement:
          description: Where it sits, in memory slices.
          type: dict
          sample: {start: 0, size: 4}
        compute_instances:
          description: Its compute instances. Each is a MIG device.
          type: list
          elements: dict
          contains:
            id:
              description: NVML's number, unique in the GPU instance.
              type: int
              sample: 0
            profile:
              description: Profile of the MIG device.
              type: str
              sample: 1c.3g.20gb
            slices:
              description: Compute slices.
              type: int
              sample: 1
            start:
              description: First compute slice within the GPU instance.
              type: int
              sample: 0
        processes:
          description: Processes in it, as RV(gpus[].processes).
          type: list
          elements: dict
        pods:
          description: Pods that hold a MIG device in it, as RV(gpus[].pods).
          type: list
          elements: dict
    mig_devices:
      description: The MIG devices, one per compute instance.
      type: list
      elements: dict
      contains:
        uuid:
          description: UUID of the MIG device.
          type: str
          sample: MIG-6e3a1d18-8a91-5b0b-b4a6-9b4d6a5a6f3c
        index:
          description: NVML's index on this GPU.
          type: int
          sample: 0
        gpu_instance_id:
          description: Number of its GPU instance.
          type: int
          sample: 2
        compute_instance_id:
          description: Number of its compute instance.
          type: int
          sample: 0
        profile:
          description: Name of the profile.
          type: str
          sample: 3g.20gb
        processes:
          description: Processes in it, as RV(gpus[].processes).
          type: list
          elements: dict
        pods:
          description: Pods that hold it, as RV(gpus[].pods).
          type: list
          elements: dict
    processes:
      description: All processes on the GPU.
      type: list
      elements: dict
      sample:
        - {pid: 4711, name: python, memory_mib: 1024, gpu_instance_id: 2, compute_instance_id: 0}
    pods:
      description: The pods that hold the whole GPU. Those that hold a MIG device are with the device.
      type: list
      elements: dict
      sample:
        - namespace: team-a
          name: train
          uid: 2f1d6ad5-8d0c-4a55-9f0f-0a52b2a4d4c1
          container: main
          resource: nvidia.com/gpu
"""

from typing import Any, Dict, List, Optional, Sequence

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.nvidia.mig.plugins.module_utils.boot.status import STATUS_FILE, read_status
from ansible_collections.nvidia.mig.plugins.module_utils.errors import MigError
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.catalog import OfferedProfile, Placement
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.state import GpuInstance
from ansible_collections.nvidia.mig.plugins.module_utils.node.holders import pods_of
from ansible_collections.nvidia.mig.plugins.module_utils.node.kubelet import Allocations, Pod
from ansible_collections.nvidia.mig.plugins.module_utils.node.options import allocations_from, node_options
from ansible_collections.nvidia.mig.plugins.module_utils.node.python import go_on_with_nvml
from ansible_collections.nvidia.mig.plugins.module_utils.nvml.reader import Reader
from ansible_collections.nvidia.mig.plugins.module_utils.nvml.session import open_nvml
from ansible_collections.nvidia.mig.plugins.module_utils.nvml.values import GpuReading, MigDevice, Process


def run(module: AnsibleModule) -> Dict[str, Any]:
    """Read and tell. Raises MigError."""
    allocations = allocations_from(module.params)
    with open_nvml() as nvml:
        host = Reader(nvml, mig_devices=True, details=True).read()
        return {
            "changed": False,
            "driver_version": nvml.driver_version(),
            "nvml_version": nvml.nvml_version(),
            "boot_restore": read_status(module.params["restore_status"]),
            "gpus": [_gpu(gpu, allocations) for gpu in host.gpus],
        }


def _gpu(gpu: GpuReading, allocations: Allocations) -> Dict[str, Any]:
    state = gpu.state
    return {
        "index": state.identity.index,
        "uuid": state.identity.uuid,
        "pci_bus_id": state.identity.pci_bus_id,
        "pci_device_id": state.identity.pci_device_id,
        "product": state.identity.product,
        "architecture": gpu.architecture,
        "memory_mib": gpu.memory_mib,
        "mig_capable": state.mig_capable,
        "mig_mode": {
            "current": _mode(state.mig_capable, state.mig_current),
            "pending": _mode(state.mig_capable, state.mig_pending),
            "needs_reset": state.mig_capable and not state.resetless,
        },
        "reset_required": state.mig_current != state.mig_pending,
        "profiles": [_profile(offered, gpu.remaining) for offered in state.catalog.profiles],
        "instances": [_instance(gpu, instance, allocations) for instance in state.instances],
        "mig_devices": [_mig_device(gpu, device, allocations) for device in gpu.mig_devices],
        "processes": _processes(gpu.processes),
        "pods": [pod.as_dict() for pod in allocations.of(state.identity.uuid)],
    }


def _mode(capable: bool, enabled: bool) -> Optional[str]:
    if not capable:
        return None
    return "enabled" if enabled else "disabled"


def _profile(offered: OfferedProfile, remaining: Dict[int, int]) -> Dict[str, Any]:
    return {
        "name": str(offered.profile),
        "id": offered.id,
        "max_instances": offered.max_instances,
        "remaining": remaining.get(offered.id),
        "memory_mib": offered.memory_mib,
        "multiprocessors": offered.multiprocessors,
        "placements": [_placement(placement) for placement in offered.placements],
    }


def _instance(gpu: GpuReading, instance: GpuInstance, allocations: Allocations) -> Dict[str, Any]:
    pods: List[Pod] = []
    for compute in instance.compute_instances:
        pods += pods_of(gpu, allocations, instance.id, compute.id)
    return {
        "id": instance.id,
        "profile": str(instance.profile),
        "profile_id": gpu.state.catalog.find(instance.profile).id,
        "placement": _placement(instance.placement),
        "compute_instances": [
            {
                "id": compute.id,
                "profile": str(instance.profile.with_compute(compute.slices)),
                "slices": compute.slices,
                "start": compute.start,
            }
            for compute in instance.compute_instances
        ],
        "processes": _processes([p for p in gpu.processes if p.gpu_instance == instance.id]),
        "pods": [pod.as_dict() for pod in dict.fromkeys(pods)],
    }


def _mig_device(gpu: GpuReading, device: MigDevice, allocations: Allocations) -> Dict[str, Any]:
    place = (device.gpu_instance, device.compute_instance)
    profiles = {
        (instance.id, compute.id): instance.profile.with_compute(compute.slices)
        for instance in gpu.state.instances
        for compute in instance.compute_instances
    }
    return {
        "uuid": device.uuid,
        "index": device.index,
        "gpu_instance_id": device.gpu_instance,
        "compute_instance_id": device.compute_instance,
        "profile": str(profiles[place]) if place in profiles else None,
        "processes": _processes([p for p in gpu.processes if (p.gpu_instance, p.compute_instance) == place]),
        "pods": [pod.as_dict() for pod in allocations.of(device.uuid)],
    }


def _processes(processes: Sequence[Process]) -> List[Dict[str, Any]]:
    return [
        {
            "pid": process.pid,
            "name": process.name,
            "memory_mib": process.memory_mib,
            "gpu_instance_id": process.gpu_instance,
            "compute_instance_id": process.compute_instance,
        }
        for process in processes
    ]


def _placement(placement: Placement) -> Dict[str, int]:
    return {"start": placement.start, "size": placement.size}


def main() -> None:
    module = AnsibleModule(
        argument_spec={**node_options(), "restore_status": {"type": "path", "default": STATUS_FILE}},
        supports_check_mode=True,
    )
    try:
        go_on_with_nvml(module.params)
        result = run(module)
    except MigError as error:
        module.fail_json(**error.fail_args())
    module.exit_json(**result)


if __name__ == "__main__":
    main()
