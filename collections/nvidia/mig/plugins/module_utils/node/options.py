# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options that all modules on the node share; see the documentation fragment ``node``."""

from __future__ import annotations

from typing import Any, Dict, Mapping

from ansible_collections.nvidia.mig.plugins.module_utils.node.kubelet import (
    CHECKPOINT,
    POD_LOGS,
    Allocations,
    read_allocations,
)

# Where the role nvml_python makes it.
NVML_PYTHON = "/opt/nvidia-mig/python/bin/python3"


def node_options() -> Dict[str, Any]:
    """Argument spec."""
    return {
        "kubelet_checkpoint": {"type": "path", "default": CHECKPOINT},
        "pod_log_directory": {"type": "path", "default": POD_LOGS},
        "nvml_python": {"type": "path", "default": NVML_PYTHON},
    }


def allocations_from(params: Mapping[str, Any]) -> Allocations:
    """What pods hold, from where the options say. Raises DeviceError."""
    return read_allocations(params["kubelet_checkpoint"], params["pod_log_directory"])
