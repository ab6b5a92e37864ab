# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prints what a run did to the GPUs of each host."""

from __future__ import annotations

DOCUMENTATION = r"""
name: mig_summary
type: aggregate
short_description: Tell at the end of a run what it did to the GPUs of each host
version_added: 0.1.0
description:
  - After the play recap, prints for each host its GPUs, their MIG layout before and after, the resources that
    Kubernetes offers, and what was done (nothing, changed, reset, rebooted, failed).
  - Takes all of it from the results of this collection's modules. Prints nothing for a run without them.
author:
  - MIG provisioning toolkit maintainers (@nvidia)
requirements:
  - Enable it with C(callbacks_enabled = nvidia.mig.mig_summary) in C(ansible.cfg).
"""

from typing import Any, Dict

from ansible.plugins.callback import CallbackBase
from ansible_collections.nvidia.mig.plugins.plugin_utils.summary import HostSummary, render


class CallbackModule(CallbackBase):
    """Collects module results host by host; renders once, at the end."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "nvidia.mig.mig_summary"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._hosts: Dict[str, HostSummary] = {}

    def v2_runner_on_ok(self, result: Any) -> None:
        """Note what a module of this collection, or a reboot, told of its host."""
        action = result.task.resolved_action or result.task.action
        self._of(result).note(action, result.result, result.task.args, bool(result.task.check_mode))

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        """Note the failure that took the host out of the run."""
        if not ignore_errors:
            self._of(result).note_failure(str(result.result.get("msg", "failed")))

    def v2_runner_on_unreachable(self, result: Any) -> None:
        """Note that the host could not be reached."""
        self._of(result).note_failure("unreachable")

    def v2_playbook_on_stats(self, stats: Any) -> None:
        """Print the summary after the recap."""
        for line in render(self._hosts):
            self._display.display(line)

    def _of(self, result: Any) -> HostSummary:
        return self._hosts.setdefault(result.host.get_name(), HostSummary())
