# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Asks a node with mig_probe first, and runs mig_layout on it only if it is not as wanted already.

Most nodes are, most of the time, and the probe costs a fraction of the module.
"""

from __future__ import annotations

from typing import Any

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.plugins.action import ActionBase
from ansible_collections.nvidia.mig.plugins.module_utils.node.unchanged import unchanged
from ansible_collections.nvidia.mig.plugins.module_utils.node.wanted import layout_spec


class ActionModule(ActionBase):
    """The action of nvidia.mig.mig_layout; the options and results are the module's."""

    _supports_check_mode = True
    _supports_async = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Ansible's entry point."""
        result = super().run(tmp, task_vars)
        found = None if self._task.async_val else self._unchanged(task_vars)
        if found is None:
            found = self._execute_module(task_vars=task_vars, wrap_async=self._task.async_val)
        result.update(found)
        if not self._task.async_val:
            self._remove_tmp_path(self._connection._shell.tmpdir)
        return result

    def _unchanged(self, task_vars: dict[str, Any] | None) -> dict[str, Any] | None:
        """The module's result if there is nothing to do; None if the module has to look, or to complain."""
        options = ArgumentSpecValidator(**layout_spec()).validate(self._task.args)
        if options.error_messages:
            return None
        params = options.validated_parameters
        probe = self._execute_module(module_name="nvidia.mig.mig_probe", module_args={}, task_vars=task_vars)
        found = unchanged(params, probe, self._task.diff)
        if found is None:
            return None
        # What Ansible itself has to tell of the node, such as the Python that it found, stays in the result.
        told = {key: value for key, value in probe.items() if key not in ("driver_version", "gpus")}
        return {**told, **found, "invocation": {"module_args": params}}
