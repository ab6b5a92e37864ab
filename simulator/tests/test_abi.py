"""The binary interface: what an unmodified NVML client relies on."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path

import pynvml
import pytest
from miglab import build
from miglab.testing_nvml import create, full_compute, gpu, info, mig_devices, profiles


@pytest.fixture
def library():
    return ctypes.CDLL(str(build.ensure_built(quiet=True)))


def test_every_function_that_pynvml_calls_is_there(library):
    source = Path(pynvml.__file__).read_text(encoding="utf-8")
    names = set(re.findall(r'_nvmlGetFunctionPointer\("(nvml\w+)"', source))
    assert len(names) > 300
    assert [name for name in sorted(names) if not hasattr(library, name)] == []


def test_inner_functions_are_not_exported(library):
    """A process may load other libraries, with functions of the same names."""
    assert hasattr(library, "migsim_create")
    assert not [name for name in ("sim_resolve_gpu", "sim_read", "model_find") if hasattr(library, name)]


def test_before_init_everything_is_uninitialized(library):
    # 0 stands for every argument: the check comes before any argument is looked at.
    for name in ("nvmlDeviceGetCount_v2", "nvmlDeviceGetMigMode", "nvmlDeviceGetTemperature", "nvmlShutdown"):
        assert getattr(library, name)(None, None, None) == pynvml.NVML_ERROR_UNINITIALIZED


@pytest.mark.parametrize("content", [None, b"", b"no state at all" * 4096])
def test_init_without_a_usable_node_fails_as_without_a_driver(tmp_path, monkeypatch, library, content):
    state = tmp_path / "nvml.state"
    if content is not None:
        state.write_bytes(content)
    monkeypatch.setenv("MIG_SIM_NODE", str(state))
    expected = (
        pynvml.NVML_ERROR_DRIVER_NOT_LOADED if content is None else pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH
    )
    assert library.nvmlInit_v2() == expected
    monkeypatch.delenv("MIG_SIM_NODE")
    assert library.nvmlInit_v2() == pynvml.NVML_ERROR_DRIVER_NOT_LOADED


def test_init_and_shutdown_are_counted(sim_node, library):
    with sim_node().inside():
        library.nvmlInit_v2()
        library.nvmlInitWithFlags(0)
        library.nvmlShutdown()
        count = ctypes.c_uint()
        assert library.nvmlDeviceGetCount_v2(ctypes.byref(count)) == pynvml.NVML_SUCCESS
        library.nvmlShutdown()
        assert library.nvmlShutdown() == pynvml.NVML_ERROR_UNINITIALIZED


def test_error_texts(library):
    library.nvmlErrorString.restype = ctypes.c_char_p
    assert library.nvmlErrorString(pynvml.NVML_ERROR_INSUFFICIENT_RESOURCES) == b"Insufficient Resources"
    assert library.nvmlErrorString(pynvml.NVML_ERROR_IN_USE) == b"In use by another client"
    assert library.nvmlErrorString(12345) == b"Unknown Error"


def test_a_function_the_simulator_does_not_play_is_not_supported(sim_node):
    with sim_node().inside():
        pynvml.nvmlInit()
        with pytest.raises(pynvml.NVMLError_NotSupported):
            pynvml.nvmlDeviceGetTemperature(gpu(), 0)


def numbers(*names):
    return [(name, ctypes.c_uint) for name in names]


COMMON = numbers("version", "id", "sliceCount", "instanceCount", "multiprocessorCount")
ENGINES = ("copyEngine", "decoder", "encoder", "jpeg", "ofa")


class ProfileInfoV3(ctypes.Structure):
    """nvmlGpuInstanceProfileInfo_v3_t, which pynvml does not have."""

    _fields_ = [
        *COMMON,
        *numbers(*(f"{name}Count" for name in ENGINES)),
        ("memorySizeMB", ctypes.c_ulonglong),
        ("name", ctypes.c_char * 96),
        ("capabilities", ctypes.c_uint),
    ]


class ComputeProfileInfoV3(ctypes.Structure):
    """nvmlComputeInstanceProfileInfo_v3_t, which pynvml does not have."""

    _fields_ = [
        *COMMON,
        *numbers(*(f"shared{name[0].upper()}{name[1:]}Count" for name in ENGINES)),
        ("name", ctypes.c_char * 96),
        ("capabilities", ctypes.c_uint),
    ]


class MemoryV2(ctypes.Structure):
    """nvmlMemory_v2_t as NVML has it; pynvml's own has more fields than its version word tells."""

    _fields_ = [
        *numbers("version"),
        *((n, ctypes.c_ulonglong) for n in ("total", "reserved", "free", "used")),
    ]


def guarded(kind):
    """A structure with 64 bytes after it that the library must leave alone."""
    buffer = (ctypes.c_ubyte * (ctypes.sizeof(kind) + 64))(*([0xA5] * (ctypes.sizeof(kind) + 64)))
    structure = kind.from_buffer(buffer)
    return structure, lambda: bytes(buffer[ctypes.sizeof(kind) :]) == b"\xa5" * 64


def test_profile_info_in_all_its_versions(sim_node, library):
    with sim_node("RTX-PRO-6000-BLACKWELL-SERVER").inside():
        pynvml.nvmlInit()
        old, old_untouched = guarded(pynvml.c_nvmlGpuInstanceProfileInfo_t)
        assert library.nvmlDeviceGetGpuInstanceProfileInfo(gpu(), 10, ctypes.byref(old)) == 0
        new = pynvml.nvmlDeviceGetGpuInstanceProfileInfo(gpu(), 10)
        newest, newest_untouched = guarded(ProfileInfoV3)
        newest.version = 0x03000098
        assert library.nvmlDeviceGetGpuInstanceProfileInfoV(gpu(), 10, ctypes.byref(newest)) == 0
        by_id, by_id_untouched = guarded(ProfileInfoV3)
        by_id.version = 0x03000098
        assert library.nvmlDeviceGetGpuInstanceProfileInfoByIdV(gpu(), new.id, ctypes.byref(by_id)) == 0
    assert old_untouched() and newest_untouched() and by_id_untouched()
    for field, _ in pynvml.c_nvmlGpuInstanceProfileInfo_t._fields_:
        assert getattr(old, field) == getattr(new, field)
        if field != "isP2pSupported":
            assert getattr(old, field) == getattr(newest, field) == getattr(by_id, field)
    assert (newest.name, newest.capabilities) == (b"MIG 1g.24gb+gfx", 2)


@pytest.mark.parametrize("version", [0, 0x01000098, 0x02000097, 0x04000098])
def test_a_wrong_version_word_is_refused(sim_node, library, version):
    with sim_node("A100-SXM4-40GB", initial=[{}]).inside():
        pynvml.nvmlInit()
        profile = pynvml.c_nvmlGpuInstanceProfileInfo_v2_t()
        profile.version = version
        mismatch = pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH
        assert library.nvmlDeviceGetGpuInstanceProfileInfoV(gpu(), 0, ctypes.byref(profile)) == mismatch
        assert library.nvmlDeviceGetGpuInstanceProfileInfoByIdV(gpu(), 19, ctypes.byref(profile)) == mismatch
        compute = pynvml.c_nvmlComputeInstanceProfileInfo_v2_t()
        compute.version = version
        ask = library.nvmlGpuInstanceGetComputeInstanceProfileInfoV
        assert ask(create(gpu(), 9), 0, 0, ctypes.byref(compute)) == mismatch
        with pytest.raises(pynvml.NVMLError_ArgumentVersionMismatch):
            pynvml.nvmlDeviceGetMemoryInfo(gpu(), version or 1)


def test_compute_profile_info_in_all_its_versions(sim_node, library):
    with sim_node("A100-SXM4-40GB", initial=[{}]).inside():
        pynvml.nvmlInit()
        instance = create(gpu(), 9)
        old = pynvml.nvmlGpuInstanceGetComputeInstanceProfileInfo(instance, 1, 0, version=1)
        new = pynvml.nvmlGpuInstanceGetComputeInstanceProfileInfo(instance, 1, 0)
        newest, untouched = guarded(ComputeProfileInfoV3)
        newest.version = 0x0300008C
        ask = library.nvmlGpuInstanceGetComputeInstanceProfileInfoV
        assert ask(instance, 1, 0, ctypes.byref(newest)) == 0
    assert untouched()
    for field, _ in pynvml.c_nvmlComputeInstanceProfileInfo_t._fields_:
        assert getattr(old, field) == getattr(new, field) == getattr(newest, field)
    assert new.name == "MIG 2c.3g.20gb"


def test_memory_v2_writes_its_40_bytes_and_no_more(sim_node, library):
    with sim_node().inside():
        pynvml.nvmlInit()
        memory, untouched = guarded(MemoryV2)
        memory.version = pynvml.nvmlMemory_v2
        assert library.nvmlDeviceGetMemoryInfo_v2(gpu(), ctypes.byref(memory)) == 0
    assert untouched()
    assert memory.total == memory.free == 40960 << 20


def test_a_gpu_says_who_it_is(sim_node):
    with sim_node("H100-SXM5-80GB", 2, driver="550.90.07").inside():
        pynvml.nvmlInit()
        device = gpu(1)
        pci = pynvml.nvmlDeviceGetPciInfo(device)
        assert (pci.busId, pci.busIdLegacy, pci.pciDeviceId) == (
            "00000000:0F:00.0",
            "0000:0F:00.0",
            0x233010DE,
        )
        assert pynvml.nvmlDeviceGetName(device) == "NVIDIA H100 80GB HBM3"
        assert pynvml.nvmlDeviceGetArchitecture(device) == pynvml.NVML_DEVICE_ARCH_HOPPER
        assert pynvml.nvmlDeviceGetCudaComputeCapability(device) == (9, 0)
        assert (pynvml.nvmlDeviceGetIndex(device), pynvml.nvmlDeviceGetMinorNumber(device)) == (1, 1)
        assert pynvml.nvmlSystemGetDriverVersion() == "550.90.07"
        assert pynvml.nvmlSystemGetNVMLVersion() == "12.550.90.07"
        assert pynvml.nvmlSystemGetCudaDriverVersion() == 12040


@pytest.mark.parametrize("mode_change, virtual", [("driver", 0), ("reset", 0), ("reboot", 1)])
def test_a_gpu_that_only_a_reboot_resets_is_lent_to_a_virtual_machine(sim_node, mode_change, virtual):
    with sim_node("A100-SXM4-40GB", 1, mode_change=mode_change).inside():
        pynvml.nvmlInit()
        assert pynvml.nvmlDeviceGetVirtualizationMode(gpu(0)) == virtual


@pytest.mark.parametrize("text", ["00000000:0F:00.0", "0000:0f:00.0", "0:F:0.0", "0f:00.0"])
def test_a_gpu_is_found_by_every_form_of_its_bus_id(sim_node, text):
    with sim_node("A30-24GB", 2).inside():
        pynvml.nvmlInit()
        assert pynvml.nvmlDeviceGetIndex(pynvml.nvmlDeviceGetHandleByPciBusId(text)) == 1


def test_devices_that_are_not_there(sim_node):
    with sim_node("A30-24GB", 2).inside():
        pynvml.nvmlInit()
        with pytest.raises(pynvml.NVMLError_InvalidArgument):
            gpu(2)
        with pytest.raises(pynvml.NVMLError_NotFound):
            pynvml.nvmlDeviceGetHandleByPciBusId("0000:01:00.0")
        with pytest.raises(pynvml.NVMLError_InvalidArgument):
            pynvml.nvmlDeviceGetHandleByPciBusId("0000:0F:00.0 or so")
        with pytest.raises(pynvml.NVMLError_NotFound):
            pynvml.nvmlDeviceGetHandleByUUID("GPU-00000000-0000-0000-0000-000000000000")


def test_a_pointer_that_is_no_handle_is_refused(sim_node):
    with sim_node("A100-SXM4-40GB", initial=[{"instances": ["3g.20gb"]}]).inside():
        pynvml.nvmlInit()
        (device,) = mig_devices(gpu())
        wild = ctypes.cast(ctypes.create_string_buffer(64), pynvml.c_nvmlDevice_t)
        for handle in (None, wild, device):
            with pytest.raises(pynvml.NVMLError_InvalidArgument):
                pynvml.nvmlDeviceGetMigMode(handle)
        with pytest.raises(pynvml.NVMLError_InvalidArgument):
            pynvml.nvmlGpuInstanceGetInfo(ctypes.cast(gpu(), pynvml.c_nvmlGpuInstance_t))


def test_field_values_answer_one_by_one(sim_node):
    with sim_node("H100-SXM5-80GB").inside():
        pynvml.nvmlInit()
        known, unknown, query = pynvml.nvmlDeviceGetFieldValues(gpu(), [184, 1, 199])
        assert (known.nvmlReturn, known.value.uiVal) == (pynvml.NVML_SUCCESS, 1)
        assert unknown.nvmlReturn == pynvml.NVML_ERROR_NOT_SUPPORTED
        assert (query.nvmlReturn, query.value.uiVal) == (pynvml.NVML_SUCCESS, 1)


def test_profiles_and_placements_are_told_with_mig_off(sim_node):
    with sim_node("A100-SXM4-40GB").inside():
        pynvml.nvmlInit()
        assert set(profiles(gpu())) == {
            "1g.5gb", "1g.5gb+me", "1g.10gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb",
        }  # fmt: skip
        with pytest.raises(pynvml.NVMLError_NotSupported):
            pynvml.nvmlDeviceGetGpuInstanceRemainingCapacity(gpu(), 19)


def test_the_number_of_profile_kinds_grows_with_the_driver(sim_node):
    for driver, count in {
        "450.80.02": 6,
        "470.57.02": 8,
        "525.60.13": 10,
        "570.86.15": 13,
        "580.95.05": 17,
    }.items():
        with sim_node("A100-SXM4-40GB", driver=driver).inside():
            pynvml.nvmlInit()
            with pytest.raises(pynvml.NVMLError_InvalidArgument):
                pynvml.nvmlDeviceGetGpuInstanceProfileInfo(gpu(), count)
            pynvml.nvmlDeviceGetGpuInstanceProfileInfo(gpu(), 0)


def test_events_can_be_awaited_and_never_come(sim_node):
    with sim_node("A100-SXM4-40GB", initial=[{}]).inside():
        pynvml.nvmlInit()
        full_compute(gpu(), create(gpu(), 9))
        events = pynvml.nvmlEventSetCreate()
        pynvml.nvmlDeviceRegisterEvents(gpu(), pynvml.nvmlEventTypeXidCriticalError, events)
        with pytest.raises(pynvml.NVMLError_Timeout):
            pynvml.nvmlEventSetWait(events, 1)
        pynvml.nvmlEventSetFree(events)
        assert info(create(gpu(), 19)).profileId == 19
