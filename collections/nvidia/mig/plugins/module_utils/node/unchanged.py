# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""mig_layout's answer for a host that is as wanted, from what `nvml.probe` found. Pure.

It answers only if there is nothing to do and nothing to complain about; else the module itself has to look.
"""

from __future__ import annotations

from typing import Any, Dict, Mapping, Optional, Sequence, Tuple

from ansible_collections.nvidia.mig.plugins.module_utils.errors import MigError
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.catalog import (
    Catalog,
    OfferedProfile,
    Placement,
)
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.profile import (
    parse_profile,
    strip_nvml_prefix,
)
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.state import (
    ComputeInstance,
    GpuInstance,
    GpuState,
)
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.steps import Plan
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.transition import is_as_wanted
from ansible_collections.nvidia.mig.plugins.module_utils.node.driver import check_minimum
from ansible_collections.nvidia.mig.plugins.module_utils.node.layout import Applied, layout_result
from ansible_collections.nvidia.mig.plugins.module_utils.node.wanted import entries_from, wanted_on
from ansible_collections.nvidia.mig.plugins.module_utils.nvml.values import identify


def unchanged(
    params: Mapping[str, Any], probe: Mapping[str, Any], with_diff: bool = False
) -> Optional[Dict[str, Any]]:
    """The result that mig_layout would return, or None if it has to be asked.

    Args:
        params: mig_layout's options, validated.
        probe: what `nvml.probe` found.
    """
    try:
        driver = probe["driver_version"]
        check_minimum(driver, params["minimum_driver"])
        states = states_from(probe["gpus"])
        wanted = wanted_on(states, driver, entries_from(params), params)
    except MigError:
        return None
    if not all(is_as_wanted(state, wanted[index]) for index, state in enumerate(states) if index in wanted):
        return None
    return layout_result(driver, states, wanted, Plan(()), Applied([], states), with_diff)


def states_from(gpus: Sequence[Mapping[str, Any]]) -> Tuple[GpuState, ...]:
    """The GPUs without what nothing depends on that is as wanted: placements on offer, holders.

    Raises:
        InputError: a profile whose name is outside the grammar.
    """
    return tuple(_state(index, gpu) for index, gpu in enumerate(gpus))


def _state(index: int, gpu: Mapping[str, Any]) -> GpuState:
    mode = gpu["mig_mode"]
    offered = {
        number: OfferedProfile(parse_profile(strip_nvml_prefix(name)), number, most, memory, processors, ())
        for name, number, most, memory, processors in gpu["profiles"]
    }
    instances = [
        GpuInstance(
            number,
            offered[profile].profile,
            Placement(start, size),
            tuple(ComputeInstance(*compute) for compute in sorted(computes, key=lambda c: (c[2], c[0]))),
        )
        for number, profile, start, size, computes in gpu["instances"]
    ]
    return GpuState(
        identify(
            index,
            gpu["uuid"],
            gpu["pci_bus_id"],
            gpu["product"],
            gpu["pci_device_id"],
            gpu["pci_subsystem_id"],
        ),
        Catalog(gpu["product"], tuple(offered.values())),
        mode is not None,
        bool(mode and mode[0]),
        bool(mode and mode[1]),
        False,
        tuple(sorted(instances, key=lambda instance: instance.placement)),
    )
