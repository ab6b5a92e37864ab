# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The workflow of the role gpu_workloads against Argo's own schema, on a real Kubernetes API.

Runs where ARGO_CRDS_DIR names a folder with Argo Workflows' full definitions (``manifests/base/crds/full`` of
its repository), in any depth: its minimal ones let every field through.
"""

from __future__ import annotations

import copy
import json
import os
import time
from pathlib import Path

import pytest
import yaml
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.labels import expected_node
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.node_gpu import NodeGpu
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.workloads import workloads
from ansible_collections.nvidia.mig.tests.unit.plugins.modules.kubernetes_support import start_cluster
from ansible_collections.nvidia.mig.tests.unit.plugins.modules.node_support import COLLECTIONS
from ansible_collections.nvidia.mig.tests.unit.roles.plays import messages, play

ROLE = COLLECTIONS / "ansible_collections/nvidia/mig/roles/gpu_workloads"
NODE = {"metadata": {"name": "dgx01", "labels": {"kubernetes.io/hostname": "dgx01"}}}
OPTIONS = {
    "as it comes": {},
    "with everything": {
        "gpu_workloads_runtime_class": "nvidia",
        "gpu_workloads_image_pull_secrets": ["mirror"],
        "gpu_workloads_tolerations": [
            {"key": "reserved", "operator": "Equal", "value": "us", "effect": "NoSchedule"}
        ],
    },
}


def definition():
    """Argo's definition of a workflow, or skip with a plain word."""
    folder = os.environ.get("ARGO_CRDS_DIR")
    if not folder:
        pytest.skip("ARGO_CRDS_DIR is not set: the workflow is not checked against Argo's schema")
    for file in sorted(Path(folder).rglob("argoproj.io_workflows.yaml")):
        found = yaml.load(file.read_text(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        if "properties" in found["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]:
            return found
    pytest.skip(f"no full argoproj.io_workflows.yaml below {folder}")


@pytest.fixture(scope="module")
def submit(tmp_path_factory):
    """Ask the API server for a dry run that refuses fields which the schema does not know."""
    wanted = definition()
    for cluster in start_cluster(tmp_path_factory.mktemp("cluster")):
        from kubernetes import client

        api = cluster.api()
        client.ApiextensionsV1Api(api).create_custom_resource_definition(wanted)
        objects = client.CustomObjectsApi(api)

        def ask(workflow, objects=objects, refused=client.ApiException):
            until = time.monotonic() + 30
            while True:
                try:
                    objects.create_namespaced_custom_object(
                        *("argoproj.io", "v1alpha1", "default", "workflows", workflow),
                        dry_run="All",
                        field_validation="Strict",
                    )
                    return ""
                except refused as error:
                    if error.status != 404 or time.monotonic() > until:  # the kind is served a moment later
                        return json.loads(error.body)["message"]
                    time.sleep(0.2)

        yield ask


@pytest.fixture(params=OPTIONS.values(), ids=OPTIONS)
def workflow(request, tmp_path):
    """As the role renders it."""
    gpus = [
        NodeGpu(0, "NVIDIA A100-SXM4-40GB", True, ("3g.20gb", "2g.10gb")),
        NodeGpu(1, "NVIDIA A100-SXM4-40GB"),
    ]
    [sample] = workloads(expected_node("mixed", gpus, "0.17.4").as_dict(), NODE, ["argo"])["samples"]
    extra = {"__gpu_workloads_sample": sample, "__gpu_workloads_target": "default", **request.param}
    (tmp_path / "extra.json").write_text(json.dumps(extra))
    (tmp_path / "templates").symlink_to(ROLE / "templates")
    rendered = tmp_path / "workflow.yml"
    output = play(
        tmp_path,
        {"it": {}},
        [
            {"ansible.builtin.include_vars": f"{ROLE}/defaults/main.yml"},
            {"ansible.builtin.include_vars": f"{ROLE}/vars/main.yml"},
            {"ansible.builtin.copy": {"content": "{{ __gpu_workloads_manifest }}", "dest": str(rendered)}},
        ],
        *("-e", "@extra.json"),
    )
    assert not messages(output) and rendered.exists(), output
    return yaml.safe_load(rendered.read_text())


def test_argo_s_schema_knows_every_field(submit, workflow):
    assert submit(workflow) == ""


def test_a_field_that_it_does_not_know_is_refused(submit, workflow):
    """Or the test above could not fail."""
    wrong = copy.deepcopy(workflow)
    wrong["spec"]["templates"][-1]["podSpecpatch"] = "{}"
    assert 'unknown field "spec.templates' in submit(wrong)
    wrong = copy.deepcopy(workflow)
    wrong["spec"]["activeDeadlineSeconds"] = "600"
    assert "activeDeadlineSeconds" in submit(wrong)
