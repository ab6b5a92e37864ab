# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Looks at a node with a light probe first, and runs mig_layout on it only if it is not as wanted already.

Most nodes are, most of the time, and the probe costs a fraction of a module. It needs pipelining, and a node
whose Python is known: set in the inventory, or found by an earlier task. Elsewhere the module runs at once.
"""

from __future__ import annotations

import json
import pkgutil
import shlex
from typing import Any

from ansible.constants import config
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.plugins.action import ActionBase
from ansible_collections.nvidia.mig.plugins.module_utils.node.unchanged import unchanged
from ansible_collections.nvidia.mig.plugins.module_utils.node.wanted import layout_spec
from ansible_collections.nvidia.mig.plugins.module_utils.nvml import probe
from ansible_collections.nvidia.mig.plugins.plugin_utils.slice_map import draw_diff

PROBE = pkgutil.get_data(str(probe.__package__), "probe.py")


class ActionModule(ActionBase):
    """The action of nvidia.mig.mig_layout; the options and results are the module's."""

    _supports_check_mode = True
    _supports_async = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Ansible's entry point."""
        result = super().run(tmp, task_vars)
        found = self._unchanged(task_vars or {})
        if found is None:
            found = self._execute_module(task_vars=task_vars, wrap_async=self._task.async_val)
        result.update(found)
        if result.get("diff") and "touched" in result:
            result["diff"] = draw_diff(result)
        if not self._task.async_val:
            self._remove_tmp_path(self._connection._shell.tmpdir)
        return result

    def _unchanged(self, task_vars: dict[str, Any]) -> dict[str, Any] | None:
        """The module's result if there is nothing to do; None if the module has to look, or to complain."""
        options = ArgumentSpecValidator(**layout_spec()).validate(self._task.args)
        if options.error_messages:
            return None
        found = self._probe(task_vars, options.validated_parameters["nvml_python"])
        return None if found is None else unchanged(options.validated_parameters, found, self._task.diff)

    def _probe(self, task_vars: dict[str, Any], nvml_python: str) -> dict[str, Any] | None:
        """What the probe found on the node; None where it cannot run."""
        python = self._python(task_vars)
        # Ansible keeps the variables of a delegate apart; such a task is rare.
        if python is None or self._task.delegate_to or not self._is_pipelining_enabled("new"):
            return None
        environment = self._compute_environment_string()
        usual, other = (
            f"{environment} {shlex.join([*words, '-'])}".strip()
            for words in (shlex.split(python), [nvml_python])
        )
        # The other one was made for this, so where it is, it has what the usual one may lack.
        command = f"if [ -x {shlex.quote(nvml_python)} ]; then {other}; else {usual}; fi"
        done = self._low_level_execute_command(command, in_data=PROBE)
        try:
            return dict(json.loads(done["stdout"])) if done["rc"] == 0 else None
        except ValueError:
            return None

    def _python(self, task_vars: dict[str, Any]) -> str | None:
        """The node's Python where it is known."""
        if self._task.async_val:
            return None
        python = config.get_config_value("INTERPRETER_PYTHON", variables=task_vars)
        python = str(self._templar.template(python) or "auto")
        if python.startswith("auto"):
            return task_vars.get("ansible_facts", {}).get("discovered_interpreter_python")
        return python
