# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a GPU is attached to this machine."""

from __future__ import annotations

from typing import Optional

from ansible_collections.nvidia.mig.plugins.module_utils.nvml.session import NOT_SUPPORTED, Session

# NVML_GPU_VIRTUALIZATION_MODE_PASSTHROUGH and _VGPU: this machine is a guest.
_GUEST = (1, 2)


def is_in_guest(nvml: Session, index: int) -> bool:
    """The GPU is lent to this virtual machine, so a reset is not ours to make: the guest has to reboot."""
    mode = nvml.ask("nvmlDeviceGetVirtualizationMode", nvml.device(index), gpu=index, absent=(NOT_SUPPORTED,))
    return mode in _GUEST


def minor_number(nvml: Session, index: int) -> Optional[int]:
    """The GPU's device file is ``/dev/nvidia<minor>``."""
    minor = nvml.ask("nvmlDeviceGetMinorNumber", nvml.device(index), gpu=index, absent=(NOT_SUPPORTED,))
    return None if minor is None else int(minor)
