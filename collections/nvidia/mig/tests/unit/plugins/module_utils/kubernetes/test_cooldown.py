# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When a GPU rests after it was partitioned for pending pods."""

from __future__ import annotations

import json

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.nvidia.mig.plugins.filter.demand_note import demand_note
from ansible_collections.nvidia.mig.plugins.module_utils.errors import InputError
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.cooldown import (
    PARTITIONED,
    cooling,
    noted,
    partitioned,
    seconds,
)
from ansible_collections.nvidia.mig.tests.unit.plugins.module_utils.kubernetes.observing import NOW, stamp


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("1970-01-01T00:01:00Z", 60),
        ("2026-01-31T06:12:04Z", NOW),
        ("2026-01-31T06:12:04.123456Z", NOW),
        ("2026-13-31T06:12:04Z", None),
        ("yesterday", None),
        (None, None),
        (17, None),
    ],
)
def test_times(text, found):
    assert seconds(text) == found


def test_a_gpu_rests_until_its_time_is_over():
    times = {"GPU-a": stamp(299), "GPU-b": stamp(300), "GPU-c": stamp(0)}
    assert set(cooling(times, 300, NOW)) == {"GPU-a", "GPU-c"}
    assert cooling(times, 300, NOW)["GPU-c"] == (
        "it was partitioned anew at 2026-01-31T06:12:04Z and rests for 300 seconds"
    )
    assert not cooling(times, 0, NOW)


def test_a_note_is_read_as_it_was_written():
    before = {PARTITIONED: json.dumps({"GPU-a": stamp(301), "GPU-b": stamp(100)}), "other": "x"}
    after = noted(before, ["GPU-c"], stamp(0), keep=300)
    assert set(after) == {PARTITIONED}
    assert partitioned(after) == {"GPU-b": stamp(100), "GPU-c": stamp(0)}
    assert partitioned(noted(after, ["GPU-b"], stamp(0), 300)) == {"GPU-b": stamp(0), "GPU-c": stamp(0)}
    assert partitioned(noted({PARTITIONED: "soon"}, ["GPU-a"], stamp(0), 300)) == {"GPU-a": stamp(0)}


def test_the_filter():
    node = {"metadata": {"annotations": {PARTITIONED: json.dumps({"GPU-a": stamp(100)})}}}
    assert partitioned(demand_note(node, ["GPU-b"], stamp(0))) == {"GPU-a": stamp(100), "GPU-b": stamp(0)}
    assert partitioned(demand_note(node, ["GPU-b"], stamp(0), keep=60)) == {"GPU-b": stamp(0)}
    assert partitioned(demand_note({"metadata": {}}, [], stamp(0))) == {}
    with pytest.raises(AnsibleFilterError, match="'now' is no time"):
        demand_note(node, [], "now")


def test_no_note():
    assert partitioned({}) == {}


@pytest.mark.parametrize("text", ["", "{", "[]", "3", '{"GPU-a": 3}', '{"GPU-a": "yesterday"}', 3])
def test_a_note_that_nobody_understands(text):
    with pytest.raises(InputError, match="does not tell when GPUs were partitioned"):
        partitioned({PARTITIONED: text})


def test_a_time_that_is_none_is_not_noted():
    with pytest.raises(InputError, match="'now' is no time"):
        noted({}, ["GPU-a"], "now", 300)
