#!/usr/bin/python
# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_reset
short_description: Reset the GPUs whose MIG mode waits for it
version_added: 0.1.0
author: MIG provisioning toolkit maintainers (@nvidia)
description:
  - Resets GPUs with C(nvidia-smi --gpu-reset), all of them in one command, and reads them again.
  - A GPU that a process or a pod uses, or that has instances, is an error, and no GPU is reset.
  - A machine that cannot reset its GPUs is no error. Then RV(reboot_required) is V(true) and nothing has
    changed.
extends_documentation_fragment:
  - nvidia.mig.node
  - nvidia.mig.node.changes
attributes:
  idempotent:
    support: partial
    description: With O(gpus=pending) the second run changes nothing. GPUs that are named are reset each
      time.
options:
  gpus:
    description:
      - V(pending) means the GPUs whose MIG mode waits for a reset.
      - Otherwise V(all), or an index, a UUID, a PCI bus id, or a list of them. These are reset in any case.
        A reset disables MIG mode from Hopper on.
      - GPUs that NVLink connects may have to be reset together.
    type: raw
    default: pending
  nvidia_smi:
    description:
      - The program that resets GPUs, by its path or its name.
    type: path
    default: nvidia-smi
seealso:
  - module: nvidia.mig.mig_mode
  - module: nvidia.mig.mig_layout
"""

EXAMPLES = r"""
- name: Apply pending MIG modes
  nvidia.mig.gpu_reset:
  become: true
  register: reset

- name: Reboot where only that helps
  ansible.builtin.reboot:
  become: true
  when: reset.reboot_required

- name: Reset one GPU
  nvidia.mig.gpu_reset:
    gpus: 3
  become: true
"""

RETURN = r"""
actions:
  description: One line for each GPU that was reset, or would be in check mode.
  returned: success
  type: list
  elements: str
  sample: ['GPU 0: reset the GPU to enable MIG mode (pending)']
reset:
  description: Indexes of the GPUs that were reset, or would be in check mode.
  returned: success
  type: list
  elements: int
  sample: [0]
reboot_required:
  description:
    - Whether only a reboot can do it, as this machine cannot reset the GPU, or the reset did not apply the
      MIG mode.
    - In check mode V(false), as only the attempt tells.
  returned: success
  type: bool
  sample: false
gpus:
  description: MIG mode of all GPUs, as it is now, or would be in check mode.
  returned: success
  type: list
  elements: dict
  contains:
    index:
      description: NVML's index.
      type: int
      sample: 0
    current:
      description: V(enabled) or V(disabled); null for a GPU without MIG.
      type: str
      sample: enabled
    pending:
      description: What the next reset makes of it. V(enabled) or V(disabled); null for a GPU without MIG.
      type: str
      sample: enabled
    reset_required:
      description: Whether the mode waits for a GPU reset.
      type: bool
      sample: false
command:
  description: The command that resets them. Empty if there is nothing to reset.
  returned: success
  type: list
  elements: str
  sample: [/usr/bin/nvidia-smi, --gpu-reset, -i, '00000000:07:00.0']
output:
  description: What the command said.
  returned: when it was run
  type: str
  sample: GPU 00000000:07:00.0 was successfully reset.
"""

from dataclasses import replace
from typing import Any, Dict, List, Sequence, Tuple

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.nvidia.mig.plugins.module_utils.errors import DeviceError, MigError
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.state import GpuState
from ansible_collections.nvidia.mig.plugins.module_utils.node.layout import diff, summaries
from ansible_collections.nvidia.mig.plugins.module_utils.node.mode import mode_list
from ansible_collections.nvidia.mig.plugins.module_utils.node.options import allocations_from, node_options
from ansible_collections.nvidia.mig.plugins.module_utils.node.python import go_on_with_nvml
from ansible_collections.nvidia.mig.plugins.module_utils.node.reset import describe, reset_argv
from ansible_collections.nvidia.mig.plugins.module_utils.node.reset_run import find_candidates, run_reset


def run(module: AnsibleModule) -> Dict[str, Any]:
    """Read, check, reset and read again. Raises MigError."""
    found = find_candidates(module.params["gpus"], allocations_from(module.params))
    states, chosen = found.states, found.chosen
    if not chosen:
        return _result(module, states, states, [], False, [])
    argv = reset_argv(_program(module), chosen)
    if module.check_mode:
        return _result(module, states, _predict(states, chosen), chosen, False, argv)

    def command(words: List[str]) -> Tuple[int, str, str]:
        rc, out, err = module.run_command(words, environ_update={"LANG": "C", "LC_ALL": "C"})
        return rc, out, err

    reset = run_reset(found, argv, command)
    result = _result(module, states, reset.after, reset.done, reset.reboot_required, argv)
    return {**result, "output": reset.output}


def _result(
    module: AnsibleModule,
    before: Sequence[GpuState],
    after: Sequence[GpuState],
    done: Sequence[GpuState],
    reboot_required: bool,
    argv: List[str],
) -> Dict[str, Any]:
    result: Dict[str, Any] = {
        "changed": bool(done),
        "actions": [describe(state) for state in done],
        "reset": [state.identity.index for state in done],
        "reboot_required": reboot_required,
        "gpus": mode_list(after),
        "command": argv,
    }
    if module._diff:
        indexes = [state.identity.index for state in done]
        result["diff"] = diff(summaries(before, indexes), summaries(after, indexes))
    return result


def _predict(states: Sequence[GpuState], chosen: Sequence[GpuState]) -> List[GpuState]:
    """From Hopper on, MIG mode lives in the driver and is lost by a reset; before, the GPU keeps it."""
    indexes = {state.identity.index for state in chosen}
    predicted = []
    for state in states:
        if state.identity.index in indexes:
            mode = state.mig_pending and not state.resetless
            state = replace(state, mig_current=mode, mig_pending=mode)
        predicted.append(state)
    return predicted


def _program(module: AnsibleModule) -> str:
    name = module.params["nvidia_smi"]
    found = module.get_bin_path(name)
    if found is None:
        raise DeviceError(
            f"{name} is not on this node",
            path="nvidia_smi",
            hint="it is part of the NVIDIA driver (its package is often named nvidia-utils)",
        )
    return str(found)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **node_options(),
            "gpus": {"type": "raw", "default": "pending"},
            "nvidia_smi": {"type": "path", "default": "nvidia-smi"},
        },
        supports_check_mode=True,
    )
    try:
        go_on_with_nvml(module.params)
        result = run(module)
    except MigError as error:
        module.fail_json(**error.fail_args())
    module.exit_json(**result)


if __name__ == "__main__":
    main()
