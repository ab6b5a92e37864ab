# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How GPUs are shared: what is refused, and one form for all ways to write it."""

from __future__ import annotations

import pytest
from ansible_collections.nvidia.mig.plugins.module_utils.errors import InputError
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.charts import (
    DEVICE_PLUGIN,
    release_values,
)
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.node_gpu import NodeGpu
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.resources import expected_resources
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.selection import select
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.sharing import (
    check_sharing,
    parse_sharing,
    plain_sharing,
)

GPU = "nvidia.com/gpu"
WHOLE = [NodeGpu(index, "NVIDIA A100-SXM4-40GB") for index in range(2)]
CUT = [NodeGpu(2, "NVIDIA A100-SXM4-40GB", True, ("3g.20gb", "1g.5gb", "1g.5gb"))]


def shared(kind="timeSlicing", name=GPU, replicas=4, **flags):
    return {kind: {**flags, "resources": [{"name": name, "replicas": replicas}]}}


def refused(sharing, strategy, gpus, version="0.17.4"):
    with pytest.raises(InputError) as caught:
        expected_resources(strategy, gpus, version, parse_sharing(sharing, "mine"), "mine")
    return str(caught.value)


def test_every_way_to_write_it_is_one():
    written = {
        "timeSlicing": {
            "failRequestsGreaterThanOne": False,
            "renameByDefault": False,
            "resources": [{"replicas": 2, "name": "mig-1g.5gb"}, {"name": "gpu", "replicas": 4}],
        }
    }
    plain = {
        "timeSlicing": {
            "resources": [{"name": GPU, "replicas": 4}, {"name": "nvidia.com/mig-1g.5gb", "replicas": 2}]
        }
    }
    assert plain_sharing(written) == plain == plain_sharing(plain)


@pytest.mark.parametrize("value", [None, {}])
def test_no_sharing(value):
    assert plain_sharing(value) is None
    check_sharing(parse_sharing(value), "mixed", chart_version="0.7.0")


@pytest.mark.parametrize("flag", [True, False])
@pytest.mark.parametrize("kind", ["timeSlicing", "mps"])
def test_flags_that_mean_something_stay(kind, flag):
    section = plain_sharing(shared(kind, renameByDefault=True, failRequestsGreaterThanOne=flag))[kind]
    assert section["renameByDefault"] is True
    # MPS refuses such requests by default, time slicing does not.
    assert section.get("failRequestsGreaterThanOne") == (flag if flag or kind == "mps" else None)


def test_whole_gpus_and_mig_devices_of_a_mixed_node():
    both = {
        "timeSlicing": {"resources": [{"name": GPU, "replicas": 4}, {"name": "mig-1g.5gb", "replicas": 3}]}
    }
    assert expected_resources("mixed", WHOLE + CUT, "0.17.4", parse_sharing(both)) == {
        GPU: 8,
        "nvidia.com/mig-3g.20gb": 1,
        "nvidia.com/mig-1g.5gb": 6,
    }


def test_renamed_mig_devices():
    sharing = parse_sharing(shared(name="mig-1g.5gb", renameByDefault=True))
    found = expected_resources("mixed", CUT, "0.17.4", sharing)
    assert found["nvidia.com/mig-1g.5gb"] == 0
    assert found["nvidia.com/mig-1g.5gb.shared"] == 8


@pytest.mark.parametrize(
    ("sharing", "strategy", "gpus", "words"),
    [
        (
            shared(name="nvidia.com/mig-2g.10gb"),
            "mixed",
            WHOLE + CUT,
            "mine.timeSlicing.resources: the node's layout and strategy never offer nvidia.com/mig-2g.10gb "
            "(they offer nvidia.com/gpu, nvidia.com/mig-3g.20gb, nvidia.com/mig-1g.5gb)",
        ),
        (shared(), "mixed", CUT, "never offer nvidia.com/gpu"),
        (shared(name="mig-1g.5gb"), "none", WHOLE, "never offer nvidia.com/mig-1g.5gb"),
        (shared(name="mig-1g.5gb"), "single", CUT, "(they offer nvidia.com/gpu)"),
        (shared(name="gpu.shared"), "none", WHOLE, "never offer nvidia.com/gpu.shared"),
        (shared(), "none", [], "they offer nothing"),
        (shared("mps"), "mixed", WHOLE, "mine.mps: MPS does not work with strategy mixed"),
        (shared("mps"), "single", CUT, "use timeSlicing, or strategy none"),
        (shared("mps", replicas=49), "none", WHOLE, "at most 48"),
        (
            shared("mps", failRequestsGreaterThanOne=False),
            "none",
            WHOLE,
            "mine.mps.failRequestsGreaterThanOne: false has no effect",
        ),
    ],
)
def test_what_the_plugin_refuses_or_ignores(sharing, strategy, gpus, words):
    assert words in refused(sharing, strategy, gpus)


@pytest.mark.parametrize(
    ("kind", "old", "first"), [("timeSlicing", "0.11.0", "0.12.0"), ("mps", "0.14.5", "0.15.0")]
)
def test_the_first_version_of_each_kind(kind, old, first):
    assert f"use chart {first} or newer" in refused(shared(kind), "none", WHOLE, old)
    assert expected_resources("none", WHOLE, first, parse_sharing(shared(kind))) == {GPU: 8}


def test_requests_for_several_under_mps():
    sharing = parse_sharing(shared("mps", failRequestsGreaterThanOne=False))
    assert expected_resources("none", WHOLE, "0.20.0", sharing) == {GPU: 8}


def test_a_release_is_told_too():
    with pytest.raises(InputError, match="configs.a.sharing.mps: .*use timeSlicing"):
        select(None, {"a": {"strategy": "mixed", "sharing": shared("mps")}}, None)
    selection = select(None, {"a": {"strategy": "none", "sharing": shared("mps")}}, None)
    with pytest.raises(InputError, match="configs.a.sharing.mps: .*0.15.0 or newer"):
        release_values(DEVICE_PLUGIN, "0.14.5", selection, "gpu")
    with pytest.raises(InputError, match="share no GPUs"):
        release_values(DEVICE_PLUGIN, "0.11.0", selection, "gpu")
