"""GPU instances, compute instances and the MIG devices they make."""

from __future__ import annotations

import ctypes
import re

import pynvml
import pytest
from miglab import control
from miglab.testing_nvml import compute_profiles, create, full_compute, gpu, info, instances, mig_devices

A100_ON = {"model": "A100-SXM4-40GB", "initial": [{}]}


@pytest.fixture
def a100(sim_node):
    node = sim_node(**A100_ON)
    with node.inside():
        pynvml.nvmlInit()
        yield node


def compute(instance, profile_id, start=None):
    if start is None:
        return pynvml.nvmlGpuInstanceCreateComputeInstance(instance, profile_id)
    size = compute_profiles(instance)[profile_id].sliceCount
    placement = ctypes.byref(pynvml.c_nvmlComputeInstancePlacement_t(start, size))
    return pynvml.nvmlGpuInstanceCreateComputeInstanceWithPlacement(instance, profile_id, placement)


def test_a_mig_device_and_its_attributes(a100):
    instance = create(gpu(), 9, 4)
    full_compute(gpu(), instance)
    (device,) = mig_devices(gpu())
    assert pynvml.nvmlDeviceGetName(device) == "NVIDIA A100-SXM4-40GB MIG 3g.20gb"
    assert re.fullmatch(r"MIG-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", pynvml.nvmlDeviceGetUUID(device))
    assert pynvml.nvmlDeviceGetUUID(device)[18] == "5"  # UUID version
    assert pynvml.nvmlDeviceIsMigDeviceHandle(device).value == 1
    assert pynvml.nvmlDeviceIsMigDeviceHandle(gpu()).value == 0
    assert pynvml.nvmlDeviceGetGpuInstanceId(device) == info(instance).id == 2
    assert pynvml.nvmlDeviceGetComputeInstanceId(device) == 0
    assert pynvml.nvmlDeviceGetIndex(device) == 0
    parent = pynvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(device)
    assert pynvml.nvmlDeviceGetUUID(parent) == pynvml.nvmlDeviceGetUUID(gpu())
    attributes = pynvml.nvmlDeviceGetAttributes(device)
    assert (attributes.multiprocessorCount, attributes.sharedCopyEngineCount) == (42, 3)
    assert (attributes.gpuInstanceSliceCount, attributes.computeInstanceSliceCount) == (3, 3)
    assert attributes.memorySizeMB == pynvml.nvmlDeviceGetMemoryInfo(device).total >> 20 == 19968
    by_uuid = pynvml.nvmlDeviceGetHandleByUUID(pynvml.nvmlDeviceGetUUID(device))
    assert pynvml.nvmlDeviceGetName(by_uuid) == pynvml.nvmlDeviceGetName(device)
    for call in (pynvml.nvmlDeviceGetGpuInstanceId, pynvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle):
        with pytest.raises(pynvml.NVMLError_InvalidArgument):
            call(gpu())
    with pytest.raises(pynvml.NVMLError_NotSupported):
        pynvml.nvmlDeviceGetAttributes(gpu())


def test_mig_devices_are_ordered_by_instance_ids(a100):
    for profile_id, start in ((19, 1), (9, 4), (19, 0)):
        full_compute(gpu(), create(gpu(), profile_id, start))
    found = [pynvml.nvmlDeviceGetGpuInstanceId(device) for device in mig_devices(gpu())]
    assert found == [2, 7, 8]
    assert pynvml.nvmlDeviceGetMaxMigDeviceCount(gpu()) == 7
    with pytest.raises(pynvml.NVMLError_NotFound):
        pynvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu(), 3)
    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        pynvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu(), 7)


def test_compute_instances_share_a_gpu_instance(a100):
    instance = create(gpu(), 9)
    offered = {number: (p.sliceCount, p.instanceCount) for number, p in compute_profiles(instance).items()}
    assert offered == {0: (1, 3), 1: (2, 1), 2: (3, 1)}
    first, second = compute(instance, 1), compute(instance, 0)
    ids = [pynvml.nvmlComputeInstanceGetInfo(c).id for c in (first, second)]
    placed = [pynvml.nvmlComputeInstanceGetInfo(c).placement for c in (first, second)]
    assert (ids, [(p.start, p.size) for p in placed]) == ([0, 1], [(0, 2), (2, 1)])
    with pytest.raises(pynvml.NVMLError_InsufficientResources):
        compute(instance, 0)
    assert [pynvml.nvmlDeviceGetName(d).split()[-1] for d in mig_devices(gpu())] == [
        "2c.3g.20gb",
        "1c.3g.20gb",
    ]
    assert len({pynvml.nvmlDeviceGetUUID(d) for d in mig_devices(gpu())}) == 2
    pynvml.nvmlComputeInstanceDestroy(first)
    assert pynvml.nvmlGpuInstanceGetComputeInstanceRemainingCapacity(instance, 0) == 2
    assert pynvml.nvmlComputeInstanceGetInfo(compute(instance, 0, 1)).id == 0  # the lowest free id


def test_a_compute_instance_is_placed_where_most_stays_open(a100):
    instance = create(gpu(), 9)
    assert pynvml.nvmlComputeInstanceGetInfo(compute(instance, 0)).placement.start == 2
    assert pynvml.nvmlGpuInstanceGetComputeInstanceRemainingCapacity(instance, 1) == 1


def test_compute_profiles_are_refused_as_nvml_does(a100):
    instance = create(gpu(), 9)
    with pytest.raises(pynvml.NVMLError_NotSupported):
        compute(instance, 3)  # four slices in an instance of three
    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        compute(instance, 9)
    placement = ctypes.byref(pynvml.c_nvmlComputeInstancePlacement_t(1, 2))
    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        pynvml.nvmlGpuInstanceCreateComputeInstanceWithPlacement(instance, 1, placement)


@pytest.mark.parametrize(
    ("model", "profile_id", "offered", "full"),
    [
        ("H100-SXM5-80GB", 14, {0: (16, 2), 7: (26, 1), 1: (32, 1)}, 1),
        ("H100-SXM5-80GB", 15, {0: (16, 1), 7: (26, 1)}, 7),
        ("B200-180GB", 15, {0: (18, 1), 7: (30, 1)}, 7),
        ("A100-SXM4-40GB", 15, {0: (14, 1)}, 0),
    ],
)
def test_hopper_has_a_larger_one_slice_compute_instance(sim_node, model, profile_id, offered, full):
    with sim_node(model, initial=[{}]).inside():
        pynvml.nvmlInit()
        instance = create(gpu(), profile_id)
        found = compute_profiles(instance)
        assert {n: (p.multiprocessorCount, p.instanceCount) for n, p in found.items()} == offered
        assert pynvml.nvmlComputeInstanceGetInfo(full_compute(gpu(), instance)).profileId == full


def test_compute_instances_cannot_have_more_multiprocessors_than_there_are(sim_node):
    with sim_node("H100-SXM5-80GB", initial=[{}]).inside():
        pynvml.nvmlInit()
        instance = create(gpu(), 14)
        compute(instance, 7)  # 26 of 32
        with pytest.raises(pynvml.NVMLError_InsufficientResources):
            compute(instance, 0)  # 16 more


def test_listing_is_by_profile(a100):
    for profile_id, start in ((19, 6), (9, 0), (19, 4)):
        create(gpu(), profile_id, start)
    assert [(info(i).profileId, info(i).placement.start) for i in instances(gpu())] == [
        (19, 4),
        (19, 6),
        (9, 0),
    ]
    assert info(pynvml.nvmlDeviceGetGpuInstanceById(gpu(), 1)).profileId == 9
    with pytest.raises(pynvml.NVMLError_NotFound):
        pynvml.nvmlDeviceGetGpuInstanceById(gpu(), 2)


def test_an_instance_with_compute_instances_cannot_be_destroyed(a100):
    instance = create(gpu(), 9)
    inner = full_compute(gpu(), instance)
    with pytest.raises(pynvml.NVMLError_InUse):
        pynvml.nvmlGpuInstanceDestroy(instance)
    pynvml.nvmlComputeInstanceDestroy(inner)
    pynvml.nvmlGpuInstanceDestroy(instance)
    assert list(instances(gpu())) == []


def test_an_instance_with_processes_cannot_be_destroyed(a100):
    instance = create(gpu(), 9, 4)
    inner = full_compute(gpu(), instance)
    other = full_compute(gpu(), create(gpu(), 9, 0))
    control.add_process(a100.state, 0, 2, 0, name="python")
    with pytest.raises(pynvml.NVMLError_InUse):
        pynvml.nvmlComputeInstanceDestroy(inner)
    pynvml.nvmlComputeInstanceDestroy(other)
    control.remove_processes(a100.state, 0, 2)
    pynvml.nvmlComputeInstanceDestroy(inner)


def test_a_handle_dies_with_its_instance_even_if_the_id_is_given_again(a100):
    instance = create(gpu(), 9, 4)
    inner = full_compute(gpu(), instance)
    (device,) = mig_devices(gpu())
    pynvml.nvmlComputeInstanceDestroy(inner)
    pynvml.nvmlGpuInstanceDestroy(instance)
    again = create(gpu(), 9, 4)
    full_compute(gpu(), again)
    assert info(again).id == 2
    stale = (
        lambda: info(instance),
        lambda: pynvml.nvmlGpuInstanceDestroy(instance),
        lambda: pynvml.nvmlComputeInstanceGetInfo(inner),
        lambda: pynvml.nvmlDeviceGetUUID(device),
    )
    for call in stale:
        with pytest.raises(pynvml.NVMLError_InvalidArgument):
            call()


def test_another_process_sees_the_same_instances(a100):
    full_compute(gpu(), create(gpu(), 9))
    uuid = pynvml.nvmlDeviceGetUUID(mig_devices(gpu())[0])
    assert uuid in a100.run(["nvidia-smi", "-L"]).stdout


READ_BY_ANYONE = (
    lambda instance: pynvml.nvmlDeviceGetMigMode(gpu()),
    lambda instance: pynvml.nvmlDeviceGetGpuInstanceProfileInfo(gpu(), 0),
    lambda instance: pynvml.nvmlDeviceGetUUID(mig_devices(gpu())[0]),
    lambda instance: pynvml.nvmlDeviceGetAttributes(mig_devices(gpu())[0]),
    lambda instance: pynvml.nvmlDeviceGetComputeRunningProcesses(mig_devices(gpu())[0]),
)
FOR_ROOT = (
    lambda instance: pynvml.nvmlDeviceSetMigMode(gpu(), 0),
    lambda instance: pynvml.nvmlDeviceGetGpuInstancePossiblePlacements(
        gpu(), 9, None, ctypes.byref(ctypes.c_uint())
    ),
    lambda instance: pynvml.nvmlDeviceGetGpuInstanceRemainingCapacity(gpu(), 9),
    lambda instance: create(gpu(), 9),
    lambda instance: list(instances(gpu())),
    lambda instance: pynvml.nvmlDeviceGetGpuInstanceById(gpu(), 2),
    lambda instance: pynvml.nvmlGpuInstanceDestroy(instance),
    lambda instance: pynvml.nvmlGpuInstanceCreateComputeInstance(instance, 0),
    lambda instance: pynvml.nvmlGpuInstanceGetComputeInstanceRemainingCapacity(instance, 0),
    lambda instance: pynvml.nvmlGpuInstanceGetComputeInstanceById(instance, 0),
    lambda instance: pynvml.nvmlDeviceGetComputeRunningProcesses(gpu()),
    lambda instance: pynvml.nvmlDeviceGetMemoryInfo(gpu()),
)


def test_only_root_may_change_and_list(a100, monkeypatch):
    instance = create(gpu(), 9)
    full_compute(gpu(), instance)
    before = a100.read()
    monkeypatch.setenv("MIG_SIM_EUID", "1000")
    for call in READ_BY_ANYONE:
        call(instance)
    for call in FOR_ROOT:
        with pytest.raises(pynvml.NVMLError_NoPermission):
            call(instance)
    assert a100.read() == before
