# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Small plays on this machine, in which each case of a test is a host of its own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, List

import yaml
from ansible_collections.nvidia.mig.tests.unit.plugins.modules.node_support import COLLECTIONS


def play(directory: Path, hosts: Dict[str, Any], tasks: List[Dict[str, Any]], *options: str) -> str:
    """Run these tasks on this machine, once for each host; the output."""
    shared = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    (directory / "hosts.yml").write_text(yaml.safe_dump({"all": {"hosts": hosts, "vars": shared}}))
    (directory / "play.yml").write_text(
        yaml.safe_dump([{"hosts": "all", "gather_facts": False, "tasks": tasks}])
    )
    return subprocess.run(
        [Path(sys.executable).with_name("ansible-playbook"), "-i", "hosts.yml", *options, "play.yml"],
        cwd=directory,
        env={
            **os.environ,
            "ANSIBLE_COLLECTIONS_PATH": str(COLLECTIONS),
            "ANSIBLE_STDOUT_CALLBACK": "minimal",
            "ANSIBLE_NOCOLOR": "1",
        },
        capture_output=True,
        text=True,
        check=False,
    ).stdout


def messages(output: str) -> Dict[str, str]:
    """Host -> what it failed with at last."""
    found = re.findall(r"^(\w+) \| FAILED! => (\{.*?^\})", output, re.MULTILINE | re.DOTALL)
    return {host: json.loads(result).get("msg", "") for host, result in found}
