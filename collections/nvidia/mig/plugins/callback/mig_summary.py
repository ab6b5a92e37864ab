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
  - After the play recap, prints totals, then for each kind of host its GPUs, their MIG layout before and
    after, the resources that Kubernetes offers, and what was done (nothing, changed, reset, rebooted,
    failed). Hosts that are alike are told of once. Last come the commands to type next, if there are any.
  - In check mode it draws the memory slices of the GPUs that would be cut anew, with those who use them, and
    names the pods that would be drained.
  - While a run waits, tells now and then for what, and since when, on standard error. Of a drain it names
    the pods that are left, of a rollout it counts those that are ready.
  - Takes all of it from the results of this collection's modules. Prints nothing for a run without them.
author:
  - MIG provisioning toolkit maintainers (@nvidia)
requirements:
  - Enable it with C(callbacks_enabled = nvidia.mig.mig_summary) in C(ansible.cfg).
options:
  file:
    description:
      - A file that gets the same as JSON. It is replaced at the end of each run that has something to tell.
    type: path
    ini:
      - section: callback_mig_summary
        key: file
    env:
      - name: MIG_SUMMARY_FILE
  progress:
    description:
      - After how many seconds, and how often then, a wait is told of. V(0) for never.
    type: int
    default: 20
    ini:
      - section: callback_mig_summary
        key: progress
    env:
      - name: MIG_SUMMARY_PROGRESS
"""

import functools
import json
import os
import shlex
import tempfile
from typing import Any

from ansible import constants, context
from ansible.plugins.callback import CallbackBase
from ansible_collections.nvidia.mig.plugins.plugin_utils.progress import Listener, what_is_left
from ansible_collections.nvidia.mig.plugins.plugin_utils.summary import RunSummary
from ansible_collections.nvidia.mig.plugins.plugin_utils.summary_text import render


class CallbackModule(CallbackBase):
    """Collects module results host by host; renders once, at the end."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "nvidia.mig.mig_summary"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._run = RunSummary()
        self._progress = Listener(0, self._display.display)

    def v2_playbook_on_start(self, playbook: Any) -> None:
        """Begin to tell what the run waits for."""
        # Not among the results, which a program may read.
        show = functools.partial(self._display.display, stderr=True)
        self._progress = Listener(self.get_option("progress"), show)
        self._progress.start()

    def v2_runner_on_start(self, host: Any, task: Any) -> None:
        """A wait begins, if it takes long."""
        self._progress.begin(str(host.get_name()), str(task._uuid), _name(task))

    def v2_runner_retry(self, result: Any) -> None:
        """The wait goes on; tell what the last attempt found."""
        left = what_is_left(result.result)
        text = f"{_name(result.task)}: {left}" if left else _name(result.task)
        self._progress.begin(_host(result), str(result.task._uuid), text)

    def v2_runner_on_skipped(self, result: Any) -> None:
        """There was nothing to wait for."""
        self._end(result)

    def v2_runner_on_ok(self, result: Any) -> None:
        """Note what a module of this collection, or a reboot, told of its host."""
        self._end(result)
        task = result.task
        action = task.resolved_action or task.action
        self._run.note(_host(result), action, result.result, task.args, bool(task.check_mode))

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        """Note the failure that took the host out of the run."""
        self._end(result)
        if not ignore_errors:
            self._run.note_failure(_host(result), str(result.result.get("msg", "failed")))

    def v2_runner_on_unreachable(self, result: Any) -> None:
        """Note that the host could not be reached."""
        self._end(result)
        self._run.note_failure(_host(result), "unreachable")

    def v2_playbook_on_stats(self, stats: Any) -> None:
        """Print the summary after the recap."""
        self._progress.stop()
        for host in stats.processed:
            if not stats.failures.get(host) and not stats.dark.get(host):
                self._run.note_failure(host, None)  # what failed there was rescued
        lines = render(self._run, _command(), context.CLIARGS.get("subset") or "")
        if lines:
            self._display.display("\n".join(lines))  # in one event, where a controller keeps those
        path = self.get_option("file")
        if path and lines:
            try:
                _write(path, json.dumps(self._run.as_dict(), indent=2) + "\n")
            except OSError as error:
                self._display.warning(f"mig_summary: {path} was not written: {error}")

    def _end(self, result: Any) -> None:
        """Whatever came of it, the host waits for this task no more."""
        self._progress.end(_host(result), str(result.task._uuid))


def _name(task: Any) -> str:
    return str(task.name or task.action)


def _host(result: Any) -> str:
    return str(result.host.get_name())


def _command() -> str:
    """The command of this run, as far as it may be shown: values of -e may be secret."""
    options = context.CLIARGS
    words = ["ansible-playbook"]
    for source in options.get("inventory") or ():
        if source not in constants.DEFAULT_HOST_LIST:
            words += ["-i", source if "," in source else os.path.relpath(source)]
    words += options.get("args") or ()
    return shlex.join(map(str, words)) + (" -e ..." if options.get("extra_vars") else "")


def _write(path: str, text: str) -> None:
    """At once or not at all: who reads it never sees a part."""
    directory, name = os.path.split(os.path.abspath(path))
    with tempfile.NamedTemporaryFile("w", dir=directory, prefix=f".{name}.", delete=False) as file:
        file.write(text)
    os.chmod(file.name, 0o644)
    os.replace(file.name, path)
