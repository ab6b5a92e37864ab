# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The only room that knows pynvml: errors, old drivers, what the catalog says."""

from __future__ import annotations

import ast
import ctypes
import json
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pynvml
import pytest
from ansible_collections.nvidia.mig.plugins.module_utils.errors import DeviceError
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.steps import SetMode
from ansible_collections.nvidia.mig.plugins.module_utils.nvml import session
from ansible_collections.nvidia.mig.plugins.module_utils.nvml.catalogs import memory_in_name, read_catalog
from ansible_collections.nvidia.mig.plugins.module_utils.nvml.platform import is_in_guest, minor_number
from ansible_collections.nvidia.mig.plugins.module_utils.nvml.reader import Reader
from ansible_collections.nvidia.mig.plugins.module_utils.nvml.session import NvmlError, Session, open_nvml
from ansible_collections.nvidia.mig.plugins.module_utils.nvml.values import Process
from ansible_collections.nvidia.mig.plugins.module_utils.nvml.writer import Writer
from miglab import control, paths
from miglab.testing import make_node

ROOM = Path(session.__file__).parent
MODELS = json.loads((paths.SIMULATOR / "gpus.json").read_text(encoding="utf-8"))["gpus"]
WITH_MIG = {name: model for name, model in MODELS.items() if model.get("mig")}


@pytest.fixture
def node(tmp_path):
    return make_node(tmp_path / "node", ["A100-SXM4-40GB", "T4-16GB"])


def test_an_error_names_function_gpu_and_reason(node):
    with node.inside(), open_nvml() as nvml:
        control.add_fault(node.state, "nvmlDeviceGetMigMode", code=15)
        with pytest.raises(NvmlError) as caught:
            nvml.call("nvmlDeviceGetMigMode", nvml.device(0), gpu=0, doing="look")
    assert caught.value.code == session.GPU_IS_LOST
    assert str(caught.value).startswith(
        "GPU 0: cannot look: nvmlDeviceGetMigMode failed: GPU is lost (NVML error 15) (it fell off the bus"
    )
    assert caught.value.fail_args()["nvml_error"] == 15


def test_nvml_is_closed_also_after_an_error(node):
    with node.inside():
        with pytest.raises(ZeroDivisionError), open_nvml():
            raise ZeroDivisionError
        with pytest.raises(pynvml.NVMLError_Uninitialized):
            pynvml.nvmlDeviceGetCount()


def test_asking_for_what_may_be_absent(node):
    with node.inside(), open_nvml() as nvml:
        handle = nvml.device(1)
        assert nvml.ask("nvmlDeviceGetMigMode", handle, absent=(session.NOT_SUPPORTED,)) is None
        with pytest.raises(NvmlError):
            nvml.ask("nvmlDeviceGetMigMode", handle)
        control.add_fault(node.state, "nvmlDeviceGetMigMode", code=session.FUNCTION_NOT_FOUND)
        assert nvml.ask("nvmlDeviceGetMigMode", handle) is None


@pytest.mark.parametrize(
    ("code", "hint"),
    [
        (session.NO_PERMISSION, "become: true"),
        (session.DRIVER_NOT_LOADED, "modprobe nvidia"),
        (session.LIB_RM_VERSION_MISMATCH, "reboot"),
        (session.LIBRARY_NOT_FOUND, "install the NVIDIA driver"),
    ],
)
def test_an_error_at_the_start_says_what_to_do(node, code, hint):
    control.add_fault(node.state, "nvmlInitWithFlags", code=code)
    with node.inside(), pytest.raises(DeviceError, match=hint), open_nvml():
        pass


def test_no_pynvml(monkeypatch):
    monkeypatch.setattr(session, "_pynvml", None)
    with pytest.raises(DeviceError, match="nvidia-ml-py"), open_nvml():
        pass


def test_an_old_pynvml(monkeypatch):
    package = ModuleType("pynvml")
    package.__path__ = ["/usr/lib/python3/dist-packages/pynvml"]
    monkeypatch.setattr(session, "_pynvml", package)
    with pytest.raises(DeviceError, match="uninstall pynvml"), open_nvml():
        pass
    old = ModuleType("pynvml")
    old.__file__ = "/usr/lib/python3/dist-packages/pynvml.py"
    monkeypatch.setattr(session, "_pynvml", old)
    with pytest.raises(DeviceError, match="update nvidia-ml-py"), open_nvml():
        pass


def test_codes_are_those_of_nvml():
    for name, code in vars(session).items():
        if name.isupper() and isinstance(code, int):
            assert getattr(pynvml, f"NVML_ERROR_{name}") == code


@pytest.mark.parametrize("model", WITH_MIG)
def test_a_driver_without_names_gives_the_same_names(tmp_path, model):
    """Before R525 NVML names no profile. Those profiles had no attribute but +me."""
    node = make_node(tmp_path / "node", model, 1)
    with node.inside(), open_nvml() as nvml:
        handle = nvml.device(0)
        named = read_catalog(nvml, 0, handle, "")
        control.add_fault(node.state, "nvmlDeviceGetGpuInstanceProfileInfoV", code=13, times=0)
        unnamed = read_catalog(nvml, 0, handle, "")
    plain = [p for p in named.profiles if p.profile.attributes in ((), ("+me",))]
    derived = {p.id: p for p in unnamed.profiles}
    assert plain
    for offered in plain:
        assert derived[offered.id] == offered


def test_the_number_in_a_name():
    mib = 1 << 20
    assert memory_in_name(4864, 40536 * mib) == 5
    assert memory_in_name(19968, 40960 * mib) == 20
    assert memory_in_name(9984, 81559 * mib) == 10


def test_a_profile_of_the_future_does_not_hide_the_others(node, monkeypatch):
    def rename(info):
        if info.id == 19:
            info.name = b"MIG something.else"
        return info

    with node.inside(), open_nvml() as nvml:
        real = pynvml.nvmlDeviceGetGpuInstanceProfileInfo
        monkeypatch.setattr(pynvml, "nvmlDeviceGetGpuInstanceProfileInfo", lambda *args: rename(real(*args)))
        names = [str(offered.profile) for offered in read_catalog(nvml, 0, nvml.device(0), "").profiles]
    assert "1g.5gb" not in names
    assert "3g.20gb" in names


@pytest.mark.parametrize("model", MODELS)
def test_resetless_is_asked_for_or_known(tmp_path, model):
    node = make_node(tmp_path / "node", model, 1)
    resetless = MODELS[model]["architecture"] in ("hopper", "blackwell")
    with node.inside(), open_nvml() as nvml:
        asked = Reader(nvml).read().states[0]
        control.add_fault(node.state, "nvmlDeviceGetFieldValues", code=session.NOT_SUPPORTED, times=0)
        known = Reader(nvml).read().states[0]
    assert asked == known
    assert asked.resetless == resetless


def test_reading_twice_reads_the_profiles_once(node):
    with node.inside(), open_nvml() as nvml:
        reader = Reader(nvml)
        first = reader.read()
        control.reset_calls(node.state)
        assert reader.read() == first
    assert "nvmlDeviceGetGpuInstanceProfileInfoV" not in control.calls(node.state)


@pytest.mark.parametrize(("mode", "guest"), [(0, False), (1, True), (2, True), (3, False), (None, False)])
def test_a_gpu_in_a_virtual_machine(mode, guest):
    def ask(handle):
        if mode is None:
            raise pynvml.NVMLError(session.NOT_SUPPORTED)
        return mode

    fake = SimpleNamespace(
        NVMLError=pynvml.NVMLError,
        nvmlDeviceGetHandleByIndex=lambda index: index,
        nvmlDeviceGetVirtualizationMode=ask,
        nvmlDeviceGetMinorNumber=lambda handle: handle + 2,
    )
    assert is_in_guest(Session(fake), 0) is guest
    assert minor_number(Session(fake), 0) == 2


@pytest.mark.parametrize(
    ("status", "mode", "waits"),
    [
        (0, [1, 1], False),
        (session.IN_USE, [0, 1], True),
        (session.RESET_REQUIRED, [0, 1], True),
        (0, [0, 1], True),
        # NVML accepts the call, and says only by the activation status or the pending mode that it failed.
        (999, [0, 1], None),
        (999, [0, 0], None),
        (session.IN_USE, [0, 0], None),
    ],
)
def test_a_mode_is_judged_by_status_and_by_what_is_read_back(status, mode, waits):
    fake = SimpleNamespace(
        NVMLError=pynvml.NVMLError,
        nvmlDeviceGetHandleByIndex=lambda index: index,
        nvmlDeviceSetMigMode=lambda handle, enabled: status,
        nvmlDeviceGetMigMode=lambda handle: mode,
    )
    writer = Writer(Session(fake), {})
    step = SetMode(0, enabled=True, resets=True)
    if waits is None:
        with pytest.raises(NvmlError, match="GPU 0: cannot enable MIG mode") as caught:
            writer.set_mode(step)
        assert caught.value.code == status
    else:
        assert (writer.set_mode(step).current is False) == waits


@pytest.mark.parametrize(
    ("process", "text"),
    [
        (Process(7, "/usr/bin/python3 train.py"), "process 7 (python3)"),
        (Process(7, "python"), "process 7 (python)"),
        (Process(7, ""), "process 7"),
    ],
)
def test_a_process_as_text(process, text):
    assert str(process) == text


def test_no_c_structure_leaves_the_room(tmp_path):
    """What the readers return can be compared, copied and printed: it holds no ctypes value."""

    def plain(value):
        assert not isinstance(value, (ctypes.Structure, ctypes.Array, ctypes._SimpleCData)), value
        if hasattr(value, "__dataclass_fields__"):
            for name in value.__dataclass_fields__:
                plain(getattr(value, name))
        elif isinstance(value, (list, tuple)):
            for item in value:
                plain(item)
        elif isinstance(value, dict):
            for item in (*value, *value.values()):
                plain(item)
        else:
            assert value is None or type(value) in (str, int, bool), value

    node = make_node(
        tmp_path / "node", "A100-SXM4-40GB", 1, initial=[{"gpus": [0], "instances": ["3g.20gb"]}]
    )
    control.add_process(node.state, 0, 2, 0, name="python")
    with node.inside(), open_nvml() as nvml:
        plain(Reader(nvml, mig_devices=True, details=True).read())


def test_the_room_uses_nothing_that_old_pythons_lack():
    for path in ROOM.glob("*.py"):
        ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 9))
