"""MIG mode, reset and reboot by GPU generation."""

from __future__ import annotations

import pynvml
import pytest
from miglab import control
from miglab.testing_nvml import create, full_compute, gpu, instances, mig_devices

ON, OFF = pynvml.NVML_DEVICE_MIG_ENABLE, pynvml.NVML_DEVICE_MIG_DISABLE
DONE, IN_USE, RESET_REQUIRED = pynvml.NVML_SUCCESS, pynvml.NVML_ERROR_IN_USE, pynvml.NVML_ERROR_RESET_REQUIRED


def set_mode(mode, index=0):
    return pynvml.nvmlDeviceSetMigMode(gpu(index), mode)


def mode(index=0):
    return pynvml.nvmlDeviceGetMigMode(gpu(index))


def test_ampere_resets_itself_while_idle(sim_node):
    with sim_node("A100-SXM4-40GB", 2, mode_change="driver").inside():
        pynvml.nvmlInit()
        assert set_mode(ON) == DONE
        assert (mode(0), mode(1)) == ([ON, ON], [OFF, OFF])
        assert set_mode(ON) == DONE


def test_ampere_with_clients_stays_pending_until_they_are_gone(sim_node):
    node = sim_node("A100-SXM4-40GB", mode_change="driver")
    control.add_process(node.state, 0, name="nvidia-persistenced", kind="open")
    with node.inside():
        pynvml.nvmlInit()
        assert set_mode(ON) == IN_USE
        assert mode() == [OFF, ON]
        assert pynvml.nvmlDeviceGetMaxMigDeviceCount(gpu()) == 0
        with pytest.raises(pynvml.NVMLError_NotSupported):
            create(gpu(), 9)
        control.remove_processes(node.state, 0)
        assert set_mode(ON) == DONE
        assert mode() == [ON, ON]


def test_a_pending_mode_can_be_called_off(sim_node):
    with sim_node("A100-SXM4-40GB", mode_change="reset").inside():
        pynvml.nvmlInit()
        assert set_mode(ON) == RESET_REQUIRED
        assert set_mode(OFF) == DONE
        assert mode() == [OFF, OFF]


def test_a_reset_applies_the_pending_mode(sim_node):
    node = sim_node("A100-SXM4-40GB", 2, mode_change="reset")
    with node.inside():
        pynvml.nvmlInit()
        assert set_mode(ON) == RESET_REQUIRED
        assert mode() == [OFF, ON]
        node.run(["nvidia-smi", "--gpu-reset", "-i", "0"])
        assert (mode(0), mode(1)) == ([ON, ON], [OFF, OFF])


def test_where_no_reset_is_possible_only_a_reboot_applies_the_mode(sim_node):
    node = sim_node("A100-SXM4-40GB", mode_change="reboot")
    with node.inside():
        pynvml.nvmlInit()
        assert set_mode(ON) == RESET_REQUIRED
        assert (
            node.run(["nvidia-smi", "--gpu-reset"], check=False).returncode == pynvml.NVML_ERROR_NOT_SUPPORTED
        )
        assert mode() == [OFF, ON]
        control.reboot(node.state)
        assert mode() == [ON, ON]


@pytest.mark.parametrize("model", ["H100-SXM5-80GB", "B200-180GB", "RTX-PRO-6000-BLACKWELL-SERVER"])
def test_hopper_and_newer_change_at_once_and_object_at_the_first_instance(sim_node, model):
    node = sim_node(model)
    control.add_process(node.state, 0, name="Xorg", kind="graphics")
    with node.inside():
        pynvml.nvmlInit()
        assert pynvml.nvmlDeviceGetFieldValues(gpu(), [184])[0].value.uiVal == 1
        assert set_mode(ON) == DONE
        assert mode() == [ON, ON]
        with pytest.raises(pynvml.NVMLError_InUse):
            create(gpu(), 14)
        control.remove_processes(node.state, 0)
        create(gpu(), 14)
        control.add_process(node.state, 0, name="Xorg", kind="graphics")
        create(gpu(), 14)  # only the first instance minds


def test_ampere_is_not_resetless(sim_node):
    with sim_node("A100-SXM4-40GB").inside():
        pynvml.nvmlInit()
        assert pynvml.nvmlDeviceGetFieldValues(gpu(), [184])[0].value.uiVal == 0


def test_ampere_with_instances_turns_off_only_at_the_next_reset(sim_node):
    node = sim_node("A100-SXM4-40GB", initial=[{"instances": ["3g.20gb"]}])
    with node.inside():
        pynvml.nvmlInit()
        assert set_mode(OFF) == IN_USE
        assert mode() == [ON, OFF]
        assert len(list(instances(gpu()))) == 1
        node.run(["nvidia-smi", "-r"])
        assert mode() == [OFF, OFF]


def test_hopper_with_instances_refuses_to_turn_off(sim_node):
    with sim_node("H100-SXM5-80GB", initial=[{"instances": ["3g.40gb"]}]).inside():
        pynvml.nvmlInit()
        with pytest.raises(pynvml.NVMLError_InUse):
            set_mode(OFF)
        assert mode() == [ON, ON]
        (instance,) = instances(gpu())
        pynvml.nvmlComputeInstanceDestroy(pynvml.nvmlGpuInstanceGetComputeInstanceById(instance, 0))
        pynvml.nvmlGpuInstanceDestroy(instance)
        assert set_mode(OFF) == DONE


@pytest.mark.parametrize(
    ("model", "profile", "kept"), [("A100-SXM4-40GB", "3g.20gb", True), ("H100-SXM5-80GB", "3g.40gb", False)]
)
@pytest.mark.parametrize("how", ["reset", "reboot"])
def test_instances_are_lost_and_the_mode_is_kept_by_generation(sim_node, model, profile, kept, how):
    node = sim_node(model, initial=[{"instances": [profile]}])
    with node.inside():
        pynvml.nvmlInit()
        (device,) = mig_devices(gpu())
        if how == "reset":
            node.run(["nvidia-smi", "--gpu-reset"])
        else:
            control.reboot(node.state)
        assert mode() == ([ON, ON] if kept else [OFF, OFF])
        assert mig_devices(gpu()) == []
        with pytest.raises(pynvml.NVMLError_InvalidArgument):
            pynvml.nvmlDeviceGetUUID(device)


def test_the_same_layout_has_the_same_uuids_again(sim_node):
    node = sim_node("A100-SXM4-40GB", 2, initial=[{"instances": ["3g.20gb", "2g.10gb"]}])
    with node.inside():
        pynvml.nvmlInit()
        before = [[pynvml.nvmlDeviceGetUUID(d) for d in mig_devices(gpu(i))] for i in range(2)]
        control.reboot(node.state)
        for index in range(2):
            for profile_id in (9, 14):
                full_compute(gpu(index), create(gpu(index), profile_id))
        after = [[pynvml.nvmlDeviceGetUUID(d) for d in mig_devices(gpu(i))] for i in range(2)]
    assert before == after
    assert len(set(before[0] + before[1])) == 4


def test_a_reboot_ends_processes(sim_node):
    node = sim_node("A100-SXM4-40GB", initial=[{"instances": ["3g.20gb"]}])
    control.add_process(node.state, 0, 2, 0, name="python")
    control.reboot(node.state)
    content = node.read()
    assert (content["processes"], content["boots"]) == ([], 1)


def test_a_gpu_without_mig_says_not_supported(sim_node):
    with sim_node("T4-16GB").inside():
        pynvml.nvmlInit()
        for call in (lambda: mode(), lambda: set_mode(ON), lambda: create(gpu(), 0)):
            with pytest.raises(pynvml.NVMLError_NotSupported):
                call()
        with pytest.raises(pynvml.NVMLError_NotSupported):
            pynvml.nvmlDeviceGetGpuInstanceProfileInfo(gpu(), 0)
        assert pynvml.nvmlDeviceGetMaxMigDeviceCount(gpu()) == 0
