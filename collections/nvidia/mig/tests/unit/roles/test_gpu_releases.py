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

CONFIG, PRESENT = "nvidia.com/device-plugin.config", "nvidia.com/gpu.present"
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

    def run(self, a, b, *argv, names=(), **options):
        """The output of a run with these wishes of the two hosts."""
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
                "ansible.builtin.include_role": {"name": "nvidia.mig.gpu_releases"},
                "vars": {**self.options, **options},
                "run_once": True,
            }
        ]
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
        ("single", "mixed"),  # from nothing
        (shared(2), "mixed"),  # a config more
        (shared(4), shared(2)),  # one more, and the other for the other node
        (shared(4), shared(4)),  # the same for all: no node needs a label
        ("none", "none"),  # one strategy for all
        ("mixed", "single"),
    ):
        predicted, done = changes(fleet.run(*wishes, "--check")), changes(fleet.run(*wishes))
        assert predicted == done > 0
        assert changes(fleet.run(*wishes)) == 0
        labels, configs = {fleet.label(host) for host in "ab"} - {None}, fleet.configs()
        assert labels <= (configs or set())


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


def test_what_somebody_elses_node_needs_stays(fleet):
    changes(fleet.run(shared(2), "mixed"))
    config = fleet.label("a")
    labels = {CONFIG: config, PRESENT: "true"}
    fleet.api.create_node({"metadata": {"name": "alien", "labels": labels}})
    changes(fleet.run("none", "mixed"))
    assert fleet.api.read_node("alien").metadata.labels == labels
    assert config in fleet.configs()
