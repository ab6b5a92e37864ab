"""The replay of a day in its short form: a small fleet, for some hours."""

from __future__ import annotations

from copy import deepcopy
from xml.etree import ElementTree

import pytest

pytest.importorskip("highspy")

import curves  # noqa: E402
from miglab.day import HOUR, jobs  # noqa: E402
from played import Record, Run, Way, carry_out  # noqa: E402
from replay import COOL_DOWN, as_nos, hindsight, ours, row, the_day  # noqa: E402
from simulated import Cluster  # noqa: E402

STOPPED = 0.0  # no deadline comes, so a plan does not depend on how busy the machine is


@pytest.fixture(scope="module")
def day():
    return the_day(seed=1, nodes=12, hours=2, gpus=4)


@pytest.fixture(scope="module")
def layouts(day):
    return hindsight(day, planner(gap=0.02))["its mean"]


@pytest.fixture(scope="module")
def played(day, layouts):
    return play(day, layouts)


def planner(**settings):
    return ours(clock=lambda: STOPPED, **settings)


def play(day, layouts, way=None) -> Record:
    return Run(day, way or Way("ours", planner(), COOL_DOWN), layouts).play()


def test_no_pod_is_disturbed_and_no_plan_flaps(played):
    assert played.changes
    assert played.disturbed == 0
    assert played.soonest() >= COOL_DOWN
    assert played.returns(COOL_DOWN) == 0


def test_more_runs_than_with_a_static_layout_or_the_greedy_planner(day, layouts, played):
    for other in (Way("static"), Way("greedy", as_nos)):
        record = play(day, layouts, other)
        assert (record.came, record.wanted) == (played.came, played.wanted)
        assert played.ran >= record.ran
        assert played.placed >= record.placed


def test_the_same_seed_gives_the_same_day(day, layouts, played):
    again = the_day(seed=1, nodes=12, hours=2, gpus=4)
    assert row("ours", again, play(again, layouts))[:-2] == row("ours", day, played)[:-2]
    assert jobs(2, 1, 1000) != jobs(1, 1, 1000)


def test_a_change_that_must_pay_is_rarer(day, layouts, played):
    dear = play(day, layouts, Way("dear", planner(change_cost=1.0), COOL_DOWN))
    assert len(dear.changes) < len(played.changes)


def test_a_pod_that_loses_its_device_is_counted(day):
    """What the figure counts, if the geometry core let it happen."""
    cluster = Cluster(deepcopy(day.nodes[:1]))
    gpu = cluster.nodes[0].gpus[0]
    gpu["pods"] = [{"namespace": "day", "name": "a", "uid": "a"}]
    layout = [{"gpus": [gpu["uuid"]], "profiles": {}}]
    (change,) = carry_out(cluster, [{"name": cluster.nodes[0].seen["name"], "layout": layout}], 0)
    assert change.mode
    assert change.lost == 1


def test_the_figure_has_a_curve_for_each(day, played):
    shown = {"asked for": day.wanted(), "ours": played.held}
    drawn = ElementTree.fromstring(curves.draw("a title", "hours", day.hours, shown, day.slices))
    lines = [own for own in drawn.iter() if own.tag.endswith("polyline")]
    assert [len(own.get("points").split()) for own in lines] == [120, 120]
    assert {"asked for", "ours", "a title"} <= {own.text for own in drawn.iter()}


def test_what_is_held_and_wanted_adds_up(day, played):
    wanted = sum(job.slices * job.pods * min(job.seconds, day.hours * HOUR - job.at) for job in day.jobs)
    assert sum(day.wanted()) * 60 == pytest.approx(wanted, rel=0.02)
    assert sum(played.held) * 60 == pytest.approx(played.ran, rel=0.02)
    assert max(played.held) <= day.slices
