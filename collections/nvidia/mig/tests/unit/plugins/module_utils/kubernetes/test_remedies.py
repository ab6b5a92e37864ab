# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node that stays different: what to do about it."""

from __future__ import annotations

import pytest
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.labels import Expected
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.remedies import remedies

COUNT = {"nvidia.com/gpu.count": "8"}
CUT = Expected({"nvidia.com/gpu": 0, "nvidia.com/mig-1g.5gb": 4})
SHARED = Expected({"nvidia.com/gpu": 32})


def node(allocatable, labels=None, capacity=None):
    def named(counts):
        return {f"nvidia.com/{name}": str(count) for name, count in counts.items()}

    return {
        "metadata": {"name": "dgx01", "labels": COUNT if labels is None else labels},
        "status": {
            "allocatable": named(allocatable),
            "capacity": named(allocatable if capacity is None else capacity),
        },
    }


@pytest.mark.parametrize(
    ("expected", "seen", "words"),
    [
        (CUT, node({}, {}), ["neither device plugin", "spec.nodeName=dgx01", "nvidia.com/gpu.present=true"]),
        (
            CUT,
            node({"gpu": 8}),
            ["no GPU offers nvidia.com/gpu any more", "kubectl delete pods", "restart kubelet"],
        ),
        (
            CUT,
            node({"mig-1g.5gb": 0}, capacity={"mig-1g.5gb": 4, "gpu": 8}),
            ["no device plugin serves nvidia.com/gpu, nvidia.com/mig-1g.5gb now", "five minutes"],
        ),
        (
            CUT,
            node({"mig-1g.5gb": 4}, {**COUNT, "nvidia.com/gpu.product": "A100-MIG-INVALID"}),
            ["MIG-INVALID", "looks again"],
        ),
        (
            SHARED,
            node({"gpu": 8}, {**COUNT, "nvidia.com/device-plugin.config": "none"}),
            ["nvidia.com/device-plugin.config picks none", "playbooks/release.yml"],
        ),
    ],
)
def test_one_for_each_kind(expected, seen, words):
    (found,) = remedies(expected, seen)
    for word in words:
        assert word in found


@pytest.mark.parametrize(
    "seen",
    [
        node({"mig-1g.5gb": 4, "gpu": 0}),
        node({"mig-1g.5gb": 3}),  # a device that is not healthy: no word of ours helps
        node({"mig-1g.5gb": 4, "hostdev": 1}, {"nvidia.com/gpu.product": "A100"}),
    ],
)
def test_none_where_nothing_is_known(seen):
    assert remedies(CUT, seen) == []
