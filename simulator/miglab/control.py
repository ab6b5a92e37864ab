"""The simulator's own functions (``migsim_*`` of the library) for Python.

Only C knows how a state file is laid out; here are thin, typed calls. Paths are those of state files.
Each call opens the file, does one change as a whole, and closes it: safe beside any number of NVML clients.
"""

from __future__ import annotations

import ctypes
import functools
import json
from pathlib import Path
from typing import Any

from miglab import build
from miglab.console import LabError

WHOLE_GPU = -1


class SimulatorError(LabError):
    """The simulated hardware refuses, or a state file cannot be used."""


@functools.cache
def _load(path: str, _stamp: int) -> ctypes.CDLL:
    library = ctypes.CDLL(path)
    library.migsim_error.restype = ctypes.c_char_p
    library.migsim_function_name.restype = ctypes.c_char_p
    library.migsim_layout.restype = ctypes.c_uint64
    u64, text, number, flag = ctypes.c_uint64, ctypes.c_char_p, ctypes.c_uint, ctypes.c_int
    signatures: dict[str, list[Any]] = {
        "migsim_create": [text, text, text, number],
        "migsim_add_gpu": [text, text, text, number, number, number, text, flag],
        "migsim_set_mode": [text, number, flag],
        "migsim_add_instance": [text, number, text, flag],
        "migsim_add_compute": [text, number, number, number],
        "migsim_add_process": [text, number, flag, flag, text, number, text, text, u64],
        "migsim_remove_processes": [text, flag, flag, flag, number, text, text],
        "migsim_reboot": [text],
        "migsim_fault_add": [text, text, u64, u64, flag, number, text],
        "migsim_fault_clear": [text],
        "migsim_function_name": [number],
        "migsim_calls": [text, ctypes.POINTER(u64), number],
        "migsim_calls_reset": [text],
        "migsim_dump": [text, text, ctypes.c_size_t],
    }
    for name, arguments in signatures.items():
        getattr(library, name).argtypes = arguments
    return library


def _library() -> ctypes.CDLL:
    path = build.library()
    if not path.exists():
        raise SimulatorError("the simulated NVML is not built: run 'mig-lab build'")
    return _load(str(path), path.stat().st_mtime_ns)


def _call(name: str, *arguments: Any) -> int:
    library = _library()
    encoded = [
        a.encode() if isinstance(a, str) else str(a).encode() if isinstance(a, Path) else a for a in arguments
    ]
    result: int = getattr(library, name)(*encoded)
    if result < 0:
        raise SimulatorError(library.migsim_error().decode())
    return result


def create(state: Path, driver: str, nvml: str, cuda: int) -> None:
    """A new node without GPUs. ``cuda`` as NVML counts: 13000 is 13.0."""
    _call("migsim_create", state, driver, nvml, cuda)


def add_gpu(
    state: Path,
    model: str,
    uuid: str,
    pci: tuple[int, int, int],
    mode_change: str = "",
    flipped: bool = False,
) -> int:
    """Add a GPU; returns its index. ``pci`` is (domain, bus, device)."""
    return _call("migsim_add_gpu", state, model, uuid, *pci, mode_change, int(flipped))


def set_mode(state: Path, gpu: int, enabled: bool) -> None:
    """Set the current and pending MIG mode at once, for an initial state."""
    _call("migsim_set_mode", state, gpu, int(enabled))


def add_instance(state: Path, gpu: int, profile: str, start: int | None = None) -> int:
    """Create a GPU instance, where the driver would or at ``start``; returns its id."""
    return _call("migsim_add_instance", state, gpu, profile, -1 if start is None else start)


def add_compute(state: Path, gpu: int, instance: int, slices: int | None = None) -> int:
    """Create a compute instance (None: the full one); returns its id."""
    return _call("migsim_add_compute", state, gpu, instance, slices or 0)


def add_process(
    state: Path,
    gpu: int,
    instance: int | None = None,
    compute: int | None = None,
    *,
    name: str,
    kind: str = "compute",
    pod: str = "",
    pid: int = 0,
    memory_mib: int = 0,
) -> int:
    """A process on an instance, or on the whole GPU (instance None). Returns its pid."""
    place = (WHOLE_GPU if instance is None else instance, WHOLE_GPU if compute is None else compute)
    return _call("migsim_add_process", state, gpu, *place, kind, pid, name, pod, memory_mib << 20)


def remove_processes(
    state: Path,
    gpu: int | None = None,
    instance: int | None = None,
    compute: int | None = None,
    *,
    pid: int = 0,
    name: str = "",
    pod: str = "",
) -> int:
    """End the processes that fit every criterion given; returns how many."""
    place = (-1 if value is None else value for value in (gpu, instance, compute))
    return _call("migsim_remove_processes", state, *place, pid, name, pod)


def reboot(state: Path) -> None:
    """Processes end, instances go, pending modes become current or fall back to off, by GPU generation."""
    _call("migsim_reboot", state)


def add_fault(
    state: Path,
    function: str,
    nth: int = 1,
    times: int = 1,
    code: int = 0,
    latency_ms: int = 0,
    kill: str = "",
) -> None:
    """Make calls ``nth`` to ``nth + times - 1`` of ``function`` from now on misbehave (``times`` 0: no end).

    They wait ``latency_ms``, fail with ``code`` (0: they do not), and kill their process ``before`` the call,
    ``during`` it (all done, nothing committed) or ``after`` it.
    """
    _call("migsim_fault_add", state, function, nth, times, code, latency_ms, kill)


def clear_faults(state: Path) -> int:
    """Remove every fault; returns how many there were."""
    return _call("migsim_fault_clear", state)


def functions() -> list[str]:
    """The functions that have a counter, by number."""
    library = _library()
    names: list[str] = []
    while name := library.migsim_function_name(len(names)):
        names.append(name.decode())
    return names


def calls(state: Path) -> dict[str, int]:
    """Calls per function since the node was made or the counters were reset; without those at 0."""
    names = functions()
    counts = (ctypes.c_uint64 * len(names))()
    _call("migsim_calls", state, counts, len(names))
    return {name: count for name, count in zip(names, counts, strict=True) if count}


def reset_calls(state: Path) -> None:
    """All counters to zero."""
    _call("migsim_calls_reset", state)


def read(state: Path) -> dict[str, Any]:
    """The whole state as one consistent picture, shaped as simulator/README.md says. Counts as no call."""
    size = 1 << 16
    while True:
        buffer = ctypes.create_string_buffer(size)
        length = _call("migsim_dump", state, buffer, size)
        if length < size:
            content: dict[str, Any] = json.loads(buffer.value.decode())
            return content
        size = length + 1024


def usable(state: Path) -> bool:
    """Was the file made for this build of the library?"""
    try:
        read(state)
    except SimulatorError:
        return False
    return True
