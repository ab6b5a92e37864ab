# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The event source as ansible-rulebook runs it: by its path, in an event loop."""

from __future__ import annotations

import asyncio
import queue
import runpy
import threading
from pathlib import Path
from typing import Any

COLLECTION = Path(__file__).resolve().parents[3]
# As an installed collection lies: what it imports, it finds from there.
SOURCE = (
    COLLECTION.parents[1]
    / "ansible_collections/nvidia/mig/extensions/eda/plugins/event_source/pending_pods.py"
)


class Running:
    """The source in a thread, and its events.

    Args:
        args: as in the rulebook.
        settle: seconds between two looks.
    """

    def __init__(self, args: dict[str, Any], settle: float = 0.05) -> None:
        self.events: queue.Queue[Any] = queue.Queue()
        self.error: BaseException | None = None
        self._main = runpy.run_path(str(SOURCE))["main"]
        self._main.__globals__["SETTLE"] = settle
        self._args = args
        self._loop: Any = None
        self._task: Any = None
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self._started.wait(10)

    def next(self, timeout: float = 30) -> dict[str, Any]:
        """The next event's content."""
        return self.events.get(timeout=timeout)["pending_pods"]

    def hear_of(self, pod: str) -> dict[str, Any]:
        """The next event that names the pod."""
        while pod not in (found := self.next())["names"]:
            pass
        return found

    def silent(self, seconds: float) -> bool:
        """Whether no event comes for so long."""
        try:
            self.events.get(timeout=seconds)
        except queue.Empty:
            return True
        return False

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join(30)
        assert not self._thread.is_alive()

    async def put(self, event: Any) -> None:
        """Of the queue that ansible-rulebook hands over."""
        self.events.put(event)

    def _run(self) -> None:
        try:
            asyncio.run(self._whole())
        except asyncio.CancelledError:
            pass
        except Exception as error:
            self.error = error

    async def _whole(self) -> None:
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        self._started.set()
        await self._main(self, self._args)
