"""A cluster whose GPUs somebody else manages: refused, or worked through GPU Operator."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import accounts
import pytest
from gpu_operator import NAMESPACE, GpuOperator
from lab_runs import Lab, Run, need_cluster

DGX = ("dgx01", "dgx02")
CREATE = "nvmlDeviceCreateGpuInstanceWithPlacement"
DEVICE_CLASS = """
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: mig.nvidia.com}
spec: {selectors: [{cel: {expression: device.driver == 'gpu.nvidia.com'}}]}
"""


def site(lab: Lab, environment: dict[str, str], *argv: str, **variables: Any) -> Run:
    # A cluster of the dgx nodes alone: the others of the lab want other strategies.
    chosen = {"gpu_releases_group": "dgx", "dgx_strategy": "mixed", **variables}
    return lab.play("site.yml", "-l", ",".join(DGX), "-e", json.dumps(chosen), *argv, **environment)


def untouched(lab: Lab, before: dict[str, Any]) -> bool:
    return {name: node["gpus"] for name, node in lab.nodes().items()} == {
        name: node["gpus"] for name, node in before.items()
    }


@pytest.fixture
def rights(lab: Lab) -> Iterator[dict[str, str]]:
    """No more than playbooks/access.yml grants for this backend; and nothing of it was idle."""
    more = {"cluster_access_backend": "gpu_operator", "cluster_access_drain": False}
    with accounts.account(lab, "operated", **more) as environment:
        rules = accounts.granted(lab, "operated")
        yield environment
        assert accounts.unused(lab, "operated", rules) == set()


@pytest.fixture
def operator(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> Iterator[GpuOperator]:
    """GPU Operator for nodes whose GPUs are whole, and no releases."""
    need_cluster(lab)
    monkeypatch.setenv("MIG_LAB_DIR", str(lab.directory))
    emptied = lab.play("playbooks/teardown.yml")
    assert emptied.rc == 0, emptied.messages()
    started = GpuOperator(lab, DGX)
    started.start()
    try:
        yield started
    finally:
        started.stop()
        emptied = lab.play("playbooks/teardown.yml", "-l", ",".join(DGX))
        assert emptied.rc == 0, emptied.messages()


def test_gpu_operator(lab: Lab, operator: GpuOperator, rights: dict[str, str]) -> None:
    before = lab.nodes()
    refused = site(lab, rights)
    assert refused.rc != 0
    for words in (
        "ClusterPolicy cluster-policy",
        "MIG Manager",
        "gpu_releases_backend",
        "Nothing was changed",
    ):
        assert words in refused.messages(), refused.messages()
    assert untouched(lab, before)

    chosen = {"gpu_releases_backend": "gpu_operator"}
    predicted = site(lab, rights, "--check", **chosen)
    assert predicted.rc == 0, predicted.messages()
    assert untouched(lab, before)
    assert operator.labels("dgx01") == (None, None)

    # What an earlier run had written, and nobody mounts any more.
    lab.kubectl("create", "configmap", "nvidia-mig-stale", "-n", NAMESPACE)
    ours = "app.kubernetes.io/managed-by=nvidia.mig"
    lab.kubectl("label", "configmap", "nvidia-mig-stale", "-n", NAMESPACE, ours)

    # The canary fails: it stays as it was, and nobody else is asked.
    operator.broken = {"dgx01"}
    failed = site(lab, rights, **chosen)
    assert failed.rc != 0
    assert "MIG Manager failed to apply nvidia-mig-" in failed.messages(), failed.messages()
    assert "are as they were" in failed.messages()
    assert operator.applied == []
    operator.broken = set()

    lab.command("calls", "dgx01", "--reset")
    done = site(lab, rights, **chosen)
    assert done.rc == 0, done.messages()
    assert sorted(operator.applied) == sorted(DGX)
    assert operator.applied[0] == "dgx01"
    name = operator.labels("dgx01")[0]
    assert all(operator.labels(node) == (name, "success") for node in DGX)
    assert operator.policy()["mig"]["strategy"] == "mixed"
    offered = lab.kubectl("get", "node", "dgx01")["status"]["allocatable"]
    assert offered["nvidia.com/mig-2g.10gb"] == "4"
    calls = json.loads(lab.command("calls", "dgx01", "--json"))
    assert CREATE not in calls  # the toolkit's own modules left the GPUs alone

    assert not lab.kubectl(
        "get", "configmap", "-n", NAMESPACE, "nvidia-mig-stale", "--ignore-not-found", json=False
    )

    again = site(lab, rights, **chosen)
    assert again.rc == 0, again.messages()
    assert not any(again.changed().values()), again.changed()


def test_dra_driver(lab: Lab) -> None:
    need_cluster(lab)
    before = lab.nodes()
    lab.kubectl("apply", "-f", "-", stdin=DEVICE_CLASS, json=False)
    try:
        refused = lab.play("playbooks/prepare.yml", "-l", "dgx01")
        assert refused.rc != 0
        for words in ("device classes mig.nvidia.com", "gpu_releases_accept_dra"):
            assert words in refused.messages(), refused.messages()
        accepted = lab.play("playbooks/prepare.yml", "-l", "dgx01", "-e", "gpu_releases_accept_dra=true")
        assert accepted.rc == 0, accepted.messages()
    finally:
        lab.kubectl("delete", "deviceclass", "mig.nvidia.com", json=False)
    assert untouched(lab, before)
