# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Builds the boot-time program on the control node, and lets copy bring it to the node."""

from __future__ import annotations

import os
import tempfile
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.nvidia.mig.plugins.plugin_utils.boot_program import boot_program


class ActionModule(ActionBase):
    """The action of nvidia.mig.mig_boot_program; its options are documented with the module of that name."""

    _supports_check_mode = True
    _supports_diff = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Ansible's entry point."""
        result = super().run(tmp, task_vars)
        _spec, options = self.validate_argument_spec(
            {"dest": {"type": "path", "required": True}, "python": {"type": "path", "required": True}}
        )
        if not os.path.isabs(options["python"]):
            raise AnsibleActionFail(
                f"python: {options['python']!r} is not an absolute path of an interpreter"
            )
        with tempfile.NamedTemporaryFile(prefix="nvidia-mig-restore.") as file:
            file.write(boot_program(options["python"]))
            file.flush()
            result.update(self._copy(file.name, options["dest"], task_vars))
        return result

    def _copy(self, source: str, dest: str, task_vars: dict[str, Any] | None) -> dict[str, Any]:
        task = self._task.copy()
        task.args = {"src": source, "dest": dest, "mode": "0755"}
        action = self._shared_loader_obj.action_loader.get(
            "ansible.legacy.copy",
            task=task,
            connection=self._connection,
            play_context=self._play_context,
            loader=self._loader,
            templar=self._templar,
            shared_loader_obj=self._shared_loader_obj,
        )
        copied: dict[str, Any] = action.run(task_vars=task_vars)
        return copied
