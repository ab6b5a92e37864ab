# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Carry out a plan on a node: modes first, then instances; on failure put back what was there.

Killed at any point, it leaves a state from which the next plan goes on: nothing is remembered outside NVML.
"""

from __future__ import annotations

from typing import List, Sequence, Tuple

from ansible_collections.nvidia.mig.plugins.module_utils.errors import DeviceError, MigError
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.state import GpuState
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.steps import Plan, ResetGpu, SetMode, Step
from ansible_collections.nvidia.mig.plugins.module_utils.node.layout import Applied
from ansible_collections.nvidia.mig.plugins.module_utils.node.rollback import roll_back
from ansible_collections.nvidia.mig.plugins.module_utils.nvml.reader import Reader
from ansible_collections.nvidia.mig.plugins.module_utils.nvml.session import Session
from ansible_collections.nvidia.mig.plugins.module_utils.nvml.writer import Writer


def apply_plan(nvml: Session, reader: Reader, before: Sequence[GpuState], plan: Plan) -> Applied:
    """Carry out the plan that was made for ``before``.

    Raises:
        MigError: what NVML refused; then all GPUs were put back as far as possible, and the error says so.
    """
    writer = Writer(nvml, {state.identity.index: state.catalog for state in before})
    modes, rest = _split(plan)
    done: List[Step] = []
    pending: List[int] = []
    try:
        for step in modes:
            if isinstance(step, (SetMode, ResetGpu)):
                # A mode that stays pending was still set, unless it was pending before.
                if writer.set_mode(step).current != step.enabled:
                    pending.append(step.gpu)
                    if isinstance(step, ResetGpu):
                        continue
            else:
                writer.apply(step)
            done.append(step)
        if not pending:
            for step in rest:
                writer.apply(step)
                done.append(step)
    except MigError as error:
        raise roll_back(writer, reader, before, done, error) from error
    actions = Plan(tuple(done)).actions
    try:
        after = reader.read().states
    except MigError as error:
        raise DeviceError(
            f"Every step was carried out, but what is there now cannot be read: {error}",
            hint="run it again: it compares before it changes anything",
            details={**error.details, "changed": bool(done), "actions": actions},
        ) from error
    return Applied(actions, after, tuple(sorted(pending)))


def _split(plan: Plan) -> Tuple[Sequence[Step], Sequence[Step]]:
    """The steps up to the last mode, and those after it."""
    last = max(
        (n for n, step in enumerate(plan.steps, 1) if isinstance(step, (SetMode, ResetGpu))), default=0
    )
    return plan.steps[:last], plan.steps[last:]
