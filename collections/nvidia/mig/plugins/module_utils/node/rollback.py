# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Put GPUs back to how they were, and tell exactly how far that came."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Dict, List, Sequence, Set, Tuple

from ansible_collections.nvidia.mig.plugins.module_utils.errors import DeviceError, MigError
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.catalog import Placement
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.state import GpuState
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.steps import (
    CreateComputeInstance,
    CreateGpuInstance,
    Plan,
    SetMode,
    Step,
)
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.transition import plan_restore
from ansible_collections.nvidia.mig.plugins.module_utils.nvml.reader import Reader
from ansible_collections.nvidia.mig.plugins.module_utils.nvml.writer import Writer


def roll_back(
    writer: Writer, reader: Reader, before: Sequence[GpuState], done: Sequence[Step], cause: MigError
) -> DeviceError:
    """Bring every GPU back to ``before``: instances at their placements, and MIG mode.

    Args:
        done: what was carried out of the plan.
        cause: why.

    Returns:
        The error to raise: the cause, what was put back, what could not be, and what is there now. Its
        details hold ``changed``, ``restored``, ``not_restored``, ``before`` and ``after``.
    """
    restored: List[Step] = []
    failures: List[str] = []
    missing: Set[Tuple[int, Placement]] = set()
    try:
        for old, now in zip(before, reader.read().states):
            for step in restore_steps(old, now):
                if isinstance(step, CreateComputeInstance) and (step.gpu, step.placement) in missing:
                    continue
                try:
                    writer.apply(step)
                    restored.append(step)
                except MigError as error:
                    failures.append(str(error))
                    if isinstance(step, CreateGpuInstance):
                        missing.add((step.gpu, step.placement))
        after = reader.read().states
    except MigError as error:
        return _unreadable(cause, before, done, restored, [*failures, str(error)])
    was, now_is = _summaries(before), _summaries(after)
    lines = Plan(tuple(restored)).actions
    details: Dict[str, Any] = {
        "changed": was != now_is,
        "restored": lines,
        "not_restored": failures,
        "before": was,
        "after": now_is,
    }
    if was == now_is:
        text = f"Rolled back ({'; '.join(lines)})" if lines else "Nothing was changed"
        return _error(cause, f"{text}: the GPUs are as they were", [], details)
    different = {name: now_is[name] for name in was if was[name] != now_is.get(name)}
    state = "; ".join(f"{name} has {_describe(summary)}" for name, summary in different.items())
    text = f"Rolled back in part ({'; '.join(lines)})" if lines else "Nothing could be rolled back"
    return _error(cause, f"{text}; now {state}", failures, details)


def restore_steps(before: GpuState, now: GpuState) -> Tuple[Step, ...]:
    """The steps back to ``before``, MIG mode included. A change that was pending before is not set again."""
    index = now.identity.index
    if now.mig_current != before.mig_current:
        empty = replace(now, instances=())
        return (
            *plan_restore(empty, now),
            SetMode(index, before.mig_current, resets=not now.resetless),
            *plan_restore(before, empty),
        )
    steps = plan_restore(before, now) if now.mig_current else ()
    if now.mig_pending != now.mig_current and before.mig_pending == before.mig_current:
        steps = (*steps, SetMode(index, before.mig_current, resets=False, cancels=True))
    return steps


def _unreadable(
    cause: MigError,
    before: Sequence[GpuState],
    done: Sequence[Step],
    restored: Sequence[Step],
    failures: Sequence[str],
) -> DeviceError:
    """Nobody knows what is there, so it tells what was done, and that something may have changed."""
    was_done, lines = Plan(tuple(done)).actions, Plan(tuple(restored)).actions
    text = f"What is there now cannot be read; carried out was: {'; '.join(was_done) or 'no whole step'}"
    if lines:
        text += f"; then, to roll back: {'; '.join(lines)}"
    details = {
        "changed": True,
        "actions": was_done,
        "restored": lines,
        "not_restored": list(failures),
        "before": _summaries(before),
    }
    return _error(cause, text, failures, details)


def _error(cause: MigError, text: str, failures: Sequence[str], details: Dict[str, Any]) -> DeviceError:
    parts = [str(cause), text]
    if failures:
        parts.append(f"Could not be put back: {'; '.join(failures)}")
    return DeviceError(
        ". ".join(part.rstrip(".") for part in parts),
        hint="run it again: it plans from what is there now",
        details={**cause.details, **details},
    )


def _summaries(states: Sequence[GpuState]) -> Dict[str, Any]:
    return {f"GPU {state.identity.index}": state.summary() for state in states}


def _describe(summary: Dict[str, Any]) -> str:
    text = ", ".join(summary["instances"]) or "no instances"
    if not summary["mig"]:
        text = "MIG mode disabled"
    if "mig_pending" in summary:
        text += f" (MIG mode to be {'enabled' if summary['mig_pending'] else 'disabled'} by the next reset)"
    return text
