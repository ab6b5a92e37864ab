#!/usr/bin/env python3
"""ansible-test's sanity tests of the collection: tools/sanity.py [ARGUMENT...], such as --test import.

Runs on a staged copy, since ansible-test wants a collection in a tree of its own, with every Python from 3.9
on that is found: modules run on the Python of the GPU nodes. All that it installs lies below build/sanity.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
STAGE = ROOT / "build" / "sanity"
PYTHONS = STAGE / "python"
HOME = STAGE / "home"
VERSIONS = ("3.9", "3.10", "3.11", "3.12", "3.13", "3.14")

STAND_IN = """\
# Stands in for ansible-test's get-pip script: runs the same pip, as the package index has it.
import runpy
import sys

sys.path.insert(0, {wheel!r})
sys.argv[1:] = ["install"] + [word for word in sys.argv[1:] if word not in ("--no-setuptools", "--no-wheel")]
runpy.run_module("pip", run_name="__main__")
"""


def main() -> None:
    """Stage, prepare, and become ansible-test."""
    collection = stage()
    find_pythons()
    configure_pip()
    provide_pip()
    os.chdir(collection)
    environment = {**os.environ, "HOME": str(HOME), "PATH": f"{BIN}:{PYTHONS}:/usr/bin:/bin"}
    os.execve(BIN / "ansible-test", ["ansible-test", "sanity", *sys.argv[1:]], environment)


def stage() -> Path:
    """Install the collection, as an operator would, and return where it is."""
    told = subprocess.run(
        [BIN / "ansible-galaxy", "collection", "install", ROOT / "collections/nvidia/mig", "-p", STAGE]
        + ["--force", "--no-deps"],
        capture_output=True,
        text=True,
        check=False,
    )
    if told.returncode:
        sys.exit(told.stdout + told.stderr)
    collection = STAGE / "ansible_collections/nvidia/mig"
    dependency = STAGE / "ansible_collections/kubernetes"
    if not dependency.exists():
        dependency.symlink_to(package("ansible_collections") / "kubernetes")
    # Else ansible-test takes its list of files from the repository around it, which ignores this place.
    subprocess.run(["git", "init", "--quiet", collection], check=True)
    return collection


def package(name: str) -> Path:
    """Where the Python package ``name`` lies."""
    found = importlib.util.find_spec(name)
    if found is None or not found.submodule_search_locations:
        sys.exit(f"{name} is not installed in {BIN.parent}: run 'make sanity'")
    return Path(found.submodule_search_locations[0])


def find_pythons() -> None:
    """Link the real interpreters: a version manager's shims are found by name, and then fail."""
    PYTHONS.mkdir(parents=True, exist_ok=True)
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    for version in VERSIONS:
        name = f"python{version}"
        for candidate in (name, *sorted(pyenv.glob(f"{version}.*/bin/{name}"))):
            try:
                told = subprocess.run(
                    [candidate, "-c", "import sys, venv; print(sys.executable)"],
                    capture_output=True,
                    text=True,
                    check=True,
                )
            except (OSError, subprocess.CalledProcessError):
                continue
            link = PYTHONS / name
            link.unlink(missing_ok=True)
            link.symlink_to(told.stdout.strip())
            break


def configure_pip() -> None:
    """Write what pip is told by its environment into its file: ansible-test clears the environment."""
    cache = subprocess.run(
        [sys.executable, "-m", "pip", "cache", "dir"], capture_output=True, text=True, check=True
    )
    lines = ["[global]", "quiet = 1", f"cache-dir = {cache.stdout.strip()}"]
    for name, value in sorted(os.environ.items()):
        if name.startswith("PIP_") and name not in ("PIP_CONFIG_FILE", "PIP_CACHE_DIR", "PIP_QUIET"):
            lines.append(f"{name[len('PIP_') :].lower().replace('_', '-')} = {value}")
    file = HOME / ".config/pip/pip.conf"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(lines) + "\n")


def provide_pip() -> None:
    """Fetch ansible-test's get-pip script; where its server is out of reach, put a stand-in in its place."""
    cache = HOME / ".ansible/test/cache"
    cache.mkdir(parents=True, exist_ok=True)
    source = package("ansible_test") / "_internal/python_requirements.py"
    found = re.search(r"pip='([\d.]+)'", source.read_text())
    if not found:
        sys.exit(f"{source} does not tell the version of pip that ansible-test wants")
    version = found.group(1)
    script = cache / f"get_pip_{version.replace('.', '_')}.py"
    if script.exists():
        return
    try:
        address = f"https://ci-files.testing.ansible.com/ansible-test/get-pip-{version}.py"
        with urllib.request.urlopen(address, timeout=10) as answer:
            script.write_bytes(answer.read())
    except OSError:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", cache]
        subprocess.run([*command, f"pip=={version}"], check=True)
        script.write_text(STAND_IN.format(wheel=str(next(cache.glob(f"pip-{version}-*.whl")))))


if __name__ == "__main__":
    main()
