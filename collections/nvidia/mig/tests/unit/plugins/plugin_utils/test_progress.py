# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run waits for, told while it waits."""

from __future__ import annotations

import os
import queue
import threading
from typing import Any, Dict, List

import pytest
from ansible_collections.nvidia.mig.plugins.module_utils.progress import SOCKET_VARIABLE, tell
from ansible_collections.nvidia.mig.plugins.plugin_utils.progress import Listener, Waits, what_is_left


def test_a_wait_is_told_when_it_has_lasted_a_while_and_again_after_as_long() -> None:
    waits = Waits(10)
    waits.begin(("dgx01", "1"), "dgx01: Reboot", 100)
    assert waits.due(109) == []
    assert waits.due(111) == ["  ... dgx01: Reboot (11 s)"]
    assert waits.due(112) == []
    waits.begin(("dgx01", "1"), "dgx01: Wait: 1 pod left", 120)
    assert waits.due(121) == ["  ... dgx01: Wait: 1 pod left (21 s)"]
    waits.end(("dgx01", "1"))
    waits.end(("dgx01", "1"))
    assert waits.due(200) == []


def test_what_a_module_tells_is_over_when_it_does_not_say_so_again() -> None:
    waits = Waits(10)
    for now in (0, 4, 8, 12):
        waits.begin(("rollout",), f"rollout: {now} of 20", now, lasts=False)
    assert waits.due(12) == ["  ... rollout: 12 of 20 (12 s)"]
    assert waits.due(30) == []
    waits.begin(("rollout",), "rollout: 1 of 20", 31, lasts=False)
    assert waits.due(36) == []


def pod(name: str) -> Dict[str, Any]:
    return {"kind": "Pod", "metadata": {"name": name}}


@pytest.mark.parametrize(
    "result, text",
    [
        ({"resources": [pod("a")]}, "1 pod left, a"),
        ({"resources": [pod(name) for name in "abcde"]}, "5 pods left, a, b, c and 2 more"),
        ({"resources": [], "msg": ""}, ""),
        ({"msg": "it would violate\n the budget"}, "it would violate the budget"),
        ({"resources": [{"kind": "Node", "metadata": {"name": "n"}}]}, ""),
    ],
)
def test_what_an_attempt_found(result: Dict[str, Any], text: str) -> None:
    assert what_is_left(result) == text


def test_a_module_is_heard_while_it_runs_and_not_after_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SOCKET_VARIABLE, raising=False)
    tell("nobody listens")
    heard: queue.Queue[str] = queue.Queue()
    listener = Listener(0.1, heard.put)
    listener.start()
    path = os.environ[SOCKET_VARIABLE]
    try:
        assert os.stat(os.path.dirname(path)).st_mode & 0o077 == 0
        over = threading.Event()

        def keep_telling() -> None:
            while not over.wait(0.05):
                tell("rollout: 2 of 3 pods ready " + "x" * 5000)

        sender = threading.Thread(target=keep_telling)
        sender.start()
        line = heard.get(timeout=30)
        over.set()
        sender.join()
        assert line.startswith("  ... rollout: 2 of 3 pods ready xxx")
        listener.begin("dgx01", "1", "Reboot")
        while "dgx01: Reboot (" not in line:
            line = heard.get(timeout=30)
    finally:
        listener.stop()
    assert SOCKET_VARIABLE not in os.environ
    assert not os.path.exists(os.path.dirname(path))
    tell("nobody listens any more")
    listener.stop()


def test_it_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SOCKET_VARIABLE, raising=False)
    lines: List[str] = []
    listener = Listener(0, lines.append)
    listener.start()
    assert SOCKET_VARIABLE not in os.environ
    listener.begin("dgx01", "1", "Reboot")
    listener.stop()
    assert lines == []
