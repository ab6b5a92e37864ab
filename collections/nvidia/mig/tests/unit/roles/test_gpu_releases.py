# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role gpu_releases alone, on a real Kubernetes API: releases, labels, and what check mode says."""

from __future__ import annotations

import re

import pytest
import yaml
from ansible_collections.nvidia.mig.tests.unit.plugins.modules.kubernetes_support import (
    make_chart,
    start_cluster,
)
from ansible_collections.nvidia.mig.tests.unit.roles.plays import messages, play

CONFIG = "nvidia.com/device-plugin.config"
NAMESPACE = "gpus"
PLUGIN, DISCOVERY = "nvidia-device-plugin", "gpu-feature-discovery"
# With a value that the API server can be made to refuse, and no helm before it.
TEMPLATE = """\
apiVersion: apps/v1
kind: DaemonSet
metadata:
  name: {{ .Release.Name }}
spec:
  selector:
    matchLabels: {app: {{ .Release.Name }}}
  template:
    metadata:
      labels: {app: {{ .Release.Name }}}
    spec:
      containers:
        - name: ctr
          image: nowhere.invalid/none
          imagePullPolicy: {{ .Values.pull | default "Always" }}
"""


def shared(replicas):
    return {"timeSlicing": {"resources": [{"name": "nvidia.com/gpu", "replicas": replicas}]}}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    yield from start_cluster(tmp_path_factory.mktemp("cluster"))


class Fleet:
    """Two nodes, and plays of the role for them."""

    def __init__(self, cluster, folder):
        from kubernetes import client

        self.cluster, self.folder = cluster, folder
        self.api = client.CoreV1Api(cluster.api())
        self.options = {
            "gpu_releases_group": "all",
            "gpu_releases_version": "0.17.4",
            "gpu_releases_namespace": NAMESPACE,
            "gpu_releases_device_plugin_chart_ref": make_chart(folder, PLUGIN, "0.17.4", TEMPLATE),
            "gpu_releases_gfd_chart_ref": make_chart(folder, DISCOVERY, "0.17.4", TEMPLATE),
            "gpu_releases_wait": False,
            "gpu_releases_helm": cluster.helm_binary,
            "gpu_releases_kubeconfig": str(cluster.kubeconfig),
        }
        for host in "ab":
            self.api.create_node({"metadata": {"name": host}})

    def clear(self):
        self.cluster.clear()
        for node in self.api.list_node().items:
            self.api.delete_node(node.metadata.name)

    def run(self, a, b, *argv, names=(), parts=("main",), **options):
        """The output of these parts of the role, with these wishes of the two hosts."""
        hosts = {
            host: {"mig_strategy": wish}
            if isinstance(wish, str)
            else {"mig_strategy": "none", "mig_sharing": wish}
            for host, wish in {"a": a, "b": b}.items()
        }
        for host, name in dict(names).items():
            hosts[host]["mig_node_name"] = name
        tasks = [
            {
                "ansible.builtin.import_role": {"name": "nvidia.mig.gpu_releases", "tasks_from": part},
                "vars": {**self.options, **options},
                "run_once": part != "switch",
            }
            for part in parts
        ]
        if "switch" in parts:
            tasks.insert(0, {"ansible.builtin.group_by": {"key": "mig_rollout"}, "changed_when": False})
        return play(self.folder, hosts, tasks, *argv)

    def label(self, host):
        return self.api.read_node(host).metadata.labels.get(CONFIG)

    def configs(self):
        """What the release has; None with one strategy for all."""
        values = yaml.safe_load(self.cluster.helm("get", "values", PLUGIN, "-n", NAMESPACE, "-o", "yaml"))
        return set(values["config"]["map"]) if "config" in values else None


@pytest.fixture
def fleet(cluster, tmp_path):
    made = Fleet(cluster, tmp_path)
    yield made
    made.clear()


def changes(output):
    assert not messages(output), output
    return len(re.findall(r"^\w+ .*\| CHANGED", output, re.MULTILINE))


def test_check_mode_and_runs_are_exact(fleet):
    for wishes in (
        (shared(2), "mixed"),  # from nothing
        (shared(4), shared(2)),  # one config more, and the other for the other node
        (shared(4), shared(4)),  # the same for all: no node needs a label
        ("none", "none"),  # one strategy for all
    ):
        predicted, done = changes(fleet.run(*wishes, "--check")), changes(fleet.run(*wishes))
        assert predicted == done > 0
        assert {fleet.label(host) for host in "ab"} - {None} <= (fleet.configs() or set())
    assert changes(fleet.run(*wishes)) == 0


def test_check_mode_tells_of_labels_that_come_and_go_within_a_run(fleet):
    """As in the main job: the nodes switch in their turn, and in the end one strategy for all is enough."""
    chain = {"parts": ("rollout", "switch", "main")}
    changes(fleet.run("none", "none"))
    predicted = changes(fleet.run("single", "single", "--check", **chain))
    done = changes(fleet.run("single", "single", **chain))
    # Releases, label of each node, releases again, labels away.
    assert predicted == done == 2 + 2 + 2 + 1
    assert fleet.label("a") is fleet.label("b") is fleet.configs() is None


def test_a_label_waits_for_the_release_that_has_its_config(fleet):
    """If the upgrade fails, the label still names what is there."""
    changes(fleet.run(shared(2), "mixed"))
    before, configs = fleet.label("a"), fleet.configs()
    assert before in configs
    refused = fleet.run(shared(4), "mixed", gpu_releases_device_plugin_values={"pull": "Perhaps"})
    assert "Perhaps" in messages(refused)["a"]
    assert (fleet.label("a"), fleet.configs()) == (before, configs)
    changes(fleet.run(shared(4), "mixed"))
    assert before not in fleet.configs()
    assert fleet.label("a") in fleet.configs() - {before}


def test_a_node_that_the_cluster_does_not_have(fleet):
    fleet.api.delete_node("b")
    refused = messages(fleet.run("single", "mixed"))["a"]
    for words in ("The cluster has no node b", "mig_node_name", "Nothing was changed"):
        assert words in refused
    assert fleet.cluster.releases() == []
    # Under another name it is there.
    fleet.api.create_node({"metadata": {"name": "other"}})
    changes(fleet.run("single", "mixed", names={"b": "other"}))
    assert (fleet.label("a"), fleet.label("other")) == ("single", "mixed")
