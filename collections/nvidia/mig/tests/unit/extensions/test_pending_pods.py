# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The event source beside a real Kubernetes API."""

from __future__ import annotations

import time

import pytest
import yaml
from ansible_collections.nvidia.mig.tests.unit.extensions.source_support import Running
from ansible_collections.nvidia.mig.tests.unit.roles.plays import messages, play

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
            "demand",
            {"metadata": {"name": name}, "target": {"kind": "Node", "name": "n1"}},
            _preload_content=False,
        )
    assert source.silent(4)


def test_the_right_that_it_needs(start, pod, cluster, core, tmp_path, caplog):
    """An account that was told to may watch; if it may not, that is told, and it finds what it may list."""
    from kubernetes import client

    account = {
        "cluster_access_name": "watcher",
        "cluster_access_namespace": "watcher",
        "cluster_access_node_feature_discovery": False,
        "cluster_access_watch_pods": True,
        "cluster_access_kubeconfig": str(tmp_path / "kubeconfig"),
        "cluster_access_admin_kubeconfig": str(cluster.kubeconfig),
    }
    tasks = [{"ansible.builtin.include_role": {"name": "nvidia.mig.cluster_access"}, "vars": account}]
    output = play(tmp_path, {"it": {}}, tasks)
    assert not messages(output), output
    token = yaml.safe_load((tmp_path / "kubeconfig").read_text())["users"][0]["user"]["token"]
    able = start(kubeconfig=str(tmp_path / "kubeconfig"), batch_window=0)
    pod("a")
    assert able.next()["names"] == ["demand/a"]
    assert not caplog.text

    less = {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]}
    client.RbacAuthorizationV1Api(core.api_client).patch_cluster_role("watcher", less)
    unable = start(kubeconfig=str(tmp_path / "kubeconfig"), batch_window=0)
    assert unable.next()["names"] == ["demand/a"]
    while not caplog.text:
        assert unable.silent(0.1)
    assert "lacks the right to watch pods in the whole cluster; playbooks/access.yml" in caplog.text
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
