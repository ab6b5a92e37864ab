# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who holds what: adds kubelet's pods to the processes that NVML knows."""

from __future__ import annotations

from dataclasses import replace
from typing import Collection, Iterable, Tuple

from ansible_collections.nvidia.mig.plugins.module_utils.geometry.state import ComputeInstance, GpuInstance
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.steps import DestroyComputeInstance, Plan
from ansible_collections.nvidia.mig.plugins.module_utils.node.kubelet import Allocations, Pod
from ansible_collections.nvidia.mig.plugins.module_utils.nvml.values import GpuReading, HostReading


def add_pods(host: HostReading, allocations: Allocations) -> HostReading:
    """The same host with pods among the holders and clients. Its MIG devices must have been read."""
    if not allocations.pods:
        return host
    return HostReading(tuple(_add(gpu, allocations) for gpu in host.gpus))


def after_drain(
    host: HostReading, allocations: Allocations, drained: Collection[str], predicted: bool
) -> HostReading:
    """The host with the pods that are left once some are drained.

    Args:
        host: as read, without pods.
        drained: UIDs; ``*`` for every pod.
        predicted: they still run. Then processes on their devices are taken for theirs, and go with them.
    """
    gone, left = allocations.split(drained)
    if predicted and gone.pods:
        host = HostReading(tuple(_without_processes(gpu, gone) for gpu in host.gpus))
    return add_pods(host, left)


def pods_of(
    gpu: GpuReading, allocations: Allocations, gpu_instance: int, compute_instance: int
) -> Tuple[Pod, ...]:
    """The pods that hold one compute instance."""
    return tuple(
        pod
        for device in gpu.mig_devices
        if (device.gpu_instance, device.compute_instance) == (gpu_instance, compute_instance)
        for pod in allocations.of(device.uuid)
    )


def pods_in_the_way(host: HostReading, plan: Plan, allocations: Allocations) -> Tuple[Pod, ...]:
    """The pods that must go before the plan is carried out, each once, in the order of their names.

    Those that hold a MIG device that it destroys, or a GPU that must be free for it; and if it resets a GPU,
    every pod that holds a device of this node, since GPUs that NVLink connects are reset together.
    """
    destroyed = {
        (step.gpu, step.gpu_instance_id, step.id)
        for step in plan.steps
        if isinstance(step, DestroyComputeInstance)
    }
    found = []
    for gpu in host.gpus:
        index = gpu.state.identity.index
        free = index in plan.must_be_free or bool(plan.resets)
        if free:
            found += allocations.of(gpu.state.identity.uuid)
        for device in gpu.mig_devices:
            place = (index, device.gpu_instance, device.compute_instance)
            if free or place in destroyed:
                found += allocations.of(device.uuid)
    by_uid = {pod.uid: pod for pod in found}
    return tuple(sorted(by_uid.values(), key=lambda pod: (pod.namespace, pod.name, pod.uid)))


def _without_processes(gpu: GpuReading, gone: Allocations) -> GpuReading:
    state = gpu.state
    places = {
        (device.gpu_instance, device.compute_instance) for device in gpu.mig_devices if gone.of(device.uuid)
    }

    def freed(instance: GpuInstance) -> GpuInstance:
        computes = tuple(
            replace(compute, holders=()) if (instance.id, compute.id) in places else compute
            for compute in instance.compute_instances
        )
        return replace(instance, compute_instances=computes)

    return replace(
        gpu,
        state=replace(
            state,
            instances=tuple(freed(instance) for instance in state.instances),
            clients=() if gone.of(state.identity.uuid) else state.clients,
        ),
        processes=tuple(
            process
            for process in gpu.processes
            if (process.gpu_instance, process.compute_instance) not in places
        ),
    )


def _add(gpu: GpuReading, allocations: Allocations) -> GpuReading:
    state = gpu.state

    def with_pods(instance: GpuInstance, compute: ComputeInstance) -> ComputeInstance:
        pods = pods_of(gpu, allocations, instance.id, compute.id)
        return replace(compute, holders=_merged(compute.holders, pods))

    instances = tuple(
        replace(i, compute_instances=tuple(with_pods(i, c) for c in i.compute_instances))
        for i in state.instances
    )
    clients = _merged(state.clients, allocations.of(state.identity.uuid))
    return replace(gpu, state=replace(state, instances=instances, clients=clients))


def _merged(holders: Iterable[str], pods: Iterable[Pod]) -> Tuple[str, ...]:
    return tuple(dict.fromkeys([*holders, *(str(pod) for pod in pods)]))
