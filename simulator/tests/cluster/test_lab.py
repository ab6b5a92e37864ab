"""Real helm, real kube-apiserver, simulated nodes: the nodes offer what the seeds' outputs show."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import time

import pytest
import yaml
from miglab import control, paths

PLUGIN, DISCOVERY = "nvidia-device-plugin", "gpu-feature-discovery"
GPU = "nvidia.com/gpu"
ALL_3G = {gpu: ["3g.20gb", "3g.20gb"] for gpu in range(8)}
SMALL = ["3g.20gb", "2g.10gb", "1g.5gb"]
MIXED_NODE = {5: SMALL, 6: SMALL, 7: ["2g.10gb", "2g.10gb"]}
MIXED_OFFER = {GPU: 5, "nvidia.com/mig-1g.5gb": 2, "nvidia.com/mig-2g.10gb": 4, "nvidia.com/mig-3g.20gb": 2}


def deploy(lab, strategy, *more, charts=(PLUGIN, DISCOVERY)):
    for chart in charts:
        lab.helm("upgrade", "--install", "--create-namespace", "--wait", "--timeout", "120s", chart,
                 str(lab.chart(chart)), "--set", f"migStrategy={strategy}", *more)  # fmt: skip


def daemon_set(lab, name):
    return lab.api.get(f"/apis/apps/v1/namespaces/nvidia-device-plugin/daemonsets/{name}")


def test_none(lab):
    deploy(lab, "none")
    assert {name: lab.offers(name) for name in ("dgx01", "dgx02", "t4-01")} == {
        "dgx01": {GPU: 8},
        "dgx02": {GPU: 8},
        "t4-01": {GPU: 4},
    }
    labels = lab.labels("dgx01")
    assert (labels["gpu.count"], labels["gpu.product"]) == ("8", "NVIDIA-A100-SXM4-40GB")
    assert "mig.strategy" not in labels
    assert lab.labels("t4-01")["mig.capable"] == "false"


def test_single(lab):
    lab.partition("dgx01", ALL_3G)
    lab.partition("dgx02", {gpu: ["1g.5gb"] * 7 for gpu in range(8)})
    deploy(lab, "single")
    assert lab.offers("dgx01") == {GPU: 16}
    assert lab.offers("dgx02") == {GPU: 56}
    labels = lab.labels("dgx01")
    assert labels["gpu.product"] == "NVIDIA-A100-SXM4-40GB-MIG-3g.20gb"
    assert {
        name: labels[f"gpu.{name}"] for name in ("count", "multiprocessors", "slices.gi", "slices.ci")
    } == {
        "count": "16",
        "multiprocessors": "42",
        "slices.gi": "3",
        "slices.ci": "3",
    }
    assert labels["mig.strategy"] == "single"


def test_mixed(lab):
    lab.partition("dgx01", MIXED_NODE)
    deploy(lab, "mixed")
    assert lab.offers("dgx01") == MIXED_OFFER
    labels = lab.labels("dgx01")
    assert {name: value for name, value in labels.items() if name.endswith(".count")} == {
        "gpu.count": "8",
        "mig-1g.5gb.count": "2",
        "mig-2g.10gb.count": "4",
        "mig-3g.20gb.count": "2",
    }
    assert labels["gpu.product"] == "NVIDIA-A100-SXM4-40GB"
    assert labels["mig-3g.20gb.engines.decoder"] == "2"


def test_a_change_of_the_layout_shows_within_seconds(lab):
    deploy(lab, "mixed")
    assert lab.offers("dgx01") == {GPU: 8}
    lab.partition("dgx01", MIXED_NODE)
    lab.wait_for("dgx01", MIXED_OFFER)
    control.reboot(paths.node_state("dgx01"))  # takes the instances, and leaves the mode
    lab.wait_for("dgx01", {GPU: 5})
    assert lab.node("dgx01")["status"]["capacity"]["nvidia.com/mig-3g.20gb"] == "0"


def test_named_configurations_are_chosen_by_node_label(lab):
    lab.partition("dgx01", ALL_3G)
    lab.partition("dgx02", MIXED_NODE)
    configs = {name: f"version: v1\nflags:\n  migStrategy: {name}\n" for name in ("none", "single", "mixed")}
    values = lab.directory / "values.yaml"
    values.write_text(yaml.safe_dump({"config": {"map": configs, "default": "none"}}))
    for name, config in (("dgx01", "single"), ("dgx02", "mixed")):
        label = {"metadata": {"labels": {"nvidia.com/device-plugin.config": config}}}
        lab.api.patch(f"/api/v1/nodes/{name}", label)
    for chart in (PLUGIN, DISCOVERY):
        lab.helm("install", "--create-namespace", "--wait", "--timeout", "120s", chart,
                 str(lab.chart(chart)), "--values", str(values))  # fmt: skip
    assert lab.offers("dgx01") == {GPU: 16}
    assert lab.offers("dgx02") == MIXED_OFFER
    assert lab.offers("t4-01") == {GPU: 4}
    assert [lab.labels(name).get("mig.strategy") for name in ("dgx01", "dgx02", "t4-01")] == [
        "single",
        "mixed",
        None,
    ]
    lab.api.patch(
        "/api/v1/nodes/dgx01", {"metadata": {"labels": {"nvidia.com/device-plugin.config": "mixed"}}}
    )
    lab.wait_for("dgx01", {"nvidia.com/mig-3g.20gb": 16})


def test_a_refusing_plugin_is_not_ready_and_helm_s_wait_fails(lab):
    lab.partition("dgx01", MIXED_NODE)
    done = lab.helm("install", "--create-namespace", "--wait", "--timeout", "3s", PLUGIN,
                    str(lab.chart(PLUGIN)), "--set", "migStrategy=single", check=False)  # fmt: skip
    assert done.returncode != 0
    status = daemon_set(lab, PLUGIN)["status"]
    assert (status["desiredNumberScheduled"], status["numberReady"]) == (3, 2)
    assert lab.offers("dgx01") == {}
    reason = lab.node("dgx01")["metadata"]["annotations"]["mig-lab/nvidia-device-plugin-error"]
    assert "more than one MIG device type present on node" in reason


def test_without_releases_nothing_is_left(lab):
    lab.partition("dgx01", ALL_3G)
    deploy(lab, "single")
    assert lab.labels("dgx01")
    for release in (PLUGIN, DISCOVERY):
        lab.helm("uninstall", release, "--wait")
    lab.wait_for("dgx01", {})
    deadline = time.monotonic() + 60
    while lab.labels("dgx01"):  # GFD's, which may go after what the plugin offers
        assert time.monotonic() < deadline, lab.labels("dgx01")
        time.sleep(0.1)
    assert lab.node("dgx01")["status"]["allocatable"][GPU] == "0"


def test_sync_is_one_pass_and_says_what_it_did(lab):
    assert lab.mig_lab("agent", "sync").stdout == "nothing to do\n"
    assert lab.mig_lab("agent", "start").stdout == "the agent runs already\n"


def test_up_twice_and_the_kubeconfig(lab):
    assert "is up already" in lab.mig_lab("cluster", "up").stdout
    assert "Kubernetes v1." in lab.mig_lab("cluster", "status").stdout
    assert stat.S_IMODE(lab.kubeconfig.stat().st_mode) == 0o600
    anonymous = {**lab.environment, "KUBECONFIG": os.devnull}
    config = yaml.safe_load(lab.kubeconfig.read_text())
    server = config["clusters"][0]["cluster"]["server"]
    code = (
        f"import ssl,urllib.request as u; u.urlopen('{server}/api', context=ssl._create_unverified_context())"
    )
    done = subprocess.run(["python3", "-c", code], env=anonymous, capture_output=True, text=True, check=False)
    assert "401" in done.stderr


def test_the_charts_of_the_lab_differ_only_in_their_switches(lab):
    values = [yaml.safe_load((lab.chart(name) / "values.yaml").read_text()) for name in (PLUGIN, DISCOVERY)]
    assert [(each["devicePlugin"].pop("enabled"), each["gfd"].pop("enabled")) for each in values] == [
        (True, False),
        (False, True),
    ]
    assert values[0] == values[1]
    for name in (PLUGIN, DISCOVERY):
        shown = lab.helm("show", "chart", str(lab.chart(name))).stdout
        assert "stand-in" in yaml.safe_load(shown)["description"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--set", "config.name=a,config.map.b=c"], "Only one of 'config.name' or 'config.map'"),
        (["--set", "config.map.a=b,config.map.c=d"], "A default config must be provided"),
        (["--set", "namespace=x"], "no longer supported"),
    ],
)
def test_the_charts_refuse_what_nvidia_s_refuse(lab, arguments, words):
    done = lab.helm("template", "x", str(lab.chart(PLUGIN)), *arguments, check=False)
    assert done.returncode != 0
    assert words in done.stderr


def test_the_charts_leave_out_a_value_of_the_wrong_type(lab):
    for text, expected in (("--set", ["false"]), ("--set-string", [])):
        shown = lab.helm("template", "x", str(lab.chart(PLUGIN)), text, "failOnInitError=false").stdout
        plugin = next(
            each for each in yaml.safe_load_all(shown) if each["metadata"]["name"].endswith("plugin")
        )
        env = plugin["spec"]["template"]["spec"]["containers"][0]["env"]
        assert [each["value"] for each in env if each["name"] == "FAIL_ON_INIT_ERROR"] == expected


def test_the_agent_comes_back_after_the_api_was_away(lab):
    deploy(lab, "mixed")
    lab.mig_lab("cluster", "down")
    assert not lab.kubeconfig.exists()
    lab.partition("dgx01", MIXED_NODE)
    time.sleep(0.5)
    lab.mig_lab("cluster", "up")
    lab.wait_for("dgx01", MIXED_OFFER)
    assert json.loads((lab.directory / "cluster" / "ports.json").read_text())
