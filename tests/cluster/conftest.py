"""A lab with a whole control plane, or on the cluster that KUBECONFIG names."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from lab_runs import Lab, lab_environment


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """The nodes of fleet.yml with every GPU whole, and no release."""
    directory = tmp_path_factory.mktemp("lab")
    environment = lab_environment(directory)
    started = Lab(directory, environment, has_cluster=True)
    kind = os.environ.get("MIG_LAB_CONTROL_PLANE", "whole")
    fleet = Path(__file__).with_name("fleet.yml")
    try:
        started.command("up", "--control-plane", kind, "--fleet", str(fleet))
        yield started
    finally:
        started.command("down")
