# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes the program that Ansible sends for a module.

Arguments: the directory of the collections, the module, its options as JSON. It is a program of its own, as
Ansible takes over the import of collections.
"""

from __future__ import annotations

import json
import sys

from ansible.executor.module_common import modify_module
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.loader import init_plugin_loader
from ansible.template import Templar

collections, module, options = sys.argv[1:]
init_plugin_loader([collections])
built = modify_module(
    module_name=f"nvidia.mig.{module}",
    module_path=f"{collections}/ansible_collections/nvidia/mig/plugins/modules/{module}.py",
    module_args=json.loads(options),
    templar=Templar(loader=DataLoader()),
    task_vars={"ansible_python_interpreter": "/usr/bin/python3"},
    module_compression="ZIP_DEFLATED",
)
sys.stdout.buffer.write(built.b_module_data)
