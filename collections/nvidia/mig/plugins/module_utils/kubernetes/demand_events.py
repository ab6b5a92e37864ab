# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When to send an event for pods that wait for GPUs, and what is in it. Pure."""

from __future__ import annotations

from typing import Any, Dict, NamedTuple, Optional

from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.pending import Pending
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.quantities import thousandths
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.resources import is_gpu_resource

# Names of pods in one event. A cluster may have some ten thousand that wait.
NAMED = 100


class Backoff(NamedTuple):
    """After how many seconds the event is repeated while the same pods wait.

    Args:
        first: the first time; every later one takes twice as long,
        limit: but never longer than this.
    """

    first: float
    limit: float

    def after(self, repeats: int) -> float:
        """Seconds to the next event, after so many that were repetitions."""
        # More doublings than these exceed every limit, and would overflow some day.
        return min(self.first * float(1 << min(repeats, 60)), self.limit)


class Events:
    """Which pods events have told of, and so when the next one is due.

    A pod that no event has told of makes one due at once. Else the last one is repeated, with a back-off
    that begins anew when one of the pods has gone. ``now`` is in seconds of a clock that only goes forward.
    """

    def __init__(self, backoff: Backoff) -> None:
        self._backoff = backoff
        self._told: Dict[str, Dict[str, Any]] = {}
        self._last = 0.0
        self._repeats = 0

    def due(self, pending: Pending, now: float) -> Optional[float]:
        """When to send the next event if nothing changes; None if there is nobody to send one for."""
        ready = _by_name(pending)
        here = set(ready) | {own["pod"] for own in pending.waiting}
        if not here.issuperset(self._told):
            self._told = {name: own for name, own in self._told.items() if name in here}
            self._repeats = 0
        if not ready:
            return None
        if any(self._told.get(name) != own for name, own in ready.items()):
            return now
        return self._last + self._backoff.after(self._repeats)

    def sent(self, pending: Pending, now: float) -> Dict[str, Any]:
        """Take note of an event for these pods. Returns the event."""
        ready = _by_name(pending)
        same = all(self._told.get(name) == own for name, own in ready.items())
        self._repeats = self._repeats + 1 if same else 0
        self._told.update(ready)
        self._last = now
        return {"pending_pods": {**summary(pending), "repeated": self._repeats}}


def summary(pending: Pending) -> Dict[str, Any]:
    """The pods in short: nothing of what their owners wrote, but names and requested devices."""
    devices: Dict[str, int] = {}
    for own in pending.pods:
        for name, amount in own["requests"].items():
            if is_gpu_resource(name):
                devices[name] = devices.get(name, 0) + thousandths(amount, name, up=True) // 1000
    return {
        "count": len(pending.pods),
        "names": [name for name, _own in zip(_by_name(pending), range(NAMED))],
        "devices": devices,
        "waiting": len(pending.waiting),
    }


def _by_name(pending: Pending) -> Dict[str, Dict[str, Any]]:
    return {f"{own['namespace']}/{own['name']}": own for own in pending.pods}
