# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Values by chart version, and what is refused."""

from __future__ import annotations

import pytest
import yaml
from ansible_collections.nvidia.mig.plugins.module_utils.errors import InputError
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.charts import (
    DEVICE_PLUGIN,
    FEATURE_DISCOVERY,
    default_repository,
    merge,
    release_values,
    warnings,
)
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.selection import (
    Selection,
    config_document,
    select,
)
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.versions import parse_version

MIXED = select("mixed", None, None)
BOTH = select(None, {"single": {"strategy": "single"}, "mixed": {"strategy": "mixed"}}, "mixed")
SHARING = {"timeSlicing": {"renameByDefault": True, "resources": [{"name": "nvidia.com/gpu", "replicas": 4}]}}
DOCUMENTS = {name: f"version: v1\nflags:\n  migStrategy: {name}\n" for name in ("mixed", "single")}


@pytest.mark.parametrize(
    ("chart", "version", "options", "values"),
    [
        (DEVICE_PLUGIN, "0.7.0", {}, {"migStrategy": "mixed", "namespace": "gpu"}),
        (DEVICE_PLUGIN, "0.11.0", {}, {"migStrategy": "mixed", "namespace": "gpu"}),
        (
            DEVICE_PLUGIN,
            "0.12.0",
            {},
            {"migStrategy": "mixed", "gfd": {"enabled": False}, "nfd": {"enabled": False}},
        ),
        (
            DEVICE_PLUGIN,
            "0.17.4",
            {},
            {
                "migStrategy": "mixed",
                "devicePlugin": {"enabled": True},
                "gfd": {"enabled": False},
                "nfd": {"enabled": False},
            },
        ),
        (
            FEATURE_DISCOVERY,
            "0.2.0",
            {"nfd": True, "sleep_interval": 600},
            {"migStrategy": "mixed", "namespace": "gpu", "nfd": {"deploy": True}, "sleepInterval": "600s"},
        ),
        (FEATURE_DISCOVERY, "0.8.2", {"nfd": False}, {"migStrategy": "mixed", "nfd": {"enabled": False}}),
        (
            FEATURE_DISCOVERY,
            "0.20.0",
            {"nfd": True, "sleep_interval": 30},
            {
                "migStrategy": "mixed",
                "devicePlugin": {"enabled": False},
                "gfd": {"enabled": True},
                "nfd": {"enabled": True},
                "sleepInterval": "30s",
            },
        ),
    ],
)
def test_values_by_version(chart, version, options, values):
    assert release_values(chart, version, MIXED, "gpu", **options) == values


@pytest.mark.parametrize("chart", [DEVICE_PLUGIN, FEATURE_DISCOVERY])
def test_configs_exclude_the_plain_strategy(chart):
    values = release_values(chart, "0.17.4", BOTH, "gpu")
    assert "migStrategy" not in values
    assert values["config"] == {"map": DOCUMENTS, "default": "mixed"}


def test_config_document_with_sharing():
    document = config_document({"strategy": "none", "sharing": SHARING})
    assert yaml.safe_load(document) == {"version": "v1", "flags": {"migStrategy": "none"}, "sharing": SHARING}


def test_the_operators_values_are_merged_in():
    extra = {
        "tolerations": [{"operator": "Exists"}],
        "nfd": {"enabled": False, "worker": {"x": 1}},
        "affinity": None,
    }
    values = release_values(DEVICE_PLUGIN, "0.17.4", MIXED, "gpu", extra)
    assert values["nfd"] == {"enabled": False, "worker": {"x": 1}}
    assert values["tolerations"] == [{"operator": "Exists"}]
    assert values["affinity"] is None
    assert extra["nfd"] == {"enabled": False, "worker": {"x": 1}}


def test_early_charts_cannot_write_none_themselves():
    none = select("none", None, None)
    assert release_values(DEVICE_PLUGIN, "0.12.2", none, "gpu")["securityContext"]["capabilities"] == {
        "drop": ["ALL"]
    }
    own = {"securityContext": {"privileged": True}}
    assert release_values(DEVICE_PLUGIN, "0.12.2", none, "gpu", own)["securityContext"] == {
        "privileged": True
    }
    assert "securityContext" not in release_values(DEVICE_PLUGIN, "0.12.2", MIXED, "gpu")
    assert "securityContext" not in release_values(DEVICE_PLUGIN, "0.12.3", none, "gpu")


def test_merge_replaces_lists_and_copies():
    base = {"a": {"b": [1], "c": 2}}
    assert merge(base, {"a": {"b": [3]}}) == {"a": {"b": [3], "c": 2}}
    assert base == {"a": {"b": [1], "c": 2}}


@pytest.mark.parametrize(
    ("chart", "version", "selection", "extra", "path", "word"),
    [
        (DEVICE_PLUGIN, "0.6.0", MIXED, {}, "version", "use 0.7.0 or newer"),
        (DEVICE_PLUGIN, "0.7.0-rc.8", MIXED, {}, "version", "use 0.7.0 or newer"),
        (FEATURE_DISCOVERY, "0.1.0", MIXED, {}, "version", "use 0.2.0 or newer"),
        (DEVICE_PLUGIN, "0.11.0", BOTH, {}, "configs", "use version 0.12.0 or newer"),
        (FEATURE_DISCOVERY, "0.8.2", BOTH, {}, "configs", "use version 0.15.0 or newer"),
        (DEVICE_PLUGIN, "0.17.4", MIXED, {"migStrategy": "none"}, "values.migStrategy", "option strategy"),
        (DEVICE_PLUGIN, "0.17.4", MIXED, {"config": {"name": "x"}}, "values.config.name", "configs"),
        (DEVICE_PLUGIN, "0.17.4", MIXED, {"config": {"map": {"a": "b"}}}, "values.config.map.a", "configs"),
        (DEVICE_PLUGIN, "0.17.4", MIXED, {"namespace": "x"}, "values.namespace", "option namespace"),
        (
            DEVICE_PLUGIN,
            "0.17.4",
            MIXED,
            {"gfd": {"enabled": True}},
            "values.gfd.enabled",
            "contradicts False",
        ),
        (DEVICE_PLUGIN, "0.17.4", MIXED, {"gfd": None}, "values.gfd", "contradicts"),
        (DEVICE_PLUGIN, "0.17.4", MIXED, {"gfd": True}, "values.gfd", "contradicts"),
        (DEVICE_PLUGIN, "0.17.4", MIXED, {"failOnInitError": "false"}, "values.failOnInitError", "boolean"),
        (
            FEATURE_DISCOVERY,
            "0.17.4",
            MIXED,
            {"gfd": {"noTimestamp": True}},
            "values.gfd.noTimestamp",
            "never reads",
        ),
        (DEVICE_PLUGIN, "0.17.4", MIXED, ["a"], "values", "mapping"),
    ],
)
def test_refusals(chart, version, selection, extra, path, word):
    with pytest.raises(InputError) as caught:
        release_values(chart, version, selection, "gpu", extra)
    assert caught.value.path == path
    assert word in str(caught.value)


def test_the_default_namespace():
    with pytest.raises(InputError, match="allowDefaultNamespace"):
        release_values(DEVICE_PLUGIN, "0.12.0", MIXED, "default")
    release_values(DEVICE_PLUGIN, "0.12.0", MIXED, "default", {"allowDefaultNamespace": True})
    release_values(DEVICE_PLUGIN, "0.11.0", MIXED, "default")


@pytest.mark.parametrize(
    ("strategy", "configs", "default", "path"),
    [
        (None, None, None, "strategy"),
        (None, {}, None, "strategy"),
        ("single", {"a": {"strategy": "single"}}, None, "strategy"),
        ("single", None, "a", "default_config"),
        ("both", None, None, "strategy"),
        (None, {"a": {"strategy": "single"}, "b": {"strategy": "none"}}, None, "default_config"),
        (None, {"a": {"strategy": "single"}}, "b", "default_config"),
        (None, {"a b": {"strategy": "single"}}, None, "configs"),
        (None, {7: {"strategy": "single"}}, None, "configs"),
        (None, {"a": "single"}, None, "configs.a"),
        (None, {"a": {"strategy": "single", "flags": {}}}, None, "configs.a"),
        (None, {"a": {}}, None, "configs.a.strategy"),
        (
            None,
            {"a": {"strategy": "mixed", "sharing": {"mps": SHARING["timeSlicing"]}}},
            None,
            "configs.a.sharing.mps",
        ),
    ],
)
def test_selection_refusals(strategy, configs, default, path):
    with pytest.raises(InputError) as caught:
        select(strategy, configs, default)
    assert caught.value.path == path


def test_one_config_is_its_own_default():
    assert select(None, {"a": {"strategy": "single"}}, None).default_config == "a"


def test_repositories():
    plugin, discovery = (
        "https://nvidia.github.io/k8s-device-plugin",
        "https://nvidia.github.io/gpu-feature-discovery",
    )
    assert default_repository(DEVICE_PLUGIN, parse_version("0.7.0")) == plugin
    assert default_repository(FEATURE_DISCOVERY, parse_version("0.8.2")) == discovery
    assert default_repository(FEATURE_DISCOVERY, parse_version("0.15.0")) == plugin


def test_warnings():
    assert "Insufficient Permissions" in warnings(DEVICE_PLUGIN, "0.11.0", MIXED)[0]
    assert warnings(DEVICE_PLUGIN, "0.11.0", Selection("none")) == []
    assert warnings(DEVICE_PLUGIN, "0.12.0", MIXED) == []
    assert "NodeFeature" in warnings(FEATURE_DISCOVERY, "0.19.3", MIXED, nfd=False)[0]
    assert warnings(FEATURE_DISCOVERY, "0.19.3", MIXED, nfd=True) == []
