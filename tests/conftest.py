"""One lab for all end-to-end tests: the fleet of inventories/lab, in a directory of its own."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from lab_runs import Lab, lab_environment


def use_account(lab: Lab) -> None:
    """Let every play have no more rights in the cluster than playbooks/access.yml grants."""
    kubeconfig = lab.directory / "account"
    made = lab.play("playbooks/access.yml", "-e", f"cluster_access_kubeconfig={kubeconfig}")
    assert made.rc == 0, made.messages()
    lab.environment["MIG_LAB_KUBECONFIG"] = str(kubeconfig)


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A running lab with every GPU whole and no release."""
    directory = tmp_path_factory.mktemp("lab")
    environment = lab_environment(directory)
    started = Lab(directory, environment, has_cluster=False)
    started.command("up")
    try:
        whole = Lab(directory, environment, has_cluster=(directory / "kubeconfig").exists())
        if os.environ.get("MIG_LAB_ACCOUNT") and whole.has_cluster:
            use_account(whole)
        yield whole
    finally:
        started.command("down")
