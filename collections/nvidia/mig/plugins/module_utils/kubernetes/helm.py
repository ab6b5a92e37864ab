# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The real helm binary, 3.8 and newer, through kubernetes.core's AnsibleHelmModule: commands in, data out.

Commands are argv lists. Values go in on standard input, so they are neither on a command line nor on a disk.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import threading
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ansible_collections.nvidia.mig.plugins.module_utils.errors import ClusterError, InputError
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.release import Release
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.rights import denied
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.versions import parse_version

_OLDEST_HELM = "3.8.0"

# Seconds for a command, beyond those that it waits for hooks. Helm itself would wait for an answer for ever.
PATIENCE = 120
# Seconds to tidy up for one that takes longer.
_GRACE = 10


class ChartSource(NamedTuple):
    """Where a chart comes from.

    Args:
        reference: what helm is given: a chart's name in ``repository``, a path, an oci:// URL or repo/name.
        repository: URL of a chart repository; empty where the reference is enough.
        version: the version to install.
        local: the reference is a folder or an archive on this machine.
    """

    reference: str
    repository: str
    version: str
    local: bool

    def arguments(self) -> List[str]:
        """The chart as arguments of helm install, upgrade, template and show."""
        arguments = [self.reference]
        if self.repository:
            arguments += ["--repo", self.repository]
        if not self.local:
            arguments += ["--version", self.version]
        return arguments


class _Limit:
    """Ends a process that takes too long. One left alone could change the cluster when nobody expects it."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.passed = False
        self._timer: Optional[threading.Timer] = None

    def watch(self, process: subprocess.Popen[bytes]) -> None:
        self._timer = threading.Timer(self.seconds, self._end, [process])
        self._timer.daemon = True
        self._timer.start()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        if process.poll() is not None:
            return
        self.passed = True
        process.terminate()
        try:
            process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            process.kill()


class Helm:
    """Commands of helm.

    Args:
        module: kubernetes.core's AnsibleHelmModule; it prepares the environment and hides secrets.
    """

    def __init__(self, module: Any) -> None:
        self._module = module
        self._binary = str(module.get_helm_binary())
        self.commands: List[str] = []
        try:
            len(module.env_update)  # reads the kubeconfig
        except (OSError, ValueError, TypeError, AttributeError) as error:
            raise InputError(f"cannot be read: {error}", path="kubeconfig") from error

    def run(self, *arguments: str, data: Optional[str] = None, waits: int = 0) -> str:
        """Run helm and return its standard output.

        Args:
            data: its standard input.
            waits: seconds that it may wait for hooks.

        Raises:
            ClusterError: it failed; details hold the command, rc, stdout and stderr.
        """
        command = [self._binary, *arguments]
        limit = _Limit(PATIENCE + waits)
        # What run_helm_command does, and the process besides.
        try:
            rc, out, err = self._module.run_command(
                command,
                environ_update=self._module.env_update,
                data=data,
                before_communicate_callback=limit.watch,
            )
        finally:
            limit.stop()
        if limit.passed:
            raise ClusterError(
                f"helm {arguments[0]} was ended, as it had not come to an end within {limit.seconds} seconds",
                hint="look whether the API server answers",
                details={"command": command, "rc": rc, "stdout": out, "stderr": err},
            )
        if rc != 0:
            raise ClusterError(
                f"helm {arguments[0]} failed: {_last_line(err or out)}",
                hint=_advice(err),
                details={"command": command, "rc": rc, "stdout": out, "stderr": err},
            )
        return str(out)

    def check_version(self) -> str:
        """The version of helm. Raises ClusterError if it is too old."""
        text = self.run("version", "--short").strip()
        match = re.search(r"v(\d+\.\d+\.\d+)", text)
        if match is None:
            raise ClusterError(f"{self._binary} is no helm: it answers {text!r}", path="binary_path")
        if parse_version(match.group(1)) < parse_version(_OLDEST_HELM):
            raise ClusterError(
                f"helm {match.group(1)} is too old", path="binary_path", hint=f"use {_OLDEST_HELM} or newer"
            )
        return match.group(1)

    def releases(self, namespace: Optional[str] = None) -> List[Release]:
        """All releases of a namespace, or of the cluster, in whatever state; not uninstalled ones."""
        where = ("--namespace", namespace) if namespace else ("--all-namespaces",)
        # --all exists in Helm 3 only; these four do in both.
        states = ("--deployed", "--failed", "--pending", "--uninstalling")
        found = json.loads(self.run("list", *where, *states, "--max", "0", "--output", "json"))
        return [_release(entry) for entry in found]

    def values(self, release: Release) -> Dict[str, Any]:
        """The user-supplied values of a release."""
        text = self.run("get", "values", release.name, "--namespace", release.namespace, "--output", "json")
        return json.loads(text) or {}

    def daemonsets(self, release: Release) -> List[Tuple[str, str]]:
        """Namespace and name of each DaemonSet of the release; labels do not tell NVIDIA's apart."""
        text = self.run("get", "manifest", release.name, "--namespace", release.namespace)
        return [
            (document["metadata"].get("namespace") or release.namespace, document["metadata"]["name"])
            for document in self._module.parse_yaml_content(text)
            if document and document.get("kind") == "DaemonSet"
        ]

    def template(self, chart: ChartSource, name: str, namespace: str, values: Mapping[str, Any]) -> None:
        """Render a chart without the cluster. Raises ClusterError if it cannot be had or does not render."""
        arguments = ["template", name, *chart.arguments(), "--namespace", namespace, "--values", "-"]
        self.run(*arguments, data=json.dumps(values))

    def upgrade(
        self,
        chart: ChartSource,
        name: str,
        namespace: str,
        values: Mapping[str, Any],
        create_namespace: bool,
        timeout: int,
    ) -> None:
        """Install or upgrade. Does not wait for pods: helm passes a DaemonSet without pods as ready."""
        arguments = ["upgrade", name, *chart.arguments(), "--install", "--namespace", namespace]
        arguments += ["--reset-values", "--values", "-", "--timeout", f"{timeout}s"]
        if create_namespace:
            arguments.append("--create-namespace")
        self._record(arguments)
        self.run(*arguments, data=json.dumps(values), waits=timeout)

    def rollback(self, release: Release, timeout: int) -> None:
        """Back to this revision of a release. Without hooks: one that fails would leave the release stuck."""
        arguments = ["rollback", release.name, str(release.revision), "--namespace", release.namespace]
        arguments += ["--timeout", f"{timeout}s", "--no-hooks"]
        self._record(arguments)
        self.run(*arguments, waits=timeout)

    def uninstall(self, release: Release, timeout: int, hooks: bool) -> None:
        arguments = ["uninstall", release.name, "--namespace", release.namespace, "--timeout", f"{timeout}s"]
        if not hooks:
            arguments.append("--no-hooks")
        self._record(arguments)
        self.run(*arguments, waits=timeout)

    def _record(self, arguments: Sequence[str]) -> None:
        self.commands.append(shlex.join(["helm", *arguments]))

    def source(
        self, chart: str, reference: Optional[str], repository: Optional[str], version: Optional[str]
    ) -> Tuple[str, bool, str]:
        """Read a local chart's metadata, if the reference is local.

        Returns:
            The reference as helm wants it, whether it is local, and the version to install.

        Raises:
            InputError: there is no such chart, it is another one, or its version is not the wanted one.
        """
        text = reference or chart
        path = os.path.expanduser(text)
        # A bare name is a name, even if a folder of that name happens to be here.
        if not (os.path.exists(path) and ("/" in text or text.endswith(".tgz"))):
            if text.startswith((".", "/", "~")) or (text.endswith(".tgz") and "://" not in text):
                raise InputError(
                    f"there is no chart {path}",
                    path="chart_ref",
                    hint="name a folder or a .tgz on this machine",
                )
            if version is None:
                raise InputError(
                    "a chart that is not on this machine needs a version",
                    path="version",
                    hint="without one, each run would install whatever is newest",
                )
            return text, False, str(parse_version(version, "version"))
        metadata = self._module.parse_yaml_content(self.run("show", "chart", path))[0]
        if metadata.get("name") != chart:
            raise InputError(
                f"{path} holds the chart {metadata.get('name')}", path="chart_ref", hint=f"{chart} is wanted"
            )
        own = str(metadata.get("version"))
        if version is not None and parse_version(version, "version") != parse_version(own, "chart_ref"):
            raise InputError(
                f"{path} is version {own}, not {version}",
                path="version",
                hint="leave it out, or use that chart",
            )
        return path, True, own


def _release(entry: Mapping[str, Any]) -> Release:
    # name-1.2.3: the version starts at the last dash that a digit with a dot follows.
    match = re.match(r"^(?P<name>.+?)-(?P<version>v?\d+\.\d+.*)$", str(entry["chart"]))
    return Release(
        name=str(entry["name"]),
        namespace=str(entry["namespace"]),
        revision=int(entry["revision"]),
        status=str(entry["status"]),
        chart=match.group("name") if match else str(entry["chart"]),
        version=match.group("version") if match else "",
        app_version=str(entry.get("app_version", "")),
    )


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("Error:")]
    return (errors or lines or ["no message"])[-1]


def _advice(text: str) -> Optional[str]:
    if "field is immutable" in text:
        return "this step between chart versions needs state absent first, then present"
    if "is not a valid chart repository or cannot be reached" in text:
        return "check chart_repo_url; without a way out, give chart_ref a .tgz on this machine"
    if re.search(r"chart .* not found in .* repository", text):
        return "check version and chart_repo_url"
    if "Kubernetes cluster unreachable" in text or "connection refused" in text:
        return "check kubeconfig and context"
    return denied(text)
