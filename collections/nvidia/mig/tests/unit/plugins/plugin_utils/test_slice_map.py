# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A GPU as a picture of text."""

from __future__ import annotations

import pytest
from ansible_collections.nvidia.mig.plugins.plugin_utils.slice_map import (
    draw_diff,
    draw_gpu,
    draw_gpus,
    read_instance,
)

PICTURES = {
    "full": (
        ["2g.10gb 0:2", "1g.5gb 2:1", "1g.5gb 3:1", "3g.20gb 4:4"],
        8,
        "|2g.10gb      |1g.5gb|1g.5gb|3g.20gb                    |",
    ),
    "free slices": (
        ["1g.5gb 2:1", "2g.10gb 4:2"],
        8,
        "|.............|1g.5gb|......|2g.10gb      |.............|",
    ),
    "a name that is too long for a slice": (
        ["1g.18gb+me 0:1", "1g.18gb 1:1", "3g.71gb 4:4"],
        8,
        "|1g+me |1g    |.............|3g.71gb                    |",
    ),
    "compute instances": (
        ["3g.20gb 0:4 [2c 1c]", "1g.5gb 4:1 [no compute instance]"],
        8,
        "|3g.20gb [2c 1c]            |1g.5gb|....................|",
    ),
    "four slices": (
        ["2g.12gb 0:2", "1g.6gb 2:1"],
        4,
        "|2g.12gb                    |1g.6gb       |.............|",
    ),
    "no instances": ([], 8, "|.......................................................|"),
    "nothing known": ([], 0, "MIG on, no instances"),
    "an instance of a name unknown": (
        ["MIG 9x.99gb 0:4"],
        8,
        "|MIG 9x.99gb                |...........................|",
    ),
}


@pytest.mark.parametrize("name", PICTURES)
def test_pictures(name):
    instances, slices, picture = PICTURES[name]
    assert draw_gpu({"mig": True, "instances": instances}, slices) == picture
    assert len(picture) < 60


def test_a_gpu_without_mig_and_one_that_waits_for_a_reset():
    assert draw_gpu({"mig": False, "instances": []}, 8) == "whole GPU"
    waiting = {"mig": False, "mig_pending": True, "instances": []}
    assert draw_gpu(waiting, 8) == "whole GPU  MIG mode on is pending"


@pytest.mark.parametrize("slices", [4, 8, 12, 16])
def test_every_slice_has_the_same_width_wherever_the_instances_are(slices):
    width = len(draw_gpu({"mig": True, "instances": []}, slices))
    for start in range(slices):
        drawn = draw_gpu({"mig": True, "instances": [f"1g.5gb {start}:1"]}, slices)
        assert len(drawn) == width
        assert drawn.index("1g") == start * (width // slices) + 1


def test_who_uses_what_is_told_beneath_as_long_as_it_is_there():
    before = {"GPU 5": {"mig": True, "instances": ["3g.20gb 0:4", "3g.20gb 4:4"]}, "GPU 6": {"mig": False}}
    after = {"GPU 5": {"mig": True, "instances": ["2g.10gb 0:2", "3g.20gb 4:4"]}, "GPU 6": {"mig": True}}
    touched = [
        {
            "gpu": 5,
            "memory_slices": 8,
            "held": {"3g.20gb 0:4": ["pod a/x"], "3g.20gb 4:4": ["pod b/y", "pod c/z"]},
        },
        {"gpu": 6, "memory_slices": 8, "held": {"": ["process 7 (python)"]}},
    ]
    assert draw_gpus(before, touched) == [
        "GPU 5  |3g.20gb                    |3g.20gb                    |",
        "       3g.20gb 0:4 in use by pod a/x",
        "       3g.20gb 4:4 in use by pod b/y, pod c/z",
        "GPU 6  whole GPU",
        "       in use by process 7 (python)",
    ]
    assert draw_gpus(after, touched) == [
        "GPU 5  |2g.10gb      |.............|3g.20gb                    |",
        "       3g.20gb 4:4 in use by pod b/y, pod c/z",
        "GPU 6  |.......................................................|",
    ]


def test_a_diff_is_of_the_gpus_that_are_touched():
    before = {"GPU 0": {"mig": False}, "GPU 1": {"mig": False}}
    after = {"GPU 0": {"mig": False}, "GPU 1": {"mig": True, "instances": []}}
    touched = [{"gpu": 1, "memory_slices": 4, "held": {}}]
    diff = {"before": before, "after": after, "before_header": "MIG"}
    assert draw_diff({"before": before, "after": after, "touched": touched, "diff": diff}) == {
        "before_header": "MIG",
        "before": "GPU 1  whole GPU\n",
        "after": f"GPU 1  |{'.' * 55}|\n",
    }
    assert draw_diff({"before": before, "after": before, "touched": [], "diff": diff})["after"] == ""


@pytest.mark.parametrize("text", ["3g.20gb", "", "3g.20gb 0"])
def test_what_is_no_instance_is_refused(text):
    with pytest.raises(ValueError, match="is no instance"):
        read_instance(text)
