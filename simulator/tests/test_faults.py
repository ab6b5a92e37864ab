"""Injected faults and counters."""

from __future__ import annotations

import signal
import time

import pynvml
import pytest
from miglab import control
from miglab.testing_nvml import create, gpu, instances

CREATE = "nvmlDeviceCreateGpuInstance"
CREATE_ONE = """
import pynvml
pynvml.nvmlInit()
pynvml.nvmlDeviceCreateGpuInstance(pynvml.nvmlDeviceGetHandleByIndex(0), 19)
print("done")
"""


def starts(node):
    return sorted(i["placement"]["start"] for i in node.read()["gpus"][0]["instances"])


@pytest.fixture
def a100(sim_node):
    return sim_node("A100-SXM4-40GB", initial=[{}])


def test_the_nth_call_fails_with_the_code_and_changes_nothing(a100):
    control.add_fault(a100.state, CREATE, nth=2, code=pynvml.NVML_ERROR_INSUFFICIENT_RESOURCES)
    with a100.inside():
        pynvml.nvmlInit()
        create(gpu(), 19)
        with pytest.raises(pynvml.NVMLError_InsufficientResources):
            create(gpu(), 19)
        assert starts(a100) == [6]
        create(gpu(), 19)
        assert starts(a100) == [4, 6]


@pytest.mark.parametrize(("times", "failing"), [(1, [2]), (2, [2, 3]), (0, [2, 3, 4, 5])])
def test_a_fault_hits_as_many_calls_as_it_says(a100, times, failing):
    control.add_fault(a100.state, "nvmlDeviceGetMigMode", nth=2, times=times, code=pynvml.NVML_ERROR_UNKNOWN)
    failed = []
    with a100.inside():
        pynvml.nvmlInit()
        for number in range(1, 6):
            try:
                pynvml.nvmlDeviceGetMigMode(gpu())
            except pynvml.NVMLError_Unknown:
                failed.append(number)
    assert failed == failing


def test_faults_of_one_function_add_up_and_others_are_left_alone(a100):
    control.add_fault(a100.state, CREATE, nth=1, code=pynvml.NVML_ERROR_IN_USE)
    control.add_fault(a100.state, CREATE, nth=2, code=pynvml.NVML_ERROR_GPU_IS_LOST)
    with a100.inside():
        pynvml.nvmlInit()
        with pytest.raises(pynvml.NVMLError_InUse):
            create(gpu(), 19)
        with pytest.raises(pynvml.NVMLError_GpuIsLost):
            create(gpu(), 19)
        create(gpu(), 19, 0)
        create(gpu(), 19)


def test_calls_are_counted_across_processes(a100):
    control.add_fault(a100.state, CREATE, nth=3, code=pynvml.NVML_ERROR_NOT_READY)
    assert a100.python(CREATE_ONE).stdout == a100.python(CREATE_ONE).stdout == "done\n"
    assert "NotReady" in a100.python(CREATE_ONE, check=False).stderr
    assert control.calls(a100.state)[CREATE] == 3


def test_init_can_fail(a100):
    control.add_fault(a100.state, "nvmlInitWithFlags", code=pynvml.NVML_ERROR_DRIVER_NOT_LOADED)
    with a100.inside():
        with pytest.raises(pynvml.NVMLError_DriverNotLoaded):
            pynvml.nvmlInit()
        pynvml.nvmlInit()
        assert pynvml.nvmlDeviceGetCount() == 1


def test_clearing_ends_every_fault(a100):
    control.add_fault(a100.state, CREATE, times=0, code=pynvml.NVML_ERROR_IN_USE)
    control.add_fault(a100.state, CREATE, times=0, latency_ms=10_000)
    assert control.clear_faults(a100.state) == 2
    assert a100.python(CREATE_ONE).stdout == "done\n"
    assert a100.read()["faults"] == []


def test_latency_delays_the_call_and_no_other_process(a100):
    control.add_fault(a100.state, CREATE, nth=1, latency_ms=1000)
    with a100.inside():
        pynvml.nvmlInit()
        begin = time.monotonic()
        create(gpu(), 19)
        assert time.monotonic() - begin >= 1
        begin = time.monotonic()
        create(gpu(), 19)
        assert time.monotonic() - begin < 1


@pytest.mark.parametrize(("moment", "left"), [("before", []), ("during", []), ("after", [6])])
def test_a_process_is_killed_around_its_change(a100, moment, left):
    control.add_fault(a100.state, CREATE, kill=moment)
    killed = a100.python(CREATE_ONE, check=False)
    assert (killed.returncode, killed.stdout) == (-signal.SIGKILL, "")
    assert starts(a100) == left
    assert a100.python(CREATE_ONE).stdout == "done\n"  # the lock is free and the state is whole
    assert len(starts(a100)) == len(left) + 1


def test_a_reset_can_fail(sim_node):
    node = sim_node("A100-SXM4-40GB", 2, mode_change="reset")
    control.add_fault(node.state, "migsim_gpu_reset", nth=2, code=pynvml.NVML_ERROR_UNKNOWN)
    done = node.run(["nvidia-smi", "--gpu-reset"], check=False)
    assert done.returncode == 255
    assert "07:00.0 was successfully reset" in done.stdout
    assert "0F:00.0 could not be reset: Unknown Error" in done.stdout


def test_counters(a100):
    with a100.inside():
        pynvml.nvmlInit()
        list(instances(gpu()))
        for _ in range(3):
            pynvml.nvmlDeviceGetMigMode(gpu())
    counts = control.calls(a100.state)
    assert (counts["nvmlDeviceGetMigMode"], counts["nvmlInitWithFlags"]) == (3, 1)
    assert "nvmlDeviceSetMigMode" not in counts
    a100.read()
    assert control.calls(a100.state) == counts  # looking is no call
    control.reset_calls(a100.state)
    assert control.calls(a100.state) == {}


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"function": "nvmlNoSuchThing"}, "no function 'nvmlNoSuchThing'"),
        ({"function": CREATE, "nth": 0}, "counted from 1"),
        ({"function": CREATE, "kill": "sometime"}, "before, during or after"),
    ],
)
def test_a_senseless_fault_is_refused(a100, arguments, text):
    with pytest.raises(control.SimulatorError, match=text):
        control.add_fault(a100.state, **arguments)


def test_faults_are_limited(a100):
    for _ in range(32):
        control.add_fault(a100.state, CREATE, nth=100, code=1)
    with pytest.raises(control.SimulatorError, match="at most 32"):
        control.add_fault(a100.state, CREATE, code=1)
