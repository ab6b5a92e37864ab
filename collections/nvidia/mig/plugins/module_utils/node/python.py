# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Python on the node that has nvidia-ml-py, where the one that Ansible uses there has not."""

from __future__ import annotations

import json
import os
from typing import Any, Mapping

from ansible.module_utils.common.respawn import has_respawned, respawn_module
from ansible_collections.nvidia.mig.plugins.module_utils.errors import DeviceError
from ansible_collections.nvidia.mig.plugins.module_utils.nvml.session import usable_pynvml

# Ansible hands the options to the other Python through a pipe, before anything reads from it. Linux's holds
# 65536 bytes, and there is more to it than the options.
MOST = 56_000


def go_on_with_nvml(params: Mapping[str, Any]) -> None:
    """If this Python has no usable binding, run the module under ``nvml_python``, and end with its result.

    Where there is no such Python nothing happens: opening NVML tells what is missing.

    Args:
        params: the module's.

    Raises:
        DeviceError: the options are too long to be handed over.
    """
    python = params["nvml_python"]
    if has_respawned() or not os.access(python, os.X_OK):
        return
    try:
        usable_pynvml()
    except DeviceError as error:
        size = len(repr(json.dumps(params).encode()))
        if size > MOST:
            raise DeviceError(
                f"{error.message}, and {size} bytes of options are too many to go on under {python}",
                hint=f"set ansible_python_interpreter to {python} for this task",
            ) from error
        respawn_module(python)
