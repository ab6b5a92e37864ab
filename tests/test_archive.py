"""The archive that ``ansible-galaxy collection build`` makes."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
COLLECTION = ROOT / "collections" / "nvidia" / "mig"
# Made by the build, or replaced by what it makes.
MADE = {"MANIFEST.json", "FILES.json"}
NOT_SHIPPED = {"galaxy.yml"}


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The names of the archive's files."""
    place = tmp_path_factory.mktemp("archive")
    galaxy = Path(sys.executable).parent / "ansible-galaxy"
    subprocess.run(
        [galaxy, "collection", "build", COLLECTION, "--output-path", place], check=True, capture_output=True
    )
    with tarfile.open(next(place.glob("nvidia-mig-*.tar.gz"))) as tar:
        return {member.name for member in tar if not member.isdir()}


def test_the_archive_holds_the_collection(archive: set[str]) -> None:
    listed = subprocess.run(
        ["git", "ls-files", "."], cwd=COLLECTION, capture_output=True, text=True, check=True
    ).stdout
    tracked = {name for name in listed.splitlines() if (COLLECTION / name).exists()}
    assert tracked - NOT_SHIPPED <= archive
    assert {"plugins/modules/mig_layout.py", "roles/mig/meta/argument_specs.yml"} <= archive


def test_the_archive_holds_nothing_else(archive: set[str]) -> None:
    tops = {"LICENSE", "README.md", "bindep.txt", "requirements.txt", *MADE}
    tops |= {"changelogs", "extensions", "meta", "plugins", "roles", "tests"}
    assert {name.split("/")[0] for name in archive} <= tops
    unwanted = ("__pycache__", ".pyc", ".tar.gz", ".hypothesis", ".pytest_cache", "tests/output")
    assert not [name for name in archive if any(word in name for word in unwanted)]
