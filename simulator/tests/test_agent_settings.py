"""The agent reads DaemonSets and ConfigMaps as the pods of NVIDIA's charts would."""

from __future__ import annotations

import pytest
from miglab.agent.settings import RefusedError, Settings, Shared, WaitingError, component, read_settings

KEY = ("nvidia", "nvidia-device-plugin-configs")
SINGLE = "version: v1\nflags: {migStrategy: single}\n"
SLICES = "sharing: {{timeSlicing: {{renameByDefault: true, resources: [{}]}}}}"
MIXED = "version: v1\nflags:\n  migStrategy: mixed\n"


def daemon_set(
    env=None, *, program="nvidia-device-plugin", image="x/k8s-device-plugin:v0.17.4", default=None, **more
):
    """``default``: None for no named configurations, else the value of config.default."""
    container = {"name": f"{program}-ctr", "image": image, "command": [program], **more}
    container["env"] = [{"name": name, "value": value} for name, value in (env or {}).items()]
    pod = {"containers": [container]}
    if default is not None:
        container["env"].append({"name": "CONFIG_FILE", "value": "/config/config.yaml"})
        manager = {"DEFAULT_CONFIG": default, "FALLBACK_STRATEGIES": "named,single"}
        pod["initContainers"] = [
            {
                "name": "init",
                "command": ["config-manager"],
                "env": [{"name": name, "value": value} for name, value in manager.items()],
            }
        ]
        pod["volumes"] = [{"name": "available-configs", "configMap": {"name": KEY[1]}}]
    return {"metadata": {"namespace": KEY[0], "name": "ds"}, "spec": {"template": {"spec": pod}}}


def node(config=None):
    return {
        "metadata": {"name": "n1", "labels": {"nvidia.com/device-plugin.config": config} if config else {}}
    }


def read(workload, label=None, **configs):
    maps = {KEY: {"data": configs}} if configs else {}
    return read_settings(workload, node(label), maps)


@pytest.mark.parametrize("program", ["nvidia-device-plugin", "gpu-feature-discovery"])
def test_the_strategy_is_in_the_environment(program):
    assert component(daemon_set(program=program)) == program
    assert read(daemon_set({"MIG_STRATEGY": "mixed"}, program=program)).strategy == "mixed"
    assert read(daemon_set(program=program)) == Settings("none", (0, 17, 4))


def test_other_daemon_sets_are_none_of_ours():
    assert component(daemon_set(program="mps-control-daemon")) is None


def test_the_version_is_the_image_s():
    assert read(daemon_set(image="nvcr.io/nvidia/k8s-device-plugin:v0.20.0-ubi9")).version == (0, 20, 0)
    assert read(daemon_set(image="mirror:5000/plugin@sha256:00")).version == (0, 17, 4)


def test_charts_before_0_12_pass_arguments():
    assert read(daemon_set(args=["--mig-strategy=single", "--fail-on-init-error=true"])).strategy == "single"


def test_gpu_feature_discovery_s_first_charts_have_a_variable_of_their_own():
    assert (
        read(daemon_set({"GFD_MIG_STRATEGY": "mixed"}, program="gpu-feature-discovery")).strategy == "mixed"
    )


def test_an_unknown_strategy_ends_the_pod():
    with pytest.raises(RefusedError, match="unknown MIG strategy: bogus"):
        read(daemon_set({"MIG_STRATEGY": "bogus"}))


@pytest.mark.parametrize(
    ("label", "default", "configs", "chosen", "strategy"),
    [
        ("b", "a", {"a": SINGLE, "b": MIXED}, "b", "mixed"),
        (None, "a", {"a": SINGLE, "b": MIXED}, "a", "single"),
        (None, "", {"default": MIXED, "b": SINGLE}, "default", "mixed"),
        (None, "", {"only": SINGLE}, "only", "single"),
    ],
)
def test_a_named_configuration_is_chosen(label, default, configs, chosen, strategy):
    found = read(daemon_set(default=default), label, **configs)
    assert (found.config, found.strategy) == (chosen, strategy)


@pytest.mark.parametrize(
    ("label", "default", "configs", "words"),
    [
        ("c", "a", {"a": SINGLE}, "specified config c does not exist"),
        (None, "z", {"a": SINGLE}, "specified config z does not exist"),
        (None, "", {"a": SINGLE, "b": MIXED}, "all fallbacks failed"),
        (None, "a", {"a": "version: v2"}, "unknown version: v2"),
        (None, "a", {"a": "{"}, "not YAML"),
        (
            None,
            "a",
            {"a": "version: v1\n" + SLICES.format("{name: gpu, replicas: 1}")},
            ">= 2",
        ),
    ],
)
def test_a_configuration_that_ends_the_pod(label, default, configs, words):
    with pytest.raises(RefusedError, match=words):
        read(daemon_set(default=default), label, **configs)


def test_without_its_config_map_the_pod_does_not_start():
    with pytest.raises(WaitingError, match="nvidia-device-plugin-configs"):
        read(daemon_set(default="a"))


def test_the_environment_overrides_the_file():
    assert read(daemon_set({"MIG_STRATEGY": "none"}, default="a"), a=MIXED).strategy == "none"


def test_sharing_comes_from_the_file():
    text = (
        "version: v1\nsharing: {timeSlicing: {renameByDefault: true, resources: [{name: gpu, replicas: 4}]}}"
    )
    found = read(daemon_set(default="a"), a=text)
    assert (found.sharing, found.shared) == ("time-slicing", (Shared("nvidia.com/gpu", 4),))
    assert found.rename_by_default
