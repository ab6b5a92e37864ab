# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One entry of a layout, whatever form it was written in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional, Tuple

from ansible_collections.nvidia.mig.plugins.module_utils.geometry.profile import Profile
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.selector import Selector


@dataclass(frozen=True)
class GpuLayout:
    """What is wanted on one GPU: MIG mode, and one profile per MIG device in canonical order."""

    mig: bool
    profiles: Tuple[Profile, ...] = ()


@dataclass(frozen=True)
class LayoutEntry:
    """Some GPUs and what is wanted on each of them.

    Args:
        path: where it stands: ``layout[1]``, ``config.mig-configs.all-balanced[2]``.
        product: shell glob over the product's name, or None.
        device_ids: PCI device ids, with mig-parted's optional ``:0x...`` subsystem; empty: any.
        counts_path: where the profiles stand: ``layout[1].profiles``.
    """

    path: str
    selector: Selector
    layout: GpuLayout
    product: Optional[str] = None
    device_ids: Tuple[str, ...] = ()
    counts_path: str = ""
