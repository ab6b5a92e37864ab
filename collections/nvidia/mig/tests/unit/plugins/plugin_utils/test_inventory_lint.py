# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What can be said of an inventory without a GPU."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.nvidia.mig.plugins.plugin_utils.inventory_lint import (
    GroupVars,
    alike,
    layout_problems,
    surprises,
    together,
    unknown,
    unoffered,
)

EIGHT = {"A100-SXM4-40GB": 8}
KNOWN = {"mig_strategy", "mig_layouts", "mig_drain", "nvidia_driver_version", "provision_driver"}


def entry(profiles: dict[str, int], gpus: Any = "all") -> dict[str, Any]:
    return {"gpus": gpus, "profiles": profiles}


@pytest.mark.parametrize(
    "options, gpus, words",
    [
        ({"layout": [entry({"3g.20gb": 2})], "strategy": "single"}, EIGHT, None),
        ({"layout": [entry({"3g.40gb": 2})]}, EIGHT, "A100-SXM4-40GB does not offer 3g.40gb"),
        ({"layout": [entry({"3g.40gb": 2})]}, {"H100-SXM5-80GB": 8}, None),
        ({"layout": [entry({"3g.40gb": 2})]}, None, None),
        ({"layout": [entry({"3g20gb": 2})]}, None, "3g20gb"),
        ({"layout": [entry({"3g.20gb": 2, "1g.5gb": 1})]}, EIGHT, "no free placement"),
        ({"layout": [entry({"3g.20gb": 1, "2g.10gb": 1})], "strategy": "single"}, EIGHT, "single"),
        ({"layout": [entry({"3g.20gb": 2}, [8])]}, EIGHT, "layout[0].gpus"),
        ({"layout": [entry({"1g.5gb": 1})]}, {"T4-16GB": 4}, "MIG"),
        ({"layout": [{"gpus": "all", "mig": False}], "strategy": "odd"}, EIGHT, "strategy"),
        (
            {
                "layout": [entry({"3g.20gb": 2})],
                "strategy": "mixed",
                "chart_version": "0.17.4",
                "sharing": {"timeSlicing": {"resources": [{"name": "nvidia.com/mig-1g.5gb", "replicas": 2}]}},
            },
            EIGHT,
            "never offer nvidia.com/mig-1g.5gb",
        ),
    ],
)
def test_a_layout_is_refused_as_on_the_node(options: dict[str, Any], gpus: Any, words: str | None) -> None:
    found = layout_problems(options, gpus)
    assert found == [] if words is None else words in " ".join(found), found


def test_a_profile_that_no_known_gpu_offers() -> None:
    layout = [entry({"3g.20gb": 1, "3g.25gb": 1, "1c.3g.40gb": 1})]
    assert unoffered({"layout": layout}) == ["no GPU model that is known offers 3g.25gb"]
    assert unoffered({"layout": "nonsense"}) == []


def test_names_that_are_nearly_ours() -> None:
    names = {
        "mig_stategy",
        "mig_drain",
        "mig_of_somebody",
        "nvidia_driver_versoin",
        "nvidia_something",
        "ntp",
    }
    assert unknown(names, KNOWN) == {
        "mig_stategy": "mig_strategy",
        "mig_of_somebody": "",
        "nvidia_driver_versoin": "nvidia_driver_version",
    }


def test_only_the_names_of_groups_decide() -> None:
    inner, outer = (2, 1), (1, 1)
    dgx = GroupVars("dgx", inner, {"mig_strategy": "single", "ntp": 1, "mig_drain": True})
    training = GroupVars("training", inner, {"mig_strategy": "mixed", "ntp": 2, "mig_drain": True})
    [told] = surprises([dgx, training], KNOWN)
    assert told.startswith(
        "mig_strategy is set by the groups dgx, training, none of which is inside another: training"
    )
    assert surprises([dgx, GroupVars("training", outer, training.values)], KNOWN) == []
    assert surprises([dgx, GroupVars("training", (2, 5), training.values)], KNOWN) == []
    deepest = GroupVars("zone", (3, 1), {"mig_strategy": "none"})
    assert surprises([dgx, training, deepest], KNOWN) == []


def test_the_same_of_several_hosts_is_told_once() -> None:
    told = {f"n{number}": ["a"] for number in range(10)} | {"m": ["a", "b"]}
    assert together(told) == ["n0, n1, n2, n3, n4, n5, n6, n7 and 3 more: a", "m: b"]


def test_hosts_are_alike_unless_a_value_is_of_the_host() -> None:
    own = {
        "inventory_hostname": "a",
        "group_names": ["dgx"],
        "mig_node_name": "{{ inventory_hostname_short }}",
    }
    other = {**own, "inventory_hostname": "b", "ansible_host": "192.0.2.1"}
    assert alike("a", own) == alike("b", other)
    assert alike("a", own) != alike("b", {**other, "group_names": ["hgx"]})
    assert alike("a", own) != alike("b", {**other, "mig_drain": True})
    layout = {"mig_layout": "{{ layouts[inventory_hostname] }}"}
    assert alike("a", {**own, **layout}) != alike("b", {**other, **layout})
