# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filters about nodes that are held for a change; each is documented in a YAML file beside this one."""

from __future__ import annotations

from typing import Any, Callable, Dict

from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.hold import (
    drain_obstacles,
    gpu_holders,
    hold_marks,
)


class FilterModule:
    """Filters of the collection for nodes."""

    def filters(self) -> Dict[str, Callable[..., Any]]:
        return {"drain_obstacles": drain_obstacles, "gpu_holders": gpu_holders, "hold_marks": hold_marks}
