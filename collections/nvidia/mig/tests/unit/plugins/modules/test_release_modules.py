# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""device_plugin_release and gfd_release against the real helm and a real Kubernetes API."""

from __future__ import annotations

import functools
import http.server
import os
import pathlib
import socket
import threading
import time

import pytest
from ansible_collections.nvidia.mig.plugins.module_utils.errors import ClusterError
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes import api, helm
from ansible_collections.nvidia.mig.tests.unit.plugins.modules.kubernetes_support import (
    make_chart,
    run_module,
    start_cluster,
)

PLUGIN = "nvidia-device-plugin"
DISCOVERY = "gpu-feature-discovery"
NOWHERE = (
    "{apiVersion: v1, kind: Config, clusters: [{name: c, cluster: {server: 'https://127.0.0.1:9'}}], "
    "contexts: [{name: c, context: {cluster: c, user: u}}], current-context: c, "
    "users: [{name: u, user: {token: very-secret-token}}]}"
)
HOOK = """\
apiVersion: batch/v1
kind: Job
metadata:
  name: never-runs
  annotations: {helm.sh/hook: pre-upgrade}
spec:
  template:
    spec: {restartPolicy: Never, containers: [{name: c, image: nowhere.invalid/none}]}
"""


@pytest.fixture(scope="module")
def started(tmp_path_factory):
    yield from start_cluster(tmp_path_factory.mktemp("cluster"))


@pytest.fixture
def cluster(started):
    yield started
    started.clear()


@pytest.fixture
def release(cluster, capsys, tmp_path):
    """Run device_plugin_release with a chart of its own; options override."""
    chart = make_chart(tmp_path, PLUGIN, "0.17.4")
    common = {
        "chart_ref": chart,
        "namespace": "gpu",
        "wait": False,
        "kubeconfig": str(cluster.kubeconfig),
        "binary_path": cluster.helm_binary,
    }

    def run(check=False, module="device_plugin_release", **options):
        return run_module(capsys, module, check, **{**common, **options})

    return run


def other_chart(tmp_path, version, **options):
    return make_chart(tmp_path / "other", PLUGIN, version, **options)


def test_install_repeat_change_remove(release, cluster):
    steps = [
        ({"strategy": "single"}, True, 1, "install release"),
        ({"strategy": "single"}, False, 1, None),
        ({"strategy": "mixed"}, True, 2, "values migStrategy"),
        (
            {"strategy": "mixed", "values": {"affinity": None, "n": 1.0, "l": ["a b", "'"]}},
            True,
            3,
            "values affinity, l, n",
        ),
        ({"strategy": "mixed", "values": {"affinity": None, "n": 1.0, "l": ["a b", "'"]}}, False, 3, None),
        ({"strategy": "mixed"}, True, 4, "values affinity, l, n"),
    ]
    for options, changed, revision, words in steps:
        predicted = release(check=True, **options)
        planned = release(state="planned", **options)
        done = release(**options)
        assert (predicted["changed"], done["changed"], planned["changed"]) == (changed, changed, False)
        assert predicted["actions"] == done["actions"] == planned["actions"]
        assert predicted["diff"] == done["diff"]
        assert bool(done["commands"]) == changed
        assert done["release"]["revision"] == revision
        assert done["release"]["status"] == "deployed"
        assert [words in action for action in done["actions"]] == [True] * changed
    assert cluster.helm("get", "values", PLUGIN, "-n", "gpu", "-o", "json") == done["release"]["user_values"]
    assert release(check=True, state="absent")["changed"]
    assert release(state="absent")["changed"]
    again = release(state="absent")
    assert (again["changed"], again["release"]["status"]) == (False, "absent")
    assert cluster.releases() == []


def test_configs_and_back(release):
    configs = {"single": {"strategy": "single"}, "mixed": {"strategy": "mixed"}}
    release(strategy="single")
    done = release(configs=configs, default_config="mixed")
    assert done["actions"][0].endswith("values config, migStrategy")
    assert done["release"]["user_values"]["config"]["default"] == "mixed"
    assert not release(configs=dict(reversed(configs.items())), default_config="mixed")["changed"]
    assert release(strategy="none")["release"]["user_values"]["migStrategy"] == "none"


def test_upgrade_and_downgrade(release, tmp_path):
    release(strategy="none")
    newer = other_chart(tmp_path, "0.20.0")
    assert release(strategy="none", chart_ref=newer)["actions"] == [
        "upgrade release nvidia-device-plugin in namespace gpu: chart 0.17.4 -> 0.20.0"
    ]
    assert "chart 0.20.0 -> 0.17.4" in release(strategy="none")["actions"][0]


def test_a_generated_name_is_adopted(release, cluster, tmp_path):
    old = other_chart(tmp_path, "0.7.0")
    # As the guides had it: no namespace for helm, and the chart's own for its objects.
    values = "migStrategy=none,runtimeClassName=nvidia,namespace=kube-system"
    cluster.helm("install", "--generate-name", old, "--set", values)
    (generated,) = cluster.releases()
    refused = release(strategy="single", adopt=False)
    assert refused.failed and generated["name"] in refused["msg"]
    predicted = release(check=True, strategy="single")
    done = release(strategy="single")
    assert predicted["actions"] == done["actions"]
    assert (done["release"]["name"], done["release"]["adopted"]) == (generated["name"], True)
    assert done["release"]["namespace"] == "default"
    assert done["release"]["user_values"]["allowDefaultNamespace"] is True
    assert "runtimeClassName" in done.warnings
    assert done["release"]["user_values"]["runtimeClassName"] == "nvidia"
    assert "namespace" not in done["release"]["user_values"]
    assert len(cluster.releases()) == 1
    assert not release(strategy="single")["changed"]
    assert release(state="absent")["changed"] and cluster.releases() == []


def test_two_releases_are_reported(release, cluster, tmp_path):
    chart = other_chart(tmp_path, "0.17.4")
    for name in ("one", "two"):
        cluster.helm("install", name, chart, "-n", name, "--create-namespace")
    for state in ("present", "absent"):
        done = release(strategy="none", state=state)
        assert done.failed
        assert "2 releases" in done["msg"] and "helm uninstall two -n two" in done["msg"]
    assert len(cluster.releases()) == 2


def test_a_taken_name(release, cluster, tmp_path):
    cluster.helm("install", PLUGIN, make_chart(tmp_path, "nginx", "1.0.0"), "-n", "gpu", "--create-namespace")
    assert "name is taken" in release(strategy="none")["msg"]


def test_the_gpu_operator(release, cluster, tmp_path):
    operator = make_chart(tmp_path, "gpu-operator", "v25.3.0")
    cluster.helm("install", "op", operator, "-n", "op", "--create-namespace")
    assert "GPU Operator runs this component already" in release(strategy="none")["msg"]
    cluster.helm("upgrade", "op", operator, "-n", "op", "--set", "devicePlugin.enabled=false")
    assert not release(strategy="none").failed


def test_a_failed_upgrade_is_rolled_back(release, cluster, tmp_path):
    broken = other_chart(tmp_path, "0.20.0", extra=HOOK)
    release(strategy="single")
    failed = release(strategy="none", chart_ref=broken, wait_timeout=1)
    assert failed.failed and "helm upgrade failed" in failed["msg"]
    assert "the release was rolled back to revision 1" in failed["msg"]
    assert failed["changed"] and failed["actions"] and failed["commands"]
    (found,) = cluster.releases()
    assert (found["status"], found["chart"]) == ("deployed", f"{PLUGIN}-0.17.4")
    assert not release(strategy="single")["changed"]
    assert not release(strategy="none").failed


def test_a_failed_installation_leaves_nothing(release, cluster, tmp_path):
    broken = make_chart(tmp_path / "b", PLUGIN, "0.17.4", extra=HOOK.replace("pre-upgrade", "post-install"))
    failed = release(strategy="none", chart_ref=broken, wait_timeout=1, hooks=False)
    assert failed.failed and "what it had made was removed again" in failed["msg"]
    assert cluster.releases() == []
    assert not release(strategy="none").failed


def test_what_cannot_be_undone_is_told_and_repaired_later(release, tmp_path, monkeypatch):
    def refuse(*_):
        raise ClusterError("helm rollback failed: Error: no way back")

    broken = other_chart(tmp_path, "0.20.0", extra=HOOK)
    release(strategy="none")
    with monkeypatch.context() as patched:
        patched.setattr(helm.Helm, "rollback", refuse)
        failed = release(strategy="single", chart_ref=broken, wait_timeout=1)
    for words in (
        "could not be undone, which takes: helm rollback nvidia-device-plugin 1 -n gpu",
        "no way back",
    ):
        assert words in failed["msg"]
    repaired = release(strategy="none")
    assert "the last attempt is failed" in repaired["actions"][0]
    assert repaired["release"]["status"] == "deployed"


def test_a_busy_release(release, cluster):
    release(strategy="none")
    api = cluster.api()
    from kubernetes import client

    secrets = client.CoreV1Api(api)
    (secret,) = secrets.list_namespaced_secret("gpu", label_selector=f"owner=helm,name={PLUGIN}").items
    secrets.delete_namespaced_secret(secret.metadata.name, "gpu")
    _set_status(secret, "pending-upgrade")
    secrets.create_namespaced_secret("gpu", secret)
    done = release(strategy="single")
    assert done.failed and "helm rollback nvidia-device-plugin -n gpu" in done["msg"]


def _set_status(secret, status):
    """Helm keeps a release as base64 of gzip of JSON in a secret; the API adds another base64."""
    import base64
    import gzip
    import json

    packed = base64.b64decode(base64.b64decode(secret.data["release"]))
    document = json.loads(gzip.decompress(packed))
    document["info"]["status"] = status
    packed = gzip.compress(json.dumps(document).encode())
    secret.data["release"] = base64.b64encode(base64.b64encode(packed)).decode()
    secret.metadata.labels["status"] = status
    secret.metadata.resource_version = None
    secret.metadata.uid = None


def test_a_chart_that_does_not_render(release, tmp_path, cluster):
    broken = make_chart(tmp_path / "b", PLUGIN, "0.17.4", template='{{ fail "no such thing" }}')
    for options in ({"check": True}, {"state": "planned"}, {}):
        done = release(strategy="none", chart_ref=broken, **options)
        assert done.failed and "no such thing" in done["msg"]
    assert cluster.releases() == []


def write_status(cluster, ready, desired=1):
    from kubernetes import client

    apps = client.AppsV1Api(cluster.api())
    generation = apps.read_namespaced_daemon_set(PLUGIN, "gpu").metadata.generation
    status = {
        "observedGeneration": generation,
        "desiredNumberScheduled": desired,
        "currentNumberScheduled": desired,
        "numberMisscheduled": 0,
        "numberReady": ready,
        "updatedNumberScheduled": ready,
    }
    apps.patch_namespaced_daemon_set_status(PLUGIN, "gpu", {"status": status})


def test_wait(release, cluster):
    release(strategy="none")
    late = release(strategy="none", wait=True, wait_timeout=1)
    assert late.failed and "nvidia-device-plugin: the DaemonSet controller has not seen it yet" in late["msg"]
    assert late["changed"] is False

    def become_ready():
        time.sleep(2)
        write_status(cluster, ready=1)

    write_status(cluster, ready=0)
    controller = threading.Thread(target=become_ready)
    controller.start()
    done = release(strategy="none", wait=True, wait_timeout=30)
    controller.join()
    assert not done.failed and not done["changed"]
    write_status(cluster, ready=0, desired=0)
    assert "matches no node" in release(strategy="none", wait=True).warnings


def test_discovery(release, tmp_path):
    chart = make_chart(tmp_path, DISCOVERY, "0.17.4")
    options = {"module": "gfd_release", "chart_ref": chart, "strategy": "mixed"}
    done = release(**options, sleep_interval=30)
    assert done["release"]["name"] == DISCOVERY
    assert done["release"]["user_values"] == {
        "devicePlugin": {"enabled": False},
        "gfd": {"enabled": True},
        "migStrategy": "mixed",
        "nfd": {"enabled": True},
        "sleepInterval": "30s",
    }
    assert release(strategy="mixed")["release"]["name"] == PLUGIN
    assert release(**options, nfd=False)["actions"][0].endswith("values nfd.enabled, sleepInterval")
    assert "sleep_interval" in release(**options, sleep_interval=0)["msg"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "strategy: one of strategy and configs is wanted"),
        ({"strategy": "both"}, "value of strategy must be one of: none, single, mixed"),
        (
            {"strategy": "none", "configs": {"a": {"strategy": "none"}}},
            "mutually exclusive: strategy|configs",
        ),
        ({"strategy": "none", "version": "0.17.3"}, "version: "),
        ({"strategy": "none", "version": "0.17"}, "version: '0.17' is not a chart version"),
        ({"strategy": "none", "chart_ref": "/nowhere"}, "chart_ref: there is no chart /nowhere"),
        (
            {"strategy": "none", "chart_ref": "nvidia-device-plugin"},
            "version: a chart that is not on this machine",
        ),
        (
            {"strategy": "none", "chart_ref": "nvidia-device-plugin", "version": "0.6.0"},
            "version: chart nvidia-device",
        ),
        ({"strategy": "none", "namespace": "default"}, "namespace: the chart refuses the namespace default"),
        ({"strategy": "none", "values": {"migStrategy": "single"}}, "values.migStrategy: "),
        ({"strategy": "none", "binary_path": "/bin/true"}, "is no helm"),
        ({"strategy": "none", "kubeconfig": "/nowhere"}, "kubeconfig: cannot be read: "),
    ],
)
def test_bad_input(release, cluster, options, words):
    done = release(**options)
    assert done.failed and words in done["msg"]
    assert cluster.releases() == []


@pytest.fixture
def repository(cluster, tmp_path):
    """A chart repository with one chart in two versions, on loopback."""
    folder = tmp_path / "repository"
    for version in ("0.16.2", "0.17.4"):
        cluster.helm("package", make_chart(tmp_path / "sources", PLUGIN, version), "-d", str(folder))
    cluster.helm("repo", "index", str(folder))
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
    handler.log_message = lambda *_: None
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_a_repository(release, repository):
    options = {"chart_ref": PLUGIN, "chart_repo_url": repository, "strategy": "none"}
    done = release(**options, version="0.16.2")
    assert done["release"]["version"] == "0.16.2"
    assert f"--repo {repository} --version 0.16.2" in done["commands"][0]
    assert not release(**options, version="v0.16.2")["changed"]
    assert release(**options, version="0.17.4")["release"]["version"] == "0.17.4"
    missing = release(check=True, **options, version="0.18.0")
    assert missing.failed and "0.18.0" in missing["msg"] and "check version" in missing["msg"]
    for url in (f"{repository}/nowhere", "http://127.0.0.1:9"):
        lost = release(check=True, chart_ref=PLUGIN, chart_repo_url=url, strategy="none", version="0.18.0")
        assert lost.failed and "(check chart_repo_url; " in lost["msg"]


def test_another_chart(release, tmp_path):
    done = release(strategy="none", chart_ref=make_chart(tmp_path, "nginx", "0.17.4"))
    assert "holds the chart nginx" in done["msg"] and "nvidia-device-plugin is wanted" in done["msg"]


def test_an_old_local_chart(release, tmp_path):
    assert "use 0.7.0 or newer" in release(strategy="none", chart_ref=other_chart(tmp_path, "0.6.0"))["msg"]


def test_no_cluster(release, tmp_path):
    nowhere = tmp_path / "kubeconfig"
    nowhere.write_text(NOWHERE)
    done = release(strategy="none", kubeconfig=str(nowhere))
    assert done.failed and "check kubeconfig and context" in done["msg"]
    assert "very-secret-token" not in str(done.result)


@pytest.fixture
def silent(tmp_path):
    """A kubeconfig whose server takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        file = tmp_path / "silent"
        file.write_text(NOWHERE.replace("https://127.0.0.1:9", f"http://127.0.0.1:{server.getsockname()[1]}"))
        yield str(file)


def test_an_api_that_does_not_answer(capsys, silent, monkeypatch):
    """The first question of every run."""
    monkeypatch.setattr(api, "PATIENCE", 1)
    done = run_module(capsys, "gpu_managers_info", kubeconfig=silent)
    assert done.failed and "the API server has not answered within 1 seconds" in done["msg"]


@pytest.mark.parametrize("reaction", ["exit 1", ":"])
def test_a_helm_that_never_ends(release, cluster, tmp_path, monkeypatch, reaction):
    """It is ended, and not left behind to change the cluster later."""
    monkeypatch.setattr(helm, "PATIENCE", 5)
    monkeypatch.setattr(helm, "_GRACE", 1)
    pid, binary = tmp_path / "pid", tmp_path / "helm"
    hangs = f"trap '{reaction}' TERM; echo $$ > {pid}; while :; do sleep 0.1; done"
    binary.write_text(f'#!/bin/sh\n[ "$1" = upgrade ] && {{ {hangs}; }}\nexec {cluster.helm_binary} "$@"\n')
    binary.chmod(0o755)
    done = release(strategy="single", binary_path=str(binary), wait_timeout=1)
    told = "helm upgrade was ended, as it had not come to an end within 6 seconds; nothing was applied"
    assert done.failed and told in done["msg"]
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)
    assert cluster.releases() == []


REAL = os.environ.get("NVIDIA_CHARTS_DIR")


@pytest.mark.skipif(not REAL, reason="NVIDIA_CHARTS_DIR is not set: NVIDIA's charts are not installed")
def test_real_charts_install_and_upgrade(release, cluster):
    charts = {
        (name, version): next(pathlib.Path(REAL).rglob(f"{name}-{version}.tgz"))
        for name, version in [
            (PLUGIN, "0.12.2"),
            (PLUGIN, "0.14.5"),
            (PLUGIN, "0.17.4"),
            (PLUGIN, "0.20.0"),
            (DISCOVERY, "0.17.4"),
        ]
    }
    for (name, version), path in charts.items():
        module = "device_plugin_release" if name == PLUGIN else "gfd_release"
        more = {} if name == PLUGIN else {"nfd": False}
        for strategy in ("none", "mixed"):
            done = release(module=module, chart_ref=str(path), strategy=strategy, **more)
            assert not done.failed, done["msg"]
            assert done["changed"] and done["release"]["version"] == version
            assert not release(module=module, chart_ref=str(path), strategy=strategy, **more)["changed"]
    assert len(cluster.releases()) == 2
