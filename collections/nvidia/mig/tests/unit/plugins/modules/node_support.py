# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Simulated nodes and the modules that run on them, for tests.

``host`` makes a node; ``host.layout(...)`` and the like run the real module in a process of its own.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Sequence

import pytest
import yaml
from miglab import build, control, kubelet
from miglab.testing import SimNode, make_node

COLLECTIONS = Path(__file__).resolve().parents[6]
CHANGING = (
    "nvmlDeviceSetMigMode",
    "nvmlDeviceCreateGpuInstance",
    "nvmlDeviceCreateGpuInstanceWithPlacement",
    "nvmlGpuInstanceDestroy",
    "nvmlGpuInstanceCreateComputeInstance",
    "nvmlGpuInstanceCreateComputeInstanceWithPlacement",
    "nvmlComputeInstanceDestroy",
)


@cache
def documented(module: str) -> Dict[str, Any]:
    """RETURN of a module."""
    loaded = importlib.import_module(f"ansible_collections.nvidia.mig.plugins.modules.{module}")
    return dict(yaml.safe_load(loaded.RETURN))


@dataclass
class Server:
    """The process that runs modules: see node_server."""

    process: subprocess.Popen[str]

    def ask(self, request: Dict[str, Any]) -> Dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        assert answer, "the module server has ended"
        return dict(json.loads(answer))


@dataclass
class Result:
    """What a module said, and how its process ended."""

    rc: int
    data: Dict[str, Any]

    def __getattr__(self, name: str) -> Any:
        try:
            return self.data[name]
        except KeyError:
            raise AttributeError(f"{name} is not in {self.data}") from None


@dataclass
class Host:
    """One simulated node with the modules."""

    node: SimNode
    server: Server
    options: Dict[str, Any] = field(default_factory=dict)

    def run(
        self,
        module: str,
        check: bool = False,
        diff: bool = False,
        fails: bool = False,
        euid: int = 0,
        **args: Any,
    ) -> Result:
        """Run a module; ``fails``: it must fail, else it must not."""
        result = self.attempt(module, check, diff, euid, **args)
        assert result.data, f"{module} ended with {result.rc} and said nothing"
        failed = bool(result.data.get("failed"))
        assert failed == fails, result.data.get("msg") or result.data
        assert (result.rc != 0) == fails
        if not fails:
            undocumented = set(result.data) - set(documented(module)) - {"changed", "diff", "invocation"}
            assert not undocumented, f"{module} returns {undocumented}, which RETURN does not tell"
        return result

    def attempt(
        self, module: str, check: bool = False, diff: bool = False, euid: int = 0, **args: Any
    ) -> Result:
        """Run a module that may fail or be killed."""
        node = self.node
        answer = self.server.ask(
            {
                "module": module,
                "args": {
                    "kubelet_checkpoint": str(node.checkpoint),
                    "pod_log_directory": str(node.pods),
                    **self.options,
                    **args,
                    "_ansible_check_mode": check,
                    "_ansible_diff": diff,
                },
                "env": {"MIG_SIM_NODE": str(node.state), "MIG_SIM_EUID": str(euid)},
            }
        )
        assert "Traceback" not in answer["err"], answer["err"]
        data = json.loads(answer["out"]) if answer["out"].strip() else {}
        assert "exception" not in data, data.get("exception")
        return Result(answer["rc"], data)

    def layout(self, *entries: Dict[str, Any], **options: Any) -> Result:
        """Run mig_layout for these entries."""
        return self.run("mig_layout", layout=list(entries), **options)

    def gpus(self) -> List[Dict[str, Any]]:
        """What the simulator has, without what is new in each equal layout."""
        return [
            {
                "mode": gpu["mig"],
                "instances": sorted(
                    (
                        instance["profile"],
                        instance["placement"]["start"],
                        tuple(
                            sorted(
                                (c["profile"], c["placement"]["start"]) for c in instance["compute_instances"]
                            )
                        ),
                    )
                    for instance in gpu["instances"]
                ),
            }
            for gpu in self.node.read()["gpus"]
        ]

    def calls(self) -> Dict[str, int]:
        """NVML calls since the last `reset_calls`."""
        return control.calls(self.node.state)

    def reset_calls(self) -> None:
        control.reset_calls(self.node.state)

    def changing_calls(self) -> Dict[str, int]:
        """Those of `calls` that can change a GPU."""
        return {name: count for name, count in self.calls().items() if name in CHANGING}

    def fault(self, function: str, **options: Any) -> None:
        control.add_fault(self.node.state, function, **options)

    def clear_faults(self) -> None:
        control.clear_faults(self.node.state)

    def instance(self, gpu: int, profile: str) -> Dict[str, Any]:
        """The first instance of that profile on the GPU, from the simulator."""
        instances = self.node.read()["gpus"][gpu]["instances"]
        return next(instance for instance in instances if instance["profile"] == profile)

    def process(
        self, gpu: int, instance: Optional[int] = None, compute: Optional[int] = None, **more: Any
    ) -> int:
        """Start a process; its pid."""
        if instance is not None and compute is None:
            compute = 0
        return control.add_process(self.node.state, gpu, instance, compute, **{"name": "python", **more})

    def end_processes(self) -> None:
        control.remove_processes(self.node.state)

    def pod(self, name: str, device: str, resource: str = "nvidia.com/gpu") -> str:
        """Let kubelet give a device to a pod; the pod's uid."""
        return kubelet.allocate(self.node.checkpoint, self.node.pods, name, resource, device)

    def save(self) -> Path:
        """Remember the node's state for `restore`."""
        copy = self.node.directory / "saved.state"
        shutil.copyfile(self.node.state, copy)
        return copy

    def restore(self, copy: Path) -> None:
        shutil.copyfile(copy, self.node.state)


@contextmanager
def running_server(prelude: str = "") -> Iterator[Server]:
    """A process that runs modules. ``prelude``: Python that it runs first, such as what breaks a module."""
    library = build.ensure_built(quiet=True)
    environment = {
        **os.environ,
        "LD_LIBRARY_PATH": str(library.parent),
        "PATH": f"{library.parent.parent / 'bin'}:{os.environ['PATH']}",
        "PYTHONPATH": str(COLLECTIONS),
    }
    environment.pop("MIG_SIM_EUID", None)
    program = str(Path(__file__).with_name("node_server.py"))
    start = f"{prelude}\nimport runpy\nrunpy.run_path({program!r}, run_name='__main__')"
    process = subprocess.Popen(
        [sys.executable, "-c", start],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    try:
        yield Server(process)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.wait(timeout=10)


@pytest.fixture(scope="session")
def node_server() -> Iterator[Server]:
    """One server for all tests."""
    with running_server() as server:
        yield server


@pytest.fixture
def make_host(tmp_path: Path, node_server: Server):
    """Makes nodes: ``make_host(model, count, **options)``, see miglab.testing.make_node."""
    made: List[Host] = []

    def make(
        model: str | Sequence[str] = "A100-SXM4-40GB", count: Optional[int] = None, **options: Any
    ) -> Host:
        names = model if isinstance(model, str) else list(model)
        host = Host(make_node(tmp_path / f"node{len(made)}", names, count, **options), node_server)
        made.append(host)
        return host

    return make
