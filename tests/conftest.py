"""One lab for all end-to-end tests: the fleet of inventories/lab, in a directory of its own."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from lab_runs import BIN, ROOT, Lab


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A running lab with every GPU whole and no release."""
    directory = tmp_path_factory.mktemp("lab")
    environment = {
        **{key: value for key, value in os.environ.items() if not key.startswith("ANSIBLE_")},
        "MIG_LAB_DIR": str(directory),
        "PATH": f"{BIN}:{os.environ['PATH']}",
        "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
    }
    started = Lab(directory, environment, has_cluster=False)
    started.command("up")
    try:
        yield Lab(directory, environment, has_cluster=(directory / "kubeconfig").exists())
    finally:
        started.command("down")
