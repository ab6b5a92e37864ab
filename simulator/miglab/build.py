"""Builds the simulated NVML and its nvidia-smi into the lab's directory.

Takes the system's C compiler (``$CC``, cc, gcc or clang), else ``ziglang`` from PyPI, which is one, too.
Rebuilds only if a source, the compiler or its options changed.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from miglab import codegen, paths
from miglab.console import LabError, say

SONAME = "libnvidia-ml.so.1"
NVML_SOURCES = paths.SIMULATOR / "nvml"
SMI_SOURCES = paths.SIMULATOR / "smi"
FLAGS = ["-std=c11", "-O1", "-fPIC", "-fvisibility=hidden", "-pthread", "-Wall", "-Wextra", "-Werror"]


class BuildError(LabError):
    """The library cannot be built; the text says what to do."""


def library() -> Path:
    """Where the built library lies."""
    return paths.lib_dir() / SONAME


def ensure_built(quiet: bool = False) -> Path:
    """Build what is missing or out of date; returns the library's path. BuildError if that fails."""
    paths.lab_dir().mkdir(parents=True, exist_ok=True)
    with _one_at_a_time():
        compiler = _compiler(quiet)
        wanted = _fingerprint(compiler)
        mark = paths.lib_dir() / "built-from"
        outputs = (library(), paths.bin_dir() / "nvidia-smi")
        if (
            all(path.exists() for path in outputs)
            and mark.exists()
            and mark.read_text(encoding="utf-8") == wanted
        ):
            _say(quiet, f"{library()}: up to date")
            return library()
        _build(compiler, quiet)
        mark.write_text(wanted, encoding="utf-8")
    return library()


def _build(compiler: list[str], quiet: bool) -> None:
    for directory in (paths.lib_dir(), paths.bin_dir()):
        directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=paths.lab_dir(), prefix="build-") as name:
        work = Path(name)
        generated = codegen.generate(work)
        _say(quiet, f"building {SONAME} and nvidia-smi with {shlex.join(compiler)}")
        built = work / SONAME
        sources = [*sorted(NVML_SOURCES.glob("*.c")), *generated]
        options = [*FLAGS, f"-I{NVML_SOURCES}", f"-I{work}"]
        _run([*compiler, *options, "-shared", f"-Wl,-soname,{SONAME}", "-o", str(built), *map(str, sources)])
        smi = work / "nvidia-smi"
        found = ["-Wl,-rpath,$ORIGIN/../lib", str(built)]
        _run([*compiler, *options, "-o", str(smi), *map(str, sorted(SMI_SOURCES.glob("*.c"))), *found])
        # Renamed into place: a process that has the old library mapped keeps it.
        built.replace(library())
        smi.replace(paths.bin_dir() / "nvidia-smi")
    _say(quiet, f"built {library()} and {paths.bin_dir() / 'nvidia-smi'}")


def _compiler(quiet: bool) -> list[str]:
    if os.environ.get("CC"):
        return shlex.split(os.environ["CC"])
    for name in ("cc", "gcc", "clang"):
        if shutil.which(name):
            return [name]
    if importlib.util.find_spec("ziglang") is None:
        _say(quiet, f"no C compiler here: installing ziglang from PyPI into {sys.prefix}")
        result = subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "ziglang"], check=False)
        if result.returncode != 0:
            raise BuildError(
                "no C compiler, and ziglang could not be installed: install gcc or clang, or set CC"
            )
    return [sys.executable, "-m", "ziglang", "cc"]


def _run(command: list[str]) -> None:
    result = subprocess.run(command, check=False, capture_output=True, text=True)
    if result.returncode != 0:
        raise BuildError(f"{shlex.join(command)}\n{result.stderr}{result.stdout}".rstrip())


def _fingerprint(compiler: list[str]) -> str:
    digest = hashlib.sha256(repr((compiler, FLAGS)).encode())
    inputs = [
        *NVML_SOURCES.glob("*"),
        *SMI_SOURCES.glob("*"),
        codegen.GPUS_JSON,
        Path(codegen.__file__),
        Path(__file__),
    ]
    for path in sorted(inputs):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


@contextlib.contextmanager
def _one_at_a_time() -> Iterator[None]:
    with open(paths.lab_dir() / "build.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _say(quiet: bool, text: str) -> None:
    if not quiet:
        say(text)


def run(_arguments: argparse.Namespace) -> int:
    """``mig-lab build``."""
    ensure_built()
    return 0
