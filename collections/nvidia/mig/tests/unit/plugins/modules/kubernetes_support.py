# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real Kubernetes API, the real helm and small charts, for the tests of the cluster's modules."""

from __future__ import annotations

import importlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
from dataclasses import dataclass
from typing import Any, Dict, Iterator, List, Optional
from unittest import mock

import pytest
import yaml
from ansible.module_utils.testing import patch_module_args

_DAEMONSET = """\
apiVersion: apps/v1
kind: DaemonSet
metadata:
  name: {{ .Release.Name }}
spec:
  selector:
    matchLabels: {app: {{ .Release.Name }}}
  template:
    metadata:
      labels: {app: {{ .Release.Name }}}
    spec:
      containers:
        - name: ctr
          image: nowhere.invalid/none
          env:
            - name: MIG_STRATEGY
              value: {{ .Values.migStrategy | default "from-config" }}
"""


@dataclass(frozen=True)
class Cluster:
    """A Kubernetes API without controllers: what a controller would write, a test writes."""

    kubeconfig: pathlib.Path
    helm_binary: str

    def helm(self, *arguments: str) -> Any:
        """Run helm as an operator would; returns parsed JSON if it printed some."""
        command = [self.helm_binary, "--kubeconfig", str(self.kubeconfig), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout) if "json" in arguments else done.stdout

    def releases(self) -> List[Dict[str, Any]]:
        return self.helm("list", "-A", "--deployed", "--failed", "--pending", "-o", "json")

    def clear(self) -> None:
        for release in self.releases():
            self.helm("uninstall", release["name"], "-n", release["namespace"], "--no-hooks")

    def lab(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run ``mig-lab cluster`` on it, such as with ``down`` and ``up``."""
        return _lab(self.kubeconfig.parent, *arguments)

    def api(self) -> Any:
        from kubernetes import client, config

        return client.ApiClient(config.load_kube_config(str(self.kubeconfig)) or None)


@dataclass(frozen=True)
class Outcome:
    """What a module printed, and whether it failed."""

    failed: bool
    result: Dict[str, Any]

    def __getitem__(self, key: str) -> Any:
        return self.result[key]

    @property
    def warnings(self) -> str:
        return "\n".join(str(warning) for warning in self.result.get("warnings", []))


def run_module(capsys: Any, module_name: str, check: bool = False, **options: Any) -> Outcome:
    """Run a module of the collection in this process, as Ansible would."""
    module = importlib.import_module(f"ansible_collections.nvidia.mig.plugins.modules.{module_name}")
    arguments = {
        **options,
        "_ansible_check_mode": check,
        "_ansible_diff": True,
        "_ansible_remote_tmp": "/tmp",
    }
    capsys.readouterr()
    # Once some test has imported the controller's side, warnings would go to the screen, not to the result.
    on_the_target = mock.patch("ansible.module_utils._internal.is_controller", False)
    # And those of modules that ran before in this process would be in the result.
    no_warnings = mock.patch.dict("ansible.module_utils.common.warnings._global_warnings", clear=True)
    with on_the_target, no_warnings, patch_module_args(arguments), pytest.raises(SystemExit) as stopped:
        module.main()
    result = json.loads(capsys.readouterr().out.strip().splitlines()[-1])
    assert bool(result.get("failed")) == bool(stopped.value.code)
    return Outcome(bool(result.get("failed")), result)


def make_chart(
    folder: pathlib.Path, name: str, version: str, template: str = _DAEMONSET, extra: Optional[str] = None
) -> str:
    """A chart of NVIDIA's name that makes one DaemonSet and shows its strategy."""
    chart = folder / f"{name}-{version}"
    (chart / "templates").mkdir(parents=True)
    (chart / "Chart.yaml").write_text(
        yaml.safe_dump({"apiVersion": "v2", "name": name, "version": version, "appVersion": version})
    )
    (chart / "values.yaml").write_text("migStrategy: null\n")
    (chart / "templates" / "daemonset.yaml").write_text(template)
    if extra is not None:
        (chart / "templates" / "extra.yaml").write_text(extra)
    return str(chart)


def start_cluster(directory: pathlib.Path) -> Iterator[Cluster]:
    """Start the lab's Kubernetes API in a directory of its own; skip where there is none."""
    done = _lab(directory, "up")
    if done.returncode != 0:
        reason = (done.stderr or done.stdout).strip().splitlines()
        pytest.skip(f"no Kubernetes API: {reason[-1] if reason else done.returncode}")
    try:
        cached = (
            pathlib.Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "mig-lab/bin/helm"
        )
        binary = shutil.which("helm") or (str(cached) if cached.exists() else None)
        if binary is None:
            pytest.skip("no helm in PATH or in the lab's cache: releases are not tested")
        yield Cluster(directory / "kubeconfig", binary)
    finally:
        _lab(directory, "down")


def waiting_room(cluster: Cluster, namespace: str) -> Any:
    """The core API, as other parts of a cluster use it, with a namespace for pods that wait.

    There is neither a scheduler nor a controller that makes service accounts.
    """
    from kubernetes import client

    found = client.CoreV1Api(cluster.api())
    found.create_namespace({"metadata": {"name": namespace}})
    account = {"metadata": {"name": "default", "namespace": namespace}}
    found.create_namespaced_service_account(namespace, account)
    return found


def _lab(directory: pathlib.Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    repository = pathlib.Path(__file__).resolve().parents[7]
    search = os.pathsep.join([str(repository / "simulator"), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "MIG_LAB_DIR": str(directory), "PYTHONPATH": search}
    command = [sys.executable, "-m", "miglab", "cluster", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
