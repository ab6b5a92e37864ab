"""The simulated nodes as the agent sees them; NVML is asked only where something changed."""

from __future__ import annotations

import os
import struct
import time
from dataclasses import replace
from pathlib import Path

from miglab import paths
from miglab.agent.hardware import Hardware
from miglab.agent.model import Machine
from miglab.agent.reader import read
from miglab.console import say

# The state file counts its changes in this field, after its magic and layout number (simulator/nvml/state.h).
_CHANGES = struct.Struct("=8xQI")
_RETRY_SECONDS = 2.0


class Fleet:
    """Remembers what it has read. Not thread-safe."""

    def __init__(self) -> None:
        self._versions: dict[str, object] = {}
        self._machines: dict[str, Machine] = {}
        self._troubles: dict[str, str] = {}
        self._again: dict[str, float] = {}

    def refresh(self) -> bool:
        """Look at every node again; True if any is new, changed or gone."""
        versions = {name: _version(name) for name in _names()}
        late = time.monotonic()
        stale = [
            name
            for name, version in versions.items()
            if self._versions.get(name) != version or self._again.get(name, late) < late
        ]
        gone = self._machines.keys() - versions.keys()
        for name in gone:
            del self._machines[name]
            self._versions.pop(name, None)
            self._again.pop(name, None)
        if stale:
            found = read(stale)
            for name in stale:
                self._take(name, found.get(name, "the reader was killed"))
                # Not the version of now: a change made while it was read shows at the next look.
                self._versions[name] = versions[name]
        switched = [name for name, each in self._machines.items() if each.on == _is_off(name)]
        for name in switched:
            self._machines[name] = replace(self._machines[name], on=not self._machines[name].on)
        return bool(stale or gone or switched)

    @property
    def machines(self) -> dict[str, Machine]:
        return self._machines

    def _take(self, name: str, found: Hardware | str) -> None:
        if isinstance(found, str):
            if self._troubles.get(name) != found:
                say(f"node {name} cannot be read: {found}")
            self._troubles[name] = found
            self._again[name] = time.monotonic() + _RETRY_SECONDS
            self._machines[name] = Machine(None, _boot_id(name), not _is_off(name))
            return
        self._troubles.pop(name, None)
        self._again.pop(name, None)
        self._machines[name] = Machine(found, _boot_id(name), not _is_off(name))


def _names() -> list[str]:
    try:
        names = sorted(os.listdir(paths.nodes_dir()))
    except OSError:
        return []
    return [name for name in names if (paths.nodes_dir() / name / "nvml.state").exists()]


def _version(name: str) -> object:
    """Differs after every change of the node's state, and after a reboot."""
    try:
        with open(paths.node_state(name), "rb") as file:
            status = os.fstat(file.fileno())
            changes = _CHANGES.unpack(file.read(_CHANGES.size))
    except (OSError, struct.error):
        return None
    return status.st_ino, changes, _boot_id(name)


def _is_off(name: str) -> bool:
    return paths.switched_off(name).exists()


def _boot_id(name: str) -> str:
    try:
        return Path(paths.boot_id(name)).read_text().strip()
    except OSError:
        return ""
