"""The main job as an operator types it, on the simulated fleet."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from lab_runs import Lab, Run, need_cluster

DGX = ("dgx01", "dgx02", "dgx03", "dgx04")
# The mixed node of NVIDIA's introduction of MIG in Kubernetes: five whole GPUs and three cut ones.
MIXED = {
    "nvidia.com/gpu": 5,
    "nvidia.com/mig-1g.5gb": 2,
    "nvidia.com/mig-2g.10gb": 4,
    "nvidia.com/mig-3g.20gb": 2,
}


def site(lab: Lab, *argv: str, limit: str = "dgx", **environment: str) -> Run:
    """``ansible-playbook site.yml -l LIMIT``"""
    return lab.play("site.yml", "-l", limit, *argv, **environment)


def actions(run: Run, host: str) -> list[str]:
    """What the run did, or would do, to the GPUs of ``host``."""
    return [
        line
        for name, of, result in run.tasks
        if of == host
        and name.endswith((": Apply the MIG layout", ": Finish the MIG layout after the reset or reboot"))
        for line in result.get("actions", [])
    ]


def offered(lab: Lab, node: str) -> dict[str, int]:
    """The node's allocatable NVIDIA resources that are not zero."""
    allocatable = lab.kubectl("get", "node", node)["status"]["allocatable"]
    return {
        key: int(value) for key, value in allocatable.items() if key.startswith("nvidia.com/") and int(value)
    }


def labels(lab: Lab, node: str) -> dict[str, str]:
    """The node's NVIDIA labels."""
    found = lab.kubectl("get", "node", node)["metadata"]["labels"]
    return {key: value for key, value in found.items() if key.startswith("nvidia.com/")}


def all_unchanged(run: Run) -> bool:
    """Whether no host reports a change."""
    return not any(run.changed().values())


@pytest.fixture(scope="module")
def start(lab: Lab) -> dict[str, Any]:
    """The fleet before the first run of this module."""
    return lab.nodes()


@pytest.fixture(scope="module")
def mixed(lab: Lab, start: dict[str, Any]) -> Run:
    """The first run. The dgx nodes are untouched till then."""
    run = site(lab)
    assert run.rc == 0, run.messages() or run.text
    return run


def test_check_mode_changes_nothing(lab: Lab, mixed: Run) -> None:
    before = lab.nodes()
    run = site(lab, "--check", "--diff", "-e", "dgx_strategy=single")
    assert run.rc == 0, run.messages()
    assert lab.nodes() == before
    # A change request: what is shown twice is the same, and every GPU that changes is drawn.
    shown = json.dumps([result["diff"] for _name, _host, result in run.tasks if result.get("diff")])
    assert "|3g.20gb                    |3g.20gb                    |" in shown
    assert not re.findall(r"GPU-[0-9a-f]{8}|\d{4}-\d\d-\d\d|managedFields|resourceVersion", shown)


def test_the_second_run_changes_nothing(lab: Lab, mixed: Run) -> None:
    assert any(mixed.changed().values())
    before = lab.nodes()
    again = site(lab)
    assert again.rc == 0, again.messages()
    assert set(again.stats) >= set(DGX)
    assert all_unchanged(again), again.changed()
    assert lab.nodes() == before


def test_a_node_that_is_as_wanted_costs_one_light_call(lab: Lab, mixed: Run) -> None:
    """Through a probe that reads less than the module, with the module's very result."""
    plans = {}
    for pipelining in ("True", "False"):
        lab.command("calls", "dgx01", "--reset")
        run = lab.play("playbooks/partition.yml", "-l", "dgx01", ANSIBLE_PIPELINING=pipelining)
        assert run.rc == 0, run.messages()
        [plans[pipelining]] = run.results("nvidia.mig.mig_layout", "dgx01")
        plans[pipelining].pop("invocation", None)
        calls = json.loads(lab.command("calls", "dgx01", "--json"))
        # Only who plans asks for placements.
        light = "nvmlDeviceGetGpuInstancePossiblePlacements_v2" not in calls
        assert light == (pipelining == "True")
    assert plans["True"] == plans["False"]
    assert (plans["True"]["changed"], plans["True"]["actions"]) == (False, [])


def test_only_the_limited_hosts_are_touched(lab: Lab, start: dict[str, Any], mixed: Run) -> None:
    assert set(mixed.stats) <= {*DGX, "localhost"}
    for name, node in lab.nodes().items():
        if name not in DGX:
            assert node == start[name], name


def test_kubernetes_offers_the_mixed_node(lab: Lab, mixed: Run) -> None:
    need_cluster(lab)
    for host in DGX:
        assert offered(lab, host) == MIXED
        assert labels(lab, host)["nvidia.com/mig.strategy"] == "mixed"
        assert labels(lab, host)["nvidia.com/mig-3g.20gb.count"] == "2"


SWITCHES = {
    "single": {"nvidia.com/gpu": 16},
    "none": {"nvidia.com/gpu": 8},
    "mixed": MIXED,
}


def test_switching_the_strategy_does_exactly_what_check_mode_told(lab: Lab, mixed: Run) -> None:
    others = {name: node for name, node in lab.nodes().items() if name not in DGX}
    for strategy, offers in SWITCHES.items():
        override = ("-e", f"dgx_strategy={strategy}")
        files = {word: lab.directory / f"{word}.json" for word in ("predicted", "real")}
        predicted = site(lab, "--check", *override, MIG_SUMMARY_FILE=str(files["predicted"]))
        assert predicted.rc == 0, predicted.messages()
        before = lab.nodes()
        real = site(lab, *override, MIG_SUMMARY_FILE=str(files["real"]))
        assert real.rc == 0, real.messages()
        told = {word: json.loads(file.read_text())["hosts"] for word, file in files.items()}
        for host in DGX:
            done = told["real"][host]["done"].replace("rebooted", "reboot")
            assert told["predicted"][host]["done"] == f"would {done.replace('changed', 'change')}"
            assert told["predicted"][host]["after"] == told["real"][host]["after"]
        after = lab.nodes()
        assert before != after
        assert {name: node for name, node in after.items() if name not in DGX} == others
        for host in DGX:
            assert actions(predicted, host)
            # What a reboot takes along, nobody has to destroy.
            if strategy != "single" or host != "dgx04":
                assert actions(predicted, host) == list(dict.fromkeys(actions(real, host)))
            if strategy == "single":
                # Both cut GPUs keep the 3g.20gb that the new layout wants as well.
                assert not any("destroy 3g.20gb" in line for line in actions(real, host))
            if lab.has_cluster:
                assert offered(lab, host) == offers
                found = labels(lab, host)
                assert found.get("nvidia.com/mig.strategy") == (None if strategy == "none" else strategy)
                cut = found["nvidia.com/gpu.product"].endswith("A100-SXM4-40GB-MIG-3g.20gb")
                assert cut == (strategy == "single")
        if strategy == "single":
            assert all_unchanged(site(lab, *override))
    assert all_unchanged(site(lab))


BAD_LAYOUTS: dict[str, tuple[Any, tuple[str, ...]]] = {
    "unknown profile": ([{"gpus": "all", "profiles": {"3g.40gb": 2}}], ("3g.40gb", "3g.20gb")),
    "malformed profile": ([{"gpus": "all", "profiles": {"3g20gb": 2}}], ("3g20gb", "profiles")),
    "impossible combination": (
        [{"gpus": [0], "profiles": {"3g.20gb": 2, "1g.5gb": 1}}],
        ("1g.5gb", "no free placement"),
    ),
    "no such GPU": ([{"gpus": [8], "profiles": {"3g.20gb": 2}}], ("8", "layout[0].gpus")),
    "two entries for one GPU": (
        [{"gpus": [0], "profiles": {"3g.20gb": 2}}, {"gpus": "all", "mig": False}],
        ("layout[0]", "layout[1]"),
    ),
    "unknown key": ([{"gpus": "all", "profile": {"3g.20gb": 2}}], ("profile", "layout[0]")),
    "negative count": ([{"gpus": "all", "profiles": {"3g.20gb": -1}}], ("layout[0].profiles", "-1")),
    "not a list": ("all", ("layout",)),
}


@pytest.mark.parametrize("name", BAD_LAYOUTS)
def test_a_bad_layout_is_refused_before_any_host_is_changed(lab: Lab, mixed: Run, name: str) -> None:
    layout, words = BAD_LAYOUTS[name]
    before = lab.nodes()
    # dgx02 alone is wrong, and dgx01 has something to do: it must not have been done.
    overrides = {
        "mig_layout": "{{ bad if inventory_hostname == 'dgx02' else good }}",
        "good": [{"gpus": "all", "profiles": {"7g.40gb": 1}}],
        "bad": layout,
    }
    run = site(lab, "-e", json.dumps(overrides))
    assert run.rc != 0
    for word in words:
        assert word in run.messages(), run.messages()
    assert "dgx02" in run.messages()
    assert lab.nodes() == before


def test_a_strategy_that_contradicts_the_layout_is_refused(lab: Lab, mixed: Run) -> None:
    before = lab.nodes()
    run = site(
        lab,
        "-e",
        json.dumps({"dgx_strategy": "single", "mig_layout": [{"gpus": [0], "profiles": {"7g.40gb": 1}}]}),
    )
    assert run.rc != 0
    assert "strategy single" in run.messages()
    assert lab.nodes() == before


def test_a_gpu_without_mig_is_refused(lab: Lab) -> None:
    before = lab.nodes()
    overrides = {"mig_strategy": "mixed", "mig_layout": [{"gpus": "all", "profiles": {"1g.5gb": 1}}]}
    run = lab.play("playbooks/partition.yml", "-l", "plain", "-e", json.dumps(overrides))
    assert run.rc != 0
    assert "T4" in run.messages()
    assert lab.nodes() == before


def test_an_old_chart_is_refused_before_any_gpu_is_touched(lab: Lab, mixed: Run) -> None:
    need_cluster(lab)
    before = lab.nodes()
    chart = "gpu_releases_device_plugin_chart_ref"
    run = site(
        lab,
        "-e",
        "gpu_releases_version=0.6.0",
        "-e",
        f"{chart}=nvidia-device-plugin",
        "-e",
        "dgx_strategy=single",
    )
    assert run.rc != 0
    assert "0.7.0" in run.messages()
    assert lab.nodes() == before


def test_an_old_driver_is_refused(lab: Lab, mixed: Run) -> None:
    before = lab.nodes()
    run = site(lab, "-e", "mig_minimum_driver=999.0", "-e", "dgx_strategy=single")
    assert run.rc != 0
    assert "999.0" in run.messages()
    assert lab.nodes() == before


def test_an_instance_in_use_is_not_destroyed(lab: Lab, mixed: Run) -> None:
    node = lab.nodes()["dgx01"]
    instance = next(item for item in node["gpus"][7]["instances"])
    lab.command(
        "workload",
        "add",
        "dgx01",
        "--gpu",
        "7",
        "--instance",
        str(instance["id"]),
        "--pod",
        "team-a/train",
        "--process",
        "python",
    )
    try:
        before = lab.nodes()
        run = site(lab, "-e", "dgx_strategy=none")
        assert run.rc != 0
        assert "team-a/train" in run.messages()
        assert "GPU 7" in run.messages()
        assert lab.nodes() == before
        kept = site(lab)
        assert kept.rc == 0, kept.messages()
        assert all_unchanged(kept)
    finally:
        lab.command("workload", "remove", "dgx01", "--gpu", "7", "--instance", str(instance["id"]))


def test_a_node_is_not_rebooted_without_leave(lab: Lab, mixed: Run) -> None:
    """dgx04 applies a MIG mode only by a reboot: without leave the run stops there and says so."""
    run = site(lab, "-e", "dgx_strategy=none", "-e", "mig_reboot_ok=false")
    assert run.rc != 0
    failed = {host for host, counts in run.stats.items() if counts["failures"]}
    assert failed == {"dgx04"}
    assert "mig_reboot_ok" in run.messages()
    allowed = site(lab, "-e", "dgx_strategy=none")
    assert allowed.rc == 0, allowed.messages()
    assert any(result.get("rebooted") for name, host, result in allowed.tasks if host == "dgx04")
    assert not any(result.get("rebooted") for name, host, result in allowed.tasks if host != "dgx04")
    assert site(lab).rc == 0


def test_the_plugin_is_started_anew_where_the_layout_changed(lab: Lab, mixed: Run) -> None:
    """A device plugin looks at the GPUs only when it starts. In the lab pods do not run, but can be there."""
    need_cluster(lab)
    own = "nvidia-device-plugin"
    account = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": "default", "namespace": own},
    }
    lab.kubectl("apply", "-f", "-", stdin=json.dumps(account))
    for node in ("dgx01", "hgx01"):
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"plugin-{node}",
                "namespace": own,
                "labels": {"app.kubernetes.io/name": "nvidia-device-plugin"},
            },
            "spec": {"nodeName": node, "containers": [{"name": "plugin", "image": "plugin"}]},
        }
        lab.kubectl("apply", "-f", "-", stdin=json.dumps(pod))
    nothing_to_do = lab.play("playbooks/partition.yml", "-l", "dgx01")
    assert nothing_to_do.rc == 0, nothing_to_do.messages()
    pods = {pod["metadata"]["name"]: pod for pod in lab.kubectl("get", "pods", "-n", own)["items"]}
    assert not any("deletionTimestamp" in pod["metadata"] for pod in pods.values())
    changed = lab.play("playbooks/partition.yml", "-l", "dgx01", "-e", "dgx_strategy=single")
    assert changed.rc == 0, changed.messages()
    pods = {pod["metadata"]["name"]: pod for pod in lab.kubectl("get", "pods", "-n", own)["items"]}
    assert "plugin-dgx01" not in pods or "deletionTimestamp" in pods["plugin-dgx01"]["metadata"]
    assert "deletionTimestamp" not in pods["plugin-hgx01"]["metadata"]
    lab.kubectl("delete", "pods", "--all", "-n", own, "--force", "--grace-period=0", json=False)
    assert site(lab).rc == 0


def test_verify_fails_when_the_node_is_not_as_wanted(lab: Lab, mixed: Run) -> None:
    good = lab.play("playbooks/verify.yml", "-l", "dgx01")
    assert good.rc == 0, good.messages()
    bad = lab.play(
        "playbooks/verify.yml", "-l", "dgx01", "-e", "dgx_strategy=single", "-e", "mig_verify_timeout=1"
    )
    assert bad.rc != 0
    assert "dgx01" in bad.messages()


def test_the_rest_of_the_fleet(lab: Lab, mixed: Run) -> None:
    """Every GPU model of the lab, and several strategies in one cluster at once."""
    first = site(lab, limit="all")
    assert first.rc == 0, first.messages()
    second = site(lab, limit="all")
    assert second.rc == 0, second.messages()
    assert all_unchanged(second), second.changed()
    if lab.has_cluster:
        assert offered(lab, "hgx01") == {"nvidia.com/gpu": 56}
        assert offered(lab, "a30-01") == {"nvidia.com/mig-1g.6gb": 8, "nvidia.com/mig-2g.12gb": 4}
        assert offered(lab, "t4-01") == {"nvidia.com/gpu": 4}
        assert offered(lab, "dgx01") == MIXED
