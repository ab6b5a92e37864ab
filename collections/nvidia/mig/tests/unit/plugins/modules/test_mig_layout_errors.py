# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What mig_layout refuses: each time with a precise word, and before anything is changed."""

from __future__ import annotations

import json

import pytest

A100 = "A100-SXM4-40GB"
HALVES = {"gpus": "all", "profiles": {"3g.20gb": 2}}
OFF = {"gpus": "all", "mig": False}
V1 = {"version": "v1"}

# What is wrong -> layout, words of the error.
LAYOUTS = {
    "a profile that the GPU does not offer": (
        [{"gpus": "all", "profiles": {"3g.40gb": 2}}],
        ("GPUs 0-1", "layout[0].profiles.3g.40gb", "A100-SXM4-40GB", "nearest is 3g.20gb"),
    ),
    "not a profile": (
        [{"gpus": "all", "profiles": {"3g20gb": 2}}],
        ("layout[0].profiles.3g20gb", "did you mean 3g.20gb"),
    ),
    "a profile as Kubernetes names it": (
        [{"gpus": 0, "profiles": {"nvidia.com/mig-1g.5gb": 1}}],
        ("did you mean 1g.5gb",),
    ),
    "too many compute slices": (
        [{"gpus": 0, "profiles": {"4c.3g.20gb": 1}}],
        ("4c.3g.20gb", "do not fit into 3"),
    ),
    "a compute instance that the GPU instance does not offer": (
        [{"gpus": 0, "profiles": {"5c.7g.40gb": 1}}],
        ("GPU 0", "5c.7g.40gb", "7g.40gb it offers"),
    ),
    "no room": (
        [{"gpus": [0], "profiles": {"3g.20gb": 2, "1g.5gb": 1}}],
        ("GPU 0", "no free placement for 1g.5gb", "layout[0].profiles"),
    ),
    "too many": ([{"gpus": 0, "profiles": {"7g.40gb": 2}}], ("GPU 0", "at most 1 of 7g.40gb")),
    "two with media engines": (
        [{"gpus": 0, "profiles": {"1g.5gb+me": 2}}],
        ("GPU 0", "1g.5gb+me"),
    ),
    "a GPU that is not there": (
        [{"gpus": [0, 8], "mig": False}],
        ("no GPU 8", "layout[0].gpus", "it has 0 ("),
    ),
    "a UUID that is not there": (
        [{"gpus": "GPU-00000000-0000-0000-0000-000000000000", "mig": False}],
        ("gpu-00000000-0000-0000-0000-000000000000", "layout[0].gpus"),
    ),
    "a bus id that is not there": ([{"gpus": ["0000:ff:00.0"], "mig": False}], ("00000000:ff:00.0",)),
    "not a GPU": ([{"gpus": "first", "mig": False}], ("'first' is not a GPU", "layout[0].gpus")),
    "a negative index": ([{"gpus": -1, "mig": False}], ("layout[0].gpus", "-1")),
    "an empty list of GPUs": ([{"gpus": [], "mig": False}], ("layout[0].gpus", "empty")),
    "two entries for one GPU": (
        [{"gpus": [0], "profiles": {"3g.20gb": 2}}, OFF],
        ("GPU 0", "layout[0]", "layout[1]"),
    ),
    "one GPU named twice": ([{"gpus": [0, "0000:07:00.0"], "mig": False}], ("same GPU", "layout[0].gpus")),
    "filters that fit nothing": (
        [{"gpus": "all", "product": "H100*", "profiles": {"1g.10gb": 7}}],
        ("no entry selects", "H100*", "A100-SXM4-40GB"),
    ),
    "a device id that is none": (
        [{"gpus": "all", "device_id": "A100", "mig": False}],
        ("layout[0].device_id", "0x20B010DE"),
    ),
    "an unknown key": ([{"gpus": "all", "profile": {}}], ("layout[0]", "'profile'", "allowed are")),
    "no GPUs": ([{"profiles": {"3g.20gb": 2}}], ("layout[0]", "gpus is missing")),
    "no profiles": ([{"gpus": "all"}], ("layout[0]", "profiles is missing")),
    "profiles without MIG": (
        [{"gpus": 0, "mig": False, "profiles": {"3g.20gb": 2}}],
        ("layout[0]", "mig: false"),
    ),
    "profiles as a list": ([{"gpus": 0, "profiles": ["3g.20gb"]}], ("layout[0].profiles", "mapping")),
    "a negative count": ([{"gpus": 0, "profiles": {"3g.20gb": -1}}], ("layout[0].profiles.3g.20gb", "-1")),
    "a count of zero": ([{"gpus": 0, "profiles": {"3g.20gb": 0}}], ("layout[0].profiles.3g.20gb", "0")),
    "a count that is no number": (
        [{"gpus": 0, "profiles": {"3g.20gb": "two"}}],
        ("layout[0].profiles.3g.20gb", "'two'"),
    ),
    "half an instance": ([{"gpus": 0, "profiles": {"3g.20gb": 1.5}}], ("layout[0].profiles.3g.20gb", "1.5")),
    "a count of true": ([{"gpus": 0, "profiles": {"3g.20gb": True}}], ("layout[0].profiles.3g.20gb",)),
    "a huge count": ([{"gpus": 0, "profiles": {"1g.5gb": 10**9}}], ("layout[0].profiles.1g.5gb", "64")),
    "one profile in two spellings": (
        [{"gpus": 0, "profiles": {"3g.20gb": 1, "3c.3g.20gb": 1}}],
        ("3g.20gb and 3c.3g.20gb",),
    ),
    "not a list": ("all", ("layout", "list of entries")),
    "a mapping": ({"gpus": "all"}, ("layout", "list of entries")),
    "an entry that is text": (["all"], ("layout[0]", "mapping")),
    "several at once": (
        [{"gpus": 9, "mig": False}, {"gpus": 0, "profiles": {"1g.6gb": 1}}],
        ("2 problems", "no GPU 9", "1g.6gb"),
    ),
}

# What is wrong -> content of the file, name, words of the error.
CONFIGS = {
    "an unknown name": (
        {**V1, "mig-configs": {"all-1g.5gb": [{}]}},
        "all-1g.5g",
        ("did you mean all-1g.5gb",),
    ),
    "an unknown version": ({"version": "v2", "mig-configs": {}}, "x", ("config.version", "v1")),
    "no version": ({"mig-configs": {"x": []}}, "x", ("config.version",)),
    "not a mapping": (["v1"], "x", ("config", "mapping")),
    "text": ("version: v1", "x", ("config", "mapping")),
    "nothing in it": (V1, "x", ("config.mig-configs",)),
    "an empty configuration": ({**V1, "mig-configs": {"x": []}}, "x", ("config.mig-configs.x",)),
    "an entry without devices": (
        {**V1, "mig-configs": {"x": [{"mig-enabled": False}]}},
        "x",
        ("config.mig-configs.x[0]", "devices is missing"),
    ),
    "an unknown key": (
        {**V1, "mig-configs": {"x": [{"devices": "all", "mig-enabled": False, "mode": 1}]}},
        "x",
        ("config.mig-configs.x[0]", "'mode'"),
    ),
    "devices without MIG": (
        {**V1, "mig-configs": {"x": [{"devices": [0], "mig-enabled": False, "mig-devices": {"1g.5gb": 1}}]}},
        "x",
        ("config.mig-configs.x[0].mig-devices", "mig-enabled: false"),
    ),
    "a negative count": (
        {**V1, "mig-configs": {"x": [{"devices": [0], "mig-enabled": True, "mig-devices": {"1g.5gb": -7}}]}},
        "x",
        ("config.mig-configs.x[0].mig-devices.1g.5gb", "-7"),
    ),
    "an impossible combination": (
        {**V1, "mig-configs": {"x": [{"devices": [1], "mig-enabled": True, "mig-devices": {"4g.20gb": 2}}]}},
        "x",
        ("GPU 1", "4g.20gb"),
    ),
    "a GPU that is not there": (
        {**V1, "mig-configs": {"x": [{"devices": [5], "mig-enabled": False}]}},
        "x",
        ("no GPU 5", "config.mig-configs.x[0].devices"),
    ),
}

# Strategy -> layout, words of the error.
STRATEGIES = {
    "single with two profiles": (
        "single",
        [{"gpus": "all", "profiles": {"3g.20gb": 1, "1g.5gb": 1}}],
        ("one profile",),
    ),
    "single with MIG on half of the GPUs": ("single", [{"gpus": 0, "profiles": {"1g.5gb": 7}}], ("GPU 1",)),
    "single without instances": ("single", [{"gpus": "all", "profiles": {}}], ("GPUs 0-1", "none")),
    "single without MIG": ("single", [OFF], ("strategy single",)),
    "none with MIG": ("none", [HALVES], ("strategy none", "GPUs 0-1")),
}


def refuse(host, check, **options):
    """The error's text; nothing was changed, nor was it tried."""
    before = host.gpus()
    host.reset_calls()
    msg = host.run("mig_layout", check=check, fails=True, **options).msg
    assert host.gpus() == before
    assert not host.changing_calls()
    assert host.run("mig_layout", state="planned", fails=True, **options).msg == msg
    return msg


@pytest.fixture
def host(make_host):
    """Two GPUs, of which one has something to lose."""
    return make_host(A100, 2, initial=[{"gpus": [0], "instances": ["7g.40gb"]}])


@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize("case", LAYOUTS)
def test_a_bad_layout(host, case, check):
    layout, words = LAYOUTS[case]
    msg = refuse(host, check, layout=layout)
    for word in words:
        assert word in msg, msg


@pytest.mark.parametrize("case", CONFIGS)
def test_a_bad_mig_parted_file(host, case):
    config, name, words = CONFIGS[case]
    msg = refuse(host, False, config=config, config_name=name)
    for word in words:
        assert word in msg, msg


@pytest.mark.parametrize("case", STRATEGIES)
def test_a_strategy_that_contradicts_the_layout(host, case):
    strategy, layout, words = STRATEGIES[case]
    msg = refuse(host, False, layout=layout, strategy=strategy)
    for word in ("strategy", *words):
        assert word in msg, msg


def test_the_strategy_looks_at_the_gpus_that_the_layout_leaves_alone(host):
    msg = refuse(host, False, layout=[{"gpus": 1, "profiles": {"1g.5gb": 7}}], strategy="single")
    assert "7g.40gb" in msg
    assert host.layout({"gpus": 1, "profiles": {"7g.40gb": 1}}, strategy="single").complete


def test_sharing_that_the_layout_does_not_offer(host):
    """Found before anything is changed: the device plugin would pass over it."""
    both = {"layout": [HALVES], "strategy": "mixed", "chart_version": "0.17.4"}
    wrong = {"timeSlicing": {"resources": [{"name": "nvidia.com/mig-1g.5gb", "replicas": 2}]}}
    msg = refuse(host, False, sharing=wrong, **both)
    assert "sharing.timeSlicing.resources: the node's layout and strategy never offer" in msg
    assert "they offer nvidia.com/mig-3g.20gb" in msg
    mps = {"mps": {"resources": [{"name": "nvidia.com/mig-3g.20gb", "replicas": 2}]}}
    assert "sharing.mps: MPS does not work with strategy mixed" in refuse(host, False, sharing=mps, **both)
    right = {"timeSlicing": {"resources": [{"name": "nvidia.com/mig-3g.20gb", "replicas": 2}]}}
    assert host.run("mig_layout", sharing=right, **both).complete


def test_a_layout_that_only_some_charts_refuse(host):
    partial = {"layout": [{"gpus": "all", "profiles": {"1c.2g.10gb": 2}}], "strategy": "mixed"}
    assert "0.20.0 exits" in refuse(host, False, chart_version="0.20.0", **partial)
    assert host.run("mig_layout", chart_version="0.17.4", **partial).complete


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, ("layout", "config")),
        ({"layout": [], "sharing": {"timeSlicing": {}}}, ("strategy", "chart_version")),
        ({"layout": [], "config": {}, "config_name": "x"}, ("mutually exclusive",)),
        ({"config": {}}, ("config_name",)),
        ({"layout": [], "strategy": "both"}, ("strategy", "none, single, mixed")),
        ({"layout": [], "state": "absent"}, ("state",)),
        ({"layout": [], "minimum_driver": "newest"}, ("minimum_driver", "'newest'")),
        ({"layout": [HALVES], "minimum_driver": "999.0"}, ("minimum_driver", "999.0", "580.95.05")),
    ],
)
def test_bad_options(host, options, words):
    before = host.gpus()
    msg = host.run("mig_layout", fails=True, **options).msg
    for word in words:
        assert word in msg, msg
    assert host.gpus() == before


def test_a_gpu_without_mig(make_host):
    host = make_host([A100, "T4-16GB"])
    msg = refuse(host, False, layout=[{"gpus": [0, 1], "profiles": {"1g.5gb": 7}}])
    assert "GPU 1" in msg
    assert "T4 cannot do MIG" in msg
    assert host.layout(HALVES, {"gpus": 1, "mig": False}).complete
    plain = make_host("T4-16GB", 2)
    assert "no GPU of this host can do MIG (Tesla T4)" in refuse(plain, False, layout=[HALVES])
    assert not plain.layout(OFF).changed


@pytest.mark.parametrize(
    ("model", "driver", "profiles", "words"),
    [
        (A100, "440.33.01", {"1g.5gb": 7}, ("minimum_driver", "440.33.01", "450.80.02")),
        ("A30-24GB", "450.80.02", {"1g.6gb": 4}, ("460.73.01", "A30", "layout[0]")),
        ("H100-SXM5-80GB", "515.105.01", {"1g.10gb": 7}, ("525.85.12", "H100")),
        ("H200-141GB", "535.161.07", {"1g.18gb": 7}, ("550.90.07", "H200")),
        (A100, "470.57.02", {"4g.20gb": 1, "3g.20gb": 1}, ("510", "4-slice")),
    ],
)
def test_a_driver_that_is_too_old(make_host, model, driver, profiles, words):
    host = make_host(model, 1, driver=driver)
    msg = refuse(host, False, layout=[{"gpus": 0, "profiles": profiles}])
    for word in words:
        assert word in msg, msg


def test_a_user_who_is_not_root(host):
    msg = host.layout(HALVES, euid=1000, fails=True).msg
    assert "become: true" in msg


def test_a_node_without_gpus_or_driver(host, tmp_path):
    answer = host.server.ask(
        {"module": "mig_layout", "args": {"layout": [HALVES]}, "env": {"MIG_SIM_NODE": ""}}
    )
    assert "Driver Not Loaded" in json.loads(answer["out"])["msg"]


def test_a_checkpoint_that_is_none(host):
    host.node.checkpoint.write_text("{}")
    msg = refuse(host, False, layout=[HALVES])
    assert "kubelet_checkpoint" in msg
