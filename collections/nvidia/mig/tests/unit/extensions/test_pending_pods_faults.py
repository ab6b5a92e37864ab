# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The event source beside an API that fails: it goes on, and says so."""

from __future__ import annotations

import logging
import time
from typing import Any

import pytest
from ansible_collections.nvidia.mig.plugins.module_utils.errors import MigError
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes import pod_watch
from ansible_collections.nvidia.mig.tests.unit.extensions.api_stand_in import (
    BREAK,
    END,
    StandIn,
    gone,
    line,
)
from ansible_collections.nvidia.mig.tests.unit.extensions.source_support import Running
from ansible_collections.nvidia.mig.tests.unit.plugins.module_utils.kubernetes.observing import (
    container,
    pod,
)

pytest.importorskip("kubernetes")

# Of pods that are long there, nothing is waited for.
SMALL = container(mig_1g_5gb=1)
BOOKMARK = line("BOOKMARK", {"kind": "Pod", "apiVersion": "v1", "metadata": {"resourceVersion": "7"}})


def waits(name: str, version: int = 1) -> dict[str, Any]:
    return pod(name, SMALL, metadata={"resourceVersion": str(version)})


@pytest.fixture
def api(monkeypatch):
    monkeypatch.setattr(pod_watch, "FIRST_RETRY", 0.05)
    found = StandIn()
    yield found
    found.stop()


@pytest.fixture
def start(api, tmp_path, caplog):
    def begin(token: str = "", **args: Any) -> Running:
        file = api.kubeconfig(tmp_path / "kubeconfig", token)
        running.append(Running({"kubeconfig": file, "retry": 3600, "retry_limit": 3600, **args}))
        return running[-1]

    running: list[Running] = []
    caplog.set_level(logging.INFO, "nvidia.mig.pending_pods")
    yield begin
    for source in running:
        source.stop()


def warnings(caplog) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


def test_what_is_there_and_what_comes(api, start):
    api.pods = [waits("a")]
    api.watches.put([line("ADDED", waits("b", 2)), line("DELETED", waits("a", 3))])
    assert start().hear_of("ml/b")
    assert api.lists[0]["fieldSelector"] == api.asked[0]["fieldSelector"] == pod_watch.SELECTOR
    assert api.asked[0]["resourceVersion"] == "1"


def test_many_pods_come_in_pages(api, start):
    api.page = 2
    api.pods = [waits(f"p{number}") for number in range(5)]
    assert start().next()["count"] == 5
    assert [asked.get("continue") for asked in api.lists] == [None, "2", "4"]


def test_a_watch_whose_time_is_over_goes_on_where_it_was(api, start):
    api.pods = [waits("a")]
    api.watches.put([line("MODIFIED", waits("a", 5)), BOOKMARK, END])
    api.watches.put([line("ADDED", waits("b", 8))])
    assert start().hear_of("ml/b")
    assert len(api.lists) == 1
    assert [asked["resourceVersion"] for asked in api.asked] == ["1", "7"]
    assert all(asked["allowWatchBookmarks"].lower() == "true" for asked in api.asked)


@pytest.mark.parametrize(
    ("watch", "words"),
    [
        ([gone()], "too old resource version"),
        (410, "410"),
        (500, "500"),
        ([BREAK], "in 0.05 seconds"),
        (["no JSON", END], "in 0.05 seconds"),
    ],
    ids=["gone", "http-gone", "error", "broken", "garbage"],
)
def test_a_watch_that_fails_is_begun_anew_with_all_pods(api, start, caplog, watch, words):
    api.pods, api.later = [waits("a")], [waits("b")]
    api.watches.put(watch)
    assert start().hear_of("ml/b")["names"] == ["ml/b"]
    assert len(api.lists) == 2
    assert words in warnings(caplog)[0]
    assert warnings(caplog)[0].startswith("cannot watch the pods of the cluster: ")


def test_an_api_that_refuses_is_asked_ever_more_rarely(api, start, caplog):
    api.refuse = [503] * 4
    api.pods = [waits("a")]
    source = start()
    assert source.next()["names"] == ["ml/a"]
    pauses = [text.rpartition(" in ")[2] for text in warnings(caplog)]
    assert pauses == ["0.05 seconds", "0.1 seconds", "0.2 seconds", "0.4 seconds"]
    assert "refused with 503" in warnings(caplog)[0]


def test_nothing_is_sent_for_what_may_not_be_so_any_more(api, start, caplog):
    """The windows of its pods end while the API cannot be asked."""
    api.pods = [waits("a")]
    source = start(retry=1, retry_limit=1)
    source.next()
    api.refuse = [503] * 6  # for more than a second and a half
    api.break_off()
    while api.refuse:
        assert source.silent(0.02)
    assert source.next()["repeated"] == 1


def test_objects_that_are_none_are_passed_over(api, start, caplog):
    api.pods = [None, "text", {}, {"metadata": "x"}, waits("a")]
    bad = pod("bad", SMALL, spec={"priority": "high"})
    objects = [None, {"metadata": 5}, bad, waits("b")]
    api.watches.put([line("ADDED", item) for item in objects])
    assert set(start().hear_of("ml/b")["names"]) == {"ml/a", "ml/b"}
    told = warnings(caplog)
    assert any("the API sent something that is no pod" in text for text in told)
    assert any("pod ml/bad: spec.priority: 'high' is not a whole number" in text for text in told)
    assert len([text for text in told if "pods[0]" in text]) == 1  # however often it was looked at


def test_a_token_that_ended_is_read_anew_and_never_told(api, start, caplog, tmp_path):
    api.token = "second"
    api.pods = [waits("a")]
    source = start(token="first-token")
    while not warnings(caplog):
        assert source.silent(0.05)
    api.kubeconfig(tmp_path / "kubeconfig", "second")
    event = source.next()
    assert event["names"] == ["ml/a"]
    assert "refused with 401" in warnings(caplog)[0]
    assert "first-token" not in caplog.text + str(event)


def test_it_can_be_stopped_while_it_watches(api, tmp_path):
    source = Running({"kubeconfig": api.kubeconfig(tmp_path / "kubeconfig")})
    while not api.asked:
        assert source.silent(0.05)
    began = time.monotonic()
    source.stop()
    assert time.monotonic() - began < 10
    assert source.error is None


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({"retry": 0}, "retry: 0 is too short (at least 1 second)"),
        ({"kubeconfig": "/nowhere"}, "no configuration of the Kubernetes API: "),
        ({"context": "other"}, "no configuration of the Kubernetes API: "),
    ],
)
def test_what_cannot_be_is_told_before_anything_else(api, tmp_path, args, message):
    args = {"kubeconfig": api.kubeconfig(tmp_path / "kubeconfig"), **args}
    source = Running(args)
    source._thread.join(30)
    assert isinstance(source.error, MigError)
    assert str(source.error).startswith(message)
    assert not api.lists
