# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""account_kubeconfig and access_review on a real Kubernetes API."""

from __future__ import annotations

import os
import stat

import pytest
import yaml
from ansible_collections.nvidia.mig.tests.unit.plugins.modules.kubernetes_support import (
    run_module,
    start_cluster,
)

NAME, NAMESPACE = "runner", "default"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    yield from start_cluster(tmp_path_factory.mktemp("cluster"))


@pytest.fixture
def accounts(cluster):
    """The account, and a function that makes it anew under its name."""
    from kubernetes import client

    api = client.CoreV1Api(cluster.api())
    wanted = client.V1ServiceAccount(metadata=client.V1ObjectMeta(name=NAME))

    def renew():
        api.delete_namespaced_service_account(NAME, NAMESPACE)
        api.create_namespaced_service_account(NAMESPACE, wanted)

    api.create_namespaced_service_account(NAMESPACE, wanted)
    yield renew
    api.delete_namespaced_service_account(NAME, NAMESPACE)


@pytest.fixture
def write(cluster, accounts, capsys, tmp_path):
    """Run account_kubeconfig for the file ``tmp_path/config``."""

    def run(check=False, **options):
        known = {"name": NAME, "namespace": NAMESPACE, "path": str(tmp_path / "config")}
        return run_module(
            capsys, "account_kubeconfig", check, **{**known, "kubeconfig": str(cluster.kubeconfig), **options}
        )

    return run


def token(path):
    return yaml.safe_load((path / "config").read_text())["users"][0]["user"]["token"]


def test_a_token_is_kept_until_it_is_stale_or_void(write, accounts, tmp_path):
    assert write(check=True)["changed"]
    assert not (tmp_path / "config").exists()
    first = write()
    assert first["changed"]
    assert stat.S_IMODE(os.stat(tmp_path / "config").st_mode) == 0o600
    tokens = [token(tmp_path)]
    assert tokens[0] not in str(first.result)
    again = write()
    assert not again["changed"]
    assert again["expires"] == first["expires"]
    assert token(tmp_path) == tokens[0]

    stale = write(lifetime=3600, renew_below=90000)
    assert stale["changed"]
    tokens.append(token(tmp_path))
    accounts()
    assert write()["changed"]
    tokens.append(token(tmp_path))
    assert len(set(tokens)) == 3


def test_a_file_that_others_can_read_is_closed(write, tmp_path):
    write()
    before = token(tmp_path)
    (tmp_path / "config").chmod(0o644)
    assert write()["changed"]
    assert stat.S_IMODE(os.stat(tmp_path / "config").st_mode) == 0o600
    assert token(tmp_path) == before


def test_another_server_can_be_named(write, tmp_path):
    write(server="https://api.example.com:6443")
    config = yaml.safe_load((tmp_path / "config").read_text())
    assert config["clusters"][0]["cluster"]["server"] == "https://api.example.com:6443"
    assert not write(server="https://api.example.com:6443")["changed"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"name": "nobody"}, "no service account nobody in default"),
        ({"lifetime": 60}, "lifetime: 60 seconds are too short"),
        ({"path": "/nowhere/config"}, "path: cannot be written"),
    ],
)
def test_what_cannot_be(write, options, words):
    done = write(**options)
    assert done.failed
    assert words in done["msg"]


def test_a_review_names_all_that_is_missing(write, cluster, capsys, tmp_path):
    write()

    def review(kubeconfig, *rights):
        return run_module(capsys, "access_review", rights=list(rights), kubeconfig=str(kubeconfig))

    wanted = ("patch nodes", "create pods/eviction", "patch daemonsets.apps gpus")
    assert not review(cluster.kubeconfig, *wanted).failed
    done = review(tmp_path / "config", "create selfsubjectaccessreviews.authorization.k8s.io", *wanted)
    assert done.failed
    assert done["missing"] == [
        "patch nodes in the whole cluster",
        "create pods/eviction in the whole cluster",
        "patch daemonsets.apps in namespace gpus",
    ]
    assert "playbooks/access.yml" in done["msg"]
    assert "rights[1]: 'patch'" in review(cluster.kubeconfig, "list pods", "patch")["msg"]
