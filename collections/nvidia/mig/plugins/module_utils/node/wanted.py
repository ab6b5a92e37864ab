# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What mig_layout is asked for: its options, and what they mean for one host."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Sequence, Tuple

from ansible_collections.nvidia.mig.plugins.module_utils.geometry.layout import (
    GpuLayout,
    LayoutEntry,
    assign,
    parse_layout,
    parse_mig_parted,
)
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.state import GpuState
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.node_gpu import gpus_from_layout
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.resources import expected_resources
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.sharing import parse_sharing
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.strategy import STRATEGIES, check_layout
from ansible_collections.nvidia.mig.plugins.module_utils.node.driver import MINIMUM, check_driver
from ansible_collections.nvidia.mig.plugins.module_utils.node.options import node_options


def layout_spec() -> Dict[str, Any]:
    """Argument spec with what its options demand of each other, as AnsibleModule takes it."""
    return {
        "argument_spec": {
            **node_options(),
            "layout": {"type": "raw"},
            "config": {"type": "raw"},
            "config_name": {"type": "str"},
            "strategy": {"type": "str", "choices": list(STRATEGIES)},
            "sharing": {"type": "dict"},
            "chart_version": {"type": "str"},
            "state": {"type": "str", "choices": ["present", "planned"], "default": "present"},
            "destroy_in_use": {"type": "bool", "default": False},
            "drained_pods": {"type": "list", "elements": "str", "default": []},
            "minimum_driver": {"type": "str", "default": MINIMUM},
        },
        "mutually_exclusive": [("layout", "config")],
        "required_one_of": [("layout", "config")],
        "required_together": [("config", "config_name")],
        "required_by": {"sharing": ("strategy", "chart_version"), "chart_version": "strategy"},
    }


def entries_from(params: Mapping[str, Any]) -> Tuple[LayoutEntry, ...]:
    """Read the options ``layout``, or ``config`` and ``config_name``. Raises InputError."""
    if params["config"] is not None:
        return parse_mig_parted(params["config"], params["config_name"])
    return parse_layout(params["layout"])


def wanted_on(
    states: Sequence[GpuState], driver: str, entries: Sequence[LayoutEntry], params: Mapping[str, Any]
) -> Dict[int, GpuLayout]:
    """What is wanted on each GPU, by its index, if GPUs, driver and strategy allow it. Raises InputError."""
    check_driver(driver, states, entries)
    wanted = assign(entries, states)
    strategy, version = params["strategy"], params["chart_version"]
    if strategy is not None:
        gpus = gpus_from_layout(states, wanted)
        check_layout(strategy, gpus, chart_version=version)
        if version is not None:
            expected_resources(strategy, gpus, version, parse_sharing(params["sharing"]))
    return wanted
