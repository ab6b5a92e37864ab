# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""mig_demand_info against a real Kubernetes API, and mig_partition_plan, which takes what it returns."""

from __future__ import annotations

import json

import pytest
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes import api as room
from ansible_collections.nvidia.mig.tests.unit.plugins.module_utils.demand.support import gpu
from ansible_collections.nvidia.mig.tests.unit.plugins.module_utils.kubernetes.observing import UNSCHEDULABLE
from ansible_collections.nvidia.mig.tests.unit.plugins.modules.kubernetes_support import (
    run_module,
    start_cluster,
    waiting_room,
)
from ansible_collections.nvidia.mig.tests.unit.plugins.modules.node_support import documented
from ansible_collections.nvidia.mig.tests.unit.plugins.modules.test_mig_info import undocumented

SPACE = "demand"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    yield from start_cluster(tmp_path_factory.mktemp("cluster"))


@pytest.fixture(scope="module")
def core(cluster):
    found = waiting_room(cluster, SPACE)
    yield found
    found.delete_namespace(SPACE)


@pytest.fixture
def node(core):
    def create(name, **annotations):
        made.append(name)
        core.create_node({"metadata": {"name": name, "annotations": annotations}})
        allocatable = {"cpu": "8", "memory": "32Gi", "pods": "10"}
        conditions = [{"type": "Ready", "status": "True"}]
        core.patch_node_status(name, {"status": {"allocatable": allocatable, "conditions": conditions}})
        # Of a new node it says that it is not ready, until a controller takes it away.
        core.patch_node(name, {"spec": {"taints": None}})

    made = []
    yield create
    for name in made:
        core.delete_node(name)


@pytest.fixture
def pod(core):
    def create(name, resource, where=None, unschedulable=True, **spec):
        made.append(name)
        resources = {"limits": {resource: "1"}, "requests": {"cpu": "500m"}}
        container = {"name": "main", "image": "nowhere.invalid/none", "resources": resources}
        body = {"metadata": {"name": name}, "spec": {"containers": [container], **spec}}
        core.create_namespaced_pod(SPACE, body)
        if where is not None:
            target = {"kind": "Node", "name": where}
            core.create_namespaced_pod_binding(
                name, SPACE, {"metadata": {"name": name}, "target": target}, _preload_content=False
            )
        elif unschedulable:
            core.patch_namespaced_pod_status(name, SPACE, {"status": {"conditions": [UNSCHEDULABLE]}})

    made = []
    yield create
    for name in made:
        core.delete_namespaced_pod(name, SPACE, grace_period_seconds=0)


@pytest.fixture
def demand(cluster, capsys):
    def run(*nodes, **options):
        auth = {"kubeconfig": str(cluster.kubeconfig)}
        done = run_module(capsys, "mig_demand_info", **{**auth, "nodes": list(nodes), **options})
        if not done.failed:
            known = documented("mig_demand_info")
            assert not set(done.result) - set(known) - {"changed", "invocation"}
            for name in ("nodes", "pods", "waiting"):
                assert not undocumented(done[name], {**known[name]["contains"], "gpus": {}})
            assert done["changed"] is False
        return done

    return run


def test_from_the_cluster_to_a_plan(demand, node, pod, capsys):
    """One pod waits, one has its device, one has just got a node, one is gated, and one comes too late."""
    pytest.importorskip("highspy")
    for name in ("dgx01", "dgx02"):
        node(name)
    pod("waits", "nvidia.com/mig-3g.20gb")
    pod("new", "nvidia.com/mig-1g.5gb", where="dgx01")
    pod("late", "nvidia.com/mig-1g.5gb", unschedulable=False)
    pod(
        "gated", "nvidia.com/mig-1g.5gb", schedulingGates=[{"name": "example.com/quota"}], unschedulable=False
    )
    pod("web", "example.com/thing")
    found = demand(
        {"name": "dgx01", "gpus": [gpu(0, "1g.5gb@0:1")]},
        {"name": "dgx02", "gpus": [gpu(0)]},
        {"name": "dgx03", "gpus": [gpu(0)]},
    )
    assert not found.failed, found.result
    assert [own["name"] for own in found["pods"]] == ["waits"]
    assert found["pods"][0]["requests"] == {"cpu": "500m", "nvidia.com/mig-3g.20gb": "1"}
    assert {own["pod"]: own["reason"] for own in found["waiting"]} == {
        "demand/late": "has not been judged by the scheduler yet",
        "demand/gated": "is held by the scheduling gate example.com/quota",
    }
    assert found["nodes"][0]["free"] == {"cpu": "7500m", "memory": "32Gi", "pods": "9"}
    assert "pod demand/new has just got a device" in found["nodes"][0]["gpus"][0]["frozen"]
    hint = "node names may differ from inventory names"
    assert found["problems"] == [f"node dgx03: the cluster has no such node ({hint}); it is passed over"]
    plan = run_module(capsys, "mig_partition_plan", nodes=found["nodes"], pods=found["pods"])
    assert not plan.failed and not plan["problems"]
    assert plan["placed"] == [{"pod": "demand/waits", "node": "dgx02", "needs_change": True}]
    assert [own["name"] for own in plan["nodes"]] == ["dgx02"]


def test_a_gpu_that_has_just_been_partitioned_rests(demand, node):
    node("dgx01", **{"nvidia.com/mig-change.by-demand": json.dumps({"GPU-0": "2100-01-01T00:00:00Z"})})
    asked = {"name": "dgx01", "gpus": [gpu(0), gpu(1)]}
    frozen = ["frozen" in own for own in demand(asked, cool_down=60)["nodes"][0]["gpus"]]
    assert frozen == [True, False]


def test_young_pods_wait(demand, node, pod):
    node("dgx01")
    pod("young", "nvidia.com/mig-1g.5gb")
    asked = {"name": "dgx01", "gpus": [gpu(0)]}
    assert not demand(asked, batch_window=3600, idle_window=3600)["pods"]
    assert demand(asked, batch_window=3600, idle_window=0)["pods"]
    assert demand(asked)["pods"]


def test_everything_is_listed_however_many_there_are(demand, node, pod, monkeypatch):
    monkeypatch.setattr(room, "PAGE", 2)
    node("dgx01")
    for number in range(5):
        pod(f"p{number}", "nvidia.com/mig-1g.5gb")
    found = demand({"name": "dgx01", "gpus": []})
    assert [own["name"] for own in found["pods"]] == [f"p{number}" for number in range(5)]


@pytest.mark.parametrize("option", ["cool_down", "batch_window", "idle_window"])
def test_a_time_below_zero(demand, option):
    done = demand(**{option: -1})
    assert done.failed and done["msg"] == f"{option}: -1.0 is below zero"


def test_an_account_that_may_not_list_pods(demand, core, cluster, tmp_path):
    """It is told which right is missing, and where to get it."""
    import yaml

    config = yaml.safe_load(cluster.kubeconfig.read_text())
    token = core.create_namespaced_service_account_token("default", SPACE, {"spec": {}}).status.token
    config["users"] = [{"name": user["name"], "user": {"token": token}} for user in config["users"]]
    narrow = tmp_path / "kubeconfig"
    narrow.write_text(yaml.safe_dump(config))
    done = demand(kubeconfig=str(narrow))
    assert done.failed
    assert "lacks the right to list nodes in the whole cluster" in done["msg"]


def test_no_api(demand):
    done = demand(kubeconfig="/nowhere")
    assert done.failed and "no connection to the Kubernetes API" in done["msg"]
