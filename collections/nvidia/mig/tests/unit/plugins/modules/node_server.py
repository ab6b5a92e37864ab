# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs modules, each in a process of its own, without the start of a Python for each.

A program, not a test: it loads Ansible and the modules once, and forks for every request. A request is one
line of JSON on stdin (module, args, env), the answer one line on stdout (rc, out, err); rc is negative for a
signal. Its environment must let the dynamic linker find the simulated NVML.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import tempfile

from ansible.module_utils import basic
from ansible.module_utils.common import json as ansible_json

MODULES = ("gpu_reset", "mig_info", "mig_layout", "mig_mode")


def run(request, loaded):
    """Fork, run the module in the child, and tell how it ended."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                os.dup2(out.fileno(), 1)
                os.dup2(err.fileno(), 2)
                os.environ.update(request["env"])
                encoder = ansible_json.get_module_encoder(
                    "legacy", ansible_json.Direction.CONTROLLER_TO_MODULE
                )
                basic._ANSIBLE_PROFILE = "legacy"
                basic._ANSIBLE_ARGS = json.dumps(
                    {"ANSIBLE_MODULE_ARGS": request["args"]}, cls=encoder
                ).encode()
                loaded[request["module"]].main()
            except SystemExit as end:
                status = end.code or 0
            except BaseException:
                sys.excepthook(*sys.exc_info())
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(status)
        dummy, status = os.waitpid(pid, 0)
        answer = {"rc": os.waitstatus_to_exitcode(status)}
        for name, file in (("out", out), ("err", err)):
            file.seek(0)
            answer[name] = file.read().decode()
        return answer


def main():
    package = "ansible_collections.nvidia.mig.plugins.modules"
    loaded = {name: importlib.import_module(f"{package}.{name}") for name in MODULES}
    for line in sys.stdin:
        print(json.dumps(run(json.loads(line), loaded)), flush=True)


if __name__ == "__main__":
    main()
