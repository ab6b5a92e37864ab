"""Where controllers run, the agent plays the nodes alone: what their kubelets do with pods."""

from __future__ import annotations

import datetime
import json

import pytest
from miglab import control, control_plane, kubelet, paths, workloads
from miglab.agent import nodes
from miglab.agent.duties import duties
from miglab.agent.model import Machine, Rules, Snapshot
from miglab.agent.pods import Bound
from miglab.agent.testing import a100s, merge_patch
from miglab.console import LabError

NOW = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.timezone.utc)
RULES = Rules("v1.35.4", rescan_always=False, controllers=True)
PLUGIN = "nvidia-device-plugin"
SEVEN = Machine(a100s("7x1g.5gb"), "boot-1")
UNLIKE = Machine(a100s("1x3g.20gb 1x1g.5gb"), "boot-1")
SLICE = "nvidia.com/mig-1g.5gb"


def pod(name="train", phase="Pending", limits=None, node="n1", annotations=None, **metadata):
    container = {"name": "main", "image": "x", "resources": {"limits": limits or {}}}
    return {
        "metadata": {
            "name": name,
            "namespace": "ml",
            "uid": f"uid-{name}",
            "annotations": annotations,
            **metadata,
        },
        "spec": {"nodeName": node, "containers": [container]},
        "status": {"phase": phase, "startTime": "2026-01-02T03:04:00Z"}
        if phase != "Pending"
        else {"phase": phase},
    }


def plugin(strategy="mixed", name="plugin-1", **more):
    made = pod(name, **more)
    container = {"name": PLUGIN, "image": "x:v0.17.4", "command": [PLUGIN]}
    made["spec"]["containers"] = [container | {"env": [{"name": "MIG_STRATEGY", "value": strategy}]}]
    return made


class Server:
    """Keeps a node and pods, and applies merge patches. Every pod gets the devices that it wants."""

    def __init__(self, *pods):
        self.snapshot = Snapshot()
        self.snapshot.nodes["n1"] = nodes.new_node("n1")
        for each in pods:
            self.add(each)

    def add(self, each):
        self.snapshot.pods["ml", each["metadata"]["name"]] = json.loads(json.dumps(each))

    def settle(self, machine=SEVEN, now=NOW):
        """Carry out duties until there are none; returns them."""
        done = []
        for _ in range(5):
            changes = duties(self.snapshot, {"n1": machine}, RULES, now)
            if not changes:
                return done
            for change in changes:
                self._apply(change)
            done += changes
        raise AssertionError(f"it never ends: {[change.text for change in changes]}")

    def _apply(self, change):
        body = json.loads(json.dumps(change.body))
        parts = change.path.split("?")[0].split("/")
        if "nodes" in parts:
            return merge_patch(self.snapshot.nodes["n1"], body)
        if change.method == "end":
            del self.snapshot.pods["ml", parts[6]]
            return None
        return merge_patch(self.snapshot.pods["ml", parts[6]], {"status": body["status"]})

    def status(self, name="train"):
        return self.snapshot.pods["ml", name]["status"]

    def ready(self, name="train"):
        return next(each["status"] for each in self.status(name)["conditions"] if each["type"] == "Ready")

    def offers(self):
        allocatable = self.snapshot.nodes["n1"]["status"]["allocatable"]
        return {key: value for key, value in allocatable.items() if key.startswith("nvidia.com/")}


def test_resources_are_those_of_the_plugin_s_pod_on_the_node():
    server = Server()
    server.settle()
    assert server.offers() == {}
    server.add(plugin())
    server.settle()
    assert (server.ready("plugin-1"), server.offers()) == ("True", {SLICE: "7"})
    server.snapshot.pods.clear()
    server.settle()
    assert server.offers() == {SLICE: "0"}


def test_a_plugin_that_runs_sees_a_new_layout_only_once_its_pod_is_made_anew():
    server = Server(plugin())
    server.settle()
    changed = Machine(a100s("2x3g.20gb"), "boot-1")
    server.settle(changed)
    assert server.offers() == {SLICE: "7"}
    server.snapshot.pods.clear()
    server.add(plugin(name="plugin-2"))
    server.settle(changed)
    assert server.offers() == {SLICE: "0", "nvidia.com/mig-3g.20gb": "2"}


def test_a_plugin_that_exits_is_not_ready_from_the_start_and_is_once_it_can():
    server = Server(plugin("single"))
    assert "True" not in [
        each["status"]
        for change in duties(server.snapshot, {"n1": UNLIKE}, RULES, NOW)
        for each in change.body.get("status", {}).get("conditions", [])
        if each["type"] == "ContainersReady"
    ]
    server.settle(UNLIKE)
    assert (server.ready("plugin-1"), server.offers()) == ("False", {})
    [container] = server.status("plugin-1")["containerStatuses"]
    assert container["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    server.settle(SEVEN)
    assert (server.ready("plugin-1"), server.offers()) == ("True", {"nvidia.com/gpu": "7"})


def test_a_layout_between_two_does_not_stop_a_plugin_that_runs():
    server = Server(plugin("single"))
    server.settle(SEVEN)
    server.settle(UNLIKE)
    assert (server.ready("plugin-1"), server.offers()) == ("True", {"nvidia.com/gpu": "7"})


def test_a_pod_runs_until_its_seconds_are_over():
    server = Server(pod(annotations={"mig-lab/seconds": "5"}))
    assert [change.method for change in server.settle() if "pod" in change.text] == ["start"]
    assert (server.status()["phase"], server.ready()) == ("Running", "True")
    assert server.status()["podIP"].startswith("10.")
    assert not server.settle(now=NOW + datetime.timedelta(seconds=4))
    [change] = server.settle(now=NOW + datetime.timedelta(seconds=5))
    assert (change.method, server.status()["phase"], server.ready()) == ("stop", "Succeeded", "False")


def test_a_deleted_pod_ends_as_failed_and_goes():
    server = Server(pod(phase="Running", deletionTimestamp="x", deletionGracePeriodSeconds=30))
    assert [change.method for change in server.settle() if "pod" in change.text] == ["stop", "end"]
    assert not server.snapshot.pods
    server.add(pod(phase="Failed", deletionTimestamp="x", deletionGracePeriodSeconds=0))
    assert not server.settle()  # it waits for a finalizer


def test_the_conditions_of_others_stay():
    scheduled = {"type": "PodScheduled", "status": "True"}
    waiting = pod()
    waiting["status"]["conditions"] = [scheduled]
    server = Server(waiting)
    server.settle()
    assert scheduled in server.status()["conditions"]


def test_pods_of_no_node_or_another_are_left_alone():
    server = Server(pod(node=None), pod("other", node="other"))
    assert not [change for change in server.settle() if "pod" in change.text]


def test_nothing_happens_on_a_node_that_is_switched_off():
    server = Server(plugin(), pod())
    assert not server.settle(Machine(SEVEN.hardware, "boot-1", on=False))


def test_a_pod_gets_what_the_plugin_offers():
    server = Server(plugin(), pod(limits={SLICE: "2", "cpu": "1"}))
    [start] = [change for change in server.settle() if "ml/train" in change.text]
    assert start.body["wanted"] == {"main": {SLICE: 2}}
    assert start.body["devices"] == {}  # the plugin itself had just been started
    server.add(pod("next", limits={SLICE: "2"}))
    [start] = [change for change in server.settle() if "ml/next" in change.text]
    assert len(start.body["devices"][SLICE]) == 7


def test_pods_that_are_gone_at_once_are_noticed():
    bound = Bound()
    pods = {("ml", "train"): pod(), ("ml", "far"): pod("far", node="other")}
    assert bound.vanished(pods, {"n1"}) == []
    assert bound.vanished({}, {"n1"}) == [{"node": "n1", "pod": "ml/train"}]
    assert bound.vanished({}, {"n1"}) == []


@pytest.fixture
def node(sim_lab):
    from miglab import fleet

    spec = {"gpu": "A100-SXM4-40GB", "initial": [{"gpus": 0, "instances": ["3g.20gb@4", "3g.20gb@0"]}]}
    fleet.create([fleet.parse_node("n1", spec)])
    state = control.read(paths.node_state("n1"))
    return [each["compute_instances"][0]["uuid"] for each in state["gpus"][0]["instances"]]


def admit(devices, name, count=1, idle=False):
    resource = "nvidia.com/gpu"
    workloads.admit("n1", f"ml/{name}", f"uid-{name}", {"main": {resource: count}}, {resource: devices}, idle)


def held():
    allocations = kubelet.allocations(paths.checkpoint("n1"), paths.pods_dir("n1"))
    return {entry["pod"]: entry["devices"] for entry in allocations}


def test_devices_are_given_out_once_until_they_are_free_again(node):
    admit(node, "a")
    admit(node, "a")  # again, as after a restart of the agent
    admit(node, "b", idle=True)
    assert held() == {"ml/a": node[:1], "ml/b": node[1:]}
    assert [each["pod"] for each in control.read(paths.node_state("n1"))["processes"]] == ["ml/a"]
    with pytest.raises(workloads.RejectedError, match=r"nvidia.com/gpu. Requested: 1, Available: 0"):
        admit(node, "c")
    workloads.remove("n1", pod="ml/a")
    admit(node, "c")
    assert held() == {"ml/b": node[1:], "ml/c": node[:1]}


def test_replicas_of_a_device_are_devices(node):
    admit([f"{node[0]}::0", f"{node[0]}::1"], "a", count=2)
    assert held() == {"ml/a": [f"{node[0]}::0", f"{node[0]}::1"]}
    assert len(control.read(paths.node_state("n1"))["processes"]) == 2


def test_a_managed_pod_is_refused_where_controllers_would_make_it(node):
    control_plane.note(control_plane.WHOLE)
    with pytest.raises(LabError, match="deploy a Job"):
        workloads.add("n1", 0, 1, pod="ml/train", managed=True)
