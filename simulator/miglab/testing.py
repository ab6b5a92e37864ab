"""For tests: throw-away simulated nodes, and ways to run NVML clients on them.

In a ``conftest.py``::

    from miglab.testing import sim_lab, sim_node  # noqa: F401

and in a test::

    def test_something(sim_node):
        node = sim_node("A100-SXM4-40GB", 8, mode_change="reset")
        node.run(["nvidia-smi", "-L"])          # a process on the node
        with node.inside():                     # this very process is on the node
            pynvml.nvmlInit()
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from miglab import build, control, fleet, kubelet, paths


@dataclass(frozen=True)
class SimNode:
    """A node of its own directory, outside the lab's fleet."""

    directory: Path

    @property
    def state(self) -> Path:
        """The state file; ``miglab.control`` takes it."""
        return self.directory / "nvml.state"

    @property
    def checkpoint(self) -> Path:
        """Kubelet's device checkpoint."""
        return self.directory / "kubelet_internal_checkpoint"

    @property
    def pods(self) -> Path:
        """The directory that stands for /var/log/pods."""
        return self.directory / "pods"

    def environment(self, euid: int | None = 0) -> dict[str, str]:
        """The whole environment of a process on the node. ``euid``: who NVML takes it for (None: itself)."""
        inherited = {key: value for key, value in os.environ.items() if key != "MIG_SIM_EUID"}
        return inherited | paths.state_environment(self.state, euid)

    def run(
        self, argv: Sequence[str], euid: int | None = 0, check: bool = True, timeout: float = 60
    ) -> subprocess.CompletedProcess[str]:
        """Run a command on the node; its output is text. ``check``: a failure raises, with the output."""
        done = subprocess.run(
            argv, env=self.environment(euid), capture_output=True, text=True, timeout=timeout, check=False
        )
        if check and done.returncode != 0:
            raise AssertionError(f"{argv} ended with {done.returncode}\n{done.stdout}{done.stderr}")
        return done

    def python(self, code: str, euid: int | None = 0, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run Python code on the node, with this interpreter; ``pynvml`` is not imported for it."""
        return self.run([sys.executable, "-c", code], euid, check)

    @contextlib.contextmanager
    def inside(self, euid: int = 0) -> Iterator[None]:
        """Puts this process on the node: pynvml loads the simulated NVML. Ends what was not shut down."""
        import pynvml  # type: ignore[import-untyped]

        before = {key: os.environ.get(key) for key in ("MIG_SIM_NODE", "MIG_SIM_EUID")}
        # The loader knows a loaded library by its SONAME, so pynvml's own look-up finds this one.
        ctypes.CDLL(str(build.library()))
        os.environ |= {"MIG_SIM_NODE": str(self.state), "MIG_SIM_EUID": str(euid)}
        try:
            yield
        finally:
            with contextlib.suppress(pynvml.NVMLError):
                while True:
                    pynvml.nvmlShutdown()
            for key, value in before.items():
                if value is None:
                    os.environ.pop(key, None)
                else:
                    os.environ[key] = value

    def read(self) -> dict[str, Any]:
        """The state, as ``miglab.control.read``."""
        return control.read(self.state)


def make_node(directory: Path, model: str | list[str], count: int | None = None, **options: Any) -> SimNode:
    """A node with ``count`` GPUs of one model (or one GPU for each model listed).

    Options are the keys of a fleet file's node: driver, mode_change, flipped, initial, ...
    (workloads and clients not: add them with ``miglab.control`` or ``SimNode``).
    """
    build.ensure_built(quiet=True)
    spec: dict[str, Any] = {"gpu": model, **options}
    if count is not None:
        spec["count"] = count
    node = SimNode(directory)
    fleet.build_state(fleet.parse_node("test", spec), node.state)
    node.pods.mkdir(exist_ok=True)
    kubelet.clear(node.checkpoint)
    return node


@pytest.fixture
def sim_lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty lab (MIG_LAB_DIR) of this test's own, with the library that the usual lab has built."""
    build.ensure_built(quiet=True)
    lab = tmp_path / "lab"
    lab.mkdir()
    for built in (paths.lib_dir(), paths.bin_dir()):
        (lab / built.name).symlink_to(built)
    monkeypatch.setenv("MIG_LAB_DIR", str(lab))
    return lab


@pytest.fixture
def sim_node(tmp_path: Path) -> Callable[..., SimNode]:
    """Makes nodes: ``sim_node(model, count, **options)``, see :func:`make_node`."""
    made = 0

    def make(model: str | list[str] = "A100-SXM4-40GB", count: int | None = None, **options: Any) -> SimNode:
        nonlocal made
        made += 1
        return make_node(tmp_path / f"node{made}", model, count, **options)

    return make
