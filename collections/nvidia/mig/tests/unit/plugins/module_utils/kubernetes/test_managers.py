# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who else manages GPUs: what a ClusterPolicy and device classes say."""

from __future__ import annotations

import pytest
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.managers import dra_classes, gpu_operator

PARTS = ["migManager", "devicePlugin", "gfd"]


def policy(name="cluster-policy", created="2026-01-01T00:00:00Z", state=None, **spec):
    found = {"metadata": {"name": name, "creationTimestamp": created}, "spec": spec}
    return found if state is None else {**found, "status": {"state": state}}


def test_no_operator():
    assert gpu_operator([]) is None
    assert gpu_operator([policy(state="ignored")]) is None


@pytest.mark.parametrize(
    ("spec", "parts"),
    [
        ({}, PARTS),  # each part runs unless it is switched off
        ({"migManager": {"enabled": True}, "gfd": {}}, PARTS),
        ({"migManager": {"enabled": False}}, ["devicePlugin", "gfd"]),
        ({part: {"enabled": False} for part in PARTS}, []),
        ({"driver": {"enabled": False}}, PARTS),
    ],
)
def test_what_it_manages(spec, parts):
    found = gpu_operator([policy(**spec)])
    assert found["parts"] == parts
    assert len(found["manages"]) == len(parts)


def test_what_it_sets():
    found = gpu_operator([policy(mig={"strategy": "single"}, migManager={"config": {"name": "own"}})])
    assert (found["policy"], found["strategy"], found["mig_config"]) == ("cluster-policy", "single", "own")
    assert gpu_operator([policy()])["strategy"] is None


def test_the_oldest_counts():
    """The operator heeds one and ignores the others."""
    new, old = policy("a", "2026-02-01T00:00:00Z"), policy("b", "2026-01-01T00:00:00Z")
    assert gpu_operator([new, old])["policy"] == "b"
    old["status"] = {"state": "ignored"}
    assert gpu_operator([new, old])["policy"] == "a"


def test_dra_driver():
    def classes(*names):
        return [{"metadata": {"name": name}} for name in names]

    assert dra_classes([]) == []
    # Compute domains are about NVLink between nodes; GPUs are left alone.
    assert dra_classes(classes("compute-domain-daemon.nvidia.com", "gpu.example.com")) == []
    assert dra_classes(classes("mig.nvidia.com", "gpu.nvidia.com")) == ["gpu.nvidia.com", "mig.nvidia.com"]
