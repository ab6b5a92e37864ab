# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which hosts change together."""

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.nvidia.mig.plugins.filter.rollout_batches import rollout_batches
from ansible_collections.nvidia.mig.plugins.plugin_utils.batches import batches, limits
from hypothesis import given
from hypothesis import strategies as st

DGX = [f"dgx{n}" for n in range(1, 9)]
HGX = [f"hgx{n}" for n in range(1, 5)]
GROUPS = {"all": DGX + HGX, "gpu_nodes": DGX + HGX, "dgx": DGX, "hgx": HGX, "ungrouped": []}


def plan(due, most, **more):
    return rollout_batches({host: ["create"] for host in due}, GROUPS, most, **more)


def node(name, cordoned=False, ready="True", ours=False):
    return {
        "metadata": {"name": name, "annotations": {"nvidia.com/mig-change.cordoned": "true"} if ours else {}},
        "spec": {"unschedulable": True} if cordoned or ours else {},
        "status": {"conditions": [{"type": "Ready", "status": ready}]},
    }


def cluster(**states):
    nodes = [node(host, **states.get(host, {})) for host in DGX + HGX]
    return {"nodes": nodes, "node_names": {host: host for host in DGX + HGX}}


@pytest.mark.parametrize(
    ("due", "most", "canaries", "found"),
    [
        ([], {"gpu_nodes": 1}, 1, []),
        (DGX[:3], {"gpu_nodes": 1}, 1, [["dgx1"], ["dgx2"], ["dgx3"]]),
        (DGX[:4], {"gpu_nodes": "25%"}, 1, [["dgx1"], ["dgx2", "dgx3", "dgx4"]]),
        (DGX[:4], {"gpu_nodes": "25%"}, 0, [["dgx1", "dgx2", "dgx3"], ["dgx4"]]),
        (DGX[:4], {"gpu_nodes": "25%"}, 2, [["dgx1", "dgx2"], ["dgx3", "dgx4"]]),
        (DGX[:3], {"gpu_nodes": "1%"}, 0, [["dgx1"], ["dgx2"], ["dgx3"]]),
        (DGX[:3], {}, 1, [["dgx1"], ["dgx2", "dgx3"]]),
        (["dgx1", "dgx2", "hgx1", "hgx2"], {"dgx": 1, "hgx": 2}, 0, [["dgx1", "hgx1", "hgx2"], ["dgx2"]]),
        (
            ["dgx1", "dgx2", "hgx1", "hgx2"],
            {"gpu_nodes": 2, "dgx": 1},
            0,
            [["dgx1", "hgx1"], ["dgx2", "hgx2"]],
        ),
    ],
)
def test_batches(due, most, canaries, found):
    assert plan(due, most, canaries=canaries) == found


def test_hosts_with_nothing_to_do_are_in_none():
    assert rollout_batches({"dgx1": [], "dgx2": ["create"]}, GROUPS, {"dgx": 1}) == [["dgx2"]]


def test_hosts_that_only_get_another_configuration():
    actions = {"dgx1": [], "dgx2": ["create"], "dgx3": [], "dgx4": []}
    found = rollout_batches(actions, GROUPS, {"dgx": 2}, also=["dgx1", "dgx4"])
    assert found == [["dgx1"], ["dgx2", "dgx4"]]


def test_who_is_out_counts():
    state = cluster(dgx8={"cordoned": True}, hgx4={"ready": "Unknown"})
    assert plan(DGX[:3], {"dgx": 2}, canaries=0, **state) == [["dgx1"], ["dgx2"], ["dgx3"]]
    assert plan(DGX[:3], {"gpu_nodes": 4}, canaries=0, **state) == [["dgx1", "dgx2"], ["dgx3"]]


def test_an_interrupted_run_is_gone_on_with_first():
    """Its nodes are out in any case, also where nothing is left to do to their GPUs."""
    state = cluster(dgx5={"ours": True}, dgx6={"ours": True})
    actions = {**{host: ["create"] for host in DGX[:2]}, "dgx5": [], "dgx6": ["create"]}
    found = rollout_batches(actions, GROUPS, {"dgx": 2}, canaries=1, **state)
    assert found == [["dgx5"], ["dgx6", "dgx1"], ["dgx2"]]


def test_no_room():
    state = cluster(dgx7={"cordoned": True}, dgx8={"ready": "False"})
    with pytest.raises(AnsibleFilterError) as error:
        plan(["dgx1"], {"gpu_nodes": "50%", "dgx": 2}, **state)
    assert str(error.value) == (
        "mig_max_unavailable.dgx: dgx1 cannot be taken out: of group dgx, dgx7 is cordoned, "
        "dgx8 is not ready (it allows 2 at once; bring those back, or allow more. Nothing was changed)"
    )


@pytest.mark.parametrize(
    ("most", "words"),
    [
        (
            {"dxg": 1},
            "mig_max_unavailable.dxg: the inventory has no such group (it has all, dgx, gpu_nodes, hgx)",
        ),
        ({"dgx": 0}, "mig_max_unavailable.dgx: 0 is not a number of hosts"),
        ({"dgx": -1}, "mig_max_unavailable.dgx: -1 is not"),
        ({"dgx": "0%"}, "mig_max_unavailable.dgx: '0%' is not"),
        ({"dgx": "101%"}, "a percentage from 1% to 100%"),
        ({"dgx": True}, "True is not a number of hosts"),
        ({"dgx": 1.5}, "1.5 is not a number of hosts"),
        ("25%", "mig_max_unavailable: '25%' is not a dictionary"),
    ],
)
@pytest.mark.parametrize("due", [[], ["dgx1"]])
def test_bad_limits(most, words, due):
    with pytest.raises(AnsibleFilterError) as error:
        plan(due, most)
    assert words in str(error.value)


def test_canaries_of_the_command_line_are_a_text():
    assert plan(DGX[:3], {"dgx": 3}, canaries="2") == plan(DGX[:3], {"dgx": 3}, canaries=2)


@pytest.mark.parametrize("canaries", [-1, "-1", "some", True])
def test_bad_canaries(canaries):
    with pytest.raises(AnsibleFilterError, match=f"mig_canaries: {canaries!r} is not a number of hosts"):
        plan([], {}, canaries=canaries)


@given(
    due=st.sets(st.sampled_from(DGX + HGX)),
    counts=st.fixed_dictionaries({group: st.integers(1, 6) for group in ("gpu_nodes", "dgx", "hgx")}),
    canaries=st.integers(0, 3),
)
def test_never_more_than_allowed(due, counts, canaries):
    limited = limits(counts, GROUPS)
    found = batches(sorted(due), limited, canaries)
    assert sorted(host for batch in found for host in batch) == sorted(due)
    for number, batch in enumerate(found):
        assert batch
        assert number or not canaries or len(batch) <= canaries
        for limit in limited:
            assert len(set(batch) & limit.members) <= limit.count
