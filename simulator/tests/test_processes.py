"""Processes on GPUs and MIG devices, and the pods they belong to."""

from __future__ import annotations

import base64
import json

import pynvml
import pytest
from miglab import control, fleet, kubelet, paths, workloads
from miglab.console import LabError
from miglab.testing_nvml import gpu, mig_devices


@pytest.fixture
def split(sim_node):
    """An A100 in two halves, with a process on each and two on the first."""
    node = sim_node("A100-SXM4-40GB", 2, initial=[{"gpus": 0, "instances": ["3g.20gb@0", "3g.20gb@4"]}])
    for instance, name, memory in ((1, "train", 100), (1, "eval", 50), (2, "serve", 10)):
        control.add_process(node.state, 0, instance, 0, name=name, memory_mib=memory)
    control.add_process(node.state, 0, 1, 0, name="viewer", kind="graphics")
    control.add_process(node.state, 0, name="monitor", kind="open")
    with node.inside():
        pynvml.nvmlInit()
        yield node


def names(processes):
    return [pynvml.nvmlSystemGetProcessName(process.pid) for process in processes]


def test_each_mig_device_has_its_own_processes(split):
    first, second = mig_devices(gpu())
    assert names(pynvml.nvmlDeviceGetComputeRunningProcesses(first)) == ["train", "eval"]
    (process,) = pynvml.nvmlDeviceGetComputeRunningProcesses(second)
    assert (process.gpuInstanceId, process.computeInstanceId, process.usedGpuMemory) == (2, 0, 10 << 20)
    assert names(pynvml.nvmlDeviceGetGraphicsRunningProcesses(first)) == ["viewer"]
    assert pynvml.nvmlDeviceGetMemoryInfo(first).used == 150 << 20


def test_the_gpu_has_the_processes_of_all_instances(split):
    assert names(pynvml.nvmlDeviceGetComputeRunningProcesses(gpu(0))) == ["train", "eval", "serve"]
    assert pynvml.nvmlDeviceGetComputeRunningProcesses(gpu(1)) == []
    assert pynvml.nvmlDeviceGetMemoryInfo(gpu()).used == 160 << 20


def test_a_process_outside_mig_names_no_instance(split):
    control.add_process(split.state, 1, name="python")
    (process,) = pynvml.nvmlDeviceGetComputeRunningProcesses(gpu(1))
    assert process.gpuInstanceId == process.computeInstanceId == 0xFFFFFFFF


def test_too_small_an_array_is_told_its_size(split):
    import ctypes

    from miglab import build

    library = ctypes.CDLL(str(build.library()))
    count = ctypes.c_uint(2)
    array = (pynvml.c_nvmlProcessInfo_t * 2)()
    result = library.nvmlDeviceGetComputeRunningProcesses_v3(gpu(), ctypes.byref(count), array)
    assert (result, count.value) == (pynvml.NVML_ERROR_INSUFFICIENT_SIZE, 3)


def test_an_unknown_process_has_no_name(split):
    with pytest.raises(pynvml.NVMLError_NotFound):
        pynvml.nvmlSystemGetProcessName(1)


@pytest.fixture
def node(sim_lab):
    """A node of a lab: the first GPU cut, the second whole."""
    spec = {
        "gpu": "A100-SXM4-40GB",
        "count": 2,
        "initial": [{"gpus": 0, "instances": ["1g.5gb+me@6", {"profile": "4g.20gb", "compute": [1]}]}],
    }
    fleet.create([fleet.parse_node("n1", spec)])
    return "n1"


def test_a_pod_is_written_down_as_kubelet_does(node):
    workloads.add(node, 0, 1, 0, pod="ml/train-0", process="torchrun")
    content = fleet.read_node(node)
    device = content["gpus"][0]["instances"][0]["compute_instances"][0]["uuid"]

    checkpoint = json.loads(paths.checkpoint(node).read_text(encoding="utf-8"))
    (entry,) = checkpoint["Data"]["PodDeviceEntries"]
    assert entry["DeviceIDs"] == {"-1": [device]}
    assert entry["ResourceName"] == "nvidia.com/mig-1c.4g.20gb"
    assert f"NVIDIA_VISIBLE_DEVICES\x12({device}".encode() in base64.b64decode(entry["AllocResp"])
    assert (paths.pods_dir(node) / f"ml_train-0_{entry['PodUID']}").is_dir()
    assert content["pods"] == [
        {
            "pod": "ml/train-0",
            "uid": entry["PodUID"],
            "container": "main",
            "resource": "nvidia.com/mig-1c.4g.20gb",
            "devices": [device],
        }
    ]
    assert content["processes"][0]["pod"] == "ml/train-0"


def test_a_pod_may_hold_several_devices(node):
    workloads.add(node, 0, 1, 0, pod="ml/train")
    workloads.add(node, 0, 13, 0, pod="ml/train")
    workloads.add(node, 1, pod="ml/train")
    held = {entry["resource"]: len(entry["devices"]) for entry in fleet.read_node(node)["pods"]}
    assert held == {"nvidia.com/mig-1c.4g.20gb": 1, "nvidia.com/mig-1g.5gb.me": 1, "nvidia.com/gpu": 1}
    assert len({entry["uid"] for entry in fleet.read_node(node)["pods"]}) == 1


def test_removing_a_workload_removes_its_pod_when_nothing_of_it_is_left(node):
    workloads.add(node, 0, 1, 0, pod="ml/a")
    workloads.add(node, 0, 13, 0, pod="ml/a")
    workloads.add(node, 1, pod="ml/b")
    assert workloads.remove(node, 0, 1) == 1
    assert {entry["pod"] for entry in fleet.read_node(node)["pods"]} == {"ml/a", "ml/b"}
    assert workloads.remove(node, 0, 13) == 1
    assert {entry["pod"] for entry in fleet.read_node(node)["pods"]} == {"ml/b"}
    assert workloads.remove(node, pod="ml/b") == 1
    assert fleet.read_node(node)["pods"] == []
    assert list(paths.pods_dir(node).iterdir()) == []


def test_a_pod_may_hold_a_device_and_run_nothing_on_it(node):
    assert workloads.add(node, 0, 1, 0, pod="ml/idle", idle=True) == 0
    assert workloads.add(node, 1, pod="ml/other", idle=True) == 0
    assert fleet.read_node(node)["processes"] == []
    assert workloads.remove(node, 0, 1) == 0
    assert [entry["pod"] for entry in fleet.read_node(node)["pods"]] == ["ml/other"]
    with pytest.raises(LabError, match="only a pod"):
        workloads.add(node, 1, idle=True)


def test_a_checkpoint_as_an_idle_kubelet_writes_it_is_read(node):
    paths.checkpoint(node).write_text(
        '{"Data":{"PodDeviceEntries":null,"RegisteredDevices":{}},"Checksum":1}'
    )
    assert kubelet.allocations(paths.checkpoint(node), paths.pods_dir(node)) == []


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ((0, 2), "no MIG device 2/0; GPU instance/compute instance: 1/0, 13/0"),
        ((0,), "say which --instance"),
        ((2,), "has no GPU 2: it has 2"),
        ((1, 1), "no MIG device 1/0; GPU instance/compute instance: none"),
    ],
)
def test_a_workload_needs_a_device(node, place, text):
    with pytest.raises(LabError, match=text):
        workloads.add(node, *place)


def test_a_pod_has_a_namespace(node):
    with pytest.raises(LabError, match="namespace/name"):
        workloads.add(node, 1, pod="train")
