#!/usr/bin/python
# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# The work is done by the action plugin of this name, on the control node.

from __future__ import annotations

DOCUMENTATION = r"""
module: mig_boot_program
short_description: Put the program on a node that restores its MIG layout at boot
version_added: 0.1.0
author: MIG provisioning toolkit maintainers (@nvidia)
description:
  - MIG instances do not survive a reboot, and from Hopper on MIG mode does not either. This installs a
    program that brings the GPUs back to a layout without Ansible, by the code of M(nvidia.mig.mig_layout).
  - The program is one file, a Python zip application. It is built on the control node from the collection,
    and the same collection makes the same file.
  - The role P(nvidia.mig.mig_boot#role) uses it and adds the layout and a systemd unit.
  - "The program's options are told by C(--help). Its exit status is 0 if the layout is there."
requirements:
  - Python 3.9 or newer with nvidia-ml-py >= 11.525 (on the node, when the program runs)
options:
  dest:
    description: Where the program is to be on the node. The directory must exist.
    type: path
    required: true
  python:
    description:
      - Absolute path of the interpreter on the node that the program's first line names. It must have
        nvidia-ml-py.
    type: path
    required: true
attributes:
  check_mode:
    support: full
    description: Can run in check_mode and return changed status prediction without modifying target.
  diff_mode:
    support: partial
    description: Tells that the file differs, not where, as it is not text.
  idempotent:
    support: full
    description: When run twice in a row outside check mode, with the same arguments, the second one changes
      nothing.
seealso:
  - module: nvidia.mig.mig_layout
  - module: nvidia.mig.mig_info
"""

EXAMPLES = r"""
- name: Install the program
  nvidia.mig.mig_boot_program:
    dest: /usr/local/lib/nvidia-mig/nvidia-mig-restore
    python: /usr/bin/python3
  become: true
"""

RETURN = r"""
dest:
  description: Where it is.
  returned: success
  type: str
  sample: /usr/local/lib/nvidia-mig/nvidia-mig-restore
checksum:
  description: SHA1 of the file.
  returned: success
  type: str
  sample: 2f1d6ad58d0c4a559f0f0a52b2a4d4c1d1b2a3c4
"""
