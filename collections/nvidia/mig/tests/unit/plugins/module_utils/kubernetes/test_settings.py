# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every host's strategy -> one setting, or named configs and node labels."""

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.nvidia.mig.plugins.filter.release_settings import release_settings
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.selection import select

PLAIN = {name: {"strategy": name} for name in ("mixed", "none", "single")}
SLICED = {"timeSlicing": {"resources": [{"name": "nvidia.com/gpu", "replicas": 4}]}}


@pytest.mark.parametrize("strategy", ["none", "single", "mixed"])
def test_one_strategy_is_a_plain_value(strategy):
    found = release_settings({"b": strategy, "a": {"strategy": strategy, "sharing": None}})
    assert found == {
        "strategy": strategy,
        "configs": {},
        "default_config": None,
        "config_by_host": {"a": "", "b": ""},
        "node_labels": {
            host: {"nvidia.com/device-plugin.config": None, "nvidia.com/gpu.present": "true"} for host in "ab"
        },
        "switched_labels": {},
        "stages": [
            {
                "release": {"strategy": strategy, "configs": {}, "default_config": None},
                "labels_before": {host: {"nvidia.com/gpu.present": "true"} for host in "ab"},
                "labels_after": {},
            }
        ],
    }


def test_several_strategies_are_configs():
    found = release_settings({"a": "single", "b": "mixed", "c": "single"})
    assert found["strategy"] is None
    assert found["configs"] == PLAIN
    assert found["default_config"] == "mixed"
    assert found["config_by_host"] == {"a": "single", "b": "mixed", "c": "single"}


def test_a_node_that_switches_needs_a_label_only():
    before = release_settings({"a": "single", "b": "mixed"})
    after = release_settings({"a": "single", "b": "none"})
    assert before["configs"] == after["configs"]
    assert before["default_config"] == after["default_config"]
    assert after["config_by_host"] == {"a": "single", "b": "none"}


def test_sharing_makes_a_config_of_its_own():
    found = release_settings({"a": {"strategy": "single", "sharing": SLICED}, "b": "single"})
    (name,) = set(found["configs"]) - set(PLAIN)
    assert name.startswith("single-time-slicing-gpu-x4-")
    assert found["configs"][name] == {"strategy": "single", "sharing": SLICED}
    assert found["config_by_host"] == {"a": name, "b": "single"}


def test_sharing_beside_the_strategies():
    found = release_settings({"a": "single", "b": "single", "c": "none"}, sharing={"a": SLICED, "b": {}})
    assert found == release_settings(
        {"a": {"strategy": "single", "sharing": SLICED}, "b": "single", "c": "none"}
    )


def test_sharing_written_in_another_way_is_the_same():
    """Or the device plugin of every node would start anew for nothing."""
    other = {"timeSlicing": {"renameByDefault": False, "resources": [{"replicas": 4, "name": "gpu"}]}}
    hosts = {"a": "single", "b": "mixed"}
    assert release_settings(hosts, sharing={"a": other}) == release_settings(hosts, sharing={"a": SLICED})


def test_one_shared_setting_needs_no_labels():
    found = release_settings({"a": {"strategy": "none", "sharing": SLICED}})
    assert found["strategy"] is None
    assert found["default_config"] in found["configs"]
    assert found["config_by_host"] == {"a": ""}


def test_flags_keep_settings_apart():
    renamed = {"timeSlicing": {**SLICED["timeSlicing"], "renameByDefault": True}}
    hosts = {"a": {"strategy": "none", "sharing": SLICED}, "b": {"strategy": "none", "sharing": renamed}}
    found = release_settings(hosts)
    assert len(set(found["config_by_host"].values())) == 2
    assert found == release_settings(dict(reversed(hosts.items())))


def test_long_names_stay_label_values():
    sharing = {
        "timeSlicing": {
            "resources": [{"name": f"nvidia.com/mig-{n}g.80gb", "replicas": 9} for n in range(1, 8)]
        }
    }
    found = release_settings({"a": {"strategy": "mixed", "sharing": sharing}, "b": "none"})
    assert len(found["config_by_host"]["a"]) <= 63


@pytest.mark.parametrize(
    "hosts",
    [
        {"a": "single", "b": "mixed"},
        {"a": "none"},
        {"a": {"strategy": "none", "sharing": SLICED}, "b": "mixed"},
    ],
)
def test_the_modules_take_it(hosts):
    found = release_settings(hosts)
    taken = select(found["strategy"], found["configs"], found["default_config"])
    assert (taken.strategy, taken.default_config) == (found["strategy"], found["default_config"])
    assert list(taken.configs) == list(found["configs"])


@pytest.mark.parametrize(
    ("hosts", "words"),
    [
        ({}, "no host of the inventory"),
        ("dgx01", "a dictionary of hosts"),
        ({"dgx01": "both"}, "dgx01: strategy: 'both' is not a MIG strategy"),
        ({"dgx01": None}, "dgx01: strategy: null"),
        ({"dgx01": {"strategy": "none", "share": {}}}, "dgx01: unknown keys share"),
        ({"dgx01": {"strategy": "none", "sharing": {"mps": {}}}}, "dgx01: sharing.mps.resources"),
        (
            {"dgx01": {"strategy": "mixed", "sharing": {"mps": SLICED["timeSlicing"]}}},
            "dgx01: sharing.mps: MPS does not work with strategy mixed",
        ),
    ],
)
def test_bad_wishes(hosts, words):
    with pytest.raises(AnsibleFilterError, match="nvidia.mig.release_settings") as caught:
        release_settings(hosts)
    assert words in str(caught.value)


@pytest.mark.parametrize(("version", "good"), [("0.11.0", False), ("0.12.0", True)])
def test_sharing_needs_named_configs(version, good):
    hosts = {"dgx01": {"strategy": "none", "sharing": SLICED}}
    if good:
        assert release_settings(hosts, version=version)["configs"]
    else:
        with pytest.raises(AnsibleFilterError, match="dgx01: sharing.timeSlicing.*0.12.0 or newer"):
            release_settings(hosts, version=version)
