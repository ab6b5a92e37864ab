# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The arguments of the event source pending_pods, which ansible-rulebook hands over unchecked. Pure."""

from __future__ import annotations

import math
from typing import Any, Mapping, NamedTuple, Optional

from ansible_collections.nvidia.mig.plugins.module_utils.errors import InputError
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.demand_events import Backoff
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.pending import Window

_SECONDS = {"batch_window": 60.0, "idle_window": 10.0, "retry": 120.0, "retry_limit": 900.0}
_FLAGS = ("whole_gpus", "shared_gpus", "gang_jobs")
_TEXTS = {"kubeconfig": "the path of a file", "context": "a name"}
ARGUMENTS = (*_SECONDS, *_FLAGS, *_TEXTS)
# Added by ansible-rulebook.
_INTERNAL = ("eda_feedback_queue",)

# With less, a run would follow the other for pods that nothing can be done for.
_SHORTEST_RETRY = 1

_TRUE = ("true", "yes", "on", "1")
_FALSE = ("false", "no", "off", "0")


class Options(NamedTuple):
    """What the operator wants."""

    window: Window
    backoff: Backoff
    whole_gpus: bool
    shared_gpus: bool
    gang_jobs: bool
    kubeconfig: Optional[str]
    context: Optional[str]


def parse_options(args: Mapping[str, Any]) -> Options:
    """The arguments, with defaults for those that are missing.

    Raises:
        InputError: one is unknown or cannot be.
    """
    for name in args:
        if name not in ARGUMENTS + _INTERNAL:
            there = ", ".join(sorted(ARGUMENTS))
            raise InputError("there is no such argument", str(name), f"there are {there}")
    seconds = {name: _seconds(args.get(name), name, default) for name, default in _SECONDS.items()}
    retry, limit = seconds["retry"], seconds["retry_limit"]
    if retry < _SHORTEST_RETRY:
        raise InputError(f"{retry:g} is too short", "retry", f"at least {_SHORTEST_RETRY} second")
    if limit < retry:
        raise InputError(f"{limit:g} is less than retry, which is {retry:g}", "retry_limit")
    flags = {name: _flag(args.get(name), name) for name in _FLAGS}
    texts = {name: _text(args.get(name), name, what) for name, what in _TEXTS.items()}
    return Options(
        Window(seconds["batch_window"], seconds["idle_window"]),
        Backoff(retry, limit),
        flags["whole_gpus"],
        flags["shared_gpus"],
        flags["gang_jobs"],
        texts["kubeconfig"],
        texts["context"],
    )


def _seconds(value: Any, name: str, default: float) -> float:
    if value is None:
        return default
    try:
        found = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        found = math.nan
    if not math.isfinite(found) or found < 0:
        raise InputError(f"{value!r} is not a number of seconds", name, "such as 60; not below zero")
    return found


def _flag(value: Any, name: str) -> bool:
    word = str(False if value is None else value).lower()
    if word not in _TRUE + _FALSE:
        raise InputError(f"{value!r} is neither true nor false", name)
    return word in _TRUE


def _text(value: Any, name: str, what: str) -> Optional[str]:
    # The value is not told: a kubeconfig that is written out has secrets in it.
    if value is not None and not isinstance(value, str):
        raise InputError(f"it is of type {type(value).__name__}", name, what)
    return value or None
