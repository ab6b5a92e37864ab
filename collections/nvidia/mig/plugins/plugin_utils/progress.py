# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run is waiting for, told now and then while it waits."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
import threading
import time
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Mapping, Tuple

from ansible_collections.nvidia.mig.plugins.module_utils.progress import LONGEST, SOCKET_VARIABLE
from ansible_collections.nvidia.mig.plugins.plugin_utils.names import some

_MOST_NAMES = 3
# A module that waits says so every other second.
_STALE = 6.0


@dataclass
class _Wait:
    text: str
    since: float
    heard: float
    told: float
    lasts: bool


class Waits:
    """What is waited for at the moment. A wait is told when it has lasted a while, and again after as long.

    Args:
        every: seconds.
    """

    def __init__(self, every: float) -> None:
        self.every = every
        self._waits: Dict[Tuple[str, ...], _Wait] = {}

    def begin(self, key: Tuple[str, ...], text: str, now: float, lasts: bool = True) -> None:
        """From now on there is this wait, or it is for something else by now.

        Args:
            lasts: until its end; else only for some seconds, unless it is begun again.
        """
        wait = self._waits.setdefault(key, _Wait(text, now, now, now, lasts))
        wait.text, wait.heard = text, now

    def end(self, key: Tuple[str, ...]) -> None:
        """It is over, if there was one."""
        self._waits.pop(key, None)

    def due(self, now: float) -> List[str]:
        """The lines to tell now."""
        lines = []
        self._waits = {k: wait for k, wait in self._waits.items() if wait.lasts or now - wait.heard < _STALE}
        for wait in self._waits.values():
            if now - wait.told >= self.every:
                wait.told = now
                lines.append(f"  ... {wait.text} ({now - wait.since:.0f} s)")
        return lines


def what_is_left(result: Mapping[str, Any]) -> str:
    """What an attempt that is repeated found: the pods that are still there, or what went wrong."""
    names = [item["metadata"]["name"] for item in result.get("resources") or () if item.get("kind") == "Pod"]
    if names:
        return f"{len(names)} pod{'s' if len(names) > 1 else ''} left, {some(names, _MOST_NAMES)}"
    return " ".join(str(result.get("msg") or "").split())[:200]


class Listener:
    """Tells waits from a thread of its own; also those that `module_utils.progress.tell` sends.

    Args:
        every: seconds; 0: nothing is told.
        show: takes one line.
    """

    def __init__(self, every: float, show: Callable[[str], None]) -> None:
        self._waits = Waits(every)
        self._show = show
        self._lock = threading.Lock()
        self._directory = ""
        self._link: Any = None

    def start(self) -> None:
        """Listen, where the system can."""
        if not self._waits.every or not hasattr(socket, "AF_UNIX"):
            return
        self._directory = tempfile.mkdtemp(prefix="mig-progress-")
        path = os.path.join(self._directory, "socket")
        self._link = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._link.bind(path)
        self._link.settimeout(1.0)
        os.environ[SOCKET_VARIABLE] = path
        threading.Thread(target=self._listen, name="mig-progress", daemon=True).start()

    def stop(self) -> None:
        """No line comes after this."""
        with self._lock:
            link, self._link = self._link, None
        if link is not None:
            os.environ.pop(SOCKET_VARIABLE, None)
            link.close()
            shutil.rmtree(self._directory, ignore_errors=True)

    def begin(self, host: str, task: str, text: str) -> None:
        """A host begins a task, or tries it once more."""
        with self._lock:
            self._waits.begin((host, task), f"{host}: {text}", time.monotonic())

    def end(self, host: str, task: str) -> None:
        """A host is through with a task."""
        with self._lock:
            self._waits.end((host, task))

    def _listen(self) -> None:
        while True:
            link = self._link
            if link is None:
                return
            try:
                text = link.recv(LONGEST).decode("utf-8", "replace")
            except TimeoutError:
                text = ""
            except OSError:  # it was closed
                return
            with self._lock:
                if self._link is None:
                    return
                now = time.monotonic()
                if text:
                    self._waits.begin((text.partition(":")[0],), text, now, lasts=False)
                lines = self._waits.due(now)
            for line in lines:
                self._show(line)
