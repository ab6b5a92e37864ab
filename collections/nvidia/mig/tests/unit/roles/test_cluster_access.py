# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NVIDIA's own charts, installed on a real Kubernetes API by accounts of the role cluster_access.

Runs where NVIDIA_CHARTS_DIR names a folder with released charts, in any depth.
"""

from __future__ import annotations

import pytest
import yaml
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.charts import (
    DEVICE_PLUGIN,
    FEATURE_DISCOVERY,
)
from ansible_collections.nvidia.mig.tests.unit.plugins.modules.kubernetes_support import (
    run_module,
    start_cluster,
)
from ansible_collections.nvidia.mig.tests.unit.real_charts import archive
from ansible_collections.nvidia.mig.tests.unit.roles.plays import messages, play

NAMESPACE = "gpus"
CONFIGS = {"single": {"strategy": "single"}, "mixed": {"strategy": "mixed"}}
# Versions of the device plugin's chart and of GPU Feature Discovery's; with Node Feature Discovery, or not.
CASES = [
    ("0.12.3", "0.6.0", False),
    ("0.14.5", "0.8.2", True),
    ("0.17.4", "0.17.4", False),
    ("0.17.4", "0.17.4", True),
    ("0.20.0", "0.20.0", False),
    ("0.20.0", "0.20.0", True),
]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    archive(DEVICE_PLUGIN, CASES[0][0])
    yield from start_cluster(tmp_path_factory.mktemp("cluster"))


@pytest.fixture(scope="module")
def accounts(cluster, tmp_path_factory):
    """Kubeconfigs of an account for each case, all of one play."""
    folder = tmp_path_factory.mktemp("accounts")
    tasks = [
        {
            "ansible.builtin.include_role": {"name": "nvidia.mig.cluster_access"},
            "vars": {
                "cluster_access_name": f"account-{number}",
                "cluster_access_chart_version": version,
                "cluster_access_node_feature_discovery": nfd,
                "cluster_access_release_namespaces": [NAMESPACE],
                "cluster_access_kubeconfig": str(folder / str(number)),
                "cluster_access_admin_kubeconfig": str(cluster.kubeconfig),
            },
        }
        for number, (version, _gfd, nfd) in enumerate(CASES)
    ]
    output = play(folder, {"it": {}}, tasks)
    assert not messages(output), output
    return folder


@pytest.mark.parametrize("number", range(len(CASES)), ids=[f"{p}-{g}-{n}" for p, g, n in CASES])
def test_the_charts_install_change_and_go(cluster, accounts, capsys, number):
    plugin, discovery, nfd = CASES[number]

    def run(module, state, chart, version, **options):
        done = run_module(
            capsys,
            module,
            state=state,
            chart_ref=str(archive(chart, version)),
            namespace=NAMESPACE,
            kubeconfig=str(accounts / str(number)),
            binary_path=cluster.helm_binary,
            wait=False,
            hooks=False,  # nothing runs their jobs here
            **options,
        )
        assert not done.failed, done.result
        return done["changed"]

    # GPU Feature Discovery has named configs only from the version on in which the charts are one.
    shared = {"configs": CONFIGS, "default_config": "mixed"} if plugin == discovery else {"strategy": "mixed"}
    try:
        for state, wish in (
            ("present", {"strategy": "single"}),
            ("present", shared),
            ("absent", {}),
        ):
            assert run("device_plugin_release", state, DEVICE_PLUGIN, plugin, **wish)
            assert run("gfd_release", state, FEATURE_DISCOVERY, discovery, nfd=nfd, **wish)
    finally:
        cluster.clear()


def test_an_account_without_node_feature_discovery_cannot_bring_it_along(cluster, accounts, capsys):
    number = CASES.index(("0.17.4", "0.17.4", False))
    done = run_module(
        capsys,
        "gfd_release",
        chart_ref=str(archive(FEATURE_DISCOVERY, "0.17.4")),
        namespace=NAMESPACE,
        kubeconfig=str(accounts / str(number)),
        binary_path=cluster.helm_binary,
        strategy="single",
        nfd=True,
        wait=False,
    )
    cluster.clear()
    assert done.failed
    assert "playbooks/access.yml" in done["msg"]
    token = yaml.safe_load((accounts / str(number)).read_text())["users"][0]["user"]["token"]
    assert token not in str(done.result)
