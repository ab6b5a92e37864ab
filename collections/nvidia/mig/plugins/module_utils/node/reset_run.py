# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reset GPUs with nvidia-smi: read and check, run it, read again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Optional, Tuple

from ansible_collections.nvidia.mig.plugins.module_utils.errors import MigError
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.state import GpuState
from ansible_collections.nvidia.mig.plugins.module_utils.node.clients import device_holders, kernel_holders
from ansible_collections.nvidia.mig.plugins.module_utils.node.holders import add_pods
from ansible_collections.nvidia.mig.plugins.module_utils.node.kubelet import Allocations
from ansible_collections.nvidia.mig.plugins.module_utils.node.reset import (
    check_unused,
    read_outcome,
    to_reset,
    unreadable,
)
from ansible_collections.nvidia.mig.plugins.module_utils.nvml.platform import minor_number
from ansible_collections.nvidia.mig.plugins.module_utils.nvml.reader import Reader
from ansible_collections.nvidia.mig.plugins.module_utils.nvml.session import open_nvml

# Runs a command: exit status, standard output, standard error.
Runner = Callable[[List[str]], Tuple[int, str, str]]


@dataclass(frozen=True)
class Candidates:
    """The GPUs to reset.

    Args:
        states: all GPUs of the host.
        minors: by GPU index, the number of its device file.
    """

    states: Tuple[GpuState, ...]
    chosen: Tuple[GpuState, ...]
    minors: Dict[int, Optional[int]]


@dataclass(frozen=True)
class ResetRun:
    """What was done.

    Args:
        after: all GPUs as read back.
        done: the GPUs that were reset, as they were.
        reboot_required: the machine cannot reset them, or the reset did not apply the MIG mode.
        output: what nvidia-smi said.
    """

    after: Tuple[GpuState, ...]
    done: Tuple[GpuState, ...]
    reboot_required: bool
    output: str


def find_candidates(gpus: Any, allocations: Allocations) -> Candidates:
    """The GPUs that ``gpus`` names, if nobody uses them. Raises MigError."""
    # NVML must be closed before the reset: an open session is a client, too.
    with open_nvml() as nvml:
        reader = Reader(nvml, mig_devices=allocations.has_mig_devices)
        states = add_pods(reader.read(), allocations).states
        chosen = tuple(to_reset(gpus, states))
        minors = {state.identity.index: minor_number(nvml, state.identity.index) for state in chosen}
    check_unused(chosen)
    return Candidates(states, chosen, minors)


def run_reset(found: Candidates, argv: List[str], runner: Runner) -> ResetRun:
    """Run ``argv`` and tell what it came to. Raises MigError."""
    rc, out, err = runner(argv)
    output = (out + err).strip()
    held = device_holders(minor for minor in found.minors.values() if minor is not None) if rc else {}
    kernel = kernel_holders() if rc else []
    holders = {
        index: [*held.get(minor, []), *kernel] for index, minor in found.minors.items() if minor is not None
    }
    try:
        with open_nvml() as nvml:
            after = Reader(nvml).read().states
    except MigError as error:
        raise unreadable(found.chosen, rc, output, error) from error
    outcome = read_outcome(found.chosen, after, rc, output, holders)
    done = tuple(state for state in found.chosen if state.identity.index in outcome.reset)
    pending = [state for state in to_reset("pending", after) if state.identity.index in outcome.reset]
    return ResetRun(after, done, bool(outcome.refused or pending), output)
