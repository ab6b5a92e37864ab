# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bring a node to a layout: read, plan, and unless it is only to be predicted, apply and read again."""

from __future__ import annotations

from typing import Any, Dict, Mapping

from ansible_collections.nvidia.mig.plugins.module_utils.geometry.transition import plan_host
from ansible_collections.nvidia.mig.plugins.module_utils.node.apply import apply_plan
from ansible_collections.nvidia.mig.plugins.module_utils.node.driver import check_minimum
from ansible_collections.nvidia.mig.plugins.module_utils.node.holders import (
    add_pods,
    after_drain,
    pods_in_the_way,
)
from ansible_collections.nvidia.mig.plugins.module_utils.node.layout import (
    Applied,
    check_clients,
    check_held,
    check_processes,
    check_result,
    future,
    layout_result,
)
from ansible_collections.nvidia.mig.plugins.module_utils.node.options import allocations_from
from ansible_collections.nvidia.mig.plugins.module_utils.node.wanted import entries_from, wanted_on
from ansible_collections.nvidia.mig.plugins.module_utils.nvml.platform import is_in_guest
from ansible_collections.nvidia.mig.plugins.module_utils.nvml.reader import Reader
from ansible_collections.nvidia.mig.plugins.module_utils.nvml.session import open_nvml


def run_layout(
    params: Mapping[str, Any], check_mode: bool = False, with_diff: bool = False
) -> Dict[str, Any]:
    """What mig_layout does and returns.

    Args:
        params: its options, all of them.

    Raises:
        MigError: what stands in the way, or what NVML refused.
    """
    only_plan = params["state"] == "planned"
    may_destroy, drained = params["destroy_in_use"], params["drained_pods"]
    entries = entries_from(params)
    allocations = allocations_from(params)
    with open_nvml() as nvml:
        driver = nvml.driver_version()
        # First of all: an old driver may lack what comes next.
        check_minimum(driver, params["minimum_driver"])
        reader = Reader(nvml, mig_devices=allocations.has_mig_devices)
        reading = reader.read()
        # Drained pods count for the plan, which must be the same before and after they go.
        host = add_pods(reading, allocations)
        left = after_drain(reading, allocations, drained, only_plan or check_mode)
        states = host.states
        wanted = wanted_on(states, driver, entries, params)
        plan = plan_host(states, wanted, may_destroy or bool(drained))
        if not may_destroy:
            check_held(plan, left)
        if not (only_plan and may_destroy):
            check_processes(left, plan)
            check_clients(plan, left)
        guests = [index for index in plan.resets if is_in_guest(nvml, index)]
        if only_plan or check_mode or not plan.changed:
            applied = Applied(plan.actions, future(states, plan))
        else:
            applied = apply_plan(nvml, reader, states, plan)
            if not applied.pending:
                check_result(applied.after, wanted)
    pods = pods_in_the_way(host, plan, allocations)
    result = layout_result(driver, states, wanted, plan, applied, with_diff, pods, guests)
    return {**result, "changed": result["changed"] and not only_plan}
