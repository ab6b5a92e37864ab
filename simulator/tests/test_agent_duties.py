"""What the agent would change in the API server, and that it changes nothing twice."""

from __future__ import annotations

import datetime
import json

import pytest
from miglab.agent.duties import OWNED_LABELS, Machine, Rules, Snapshot, duties
from miglab.agent.testing import a100s, merge_patch

NOW = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.timezone.utc)
RULES = Rules("v1.35.4")
PLUGIN, DISCOVERY = "nvidia-device-plugin", "gpu-feature-discovery"
SEVEN = "7x1g.5gb"
NVIDIA = "nvidia.com/"


class Server:
    """The API server's part in it: keeps objects, applies merge patches."""

    def __init__(self):
        self.snapshot = Snapshot()

    def deploy(self, program, strategy="mixed", **selector):
        container = {"name": program, "image": "x:v0.17.4", "command": [program]}
        container["env"] = [{"name": "MIG_STRATEGY", "value": strategy}]
        pod = {"containers": [container], "nodeSelector": selector}
        old = self.snapshot.daemon_sets.get(("nv", program), {"metadata": {"generation": 0}})
        metadata = {"namespace": "nv", "name": program, "uid": f"uid-{program}"}
        metadata["generation"] = old["metadata"]["generation"] + 1
        self.snapshot.daemon_sets["nv", program] = {"metadata": metadata, "spec": {"template": {"spec": pod}}}

    def remove(self, program):
        del self.snapshot.daemon_sets["nv", program]

    def settle(self, machines, rules=RULES, now=NOW):
        """Carry out duties until there are none; returns their texts."""
        texts = []
        for _ in range(5):
            changes = duties(self.snapshot, machines, rules, now)
            if not changes:
                return texts
            for change in changes:
                self._apply(change)
                texts.append(change.text)
        raise AssertionError(f"it never ends: {[change.text for change in changes]}")

    def _apply(self, change):
        body = json.loads(json.dumps(change.body))
        parts = change.path.split("/")
        if change.method == "post":
            body["spec"] = {"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]}
            self.snapshot.nodes[body["metadata"]["name"]] = body
        elif change.method == "delete":
            del self.snapshot.nodes[parts[4]]
        elif "nodes" in parts:
            merge_patch(self.snapshot.nodes[parts[4]], body)
        else:
            merge_patch(self.snapshot.daemon_sets[parts[5], parts[7]], body)


@pytest.fixture
def server():
    return Server()


def offered(server, name="n1", part="allocatable"):
    values = server.snapshot.nodes[name]["status"][part]
    return {
        key.removeprefix("nvidia.com/"): value
        for key, value in values.items()
        if key.startswith("nvidia.com/")
    }


def labels(server, name="n1"):
    return server.snapshot.nodes[name]["metadata"]["labels"]


def test_a_node_joins_and_is_ready(server):
    server.settle({"n1": Machine(a100s("off"), "boot-1")})
    node = server.snapshot.nodes["n1"]
    assert labels(server)["feature.node.kubernetes.io/pci-10de.present"] == "true"
    assert [(each["type"], each["status"]) for each in node["status"]["conditions"]] == [("Ready", "True")]
    assert node["status"]["nodeInfo"]["bootID"] == "boot-1"
    assert "taints" not in node["spec"]
    assert offered(server) == {}


def test_a_node_that_the_lab_does_not_have_is_left_alone_or_taken_away(server):
    server.settle({"n1": Machine(a100s("off"))})
    server.snapshot.nodes["other"] = {"metadata": {"name": "other"}}
    server.settle({})
    assert list(server.snapshot.nodes) == ["other"]


def test_resources_and_labels_follow_layout_and_strategy(server):
    server.deploy(PLUGIN)
    server.deploy(DISCOVERY)
    server.settle({"n1": Machine(a100s("off", SEVEN))})
    assert offered(server) == offered(server, part="capacity") == {"gpu": "1", "mig-1g.5gb": "7"}
    assert labels(server)["nvidia.com/mig-1g.5gb.count"] == "7"

    server.settle({"n1": Machine(a100s("off", "2x3g.20gb"))})
    assert offered(server) == {"gpu": "1", "mig-1g.5gb": "0", "mig-3g.20gb": "2"}
    assert "nvidia.com/mig-1g.5gb.count" not in labels(server)

    server.deploy(PLUGIN, "none")
    server.settle({"n1": Machine(a100s("off", "off"))})
    assert offered(server) == {"gpu": "2", "mig-1g.5gb": "0", "mig-3g.20gb": "0"}


def test_without_daemon_sets_nothing_is_offered_or_labelled(server):
    server.deploy(PLUGIN)
    server.deploy(DISCOVERY)
    machines = {"n1": Machine(a100s(SEVEN))}
    server.settle(machines)
    labels(server)["nvidia.com/device-plugin.config"] = "mine"
    server.remove(PLUGIN)
    server.remove(DISCOVERY)
    server.settle(machines)
    assert offered(server) == {"mig-1g.5gb": "0"}
    assert [name for name in labels(server) if name.startswith("nvidia.com/")] == [
        "nvidia.com/device-plugin.config"
    ]
    assert OWNED_LABELS not in server.snapshot.nodes["n1"]["metadata"]["annotations"]


def test_a_plugin_that_exits_offers_nothing_and_is_not_ready(server):
    server.deploy(PLUGIN, "single")
    machines = {"n1": Machine(a100s(SEVEN)), "n2": Machine(a100s(SEVEN))}
    server.settle(machines)
    assert offered(server) == {"gpu": "7"}
    machines["n1"] = Machine(a100s("1x3g.20gb 1x1g.5gb"))
    server.settle(machines)
    assert offered(server) == {"gpu": "0"}
    annotations = server.snapshot.nodes["n1"]["metadata"]["annotations"]
    assert "more than one MIG device type" in annotations["mig-lab/nvidia-device-plugin-error"]
    status = server.snapshot.daemon_sets["nv", PLUGIN]["status"]
    assert (status["desiredNumberScheduled"], status["numberReady"], status["numberUnavailable"]) == (2, 1, 1)


def test_a_daemon_set_without_a_fitting_node(server):
    server.deploy(PLUGIN, zone="b")
    server.settle({"n1": Machine(a100s("off"))})
    status = server.snapshot.daemon_sets["nv", PLUGIN]["status"]
    assert (status["desiredNumberScheduled"], status["observedGeneration"]) == (0, 1)
    assert offered(server) == {}


def test_the_timestamp_is_that_of_the_pod_s_start(server):
    server.deploy(DISCOVERY)
    machines = {"n1": Machine(a100s("off"))}
    server.settle(machines)
    first = labels(server)["nvidia.com/gfd.timestamp"]
    later = NOW + datetime.timedelta(hours=1)
    server.settle({"n1": Machine(a100s(SEVEN))}, now=later)
    assert labels(server)["nvidia.com/gfd.timestamp"] == first
    server.deploy(DISCOVERY)
    server.settle(machines, now=later)
    assert int(labels(server)["nvidia.com/gfd.timestamp"]) == int(first) + 3600


@pytest.mark.parametrize("restart", ["rollout", "reboot"])
def test_a_plugin_that_scans_only_at_its_start(server, restart):
    rules = Rules("v1.35.4", rescan_always=False)
    server.deploy(PLUGIN)
    server.settle({"n1": Machine(a100s("off"), "boot-1")}, rules)
    server.settle({"n1": Machine(a100s(SEVEN), "boot-1")}, rules)
    assert offered(server) == {"gpu": "1"}
    if restart == "rollout":
        server.deploy(PLUGIN)
    server.settle({"n1": Machine(a100s(SEVEN), "boot-2" if restart == "reboot" else "boot-1")}, rules)
    assert offered(server) == {"gpu": "0", "mig-1g.5gb": "7"}


def test_while_nvml_cannot_be_read_all_stays(server):
    server.deploy(PLUGIN)
    server.settle({"n1": Machine(a100s(SEVEN))})
    assert server.settle({"n1": Machine(None)}) == []
    assert offered(server) == {"mig-1g.5gb": "7"}


def pod(node="n1", phase="Pending", **metadata):
    return {"metadata": metadata, "spec": {"nodeName": node}, "status": {"phase": phase}}


def test_a_pod_on_a_simulated_node_runs_and_ends_when_it_is_deleted(server):
    machines = {"n1": Machine(a100s("off"), "boot-1")}
    server.settle(machines)
    server.snapshot.pods["ml", "train"] = pod()
    [change] = duties(server.snapshot, machines, RULES, NOW)
    assert (change.method, change.path) == ("patch", "/api/v1/namespaces/ml/pods/train/status")
    assert change.body["status"]["phase"] == "Running"
    server.snapshot.pods["ml", "train"] = pod(phase="Running")
    assert not duties(server.snapshot, machines, RULES, NOW)
    server.snapshot.pods["ml", "train"] = pod(phase="Running", deletionTimestamp="2026-01-02T03:04:05Z")
    [change] = duties(server.snapshot, machines, RULES, NOW)
    assert (change.method, change.body) == ("end", {"node": "n1", "pod": "ml/train"})
    assert change.path == "/api/v1/namespaces/ml/pods/train?gracePeriodSeconds=0"


def test_pods_of_nodes_that_are_not_the_labs_are_left_alone(server):
    server.settle({"n1": Machine(a100s("off"), "boot-1")})
    server.snapshot.pods["ml", "train"] = pod(node="other")
    server.snapshot.pods["ml", "waiting"] = {"metadata": {}, "spec": {}, "status": {"phase": "Pending"}}
    assert not duties(server.snapshot, {"n1": Machine(a100s("off"), "boot-1")}, RULES, NOW)
