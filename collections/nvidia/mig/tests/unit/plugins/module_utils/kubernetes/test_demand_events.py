# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When the event source speaks up, how often, and what it says."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.demand_events import (
    NAMED,
    Backoff,
    Events,
    summary,
)
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.pending import Pending
from hypothesis import given
from hypothesis import strategies as st

BACKOFF = Backoff(first=10, limit=60)


def wanted(name: str, **requests: str) -> dict[str, Any]:
    return {"namespace": "ml", "name": name, "requests": requests or {"nvidia.com/mig-1g.5gb": "1"}}


def pending(*names: str, waiting: tuple[str, ...] = ()) -> Pending:
    return Pending(
        pods=[wanted(name) for name in names],
        waiting=[{"pod": f"ml/{name}", "reason": "is young"} for name in waiting],
    )


@pytest.fixture
def events() -> Events:
    return Events(BACKOFF)


def test_a_new_pod_is_told_of_at_once(events):
    assert events.due(pending("a"), 100) == 100
    events.sent(pending("a"), 100)
    assert events.due(pending("a", "b"), 101) == 101


def test_nobody_to_send_for(events):
    assert events.due(pending(), 100) is None
    assert events.due(pending(waiting=("a",)), 100) is None
    events.sent(pending("a"), 100)
    assert events.due(pending(), 500) is None


def test_the_same_pods_are_told_of_ever_more_rarely(events):
    now, waits = 100.0, []
    for number in range(6):
        due = events.due(pending("a"), now)
        waits.append(due - now)
        now = due
        assert events.sent(pending("a"), now)["pending_pods"]["repeated"] == number
    assert waits == [0, 10, 20, 40, 60, 60]


def repeat(events: Events, what: Pending, times: int) -> float:
    now = 0.0
    for _time in range(times):
        now = events.due(what, now)
        events.sent(what, now)
    return now


def test_a_pod_that_is_new_makes_it_begin_anew(events):
    now = repeat(events, pending("a"), 5)
    assert events.due(pending("a", "b"), now + 1) == now + 1
    assert events.sent(pending("a", "b"), now + 1)["pending_pods"]["repeated"] == 0
    assert events.due(pending("a", "b"), now + 2) == now + 11


def test_a_pod_that_asks_for_something_else_is_new(events):
    events.sent(pending("a"), 0)
    assert events.due(Pending(pods=[wanted("a", **{"nvidia.com/mig-2g.10gb": "1"})]), 1) == 1


def test_a_pod_that_has_gone_makes_it_begin_anew_and_not_at_once(events):
    """What it leaves may do for another; but mostly it got its device, and the others were judged then."""
    now = repeat(events, pending("a", "b"), 5)
    assert events.due(pending("a"), now + 1) == now + 10


def test_a_pod_that_came_back_is_new(events):
    events.sent(pending("a", "b"), 0)
    events.due(pending("a"), 1)
    assert events.due(pending("a", "b"), 2) == 2


def test_a_pod_that_waits_again_is_not_new(events):
    """As when another comes within its batch window."""
    now = repeat(events, pending("a", "b"), 3)
    events.due(pending("a", waiting=("b",)), now + 1)
    assert events.due(pending("a", "b"), now + 2) == now + 40


def test_no_limit_is_exceeded_however_long_it_lasts():
    assert Backoff(1, 900).after(10**9) == 900


@given(st.floats(1, 1e6), st.floats(0, 1e6), st.integers(0, 200))
def test_the_back_off_grows_up_to_its_limit(first, more, repeats):
    backoff = Backoff(first, first + more)
    assert first <= backoff.after(repeats) <= backoff.after(repeats + 1) <= backoff.limit


@given(st.lists(st.sets(st.sampled_from("abcde")), max_size=30))
def test_nobody_is_forgotten_and_nobody_told_of_without_pause(steps):
    """A second a step: whoever is new is told of in it; else the shortest back-off is kept."""
    events, told, last = Events(BACKOFF), set(), None
    for now, names in enumerate(steps):
        what = pending(*sorted(names))
        due = events.due(what, now)
        told &= names
        if names - told:
            assert due == now
        elif names:
            assert due >= last + BACKOFF.first
        else:
            assert due is None
        if due is not None and due <= now:
            events.sent(what, now)
            told, last = set(names), now


def test_what_an_event_says():
    found = Pending(
        pods=[
            wanted("a", **{"nvidia.com/mig-1g.5gb": "2", "cpu": "500m"}),
            wanted("b", **{"nvidia.com/mig-1g.5gb": "1", "nvidia.com/gpu": "8", "memory": "1Gi"}),
        ],
        waiting=[{"pod": "ml/c", "reason": "is young"}],
    )
    assert Events(BACKOFF).sent(found, 0) == {
        "pending_pods": {
            "count": 2,
            "names": ["ml/a", "ml/b"],
            "devices": {"nvidia.com/mig-1g.5gb": 3, "nvidia.com/gpu": 8},
            "waiting": 1,
            "repeated": 0,
        }
    }


def test_an_event_stays_small():
    found = summary(pending(*(f"p{number}" for number in range(5000))))
    assert found["count"] == 5000 and len(found["names"]) == NAMED and found["names"][0] == "ml/p0"
