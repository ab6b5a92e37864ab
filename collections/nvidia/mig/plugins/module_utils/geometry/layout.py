# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wanted, per GPU: our own form and, through `mig_parted`, mig-parted's files."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Sequence, Tuple

from ansible_collections.nvidia.mig.plugins.module_utils.geometry.entries import GpuLayout, LayoutEntry
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.state import GpuIdentity, GpuState

__all__ = ["GpuIdentity", "GpuLayout", "LayoutEntry", "assign", "parse_layout", "parse_mig_parted"]


def parse_layout(entries: Any, path: str = "layout") -> Tuple[LayoutEntry, ...]:
    raise NotImplementedError


def parse_mig_parted(config: Mapping[str, Any], name: str, path: str = "config") -> Tuple[LayoutEntry, ...]:
    raise NotImplementedError


def assign(entries: Sequence[LayoutEntry], gpus: Sequence[GpuState]) -> Dict[int, GpuLayout]:
    raise NotImplementedError
