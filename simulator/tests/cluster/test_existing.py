"""An existing cluster by KUBECONFIG: here it is the session's lab, as if it were somebody else's."""

from __future__ import annotations

import time

import pytest
import yaml
from miglab import cluster, existing, paths
from miglab.api import Api
from miglab.console import LabError


@pytest.fixture
def other(lab, tmp_path, monkeypatch):
    """A lab of its own, without a control plane, that is told of ``lab``'s cluster."""
    monkeypatch.setenv("MIG_LAB_DIR", str(tmp_path / "other"))
    monkeypatch.setenv("KUBECONFIG", str(lab.kubeconfig))
    return lab


def uids(lab):
    """Of the cluster's nodes, by name."""
    nodes = [each["metadata"] for each in lab.api.get("/api/v1/nodes")["items"]]
    return {each["name"]: each["uid"] for each in nodes}


def test_the_lab_joins_the_cluster_and_leaves_it(other):
    cluster.up("existing")
    assert Api.from_kubeconfig().get("/version") == other.api.get("/version")
    assert cluster.is_up()
    cluster.up("existing")
    with pytest.raises(LabError, match="control plane 'existing': 'mig-lab down'"):
        cluster.up("whole")
    before = uids(other)
    assert cluster.down()
    assert not paths.kubeconfig().exists()
    # Every simulated node is gone, and those of the session's lab join again.
    deadline = time.monotonic() + 60
    while uids(other).keys() != before.keys() or set(uids(other).values()) & set(before.values()):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert not cluster.down()


def test_a_cluster_with_gpu_nodes_of_its_own_is_refused(other):
    node = {"metadata": {"name": "gpu-01"}, "status": {"capacity": {"nvidia.com/gpu": "8"}}}
    other.api.post("/api/v1/nodes", node)
    try:
        with pytest.raises(LabError, match=r"GPU nodes of its own \(gpu-01\)"):
            cluster.up("existing")
    finally:
        other.api.delete("/api/v1/nodes/gpu-01")
    assert not paths.kubeconfig().exists()


def test_no_kubeconfig_or_the_lab_s_own(other, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", str(paths.kubeconfig()))
    with pytest.raises(LabError, match="the lab's own"):
        existing.join()
    monkeypatch.delenv("KUBECONFIG")
    with pytest.raises(LabError, match="which is not set"):
        existing.join()


def test_a_user_who_logs_in_by_a_program_is_refused(other, tmp_path, monkeypatch):
    config = yaml.safe_load(other.kubeconfig.read_text())
    config["users"][0]["user"] = {
        "exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "login"}
    }
    (tmp_path / "config").write_text(yaml.safe_dump(config))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    with pytest.raises(LabError, match="neither a token nor a client certificate"):
        existing.join()
    config["current-context"] = "elsewhere"
    (tmp_path / "config").write_text(yaml.safe_dump(config))
    with pytest.raises(LabError, match="cannot locate context elsewhere"):
        existing.join()
