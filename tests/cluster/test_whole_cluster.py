"""The main job on a cluster whose controllers and scheduler are Kubernetes' own."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from lab_runs import Lab, Run

DGX = ("dgx01", "dgx02")
ELASTIC = "a100-80-01"
NAMESPACE = "mig-cluster-test"
RELEASES = "nvidia-device-plugin"
SLICE = "nvidia.com/mig-3g.20gb"
FREE: dict[str, Any] = {"cordoned": False, "taints": [], "notes": []}


def site(lab: Lab, *argv: str, limit: str = ",".join(DGX)) -> Run:
    """``ansible-playbook site.yml -l LIMIT``"""
    return lab.play("site.yml", "-l", limit, *argv)


def wait(what: str, check: Callable[[], bool], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.5)


def apply(lab: Lab, *objects: dict[str, Any]) -> None:
    lab.kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))


def pod_of(lab: Lab, app: str) -> dict[str, Any]:
    """The app's one pod that is not about to go."""
    found = lab.kubectl("get", "pods", "-n", NAMESPACE, "-l", f"app={app}")["items"]
    [pod] = [each for each in found if "deletionTimestamp" not in each["metadata"]]
    return dict(pod)


def phase(lab: Lab, app: str) -> str:
    return str(pod_of(lab, app)["status"]["phase"])


def deployment(app: str, resource: str, replicas: int = 1) -> dict[str, Any]:
    """Each replica with one device of ``resource``."""
    container = {"name": "main", "image": app, "resources": {"limits": {resource: 1}}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": app, "namespace": NAMESPACE},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": app}},
            "template": {"metadata": {"labels": {"app": app}}, "spec": {"containers": [container]}},
        },
    }


def offered(lab: Lab, node: str) -> dict[str, int]:
    """The node's allocatable NVIDIA resources that are not zero."""
    found = lab.kubectl("get", "node", node)["status"]["allocatable"]
    return {key: int(value) for key, value in found.items() if key.startswith("nvidia.com/") and int(value)}


def gpu_pods(lab: Lab) -> dict[str, set[str]]:
    """By node, the uids of the releases' pods."""
    found: dict[str, set[str]] = {}
    for pod in lab.kubectl("get", "pods", "-n", RELEASES)["items"]:
        if "deletionTimestamp" not in pod["metadata"]:
            found.setdefault(pod["spec"]["nodeName"], set()).add(pod["metadata"]["uid"])
    return found


def scheduling(lab: Lab, node: str) -> dict[str, Any]:
    """What the cluster says of the node's scheduling."""
    found = lab.kubectl("get", "node", node)
    return {
        "cordoned": found["spec"].get("unschedulable", False),
        "taints": [each["key"] for each in found["spec"].get("taints", [])],
        "notes": [key for key in found["metadata"]["annotations"] if "mig-change" in key],
    }


@pytest.fixture(scope="module")
def waiting(lab: Lab) -> Iterator[str]:
    """Before the first run: a pod that asks for a slice that no node has. Returns why it waits."""
    apply(
        lab,
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "cpu-01"}},  # no GPU, and no kubelet
        deployment("infer", SLICE),
    )

    def reason() -> str:
        pods = lab.kubectl("get", "pods", "-n", NAMESPACE)["items"]
        told = [each["message"] for pod in pods for each in pod["status"].get("conditions", [])]
        return "\n".join(told)

    wait("the scheduler's verdict", lambda: bool(reason()))
    yield reason()
    lab.kubectl("delete", "namespace", NAMESPACE, json=False)
    lab.kubectl("delete", "node", "cpu-01", json=False)
    for release in lab.helm("list", "-n", RELEASES):
        lab.helm("uninstall", release["name"], "-n", RELEASES, json=False)


@pytest.fixture(scope="module")
def mixed(lab: Lab, waiting: str) -> Run:
    """The first run."""
    run = site(lab)
    assert run.rc == 0, run.messages() or run.text
    return run


def test_a_pod_waits_for_its_slice_and_is_scheduled_once_it_is_there(
    lab: Lab, waiting: str, mixed: Run
) -> None:
    assert f"Insufficient {SLICE}" in waiting
    wait("the pod runs", lambda: phase(lab, "infer") == "Running")
    pod = pod_of(lab, "infer")
    node = lab.nodes()[pod["spec"]["nodeName"]]
    [held] = [each for each in node["pods"] if each["uid"] == pod["metadata"]["uid"]]
    assert (held["pod"], held["resource"]) == (f"{NAMESPACE}/{pod['metadata']['name']}", SLICE)
    [process] = node["processes"]
    assert process["pod"] == held["pod"]


def test_daemon_sets_have_a_pod_on_every_gpu_node(lab: Lab, mixed: Run) -> None:
    sets = lab.kubectl("get", "daemonsets", "-n", RELEASES)["items"]
    for name in ("nvidia-device-plugin", "gpu-feature-discovery"):
        [found] = [each for each in sets if each["metadata"]["name"].endswith(name)]
        assert (found["status"]["desiredNumberScheduled"], found["status"]["numberReady"]) == (4, 4)
        pods = [
            pod["spec"]["nodeName"]
            for pod in lab.kubectl("get", "pods", "-n", RELEASES)["items"]
            if pod["metadata"]["ownerReferences"][0]["uid"] == found["metadata"]["uid"]
        ]
        assert sorted(pods) == [ELASTIC, *DGX, "t4-01"]


def test_the_second_run_changes_nothing(lab: Lab, mixed: Run) -> None:
    assert any(mixed.changed().values())
    wait("the pod runs", lambda: phase(lab, "infer") == "Running")
    before = lab.nodes()
    again = site(lab)
    assert again.rc == 0, again.messages()
    assert not any(again.changed().values()), again.changed()
    assert lab.nodes() == before


# GPU 5 is cut anew, where the pod's device is; the others are as in the inventory.
CUT = {
    "mixed": [
        {"gpus": [0, 1, 2, 3, 4], "mig": False},
        {"gpus": 5, "profiles": {"2g.10gb": 3}},
        {"gpus": 6, "profiles": {"3g.20gb": 1, "2g.10gb": 1, "1g.5gb": 1}},
        {"gpus": 7, "profiles": {"2g.10gb": 2}},
    ]
}
DRAIN = ("-e", json.dumps({"mig_layouts": CUT, "mig_drain": True}))


def test_a_budget_that_allows_no_eviction_leaves_the_node_as_it_was(lab: Lab, mixed: Run) -> None:
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "infer", "namespace": NAMESPACE},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "infer"}}},
    }
    apply(lab, budget)
    wait("the pod runs", lambda: phase(lab, "infer") == "Running")
    wait(
        "the budget counts it",
        lambda: lab.kubectl("get", "pdb", "infer", "-n", NAMESPACE)["status"]["currentHealthy"] == 1,
    )
    pod, before = pod_of(lab, "infer"), lab.nodes()
    node = pod["spec"]["nodeName"]
    run = site(lab, *DRAIN, "-e", "mig_drain_timeout=10", limit=node)
    assert run.rc != 0
    for words in ("disruption budget", "are as they were", "takes pods again"):
        assert words in run.messages(), run.messages()
    assert pod_of(lab, "infer")["metadata"]["uid"] == pod["metadata"]["uid"]
    assert lab.nodes() == before
    assert scheduling(lab, node) == FREE


def test_an_evicted_pod_is_made_anew_and_runs_elsewhere(lab: Lab, mixed: Run) -> None:
    lab.kubectl("delete", "pdb", "--all", "-n", NAMESPACE, json=False)
    pod = pod_of(lab, "infer")
    node = pod["spec"]["nodeName"]
    run = site(lab, *DRAIN, limit=node)
    assert run.rc == 0, run.messages()
    assert scheduling(lab, node) == FREE
    assert offered(lab, node)["nvidia.com/mig-2g.10gb"] == 6
    wait("the new pod runs", lambda: phase(lab, "infer") == "Running")
    moved = pod_of(lab, "infer")
    assert moved["metadata"]["uid"] != pod["metadata"]["uid"]
    assert moved["spec"]["nodeName"] != node  # which took no pods while it changed
    assert [each["pod"] for each in lab.nodes()[node]["pods"]] == []


def test_a_strategy_is_switched_and_back_in_use(lab: Lab, mixed: Run) -> None:
    """Both layouts have the instance that the pod holds, but other GPUs of the node must be reset."""
    wait("the pod runs", lambda: phase(lab, "infer") == "Running")
    pod, before = pod_of(lab, "infer"), lab.nodes()
    node = pod["spec"]["nodeName"]
    refused = site(lab, "-e", "dgx_strategy=single", limit=node)
    assert refused.rc != 0
    assert f"{NAMESPACE}/{pod['metadata']['name']} hold" in refused.messages(), refused.messages()
    assert "mig_drain" in refused.messages()
    assert pod_of(lab, "infer")["metadata"]["uid"] == pod["metadata"]["uid"]
    assert lab.nodes() == before
    for strategy, offers in (("single", {"nvidia.com/gpu": 16}), ("mixed", {"nvidia.com/gpu": 5, SLICE: 2})):
        run = site(lab, "-e", f"dgx_strategy={strategy}", "-e", "mig_drain=true", limit=node)
        assert run.rc == 0, run.messages()
        assert offers.items() <= offered(lab, node).items()
        assert scheduling(lab, node) == FREE
    wait("the pod runs elsewhere", lambda: phase(lab, "infer") == "Running")
    assert pod_of(lab, "infer")["spec"]["nodeName"] != node


def test_the_plugin_starts_anew_where_its_config_changed_and_nowhere_else(lab: Lab, mixed: Run) -> None:
    """Both ways of the switch, on the node that no pod works on."""
    wait("the pod runs", lambda: phase(lab, "infer") == "Running")
    [node] = {*DGX} - {pod_of(lab, "infer")["spec"]["nodeName"]}
    switch = ("playbooks/switch_strategy.yml", "-l", node, "-e")

    before = gpu_pods(lab)
    run = lab.play(*switch, "switch_strategy_to=single")
    assert run.rc == 0, run.messages()
    after = gpu_pods(lab)
    assert len(after[node]) == 2 and not after.pop(node) & before.pop(node)
    assert after == before
    assert offered(lab, node) == {"nvidia.com/gpu": 16}

    before = gpu_pods(lab)
    way = {
        "switch_strategy_way": "reinstall",
        "switch_strategy_to": "mixed",
        "switch_strategy_others_ok": True,
    }
    run = lab.play(*switch, json.dumps(way))
    assert run.rc == 0, run.messages()
    after = gpu_pods(lab)
    assert after.keys() == before.keys()
    assert not any(after[each] & before[each] for each in after)
    assert offered(lab, node)[SLICE] == 2


def test_a_new_config_reaches_its_node_by_the_release_alone(lab: Lab, mixed: Run) -> None:
    """The pods find their label's config from the start, or they would crash."""
    sharing = {"timeSlicing": {"resources": [{"name": "nvidia.com/gpu", "replicas": 4}]}}
    # Of t4-01 alone, whatever else the releases are for.
    wish = f"{{{{ {json.dumps(sharing)} if inventory_hostname == 't4-01' else {{}} }}}}"
    for argv, count in ((("-e", json.dumps({"mig_sharing": wish})), 16), ((), 4)):
        run = lab.play("playbooks/release.yml", "-l", "t4-01", *argv)
        assert run.rc == 0, run.messages()
        wait(f"{count} GPUs", lambda count=count: offered(lab, "t4-01") == {"nvidia.com/gpu": count})
        again = lab.play("playbooks/release.yml", "-l", "t4-01", *argv)
        assert not any(again.changed().values()), again.changed()


def running(lab: Lab, app: str) -> dict[str, Any]:
    """The app's pods that run, by uid: the device that each holds."""
    pods = lab.kubectl("get", "pods", "-n", NAMESPACE, "-l", f"app={app}")["items"]
    ready = {pod["metadata"]["uid"] for pod in pods if pod["status"]["phase"] == "Running"}
    return {held["uid"]: held["devices"] for held in lab.nodes()[ELASTIC]["pods"] if held["uid"] in ready}


def unschedulable(lab: Lab, app: str) -> int:
    """How many of the app's pods the scheduler found no place for."""
    pods = lab.kubectl("get", "pods", "-n", NAMESPACE, "-l", f"app={app}")["items"]
    reasons = [each.get("reason") for pod in pods for each in pod["status"].get("conditions", [])]
    return reasons.count("Unschedulable")


def test_an_empty_gpu_follows_the_pods_that_wait(lab: Lab, mixed: Run) -> None:
    """Five pods of 1g.10gb run after one pass; then one of 2g.20gb, and the five do not notice."""
    as_it_is = ("-e", json.dumps({"mig_layouts": {"mixed": []}}))
    run = site(lab, *as_it_is, limit=ELASTIC)
    assert run.rc == 0, run.messages()
    inventory = lab.directory / "demand.yml"
    inventory.write_text(json.dumps({"mig_demand": {"hosts": {ELASTIC: {}}}}))
    follow = ("playbooks/repartition.yml", "-i", "inventories/lab", "-i", str(inventory))
    at_once = ("-e", json.dumps({"repartition_batch_window": 0, "repartition_cool_down": 0}))

    apply(lab, deployment("small", "nvidia.com/mig-1g.10gb", replicas=5))
    wait("five pods wait", lambda: unschedulable(lab, "small") == 5)
    run = lab.play(*follow, *at_once)
    assert run.rc == 0, run.messages()
    wait("five pods run", lambda: len(running(lab, "small")) == 5)
    first = running(lab, "small")

    apply(lab, deployment("bigger", "nvidia.com/mig-2g.20gb"))
    wait("a pod waits", lambda: unschedulable(lab, "bigger") == 1)
    run = lab.play(*follow, *at_once)
    assert run.rc == 0, run.messages()
    wait("it runs", lambda: len(running(lab, "bigger")) == 1)
    assert running(lab, "small") == first
    assert offered(lab, ELASTIC) == {"nvidia.com/mig-1g.10gb": 5, "nvidia.com/mig-2g.20gb": 1}

    again = site(lab, *as_it_is, limit=ELASTIC)
    assert again.rc == 0, again.messages()
    assert not any(again.changed().values()), again.changed()
    assert running(lab, "small") == first


def test_shares_follow_the_pods_that_wait(lab: Lab, mixed: Run) -> None:
    """Pods that do with an eighth of a GPU run after one pass, and no other node's plugin starts anew."""
    kinds = [
        {"mps": {"renameByDefault": True, "resources": [{"name": "nvidia.com/gpu", "replicas": count}]}}
        for count in (2, 8)
    ]
    wishes = {"mig_sharing": kinds[0], "mig_sharing_choices": kinds[1:]}
    inventory = lab.directory / "shares.yml"
    inventory.write_text(json.dumps({"mig_demand": {"hosts": {"t4-01": wishes}}}))
    where = ("-i", "inventories/lab", "-i", str(inventory))
    run = site(lab, *where, limit="t4-01")
    assert run.rc == 0, run.messages()
    assert offered(lab, "t4-01") == {"nvidia.com/gpu.shared": 8}

    before = gpu_pods(lab)
    chat = deployment("chat", "nvidia.com/gpu.shared", replicas=9)
    chat["spec"]["template"]["spec"]["nodeSelector"] = {"nvidia.com/gpu.replicas": "8"}
    apply(lab, chat)
    wait("nine pods wait", lambda: unschedulable(lab, "chat") == 9)
    at_once = ("-e", json.dumps({"repartition_batch_window": 0, "repartition_cool_down": 0}))
    run = lab.play("playbooks/repartition.yml", *where, *at_once)
    assert run.rc == 0, run.messages()
    assert offered(lab, "t4-01") == {"nvidia.com/gpu.shared": 32}
    pods = ("get", "pods", "-n", NAMESPACE, "-l", "app=chat")
    wait(
        "nine pods run",
        lambda: [p["status"]["phase"] for p in lab.kubectl(*pods)["items"]] == ["Running"] * 9,
    )
    after = gpu_pods(lab)
    assert not after.pop("t4-01") & before.pop("t4-01") and after == before

    again = site(lab, *where, limit="t4-01")
    assert again.rc == 0, again.messages()
    assert not any(again.changed().values()), again.changed()
