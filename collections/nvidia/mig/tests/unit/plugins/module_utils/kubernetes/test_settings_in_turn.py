# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts that keep what they have until their turn comes."""

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.nvidia.mig.plugins.filter.release_settings import release_settings
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.selection import config_document

CONFIG = "nvidia.com/device-plugin.config"
PLAIN = {name: {"strategy": name} for name in ("mixed", "none", "single")}
SLICED = {"timeSlicing": {"resources": [{"name": "nvidia.com/gpu", "replicas": 4}]}}


def values(default="mixed", **configs):
    """The values of a release with the plain configs and some more."""
    documents = {
        name: config_document({"sharing": None, **config}) for name, config in {**PLAIN, **configs}.items()
    }
    return {"config": {"map": documents, "default": default}}


def node(name, config=None):
    return {"metadata": {"name": name, "labels": {CONFIG: config} if config else {}}}


def labels(found, key="node_labels"):
    return {host: label[CONFIG] for host, label in found[key].items()}


def test_all_switch_one_after_another():
    hosts = {"a": "single", "b": "single"}
    found = release_settings(
        hosts, {"migStrategy": "none"}, [node("a"), node("b")], None, ["a", "b"], ["a", "b"]
    )
    assert (found["strategy"], found["configs"], found["default_config"]) == (None, PLAIN, "none")
    assert labels(found) == {}  # without a label they keep what they have
    assert labels(found, "switched_labels") == {"a": "single", "b": "single"}


def test_nobody_switches():
    found = release_settings(
        {"a": "none", "b": "none"}, {"migStrategy": "none"}, [node("a"), node("b")], None, ["a", "b"], ["a"]
    )
    assert found["strategy"] == "none"
    assert found["node_labels"] == found["switched_labels"] == {}


def test_a_roll_that_was_interrupted():
    nodes = [node("a", "single"), node("b")]
    found = release_settings({"a": "single", "b": "single"}, values("none"), nodes, None, ["a", "b"], ["b"])
    assert found["configs"] == PLAIN
    assert labels(found, "switched_labels") == {"b": "single"}
    # Either default would do, as long as each keeps its own.
    for host, label in {"a": "single", "b": None}.items():
        assert (labels(found).get(host, label) or found["default_config"]) == {"a": "single", "b": "none"}[
            host
        ]


def test_after_the_roll_the_plain_value_is_enough():
    nodes = [node("a", "single"), node("b", "single")]
    found = release_settings({"a": "single", "b": "single"}, values("none"), nodes)
    assert found["strategy"] == "single"
    assert labels(found) == {"a": None, "b": None}


def test_hosts_outside_the_run_keep_what_they_have():
    """The inventory wants something new of b too, but the run is not about b."""
    nodes = [node("a", "mixed"), node("b", "none"), node("c", "none")]
    found = release_settings(
        {"a": "single", "b": "single", "c": "none"}, values(), nodes, None, kept=["b", "c"]
    )
    assert labels(found) == {"a": "single"}
    assert found["config_by_host"] == {"a": "single", "b": "none", "c": "none"}


def test_a_plain_value_that_splits_names_the_others():
    """From one strategy to two: whoever is kept gets a label where the default would change what it has."""
    found = release_settings(
        {"a": "single", "b": "single"}, {"migStrategy": "none"}, [node("a"), node("b")], None, kept=["b"]
    )
    assert labels(found) == {"a": "single", "b": "none"}
    found = release_settings(
        {"a": "single", "b": "single"}, {"migStrategy": "mixed"}, [node("a"), node("b")], None, kept=["b"]
    )
    assert labels(found) == {"a": "single"}  # mixed is the default


def test_sharing_is_kept_and_switched_to():
    shared = {"strategy": "none", "sharing": SLICED}
    first = release_settings({"a": shared, "b": "none"})
    (name,) = set(first["configs"]) - set(PLAIN)
    deployed = values(**{name: shared})
    nodes = [node("a", name), node("b", "none")]
    wishes = {"a": "none", "b": shared}
    found = release_settings(wishes, deployed, nodes, None, ["a", "b"], ["a", "b"])
    assert found["configs"] == first["configs"]
    assert labels(found) == {}
    assert labels(found, "switched_labels") == {"a": "none", "b": name}


def test_sharing_comes_and_goes_by_label():
    """No strategy and no GPU changes: nodes switch in their turn, and nothing is left of it at the end."""
    nodes = [node("a", "single"), node("b", "mixed")]
    hosts = {"a": "single", "b": {"strategy": "mixed", "sharing": SLICED}}
    during = release_settings(hosts, values(), nodes, None, ["a", "b"], ["a", "b"])
    (name,) = set(during["configs"]) - set(PLAIN)
    assert labels(during) == {}
    assert labels(during, "switched_labels") == {"b": name}
    after = release_settings(hosts, values(**{name: hosts["b"]}), [node("a", "single"), node("b", name)])
    assert after["configs"] == during["configs"]  # so the release is upgraded once

    hosts = {"a": "single", "b": "mixed"}
    nodes = [node("a", "single"), node("b", name)]
    deployed = values(**{name: {"strategy": "mixed", "sharing": SLICED}})
    during = release_settings(hosts, deployed, nodes, None, ["a", "b"], ["a", "b"])
    assert set(during["configs"]) == {*PLAIN, name}
    assert labels(during, "switched_labels") == {"b": "mixed"}
    after = release_settings(hosts, deployed, nodes)
    assert after["configs"] == PLAIN


def test_sharing_that_another_wrote_can_be_refused():
    """A config with keys that the device plugin ignores, and we do not know: it cannot be kept."""
    foreign = "sharing: {timeSlicing: {resources: [{name: gpu, replicas: 2, devices: all}]}}"
    deployed = {"config": {"map": {"x": f"version: v1\nflags: {{migStrategy: none}}\n{foreign}"}}}
    with pytest.raises(AnsibleFilterError, match="config x of the release: sharing.timeSlicing.resources"):
        release_settings({"a": "none"}, deployed, [node("a", "x")], None, ["a"])
    assert release_settings({"a": "none"}, deployed, [node("a", "x")])["strategy"] == "none"


@pytest.mark.parametrize("label", ["gone", None])
def test_a_node_whose_config_is_not_there_gets_what_it_wishes(label):
    deployed = {
        "config": {"map": {"x": config_document({"strategy": "none", "sharing": None})}, "default": "y"}
    }
    found = release_settings({"a": "single"}, deployed, [node("a", label)], None, ["a"], ["a"])
    assert found["strategy"] == "single"


def test_without_a_release_nothing_is_kept():
    nodes = [node("a"), node("b")]
    found = release_settings({"a": "single", "b": "mixed"}, None, nodes, None, ["a", "b"], ["a"])
    assert found == release_settings({"a": "single", "b": "mixed"})


def test_a_host_that_is_no_node_yet_is_not_written_to():
    found = release_settings({"a": "single", "b": "mixed"}, None, [node("a")], None, kept=["b"])
    assert set(found["node_labels"]) == {"a"}


def test_nodes_by_other_names():
    found = release_settings(
        {"a": "single", "b": "mixed"}, values(), [node("node-a", "none")], {"a": "node-a"}, ["a"], ["a"]
    )
    assert found["config_by_host"] == {"a": "none", "b": "mixed"}
    assert labels(found, "switched_labels") == {"a": "single"}


@pytest.mark.parametrize(("version", "strategy"), [("0.11.0", "single"), ("0.12.0", None)])
def test_without_named_configs_all_switch_at_once(version, strategy):
    found = release_settings(
        {"a": "single"}, {"migStrategy": "none"}, [node("a")], None, ["a"], ["a"], version=version
    )
    assert found["strategy"] == strategy
