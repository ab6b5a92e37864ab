"""Find the programs of the lab's Kubernetes: its control plane, light or whole, and helm and kubectl.

Each comes from the first place that has it; what was fetched or built is kept for every later run:

1. ``KUBEBUILDER_ASSETS`` (the control plane), as Kubernetes' own envtest uses it
2. ``PATH``
3. the cache, ``${XDG_CACHE_HOME:-~/.cache}/mig-lab``
4. kube-apiserver, etcd: envtest's published archive; else one build with Go (``simulator/kubernetes``).
   kube-controller-manager, kube-scheduler: one build with Go.
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
from miglab.console import LabError, MissingError, fail, listed, say

#: The programs of a light control plane, and of a whole one.
LIGHT = ("kube-apiserver", "etcd")
WHOLE = (*LIGHT, "kube-controller-manager", "kube-scheduler")
_NAMES: dict[str, tuple[str, ...]] = {"light": LIGHT, "whole": WHOLE, "existing": ()}
OLDEST_HELM = (3, 8, 0)

_MACHINES = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}
_HOW_TO = (
    "put {names} in a directory and name it in KUBEBUILDER_ASSETS, or install Go "
    "(or let pip reach PyPI) and run 'mig-lab cluster binaries{option}' again; or use {instead}"
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


def control_plane(names: tuple[str, ...] = LIGHT) -> dict[str, Program]:
    """The control plane's programs, by name; fetched or built if need be, with a line about each step.

    Raises:
        MissingError: neither here nor to be had; the text says how to get them.
    """
    found = find_control_plane(names)
    if found is not None:
        return found
    keep = _control_plane_cache()
    with gobuild.cache_lock("kubernetes", "another process is getting kube-apiserver; waiting for it"):
        if _missing(LIGHT, keep):
            _fetch(keep)
        if missing := _missing(names, keep):
            try:
                gobuild.build([f"./cmd/{name}" for name in missing], keep, target())
            except LabError as error:
                raise MissingError(f"no {listed(missing)}: {error}; {_how_to(names)}") from error
    return {name: Program(name, keep / name, "the cache") for name in names}


def find_control_plane(names: tuple[str, ...] = LIGHT) -> dict[str, Program] | None:
    """The programs if they are on this machine already; all from one place, so that they fit."""
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    if assets:
        if missing := _missing(names, Path(assets)):
            hint = "" if set(missing) & set(LIGHT) else ": add them, or unset it to have them built with Go"
            raise MissingError(
                f"KUBEBUILDER_ASSETS is {assets}, but there is no executable {listed(missing)} in it{hint}"
            )
        return {name: Program(name, Path(assets) / name, "KUBEBUILDER_ASSETS") for name in names}
    on_path = {name: shutil.which(name) for name in names}
    if all(on_path.values()):
        return {name: Program(name, Path(str(path)), "PATH") for name, path in on_path.items()}
    keep = _control_plane_cache()
    if not _missing(names, keep):
        return {name: Program(name, keep / name, "the cache") for name in names}
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


def _missing(names: tuple[str, ...], directory: Path) -> list[str]:
    return [name for name in names if not os.access(directory / name, os.X_OK)]


def _fetch(keep: Path) -> None:
    """Take envtest's archive, which has the light control plane; say so if that cannot be."""
    version = gobuild.versions()["k8s.io/kubernetes"]
    say(f"{listed(LIGHT)}: asking for envtest's archive for Kubernetes {version}")
    trouble = envtest(version, target(), keep)
    if trouble is not None:
        say(f"{listed(LIGHT)}: {trouble}; building them once with Go instead")


def _how_to(names: tuple[str, ...]) -> str:
    whole = names == WHOLE
    option = " --control-plane whole" if whole else ""
    instead = "the light control plane" if whole else "'mig-lab up --no-cluster'"
    return _HOW_TO.format(names=listed(names), option=option, instead=instead)


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
        "binaries", help="find, fetch or build the control plane, helm and kubectl, and say where they are"
    )
    parser.add_argument(
        "--control-plane", choices=tuple(_NAMES), default="light", help="default: %(default)s"
    )
    parser.add_argument("--helm-only", action="store_true", help="only helm and kubectl")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    code = 0
    names = () if options.helm_only else _NAMES[options.control_plane]
    for get in (_helm_and_kubectl, lambda: _control_plane(names)):
        try:
            for program in get():
                say(f"{program.name}: {program.path} (from {program.source})")
        except MissingError as error:
            code = fail(error)
    return code


def _helm_and_kubectl() -> list[Program]:
    kubectl = [helm(), find_kubectl()]
    return [program for program in kubectl if program is not None]


def _control_plane(names: tuple[str, ...]) -> list[Program]:
    return list(control_plane(names).values()) if names else []
