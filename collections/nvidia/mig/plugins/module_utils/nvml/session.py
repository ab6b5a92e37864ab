# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One NVML session: open, call, close. NVML's errors become DeviceError here and nowhere else."""

from __future__ import annotations

import sys
import traceback
from contextlib import contextmanager, suppress
from types import ModuleType
from typing import Any, Collection, Iterator, Optional

from ansible_collections.nvidia.mig.plugins.module_utils.errors import DeviceError

try:
    import pynvml
except ImportError:
    _pynvml: Optional[ModuleType] = None
    _IMPORT_ERROR: Optional[str] = traceback.format_exc()
else:
    _pynvml = pynvml
    _IMPORT_ERROR = None

_ROLE = "the role nvidia.mig.nvml_python gives the node a Python of its own that has it"

# Codes of nvmlReturn_t (nvml.h). pynvml knows the newest of them only in its newest versions.
INVALID_ARGUMENT = 2
NOT_SUPPORTED = 3
NO_PERMISSION = 4
NOT_FOUND = 6
DRIVER_NOT_LOADED = 9
LIBRARY_NOT_FOUND = 12
FUNCTION_NOT_FOUND = 13
GPU_IS_LOST = 15
RESET_REQUIRED = 16
LIB_RM_VERSION_MISMATCH = 18
IN_USE = 19

_HINTS = {
    NO_PERMISSION: "run it as root: become: true",
    DRIVER_NOT_LOADED: "load the kernel module with 'modprobe nvidia'; its log is in 'dmesg'",
    LIBRARY_NOT_FOUND: "install the NVIDIA driver; libnvidia-ml.so.1 is part of it",
    GPU_IS_LOST: "it fell off the bus: see 'dmesg' for its Xid and reboot the node",
    RESET_REQUIRED: "reset the GPU with nvidia.mig.gpu_reset, or reboot the node",
    LIB_RM_VERSION_MISMATCH: (
        "the driver was updated while its old kernel module is loaded: reload it or reboot the node"
    ),
    IN_USE: "a process or a service holds the GPU, or the instance",
}


class NvmlError(DeviceError):
    """A call to NVML failed.

    Args:
        function: NVML's name.
        code: nvmlReturn_t.
        text: NVML's.
        gpu: index of the GPU, if the call was for one.
        doing: what it was for, such as ``create 1g.5gb at 4:1``.
    """

    def __init__(
        self, function: str, code: int, text: str, gpu: Optional[int] = None, doing: Optional[str] = None
    ) -> None:
        where = f"GPU {gpu}: " if gpu is not None else ""
        what = f"cannot {doing}: " if doing else ""
        super().__init__(
            f"{where}{what}{function} failed: {text} (NVML error {code})",
            hint=_HINTS.get(code),
            details={"nvml_function": function, "nvml_error": code},
        )
        self.code = code


class Session:
    """Calls into NVML. Made by `open_nvml`."""

    def __init__(self, pynvml: ModuleType) -> None:
        self.pynvml = pynvml

    def call(self, function: str, *args: Any, gpu: Optional[int] = None, doing: Optional[str] = None) -> Any:
        """Call pynvml's ``function``.

        Args:
            gpu, doing: for the error, see `NvmlError`.

        Raises:
            NvmlError: NVML returned anything but success, or has no such function.
        """
        try:
            return getattr(self.pynvml, function)(*args)
        except self.pynvml.NVMLError as error:
            raise NvmlError(function, error.value, str(error), gpu, doing) from error

    def ask(
        self, function: str, *args: Any, gpu: Optional[int] = None, absent: Collection[int] = ()
    ) -> Optional[Any]:
        """As `call`, for what not every GPU and driver has: None for these codes and a missing function."""
        try:
            return self.call(function, *args, gpu=gpu)
        except NvmlError as error:
            if error.code in absent or error.code == FUNCTION_NOT_FOUND:
                return None
            raise

    def call_symbol(self, symbol: str, *args: Any, gpu: Optional[int] = None) -> None:
        """Call a C function that pynvml has no wrapper for; it must return nvmlReturn_t."""
        try:
            code = self.pynvml._nvmlGetFunctionPointer(symbol)(*args)
            if code:
                raise self.pynvml.NVMLError(code)
        except self.pynvml.NVMLError as error:
            raise NvmlError(symbol, error.value, str(error), gpu) from error

    def device(self, index: int) -> Any:
        """A fresh handle of the GPU: a mode change makes old ones doubtful."""
        return self.call("nvmlDeviceGetHandleByIndex", index, gpu=index)

    def driver_version(self) -> str:
        """Such as ``580.95.05``."""
        return str(self.call("nvmlSystemGetDriverVersion"))

    def nvml_version(self) -> str:
        """Such as ``13.580.95.05``."""
        return str(self.call("nvmlSystemGetNVMLVersion"))


@contextmanager
def open_nvml() -> Iterator[Session]:
    """Open NVML for the block.

    Raises:
        DeviceError: nvidia-ml-py is missing or hidden by an old package, or the driver is not there.
    """
    pynvml = usable_pynvml()
    session = Session(pynvml)
    session.call("nvmlInit", doing=None)
    try:
        yield session
    finally:
        # Nothing is lost if it fails, and an error of the block must not be hidden.
        with suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()


def usable_pynvml() -> ModuleType:
    """The binding, if this Python has it. Raises DeviceError."""
    if _pynvml is None:
        # Not Ansible's own words for this: at boot there is no Ansible.
        raise DeviceError(
            f"the Python package nvidia-ml-py is missing for {sys.executable}",
            hint=f"install it there; {_ROLE}",
            details={"exception": _IMPORT_ERROR},
        )
    if hasattr(_pynvml, "__path__"):
        # nvidia-ml-py is one file; the package of that name is what pynvml was before version 12.
        raise DeviceError(
            f"an old pynvml package in {list(_pynvml.__path__)[0]} hides nvidia-ml-py",
            hint=f"uninstall pynvml, or update it to 12 or newer, and install nvidia-ml-py; {_ROLE}",
        )
    if not hasattr(_pynvml, "nvmlDeviceGetGpuInstanceProfileInfoV"):
        raise DeviceError(
            f"nvidia-ml-py in {_pynvml.__file__} is too old for MIG",
            hint=f"update nvidia-ml-py to 11.525 or newer; {_ROLE}",
        )
    return _pynvml
