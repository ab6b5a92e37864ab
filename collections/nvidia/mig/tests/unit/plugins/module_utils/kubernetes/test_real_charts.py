# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Our values against NVIDIA's own charts, rendered with the real helm.

Runs where NVIDIA_CHARTS_DIR names a folder with released charts (``nvidia-device-plugin-0.17.4.tgz``), in
any depth; the ``gh-pages`` branches of k8s-device-plugin and gpu-feature-discovery are two.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import tarfile

import pytest
import yaml
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.charts import (
    DEVICE_PLUGIN,
    FEATURE_DISCOVERY,
    release_values,
)
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.selection import select
from ansible_collections.nvidia.mig.tests.unit.real_charts import archive

NAMESPACE = "gpu-system"
CONFIGS = {"single": {"strategy": "single"}, "none": {"strategy": "none"}, "mixed": {"strategy": "mixed"}}
PLUGIN_VERSIONS = ["0.7.0", "0.9.0", "0.11.0", "0.12.0", "0.12.2", "0.12.3", "0.13.0", "0.14.5"]
DISCOVERY_VERSIONS = ["0.2.0", "0.3.0", "0.5.0", "0.6.0", "0.7.0", "0.8.2"]
SHARED_VERSIONS = ["0.15.0", "0.16.2", "0.17.4", "0.18.2", "0.19.3", "0.20.0"]
ALL = [
    *((DEVICE_PLUGIN, version) for version in PLUGIN_VERSIONS + SHARED_VERSIONS),
    *((FEATURE_DISCOVERY, version) for version in DISCOVERY_VERSIONS + SHARED_VERSIONS),
]
WITH_CONFIGS = [
    *((DEVICE_PLUGIN, version) for version in PLUGIN_VERSIONS[3:] + SHARED_VERSIONS),
    *((FEATURE_DISCOVERY, version) for version in SHARED_VERSIONS),
]


def helm():
    cached = (
        pathlib.Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "mig-lab" / "bin" / "helm"
    )
    path = shutil.which("helm") or (str(cached) if cached.exists() else None)
    if path is None:
        pytest.skip("no helm in PATH: NVIDIA's charts are not rendered")
    return path


def render(chart, version, values, tmp_path, release="the-release"):
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(values))
    command = [helm(), "template", release, str(archive(chart, version)), "-n", NAMESPACE, "-f", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [document for document in yaml.safe_load_all(done.stdout) if document]


def daemonsets(documents):
    return [document for document in documents if document["kind"] == "DaemonSet"]


def containers(daemonset):
    return daemonset["spec"]["template"]["spec"]["containers"]


def environment(container):
    return {entry["name"]: entry.get("value") for entry in container.get("env", [])}


def main_container(documents, chart):
    (daemonset,) = (
        document
        for document in daemonsets(documents)
        if not document["metadata"]["name"].endswith(
            ("nfd-worker", "node-feature-discovery-worker", "mps-control-daemon")
        )
        and "node-feature-discovery"
        not in document["metadata"]["name"].removesuffix("-gpu-feature-discovery")
    )
    return next(c for c in containers(daemonset) if c["name"] in (f"{chart}-ctr", chart))


def says_strategy(container):
    for argument in container.get("args") or []:
        if argument.startswith("--mig-strategy="):
            return argument.split("=", 1)[1]
    variables = environment(container)
    return variables.get("MIG_STRATEGY", variables.get("GFD_MIG_STRATEGY"))


def defaults(chart, version):
    with tarfile.open(archive(chart, version)) as tar:
        values = yaml.safe_load(tar.extractfile(f"{chart}/values.yaml"))
        metadata = yaml.safe_load(tar.extractfile(f"{chart}/Chart.yaml"))
    conditions = {
        path.strip()
        for dependency in metadata.get("dependencies", [])
        for path in dependency["condition"].split(",")
    }
    return values, conditions


def known(path, values, conditions):
    if ".".join(path) in conditions:
        return True
    for key in path:
        if not isinstance(values, dict) or key not in values:
            return False
        values = values[key]
    return True


def leaves(values, above=()):
    for key, value in values.items():
        if isinstance(value, dict) and above + (key,) != ("config", "map"):
            yield from leaves(value, above + (key,))
        else:
            yield above + (key,)


# The template reads it at the top level, though values.yaml has it under gfd.
READ_ELSEWHERE = {("sleepInterval",)}


@pytest.mark.parametrize(("chart", "version"), ALL)
def test_every_value_is_known_to_the_chart(chart, version):
    values, conditions = defaults(chart, version)
    options = {"nfd": True, "sleep_interval": 30} if chart == FEATURE_DISCOVERY else {}
    ours = [release_values(chart, version, select("mixed", None, None), NAMESPACE, **options)]
    if (chart, version) in WITH_CONFIGS:
        ours.append(release_values(chart, version, select(None, CONFIGS, "mixed"), NAMESPACE, **options))
    unknown = {path for release in ours for path in leaves(release) if not known(path, values, conditions)}
    assert unknown <= READ_ELSEWHERE


@pytest.mark.parametrize(("chart", "version"), ALL)
@pytest.mark.parametrize("strategy", ["none", "single", "mixed"])
def test_strategy_arrives(chart, version, strategy, tmp_path):
    nfd = False if chart == FEATURE_DISCOVERY else None
    values = release_values(chart, version, select(strategy, None, None), NAMESPACE, nfd=nfd)
    documents = render(chart, version, values, tmp_path)
    (daemonset,) = [
        d for d in daemonsets(documents) if not d["metadata"]["name"].endswith("-mps-control-daemon")
    ]
    container = main_container(documents, chart)
    assert says_strategy(container) == strategy
    assert daemonset["metadata"].get("namespace", NAMESPACE) == NAMESPACE
    assert "CONFIG_FILE" not in environment(container)
    if not (chart == DEVICE_PLUGIN and version in PLUGIN_VERSIONS[:3]):
        assert ("NVIDIA_MIG_MONITOR_DEVICES" in environment(container)) == (strategy != "none")


@pytest.mark.parametrize(("chart", "version"), WITH_CONFIGS)
def test_configs_arrive(chart, version, tmp_path):
    nfd = False if chart == FEATURE_DISCOVERY else None
    values = release_values(chart, version, select(None, CONFIGS, "mixed"), NAMESPACE, nfd=nfd)
    documents = render(chart, version, values, tmp_path)
    container = main_container(documents, chart)
    assert says_strategy(container) is None
    assert environment(container)["CONFIG_FILE"] == "/config/config.yaml"
    (config_map,) = (
        d for d in documents if d["kind"] == "ConfigMap" and d["metadata"]["name"].endswith("-configs")
    )
    assert {name: yaml.safe_load(text) for name, text in config_map["data"].items()} == {
        name: {"version": "v1", "flags": {"migStrategy": name}} for name in CONFIGS
    }
    (daemonset,) = [
        d for d in daemonsets(documents) if not d["metadata"]["name"].endswith("-mps-control-daemon")
    ]
    sidecar = next(c for c in containers(daemonset) if c["name"].endswith("-sidecar"))
    assert environment(sidecar)["NODE_LABEL"] == "nvidia.com/device-plugin.config"
    assert environment(sidecar)["DEFAULT_CONFIG"] == "mixed"


@pytest.mark.parametrize("version", SHARED_VERSIONS)
@pytest.mark.parametrize("kind", ["timeSlicing", "mps"])
def test_sharing_arrives(kind, version, tmp_path):
    sharing = {kind: {"resources": [{"name": "nvidia.com/gpu", "replicas": 4}]}}
    configs = {**CONFIGS, "shared": {"strategy": "none", "sharing": sharing}}
    documents = render(
        DEVICE_PLUGIN,
        version,
        release_values(DEVICE_PLUGIN, version, select(None, configs, "mixed"), NAMESPACE),
        tmp_path,
    )
    (config_map,) = (
        d for d in documents if d["kind"] == "ConfigMap" and d["metadata"]["name"].endswith("-configs")
    )
    assert yaml.safe_load(config_map["data"]["shared"])["sharing"] == sharing
    (daemon,) = [d for d in daemonsets(documents) if d["metadata"]["name"].endswith("-mps-control-daemon")]
    # The label that mig_verify expects, and by which the switch of a node finds the pods to end.
    spec = daemon["spec"]["template"]
    assert spec["spec"]["nodeSelector"]["nvidia.com/mps.capable"] == "true"
    for daemonset in daemonsets(documents):
        named = daemonset["spec"]["template"]["metadata"]["labels"]["app.kubernetes.io/name"]
        assert named == DEVICE_PLUGIN


@pytest.mark.parametrize("version", DISCOVERY_VERSIONS + SHARED_VERSIONS)
def test_discovery_brings_nfd_if_told(version, tmp_path):
    names = {}
    for nfd in (False, True):
        values = release_values(FEATURE_DISCOVERY, version, select("mixed", None, None), NAMESPACE, nfd=nfd)
        documents = render(FEATURE_DISCOVERY, version, values, tmp_path)
        names[nfd] = [d["metadata"]["name"] for d in documents if d["kind"] in ("DaemonSet", "Deployment")]
    assert len(names[False]) == 1 or all("discovery" in name or "mps" in name for name in names[False])
    assert len(names[True]) > len(names[False])


@pytest.mark.parametrize("version", DISCOVERY_VERSIONS + SHARED_VERSIONS)
def test_sleep_interval_arrives(version, tmp_path):
    values = release_values(
        FEATURE_DISCOVERY, version, select("none", None, None), NAMESPACE, nfd=False, sleep_interval=600
    )
    container = main_container(render(FEATURE_DISCOVERY, version, values, tmp_path), FEATURE_DISCOVERY)
    assert environment(container)["GFD_SLEEP_INTERVAL"] == "600s"


@pytest.mark.parametrize("version", SHARED_VERSIONS)
def test_what_we_call_unread_is_unread(version, tmp_path):
    values = release_values(FEATURE_DISCOVERY, version, select("none", None, None), NAMESPACE, nfd=False)
    values["gfd"].update({"sleepInterval": "600s", "noTimestamp": True})
    variables = environment(
        main_container(render(FEATURE_DISCOVERY, version, values, tmp_path), FEATURE_DISCOVERY)
    )
    assert not {"GFD_SLEEP_INTERVAL", "GFD_NO_TIMESTAMP"} & set(variables)
