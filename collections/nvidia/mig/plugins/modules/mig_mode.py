#!/usr/bin/python
# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: mig_mode
short_description: Enable or disable MIG mode on GPUs
version_added: 0.1.0
author: MIG provisioning toolkit maintainers (@nvidia)
description:
  - Sets the MIG mode of GPUs and reads it back. Instances are neither created nor destroyed. For whole
    layouts use M(nvidia.mig.mig_layout), which sets the mode as well.
  - From Hopper on, the mode changes at once. Before, it changes with a GPU reset, which the driver does by
    itself where nothing holds the GPU. Otherwise the mode stays pending, and RV(reset_required) tells which
    GPUs wait for a reset.
extends_documentation_fragment:
  - nvidia.mig.node
  - nvidia.mig.node.changes
attributes:
  idempotent:
    support: full
    description: When run twice in a row outside check mode, with the same arguments, the second one changes
      nothing.
options:
  gpus:
    description:
      - V(all), or an index, a UUID, a PCI bus id, or a list of them.
      - V(all) with O(enabled=true) passes over GPUs that cannot do MIG.
    type: raw
    default: all
  enabled:
    description:
      - Whether MIG mode is to be enabled.
      - With V(false), a GPU that has instances is an error.
    type: bool
    required: true
seealso:
  - module: nvidia.mig.gpu_reset
  - module: nvidia.mig.mig_layout
"""

EXAMPLES = r"""
- name: Enable MIG mode on all GPUs
  nvidia.mig.mig_mode:
    enabled: true
  become: true
  register: mode

- name: Reset those that wait for it
  nvidia.mig.gpu_reset:
  become: true
  when: mode.reset_required | length > 0

- name: Disable it on two GPUs
  nvidia.mig.mig_mode:
    gpus: [0, '0000:0F:00.0']
    enabled: false
  become: true
"""

RETURN = r"""
actions:
  description: One line for each GPU whose mode was set, or would be in check mode.
  returned: success
  type: list
  elements: str
  sample: ['GPU 0: enable MIG mode (GPU reset)']
gpus:
  description: The GPUs that were selected, as they are now, or would be in check mode.
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
      sample: disabled
    pending:
      description: What the next reset makes of it. V(enabled) or V(disabled); null for a GPU without MIG.
      type: str
      sample: enabled
    reset_required:
      description: Whether the mode waits for a GPU reset.
      type: bool
      sample: true
    reboot_required:
      description: Whether the mode waits for a reboot, as this is a virtual machine that cannot reset the
        GPU by itself.
      type: bool
      sample: false
reset_required:
  description: Indexes of the selected GPUs whose mode waits for a GPU reset.
  returned: success
  type: list
  elements: int
  sample: [0]
"""

from typing import Any, Dict

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.nvidia.mig.plugins.module_utils.errors import MigError
from ansible_collections.nvidia.mig.plugins.module_utils.node.apply import Applied, apply_plan
from ansible_collections.nvidia.mig.plugins.module_utils.node.holders import add_pods
from ansible_collections.nvidia.mig.plugins.module_utils.node.layout import check_clients, diff, future
from ansible_collections.nvidia.mig.plugins.module_utils.node.mode import (
    mode_list,
    mode_word,
    plan_mode,
    select,
)
from ansible_collections.nvidia.mig.plugins.module_utils.node.options import allocations_from, node_options
from ansible_collections.nvidia.mig.plugins.module_utils.node.python import go_on_with_nvml
from ansible_collections.nvidia.mig.plugins.module_utils.nvml.platform import is_in_guest
from ansible_collections.nvidia.mig.plugins.module_utils.nvml.reader import Reader
from ansible_collections.nvidia.mig.plugins.module_utils.nvml.session import open_nvml


def run(module: AnsibleModule) -> Dict[str, Any]:
    """Read, plan, set and read again. Raises MigError."""
    params = module.params
    allocations = allocations_from(params)
    with open_nvml() as nvml:
        reader = Reader(nvml, mig_devices=allocations.has_mig_devices)
        host = add_pods(reader.read(), allocations)
        states = host.states
        plan = plan_mode(params["gpus"], states, params["enabled"])
        check_clients(plan, host)
        # Before anything is set: what fails from there on must tell what was set.
        guests = [index for index in plan.resets if is_in_guest(nvml, index)]
        if module.check_mode or not plan.changed:
            applied = Applied(plan.actions, future(states, plan))
        else:
            applied = apply_plan(nvml, reader, states, plan)
        gpus = mode_list(select(params["gpus"], applied.after))
        for gpu in gpus:
            gpu["reboot_required"] = gpu["reset_required"] and gpu["index"] in guests
    result = {
        "changed": bool(applied.actions),
        "actions": applied.actions,
        "gpus": gpus,
        "reset_required": [gpu["index"] for gpu in gpus if gpu["reset_required"]],
    }
    if module._diff:
        result["diff"] = diff(
            *(
                {f"GPU {state.identity.index}": mode_word(state, state.mig_pending) for state in group}
                for group in (select(params["gpus"], states), select(params["gpus"], applied.after))
            )
        )
    return result


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **node_options(),
            "gpus": {"type": "raw", "default": "all"},
            "enabled": {"type": "bool", "required": True},
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
