# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Connection plugin of the lab: a command runs on this machine, but sees the hardware of a simulated node."""

from __future__ import annotations

import os
import re
import shlex
from typing import Any

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.connection.local import Connection as LocalConnection
from miglab import paths

DOCUMENTATION = """
    name: lab
    short_description: run commands on a simulated GPU node
    description:
      - Runs commands on the control node with the environment of one simulated node, so that NVML and
        C(nvidia-smi) are that node's. The command runs as the caller; NVML sees root.
      - A command that would shut down or reboot this machine is refused.
    author: MIG provisioning toolkit maintainers
    options:
      node:
        description: Name of the simulated node.
        default: inventory_hostname
        vars:
          - name: inventory_hostname
          - name: lab_node
      become_success_timeout:
        description: As in the local connection.
        type: int
        default: 10
        vars:
          - name: ansible_local_become_success_timeout
      become_strip_preamble:
        description: As in the local connection.
        type: bool
        default: true
        vars:
          - name: ansible_local_become_strip_preamble
    extends_documentation_fragment:
      - connection_pipelining
"""

_POWER_COMMAND = re.compile(r"(^|[\s/'\"])(shutdown|reboot|poweroff|halt|kexec)(\s+-|\s*$|\s+now)")


class Connection(LocalConnection):  # type: ignore[misc]
    """The local connection, within a simulated node."""

    # Not 'local': ansible.builtin.reboot refuses that one, rightly.
    transport = "lab"

    def exec_command(
        self, cmd: str, in_data: bytes | None = None, sudoable: bool = True
    ) -> tuple[int, bytes, bytes]:
        """Run ``cmd`` with the node's environment; refuse what would take this machine down."""
        if _POWER_COMMAND.search(cmd) and "mig-lab" not in cmd:
            raise AnsibleConnectionFailure(
                f"refused to run {cmd!r}: a simulated node shares this machine; use 'mig-lab reboot NODE'"
            )
        self._connect()
        return super().exec_command(_within(self._node(), cmd), in_data=in_data, sudoable=sudoable)

    def _connect(self) -> Any:
        state = paths.node_state(self._node())
        if not os.path.exists(state):
            raise AnsibleConnectionFailure(f"no simulated node '{self._node()}' in the lab: run 'mig-lab up'")
        if os.path.exists(paths.switched_off(self._node())):
            raise AnsibleConnectionFailure(f"{self._node()} is off: 'mig-lab power {self._node()} on'")
        return super()._connect()

    def _node(self) -> str:
        return str(self.get_option("node"))


def _within(node: str, cmd: str) -> str:
    environment = {
        "LD_LIBRARY_PATH": paths.lib_dir(),
        "MIG_SIM_NODE": paths.node_state(node),
        "MIG_SIM_EUID": 0,
        "MIG_LAB_DIR": paths.lab_dir(),
        "PATH": f"{paths.bin_dir()}:{os.environ.get('PATH', os.defpath)}",
    }
    return " ".join(["env", *(f"{key}={shlex.quote(str(value))}" for key, value in environment.items()), cmd])
