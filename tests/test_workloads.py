"""Sample workloads on a small node, through a real API server. What would run in them the lab plays."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import accounts
import pytest
from lab_runs import ROOT, Lab, Run, need_cluster

NODE = "a30-01"
NAMESPACE = "nvidia-mig-workloads"
# Whole GPUs, and MIG devices of two kinds.
LAYOUT = [{"gpus": 0, "profiles": {"2g.12gb": 1, "1g.6gb": 2}}, {"gpus": [1, 2, 3], "mig": False}]
EACH = "1 nvidia.com/gpu, 1 nvidia.com/mig-1g.6gb, 1 nvidia.com/mig-2g.12gb"
ALL = "3 nvidia.com/gpu, 2 nvidia.com/mig-1g.6gb, 1 nvidia.com/mig-2g.12gb"

# Argo's own definition is far larger; this one lets every workflow through.
WORKFLOWS = "workflows.argoproj.io"
DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": WORKFLOWS},
    "spec": {
        "group": "argoproj.io",
        "names": {"kind": "Workflow", "plural": "workflows", "singular": "workflow"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1alpha1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
                },
            }
        ],
    },
}


def workloads(lab: Lab, *argv: str, **variables: object) -> Run:
    """``ansible-playbook playbooks/workloads.yml -l NODE``"""
    extra = json.dumps({"gpu_workloads_poll": 2, **variables})
    return lab.play("playbooks/workloads.yml", "-l", NODE, *argv, "-e", extra)


def told(run: Run) -> list[str]:
    """What the samples told."""
    [lines] = [result["msg"] for name, _, result in run.tasks if name.endswith(": What the samples told")]
    return list(lines)


def pods(lab: Lab) -> set[str]:
    """The names of the namespace's pods."""
    return {pod["metadata"]["name"] for pod in lab.kubectl("get", "pods", "-n", NAMESPACE)["items"]}


@pytest.fixture(scope="module")
def node(lab: Lab) -> Iterator[Lab]:
    """A mixed node, and who plays its pods."""
    need_cluster(lab)
    # Samples take rights that the account of the other tests lacks; the last test here has one with them.
    environment = {key: value for key, value in lab.environment.items() if key != "MIG_LAB_KUBECONFIG"}
    lab = replace(lab, environment=environment)
    run = lab.play("site.yml", "-l", NODE, "-e", json.dumps({"mig_layouts": {"mixed": LAYOUT}}))
    assert run.rc == 0, run.messages()
    player = subprocess.Popen(
        [sys.executable, "-m", "miglab", "samples", "--seconds", "1"],
        env={**lab.environment, "PYTHONPATH": str(ROOT / "simulator")},
        stdout=subprocess.DEVNULL,
    )
    try:
        yield lab
    finally:
        player.terminate()
        player.wait()
        lab.kubectl("delete", "pods", "--all", "-n", NAMESPACE, "--wait=false", json=False)
        lab.play("playbooks/teardown.yml", "-l", NODE)


def test_check_mode_validates_every_sample_and_stores_none(node: Lab) -> None:
    node.kubectl("create", "-f", "-", stdin=json.dumps(DEFINITION), json=False)
    try:
        node.kubectl("wait", "--for=condition=Established", f"crd/{WORKFLOWS}", json=False)
        samples = ["vectoradd", "concurrent", "tensorflow", "argo"]
        run = workloads(node, "--check", gpu_workloads_samples=samples)
    finally:
        node.kubectl("delete", "crd", WORKFLOWS, json=False)
    assert run.rc == 0, run.messages()
    assert told(run) == [
        f"vectoradd: valid, would run on {EACH}",
        f"concurrent: valid, would run on {ALL}",
        "tensorflow: valid, would run on 1 nvidia.com/mig-2g.12gb",
        f"argo: valid, would run on {ALL}",
    ]
    # The namespace is all that a run would leave.
    assert run.changed() == {NODE: 1}
    assert not node.kubectl("get", "namespace", NAMESPACE, "--ignore-not-found", json=False)


def test_a_sample_that_fails(node: Lab) -> None:
    """Each reason is told once, the run fails, and what is to be kept for a look is there."""
    run = workloads(
        node,
        gpu_workloads_samples=["vectoradd"],
        gpu_workloads_vectoradd_image="mirror/broken",
        gpu_workloads_keep=True,
    )
    names = [f"vectoradd-{NODE}-{number}" for number in range(3)]
    text = (
        f"{', '.join(names)} (nvidia.com/gpu, nvidia.com/mig-1g.6gb, nvidia.com/mig-2g.12gb): "
        "failed with exit code 1 (Error): no CUDA-capable device is detected"
    )
    assert run.rc != 0
    assert told(run) == [f"vectoradd: FAILED: {text}"]
    assert text in run.messages()
    assert run.changed() == {NODE: 2}  # the namespace, and what is kept
    assert pods(node) == set(names)


def test_what_is_free_is_proven_and_nothing_is_left(node: Lab) -> None:
    """One pod for each MIG device, all at once. What others hold or have in the namespace stays theirs."""
    stranger = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "stranger", "labels": {"app.kubernetes.io/instance": NODE}},
        "spec": {"containers": [{"name": "main", "image": "web"}]},
    }
    node.kubectl("create", "-n", NAMESPACE, "-f", "-", stdin=json.dumps(stranger), json=False)
    [large] = [
        each["id"] for each in node.nodes()[NODE]["gpus"][0]["instances"] if each["profile"] == "2g.12gb"
    ]
    node.command("workload", "add", NODE, "--gpu", "0", "--instance", str(large), "--pod", "w/a", "--managed")
    try:
        run = workloads(node)
    finally:
        node.kubectl("delete", "job,pod", "a", "-n", "w", json=False)
    assert run.rc == 0, run.messages()
    assert told(run) == [
        "vectoradd: passed on 1 nvidia.com/gpu, 1 nvidia.com/mig-1g.6gb",
        "concurrent: passed on 3 nvidia.com/gpu, 2 nvidia.com/mig-1g.6gb, all at once on 5 devices",
        "argo: left out: the cluster has no CustomResourceDefinition workflows.argoproj.io",
        "left to w/a: 1 of 1 nvidia.com/mig-2g.12gb",
    ]
    assert run.changed() == {NODE: 1}  # what the run before it had left is gone
    assert pods(node) == {"stranger"}


def test_an_account_needs_no_more_than_its_rights(node: Lab) -> None:
    """Also to foretell a run beside what one has left, and to remove a workflow that no controller took."""
    labels = {"managed-by": "nvidia.mig.gpu_workloads", "instance": NODE, "name": "vectoradd"}
    ours = {f"app.kubernetes.io/{key}": value for key, value in labels.items()}
    remnant = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"vectoradd-{NODE}-0", "labels": ours},
        "spec": {"containers": [{"name": "main", "image": "left"}], "nodeSelector": {"no": "node"}},
    }
    node.kubectl("create", "-n", NAMESPACE, "-f", "-", stdin=json.dumps(remnant), json=False)
    node.kubectl("create", "-f", "-", stdin=json.dumps(DEFINITION), json=False)
    try:
        node.kubectl("wait", "--for=condition=Established", f"crd/{WORKFLOWS}", json=False)
        with accounts.account(node, "sampler", cluster_access_workloads=True) as environment:
            rules = accounts.granted(node, "sampler")
            chosen = {
                "gpu_workloads_poll": 2,
                "gpu_workloads_timeout": 16,
                "gpu_workloads_samples": ["vectoradd", "argo"],
            }
            play = ("playbooks/workloads.yml", "-l", NODE, "-e", json.dumps(chosen))
            foretold = node.play(*play, "--check", **environment)
            assert foretold.rc == 0, foretold.messages()
            run = node.play(*play, **environment)
            own = [
                (namespace, rule)
                for namespace, rule in rules
                if namespace == NAMESPACE or "customresourcedefinitions" in rule["resources"]
            ]
            idle = accounts.unused(node, "sampler", own)
        left = node.kubectl("get", WORKFLOWS, "-n", NAMESPACE)["items"]
    finally:
        node.kubectl("delete", "crd", WORKFLOWS, json=False)
    assert told(run)[0] == f"vectoradd: passed on {EACH}"
    assert told(run)[1].startswith("argo: FAILED: "), told(run)
    assert run.rc != 0
    assert (left, idle) == ([], set())
