# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""mig_verify against node objects in a real Kubernetes API."""

from __future__ import annotations

import threading
import time

import pytest
from ansible_collections.nvidia.mig.tests.unit.plugins.modules.kubernetes_support import (
    run_module,
    start_cluster,
)

GPUS = [
    {"index": index, "product": "A100-SXM4-40GB", "mig": True, "profiles": ["3g.20gb", "3g.20gb"]}
    for index in range(8)
]
LABELS = {
    "nvidia.com/gpu.count": "16",
    "nvidia.com/gpu.product": "A100-SXM4-40GB-MIG-3g.20gb",
    "nvidia.com/gpu.replicas": "1",
    "nvidia.com/gpu.sharing-strategy": "none",
    "nvidia.com/gpu.slices.ci": "3",
    "nvidia.com/gpu.slices.gi": "3",
    "nvidia.com/mig.strategy": "single",
    "nvidia.com/mps.capable": "false",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    yield from start_cluster(tmp_path_factory.mktemp("cluster"))


@pytest.fixture
def node(cluster):
    from kubernetes import client

    core = client.CoreV1Api(cluster.api())
    core.create_node({"metadata": {"name": "dgx01", "labels": LABELS}})

    def quantities(resources):
        return {f"nvidia.com/{name.replace('_', '-')}": str(count) for name, count in resources.items()}

    def offer(**resources):
        status = {"capacity": quantities(resources), "allocatable": quantities(resources)}
        core.patch_node_status("dgx01", {"status": status})

    def keep(**resources):
        status = {
            "capacity": quantities(resources),
            "allocatable": dict.fromkeys(quantities(resources), "0"),
        }
        core.patch_node_status("dgx01", {"status": status})

    offer.keep = keep
    yield offer
    core.delete_node("dgx01")


@pytest.fixture
def verify(cluster, capsys):
    common = {
        "node_name": "dgx01",
        "gpus": GPUS,
        "strategy": "single",
        "chart_version": "0.17.4",
        "timeout": 0,
        "sleep": 1,
        "kubeconfig": str(cluster.kubeconfig),
    }

    def run(check=False, **options):
        return run_module(capsys, "mig_verify", check, **{**common, **options})

    return run


def test_as_expected(node, verify):
    node(gpu=16)
    done = verify()
    assert not done.failed and done["verdict"] is True and done["changed"] is False
    assert done["expected"]["resources"] == done["actual"]["resources"] == {"nvidia.com/gpu": 16}
    assert done["expected"]["labels"] == done["actual"]["labels"] == LABELS


def test_every_difference_is_named(node, verify):
    node(gpu=8, **{"mig-1g.5gb": 2})
    done = verify(strategy="single", gfd_version="0.17.4")
    assert done.failed and done["verdict"] is False
    assert done["mismatches"] == [
        "nvidia.com/gpu: 16 expected, 8 allocatable",
        "nvidia.com/mig-1g.5gb: 0 expected, 2 allocatable",
    ]
    for mismatch in done["mismatches"]:
        assert mismatch in done["msg"]
    assert "node dgx01" in done["msg"]
    (remedy,) = done["remedies"]
    assert "no GPU offers nvidia.com/mig-1g.5gb any more" in remedy and remedy in done["msg"]


def test_capacity_that_kubelet_keeps_for_a_while_is_no_difference(node, verify):
    node(gpu=16)
    node.keep(**{"mig-1g.5gb": 4})
    done = verify()
    assert done["verdict"] and done["remedies"] == []


def test_labels_can_be_left_out(node, verify):
    node(gpu=7)
    options = {"gpus": [{"index": 0, "product": "NVIDIA A30", "mig": True, "profiles": ["1g.6gb"] * 7}]}
    assert any("label" in mismatch for mismatch in verify(**options)["mismatches"])
    assert verify(**options, labels=False)["verdict"]


def test_sharing(node, verify):
    node(gpu=64)
    sharing = {"timeSlicing": {"resources": [{"name": "nvidia.com/gpu", "replicas": 4}]}}
    assert verify(sharing=sharing, labels=False)["verdict"]
    assert verify(labels=False).failed


def test_waits(node, verify):
    node(gpu=8)

    def later():
        time.sleep(1.5)
        node(gpu=16)

    kubelet = threading.Thread(target=later)
    kubelet.start()
    done = verify(timeout=20)
    kubelet.join()
    assert done["verdict"]


def test_check_mode_looks_once(node, verify):
    node(gpu=8)
    begin = time.monotonic()
    assert verify(check=True, timeout=60).failed
    assert time.monotonic() - begin < 30


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"node_name": "dgx99"}, "node_name: the cluster has no node dgx99"),
        ({"gpus": [{"index": 0}]}, "gpus[0]: this is not a GPU"),
        ({"strategy": "none"}, "strategy none wants MIG off"),
        ({"chart_version": "0.17"}, "version"),
        ({"sharing": {"slices": {}}}, "sharing: unexpected keys slices"),
        ({"kubeconfig": "/nowhere"}, "no connection to the Kubernetes API"),
    ],
)
def test_bad_input(node, verify, options, words):
    done = verify(**options)
    assert done.failed and words in done["msg"]
    assert "verdict" not in done.result
