# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The event source beside a real Kubernetes API."""

from __future__ import annotations

import time

import pytest
import yaml
from ansible_collections.nvidia.mig.tests.unit.extensions.source_support import Running

SPACE = "demand"
SMALL = "nvidia.com/mig-1g.5gb"


@pytest.fixture
def start(cluster):
    def begin(**args):
        auth = {"kubeconfig": str(cluster.kubeconfig)}
        running.append(Running({**auth, "retry": 3600, "retry_limit": 3600, **args}))
        return running[-1]

    running = []
    yield begin
    for source in running:
        source.stop()


def test_one_event_for_a_batch(start, pod):
    """They come one after the other, and are told of together once no other comes."""
    source = start(batch_window=60, idle_window=3)
    for name in ("a", "b", "c"):
        pod(name)
    pod("web", "example.com/thing")
    event = source.next()
    assert event["names"] == ["demand/a", "demand/b", "demand/c"]
    assert event["devices"] == {SMALL: 3} and event["repeated"] == 0
    assert source.silent(2)


def test_the_batch_window_ends_while_more_come(start, pod):
    source = start(batch_window=4, idle_window=60)
    began = time.monotonic()
    pod("a")
    time.sleep(2)
    pod("b")
    assert source.next()["names"] == ["demand/a"]
    assert time.monotonic() - began < 30
    assert source.next()["names"] == ["demand/a", "demand/b"]


def test_the_same_pods_again_after_a_while_and_new_ones_at_once(start, pod, core):
    source = start(batch_window=0, retry=3, retry_limit=3600)
    pod("a")
    source.next()
    began = time.monotonic()
    assert source.next()["repeated"] == 1
    assert time.monotonic() - began > 2.5
    began = time.monotonic()
    pod("b")
    assert source.next()["names"] == ["demand/a", "demand/b"]
    assert time.monotonic() - began < 5  # a repetition were due after six
    for name in ("a", "b"):
        core.create_namespaced_pod_binding(
            name,
            SPACE,
            {"metadata": {"name": name}, "target": {"kind": "Node", "name": "n1"}},
            _preload_content=False,
        )
    assert source.silent(4)


def test_an_account_that_may_only_list(start, cluster, core, tmp_path, caplog):
    """It is told which right is missing, and where to get it."""
    from kubernetes import client

    rbac = client.RbacAuthorizationV1Api(core.api_client)
    name = {"metadata": {"name": "lists"}}
    rbac.create_cluster_role(
        {**name, "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]}
    )
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "lists"}
    subject = {"kind": "ServiceAccount", "name": "default", "namespace": SPACE}
    rbac.create_cluster_role_binding({**name, "roleRef": role, "subjects": [subject]})
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    token = core.create_namespaced_service_account_token("default", SPACE, {"spec": {}}).status.token
    config["users"] = [{"name": user["name"], "user": {"token": token}} for user in config["users"]]
    narrow = tmp_path / "kubeconfig"
    narrow.write_text(yaml.safe_dump(config))
    source = start(kubeconfig=str(narrow))
    assert source.silent(2)
    assert "lacks the right to watch pods in the whole cluster" in caplog.text
    assert token not in caplog.text


def test_an_api_that_is_away_for_a_while(start, pod, cluster, caplog):
    """It is found again, wherever its kubeconfig says then, and what comes after that is told of."""
    source = start(batch_window=0)
    pod("a")
    source.next()
    assert cluster.lab("down").returncode == 0
    try:
        assert source.silent(3)
        assert "cannot watch the pods of the cluster" in caplog.text
    finally:
        assert cluster.lab("up").returncode == 0
    pod("b")
    assert source.next(90)["names"] == ["demand/a", "demand/b"]
