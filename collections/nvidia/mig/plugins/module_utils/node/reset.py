# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""GPU resets: which GPUs, what blocks them, and what nvidia-smi says. NVML itself cannot reset a GPU."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, List, Mapping, Sequence, Tuple

from ansible_collections.nvidia.mig.plugins.module_utils.errors import DeviceError, InUseError, MigError
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.problems import Problems
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.selector import normalize_bus_id
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.state import GpuState
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.steps import ResetGpu
from ansible_collections.nvidia.mig.plugins.module_utils.node.mode import select

# nvidia-smi(1): "The requested operation is not available on target device".
_NOT_AVAILABLE = 3
_DONE = re.compile(r"GPU ([0-9A-Fa-f:.]+) was successfully reset")


@dataclass(frozen=True)
class ResetOutcome:
    """What a reset came to.

    Args:
        reset: the GPUs that were reset.
        refused: those of which the machine says that they cannot be reset at all.
    """

    reset: Tuple[int, ...]
    refused: Tuple[int, ...]


def to_reset(gpus: Any, states: Sequence[GpuState]) -> List[GpuState]:
    """The GPUs that the option names; ``pending``: those whose MIG mode waits for it. Raises InputError."""
    if isinstance(gpus, str) and gpus.strip().lower() == "pending":
        return [state for state in states if state.mig_pending != state.mig_current]
    return select(gpus, states)


def describe(state: GpuState) -> str:
    """The line of one reset."""
    if state.mig_pending != state.mig_current:
        return ResetGpu(state.identity.index, state.mig_pending).describe()
    return f"GPU {state.identity.index}: reset the GPU"


def check_unused(states: Sequence[GpuState]) -> None:
    """Nobody uses the GPUs, and no instance would be lost.

    Raises:
        InUseError: names processes, pods and instances.
    """
    problems = Problems()
    for state in states:
        users = list(state.clients)
        for instance in state.instances:
            users += [who for compute in instance.compute_instances for who in compute.holders]
            users += instance.holders
        index = state.identity.index
        if users:
            names = ", ".join(dict.fromkeys(users))
            problems.add(
                InUseError(
                    f"GPU {index} cannot be reset while it is used by {names}",
                    hint="drain its pods, end the processes, stop the services",
                    details={"clients": [{"gpu": index, "clients": list(dict.fromkeys(users))}]},
                )
            )
        elif state.described:
            problems.add(
                InUseError(
                    f"GPU {index} has instances that a reset destroys: {', '.join(state.described)}",
                    hint="let nvidia.mig.mig_layout destroy them first",
                )
            )
    problems.raise_all()


def reset_argv(nvidia_smi: str, states: Sequence[GpuState]) -> List[str]:
    """One command for all GPUs: those that NVLink connects must be reset together."""
    return [nvidia_smi, "--gpu-reset", "-i", ",".join(state.identity.pci_bus_id for state in states)]


def unreadable(states: Sequence[GpuState], rc: int, output: str, cause: MigError) -> DeviceError:
    """The error to raise if what is there after the reset cannot be read: it tells what was done."""
    names = ", ".join(str(state.identity.index) for state in states)
    return DeviceError(
        f"GPU {names} was to be reset (nvidia-smi's exit status {rc}: {' '.join(output.split())}), "
        f"but what is there now cannot be read: {cause}",
        hint="run it again: it looks which GPUs still wait for a reset",
        details={**cause.details, "changed": True, "rc": rc, "output": output},
    )


def read_outcome(
    states: Sequence[GpuState],
    after: Sequence[GpuState],
    rc: int,
    output: str,
    holders: Mapping[int, Sequence[str]],
) -> ResetOutcome:
    """Tell what was reset, by what nvidia-smi said and what is there now.

    Args:
        states: the GPUs that were to be reset, as they were.
        after: all GPUs as they are now.
        rc, output: of nvidia-smi.
        holders: by GPU index, who holds its device file open.

    Raises:
        DeviceError: a GPU could not be reset, though this machine can reset GPUs.
    """
    now = {state.identity.index: state for state in after}
    said = {normalize_bus_id(bus_id) for bus_id in _DONE.findall(output)}
    reset = []
    for state in states:
        index = state.identity.index
        applied = state.mig_pending != state.mig_current == (not now[index].mig_current)
        if rc == 0 or applied or normalize_bus_id(state.identity.pci_bus_id) in said:
            reset.append(index)
    left = tuple(state.identity.index for state in states if state.identity.index not in reset)
    if rc == _NOT_AVAILABLE or "not supported" in output.lower():
        return ResetOutcome(tuple(reset), left)
    if left:
        names = "; ".join(
            f"GPU {index} is held open by {', '.join(holders[index])}" for index in left if holders.get(index)
        )
        raise DeviceError(
            f"nvidia-smi could not reset GPU {', '.join(str(index) for index in left)} (exit status {rc}): "
            + " ".join(output.split())
            + (f"; {names}" if names else ""),
            hint="end what holds the GPU, such as nvidia-persistenced, DCGM or a display server",
            details={"changed": bool(reset), "reset": reset, "rc": rc, "output": output},
        )
    return ResetOutcome(tuple(reset), ())
