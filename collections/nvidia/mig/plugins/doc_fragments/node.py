# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the documentation of the modules that work on a GPU node has in common."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
requirements:
  - nvidia-ml-py >= 11.525 (Python package, on the node; the role P(nvidia.mig.nvml_python#role) installs it)
  - the NVIDIA driver, 450.80.02 or newer (on the node)
options:
  kubelet_checkpoint:
    description:
      - Kubelet's device checkpoint on the node. It tells which pod holds which device.
      - A node without this file runs no pods that matter here.
    type: path
    default: /var/lib/kubelet/device-plugins/kubelet_internal_checkpoint
  pod_log_directory:
    description:
      - Kubelet's pod log directory on the node. It tells the pods' names, and which pods of the checkpoint
        are gone.
    type: path
    default: /var/log/pods
  nvml_python:
    description:
      - Another Python 3.9 or newer on the node. The module goes on under it if the Python that Ansible uses
        there has no usable nvidia-ml-py.
      - The default is what the role P(nvidia.mig.nvml_python#role) makes. C(module_defaults) of the group
        C(group/nvidia.mig.mig) set another one for all modules.
    type: path
    default: /opt/nvidia-mig/python/bin/python3
notes:
  - NVML leaves most of what has to do with MIG to root, so run it with C(become=true).
"""

    # For the modules that change the node. They add C(attributes) of their own where they differ.
    CHANGES = r"""
attributes:
  check_mode:
    support: full
    description: Can run in check_mode and return changed status prediction without modifying target.
  diff_mode:
    support: full
    description: Returns MIG mode and instances of the GPUs, before and after.
"""
