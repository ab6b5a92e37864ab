# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""MIG mode alone: the plan for some GPUs, and what stands in its way."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Dict, List, Sequence

from ansible_collections.nvidia.mig.plugins.module_utils.errors import InputError, InUseError
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.catalog import short_product
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.entries import GpuLayout
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.problems import Problems
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.selector import parse_selector
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.state import GpuState
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.steps import Plan
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.transition import plan_host


def select(value: Any, states: Sequence[GpuState], path: str = "gpus") -> List[GpuState]:
    """The GPUs that an option names, in the order of their index. Raises InputError."""
    indexes = parse_selector(value, path).select(states)
    return [state for state in states if state.identity.index in indexes]


def plan_mode(gpus: Any, states: Sequence[GpuState], enabled: bool, path: str = "gpus") -> Plan:
    """The steps that set MIG mode; nothing else on the GPUs changes.

    Args:
        gpus: the option's value; ``all`` passes over GPUs that cannot do MIG.

    Raises:
        InputError: a GPU that is not there or cannot do MIG.
        InUseError: MIG mode is to be disabled on a GPU that has instances.
    """
    selector = parse_selector(gpus, path)
    if selector.every:
        states = [state for state in states if state.mig_capable or not enabled]
        if not states:
            raise InputError("no GPU of this host can do MIG", path)
    chosen = selector.select(states)
    problems = Problems()
    for state in states:
        index = state.identity.index
        if index not in chosen:
            continue
        if enabled and not state.mig_capable:
            problems.add(InputError(f"{short_product(state.identity.product)} cannot do MIG", path), index)
        if state.described and not enabled:
            problems.add(
                InUseError(
                    f"GPU {index}: MIG mode cannot be disabled while there are instances: "
                    f"{', '.join(state.described)}",
                    hint="nvidia.mig.mig_layout with 'mig: false' destroys them and disables MIG mode",
                )
            )
    problems.raise_all()
    # Instances stay as they are: without them the plan is about the mode alone.
    bare = [replace(state, instances=(), unknown=()) for state in states]
    return plan_host(bare, {index: GpuLayout(enabled, (), path) for index in chosen})


def mode_list(states: Sequence[GpuState]) -> List[Dict[str, Any]]:
    """MIG mode of each GPU as plain data."""
    return [
        {
            "index": state.identity.index,
            "current": mode_word(state, state.mig_current),
            "pending": mode_word(state, state.mig_pending),
            "reset_required": state.mig_current != state.mig_pending,
        }
        for state in states
    ]


def mode_word(state: GpuState, enabled: bool) -> Any:
    """``enabled``, ``disabled``, or None for a GPU without MIG."""
    if not state.mig_capable:
        return None
    return "enabled" if enabled else "disabled"
