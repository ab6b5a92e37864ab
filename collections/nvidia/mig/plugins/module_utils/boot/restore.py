# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bring the node back to its layout: what mig_layout does, and the GPU resets that it may wait for."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import Any, Dict, List, Mapping, Sequence, Tuple

from ansible_collections.nvidia.mig.plugins.module_utils.errors import DeviceError, MigError
from ansible_collections.nvidia.mig.plugins.module_utils.node.layout_run import run_layout
from ansible_collections.nvidia.mig.plugins.module_utils.node.options import allocations_from
from ansible_collections.nvidia.mig.plugins.module_utils.node.reset import describe, reset_argv
from ansible_collections.nvidia.mig.plugins.module_utils.node.reset_run import find_candidates, run_reset


def restore(wish: Mapping[str, Any]) -> Dict[str, Any]:
    """Bring the GPUs to the wish.

    Returns:
        ``result`` (restored, unchanged or failed), ``message``, ``actions`` (one line for each change).
    """
    actions: List[str] = []
    try:
        _restore(wish, actions)
    except MigError as error:
        actions += error.details.get("actions", [])
        return failure(str(error), actions)
    if actions:
        return {"result": "restored", "message": "The layout is back.", "actions": actions}
    return {"result": "unchanged", "message": "The GPUs were as wanted.", "actions": actions}


def needs_free_gpus(wish: Mapping[str, Any]) -> bool:
    """Whether nothing may hold a GPU open meanwhile. False where that cannot be told: `restore` tells why."""
    try:
        return bool(run_layout({**wish, "state": "planned"})["must_be_free"])
    except MigError:
        return False


def failure(message: str, actions: Sequence[str] = ()) -> Dict[str, Any]:
    """The outcome of an attempt that failed."""
    return {"result": "failed", "message": message, "actions": list(actions)}


def _restore(wish: Mapping[str, Any], actions: List[str]) -> None:
    first = run_layout(wish)
    actions += first["actions"]
    if first["complete"]:
        return
    waiting = first["reset_required"]
    found = find_candidates(waiting, allocations_from(wish))
    reset = run_reset(found, reset_argv(_nvidia_smi(), found.chosen), _command)
    actions += [describe(state) for state in reset.done]
    if reset.reboot_required:
        names = ", ".join(str(index) for index in waiting)
        raise DeviceError(
            f"MIG mode of GPU {names} waits for a reboot, as this machine cannot reset GPUs",
            hint="reboot the node; this program never does",
        )
    second = run_layout(wish)
    actions += second["actions"]
    if not second["complete"]:
        names = ", ".join(str(index) for index in second["reset_required"])
        raise DeviceError(f"MIG mode of GPU {names} is still pending after a reset", hint="run the playbook")


def _nvidia_smi() -> str:
    found = shutil.which("nvidia-smi")
    if found is None:
        raise DeviceError(
            "GPUs have to be reset, but nvidia-smi is not on this node",
            hint="it is part of the NVIDIA driver (its package is often named nvidia-utils)",
        )
    return found


def _command(argv: List[str]) -> Tuple[int, str, str]:
    environment = {**os.environ, "LANG": "C", "LC_ALL": "C"}
    # No module runs here that could do it.
    done = subprocess.run(  # pylint: disable=ansible-bad-function
        argv, env=environment, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout, done.stderr
