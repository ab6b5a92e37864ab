# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is written as a mig-parted file is read as the same."""

from __future__ import annotations

from ansible_collections.nvidia.mig.plugins.module_utils.geometry.mig_parted import (
    mig_parted_entries,
    parse_mig_parted,
)
from hypothesis import given
from hypothesis import strategies as st

PROFILES = ("7g.40gb", "3g.20gb", "1c.3g.20gb", "2g.10gb", "1g.5gb", "1g.5gb+me", "1g.24gb-me", "1g.24gb+gfx")


@st.composite
def gpu_lists(draw):
    gpus = []
    for index in range(draw(st.integers(0, 8))):
        capable = draw(st.integers(0, 4)) > 0
        mig = capable and draw(st.booleans())
        profiles = draw(st.lists(st.sampled_from(PROFILES), max_size=7)) if mig else []
        gpus.append({"index": index, "mig_capable": capable, "mig": mig, "profiles": profiles})
    return gpus


def read_back(gpus):
    """Mode and profiles of each GPU that can do MIG, as a reader of the file gets them."""
    config = {"version": "v1", "mig-configs": {"it": mig_parted_entries(gpus)}}
    found = {}
    for entry in parse_mig_parted(config, "it"):
        for gpu in gpus:
            if gpu["mig_capable"] and (entry.selector.every or gpu["index"] in entry.selector.names):
                assert gpu["index"] not in found, "two entries for one GPU"
                found[gpu["index"]] = (entry.layout.mig, sorted(map(str, entry.layout.profiles)))
    return found


@given(gpu_lists())
def test_round_trip(gpus):
    if not any(gpu["mig_capable"] for gpu in gpus):
        assert mig_parted_entries(gpus) == []
        return
    assert read_back(gpus) == {
        gpu["index"]: (gpu["mig"], sorted(gpu["profiles"])) for gpu in gpus if gpu["mig_capable"]
    }


@given(gpu_lists().flatmap(lambda gpus: st.tuples(st.just(gpus), st.permutations(gpus))))
def test_the_order_does_not_matter(both):
    assert mig_parted_entries(both[0]) == mig_parted_entries(both[1])


def test_form():
    gpus = [
        {"index": 0, "mig_capable": True, "mig": False, "profiles": []},
        {"index": 1, "mig_capable": True, "mig": True, "profiles": ["3g.20gb", "3g.20gb"]},
    ]
    whole, cut = mig_parted_entries(gpus)
    assert whole == {"devices": [0], "mig-enabled": False}
    assert cut == {"devices": [1], "mig-enabled": True, "mig-devices": {"3g.20gb": 2}}
    display = {"index": 0, "mig_capable": False, "mig": False, "profiles": []}
    assert mig_parted_entries([display, gpus[1]]) == [{**cut, "devices": "all"}]
