# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When GPUs were last partitioned anew for pending pods: a note on their node, and the cool-down. Pure."""

from __future__ import annotations

import json
import re
from calendar import timegm
from typing import Any, Dict, Iterable, Mapping, Optional

from ansible_collections.nvidia.mig.plugins.module_utils.errors import InputError

# On a node: a JSON object, the time (UTC) by the UUID of the GPU.
PARTITIONED = "nvidia.com/mig-change.by-demand"

_TIME = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.\d+)?Z")


def seconds(text: Any) -> Optional[int]:
    """A time as Kubernetes writes it, in seconds since 1970; None if it is none."""
    match = _TIME.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        return None
    try:
        return timegm(tuple(int(part) for part in match.groups()))
    except ValueError:  # such as month 13
        return None


def partitioned(annotations: Mapping[str, Any]) -> Dict[str, str]:
    """The time by UUID, as the node's annotations tell it. Raises InputError."""
    text = annotations.get(PARTITIONED)
    if text is None:
        return {}
    try:
        found = json.loads(text)
    except (TypeError, ValueError):
        found = None
    if not isinstance(found, dict) or any(seconds(time) is None for time in found.values()):
        raise InputError(f"{text!r} does not tell when GPUs were partitioned", PARTITIONED)
    return found


def cooling(times: Mapping[str, str], cool_down: float, now: float) -> Dict[str, str]:
    """Why a GPU must rest, by UUID; GPUs that need not are not in it."""
    return {
        uuid: f"it was partitioned anew at {time} and rests for {cool_down:g} seconds"
        for uuid, time in times.items()
        if now - (seconds(time) or 0) < cool_down
    }


def noted(annotations: Mapping[str, Any], uuids: Iterable[str], time: str, keep: float) -> Dict[str, str]:
    """The node's annotation after GPUs were partitioned, without what is older than ``keep`` seconds."""
    now = seconds(time)
    if now is None:
        raise InputError(f"{time!r} is no time", hint="write it as 2026-01-31T06:12:04Z")
    try:
        times = partitioned(annotations)
    except InputError:
        times = {}  # nobody could read it
    found = {uuid: before for uuid, before in times.items() if now - (seconds(before) or 0) < keep}
    found.update(dict.fromkeys(uuids, time))
    return {PARTITIONED: json.dumps(found, sort_keys=True)}
