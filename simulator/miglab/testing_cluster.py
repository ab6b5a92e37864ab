"""For tests: one Kubernetes API for the whole session, with a small fleet of its own and the agent.

In a ``conftest.py``::

    from miglab.testing_cluster import lab, lab_cluster  # noqa: F401

and in a test::

    def test_something(lab):                            # fresh nodes, no releases
        lab.partition("dgx01", {0: ["3g.20gb", "3g.20gb"]})
        lab.helm("install", "p", str(lab.chart("nvidia-device-plugin")), "--set", "migStrategy=mixed")
        lab.wait_for("dgx01", {"nvidia.com/gpu": 7, "nvidia.com/mig-3g.20gb": 2})

Tests are skipped where kube-apiserver or helm is not to be had; ``mig-lab cluster binaries`` says why.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from miglab import control, fleet, paths
from miglab.api import Api
from miglab.console import EXIT_MISSING

NAMESPACE = "nvidia-device-plugin"

_FLEET = """
nodes:
  dgx01: {gpu: A100-SXM4-40GB, count: 8}
  dgx02: {gpu: A100-SXM4-40GB, count: 8}
  t4-01: {gpu: T4-16GB, count: 4}
"""


@dataclass(frozen=True)
class LabCluster:
    """A running lab in a directory of its own."""

    directory: Path

    @property
    def environment(self) -> dict[str, str]:
        """Of a process that uses this lab."""
        path = os.pathsep.join([str(paths.SIMULATOR), *filter(None, [os.environ.get("PYTHONPATH")])])
        return {
            **os.environ,
            "MIG_LAB_DIR": str(self.directory),
            "KUBECONFIG": str(self.kubeconfig),
            "PYTHONPATH": path,
            "HELM_CACHE_HOME": str(self.directory / "helm"),
            "HELM_CONFIG_HOME": str(self.directory / "helm"),
            "HELM_DATA_HOME": str(self.directory / "helm"),
        }

    @property
    def kubeconfig(self) -> Path:
        return self.directory / "kubeconfig"

    @property
    def api(self) -> Api:
        """A client of this lab's API server."""
        return Api.from_kubeconfig(self.kubeconfig)

    def chart(self, name: str) -> Path:
        """The lab's own chart."""
        return paths.SIMULATOR / "charts" / name

    def mig_lab(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run ``mig-lab``. ``check``: a failure raises, with the output."""
        return self._run([sys.executable, "-m", "miglab", *arguments], check)

    def helm(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run helm in the namespace of the releases."""
        command = [str(self.directory / "bin" / "helm"), *arguments, "--namespace", NAMESPACE]
        return self._run(command, check)

    def partition(self, node: str, layout: Mapping[int, Sequence[str]]) -> None:
        """Put GPUs into MIG mode with these instances, each with its full compute instance."""
        state = paths.node_state(node)
        for gpu, profiles in layout.items():
            control.set_mode(state, gpu, True)
            for profile in profiles:
                control.add_compute(state, gpu, control.add_instance(state, gpu, profile))

    def node(self, name: str) -> dict[str, Any]:
        """The Node object."""
        return self.api.get(f"/api/v1/nodes/{name}")

    def offers(self, name: str) -> dict[str, int]:
        """Allocatable extended resources of the node; what is at 0 is left out."""
        allocatable = self.node(name).get("status", {}).get("allocatable", {})
        counts = {key: int(value) for key, value in allocatable.items() if key.startswith("nvidia.com/")}
        return {key: count for key, count in counts.items() if count}

    def labels(self, name: str) -> dict[str, str]:
        """The node's labels of NVIDIA's, without their prefix."""
        labels = self.node(name)["metadata"].get("labels", {})
        return {key[11:]: value for key, value in labels.items() if key.startswith("nvidia.com/")}

    def wait_for(self, node: str, offers: Mapping[str, int], seconds: float = 60) -> None:
        """Wait until the node offers exactly these resources."""
        deadline = time.monotonic() + seconds
        while (found := self.offers(node)) != offers:
            if time.monotonic() > deadline:
                raise AssertionError(f"{node} offers {found}, not {dict(offers)}, after {seconds} s")
            time.sleep(0.1)

    def reset(self) -> None:
        """Fresh nodes, no releases, no leftovers of a test."""
        for release in self._releases():
            self.helm("uninstall", release, "--ignore-not-found", "--no-hooks")
        for name in fleet.names():
            self.api.patch(
                f"/api/v1/nodes/{name}", {"metadata": {"labels": {"nvidia.com/device-plugin.config": None}}}
            )
        fleet.create(fleet.load(self.directory / "fleet.yml"), reset=True)
        self.mig_lab("agent", "sync")

    def _releases(self) -> list[str]:
        helm = str(self.directory / "bin" / "helm")
        command = [helm, "list", "--all-namespaces", "--short", "--deployed", "--failed", "--pending"]
        return self._run(command, True).stdout.split()

    def _run(self, command: list[str], check: bool) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            command, env=self.environment, capture_output=True, text=True, timeout=120, check=False
        )
        if check and done.returncode != 0:
            raise AssertionError(f"{command} ended with {done.returncode}\n{done.stdout}{done.stderr}")
        return done


@pytest.fixture(scope="session")
def lab_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabCluster]:
    """The session's lab; use ``lab``, which starts each test from scratch."""
    directory = tmp_path_factory.mktemp("lab")
    (directory / "fleet.yml").write_text(_FLEET)
    cluster = LabCluster(directory)
    # No time limit: where there is no kube-apiserver yet, it is built now.
    binaries = [sys.executable, "-m", "miglab", "cluster", "binaries"]
    done = subprocess.run(binaries, env=cluster.environment, capture_output=True, text=True, check=False)
    if done.returncode == EXIT_MISSING:
        pytest.skip(done.stderr.strip().splitlines()[-1])
    try:
        cluster.mig_lab("up", "--fleet", str(directory / "fleet.yml"))
        yield cluster
    finally:
        cluster.mig_lab("down", check=False)


@pytest.fixture
def lab(lab_cluster: LabCluster, monkeypatch: pytest.MonkeyPatch) -> LabCluster:
    """The session's lab with fresh nodes and no releases; this process works in it, too."""
    monkeypatch.setenv("MIG_LAB_DIR", str(lab_cluster.directory))
    lab_cluster.reset()
    return lab_cluster
