# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""gpu_managers_info against a real Kubernetes API."""

from __future__ import annotations

import pathlib
import time

import pytest
import yaml
from ansible_collections.nvidia.mig.tests.unit.plugins.modules.kubernetes_support import (
    run_module,
    start_cluster,
)

CRD = pathlib.Path(__file__).resolve().parents[7] / "simulator/gpu_operator/clusterpolicies.yaml"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    yield from start_cluster(tmp_path_factory.mktemp("cluster"))


@pytest.fixture
def info(cluster, capsys):
    def run(**options):
        return run_module(capsys, "gpu_managers_info", **{"kubeconfig": str(cluster.kubeconfig), **options})

    return run


@pytest.fixture
def policies(cluster):
    """The means to make a ClusterPolicy, in a cluster that knows the kind."""
    from kubernetes import client

    api = cluster.api()
    definitions, objects = client.ApiextensionsV1Api(api), client.CustomObjectsApi(api)
    definition = yaml.safe_load(CRD.read_text())
    definitions.create_custom_resource_definition(definition)

    def create(name, **spec):
        body = {
            "apiVersion": "nvidia.com/v1",
            "kind": "ClusterPolicy",
            "metadata": {"name": name},
            "spec": spec,
        }
        until = time.monotonic() + 20
        while True:
            try:
                return objects.create_cluster_custom_object("nvidia.com", "v1", "clusterpolicies", body)
            except client.ApiException as error:  # the kind is served a moment later
                if error.status != 404 or time.monotonic() > until:
                    raise
                time.sleep(0.1)

    yield create
    definitions.delete_custom_resource_definition(definition["metadata"]["name"])


@pytest.fixture
def device_class(cluster):
    from kubernetes import client

    classes = client.ResourceV1Api(cluster.api())
    selector = {"cel": {"expression": "device.driver == 'gpu.nvidia.com'"}}

    def create(name):
        made.append(name)
        classes.create_device_class(
            {"metadata": {"name": name}, "spec": {"selectors": [selector]}},
        )

    made = []
    yield create
    for name in made:
        classes.delete_device_class(name)


def test_nobody_else(info):
    done = info()
    assert not done.failed and done["changed"] is False
    assert done["gpu_operator"] is None and done["dra_classes"] == []


def test_gpu_operator(info, policies):
    policies("cluster-policy", mig={"strategy": "mixed"}, gfd={"enabled": False})
    found = info()["gpu_operator"]
    assert found == {
        "policy": "cluster-policy",
        "api_version": "nvidia.com/v1",
        "parts": ["migManager", "devicePlugin"],
        "manages": ["MIG Manager", "the device plugin"],
        "strategy": "mixed",
        "mig_config": None,
        "namespace": None,
    }


def test_dra_driver(info, device_class):
    for name in ("gpu.nvidia.com", "mig.nvidia.com", "compute-domain-daemon.nvidia.com"):
        device_class(name)
    assert info()["dra_classes"] == ["gpu.nvidia.com", "mig.nvidia.com"]


def test_no_api(info):
    done = info(kubeconfig="/nowhere")
    assert done.failed and "no connection to the Kubernetes API" in done["msg"]
