# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the role mig_boot refuses, before it looks at a node or changes anything."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from ansible_collections.nvidia.mig.tests.unit.plugins.modules.node_support import COLLECTIONS

LAYOUT = [{"gpus": "all", "mig": False}]
# Name of the case -> the variables, and words of the message.
CASES = {
    "nothing": ({}, "neither is, nor mig_layout or mig_layouts[mig_strategy]"),
    "empty": ({"mig_boot_layout": []}, "Set either mig_boot_layout"),
    "both": (
        {"mig_boot_layout": LAYOUT, "mig_boot_config_file": "f", "mig_boot_config_name": "n"},
        "both are",
    ),
    "nameless": ({"mig_config_file": "f", "mig_layout": LAYOUT}, "mig_boot_config_name, or neither"),
    "impatient": (
        {"mig_layout": LAYOUT, "mig_boot_timeout": 9},
        "mig_boot_timeout is 9; set it from 10 to 900",
    ),
    "patient": ({"mig_layout": LAYOUT, "mig_boot_timeout": 901}, "mig_boot_timeout is 901"),
    "unit": (
        {"mig_layout": LAYOUT, "mig_boot_before": ["kubelet"]},
        "kubelet, which is no name of a systemd unit",
    ),
    "words": ({"mig_layout": LAYOUT, "mig_boot_after": ["a b.service"]}, "a b.service, which is no name"),
    "circle": (
        {"mig_layout": LAYOUT, "mig_boot_after": ["a.service"], "mig_boot_before": ["a.service"]},
        "a.service cannot be in both",
    ),
    "relative": (
        {"mig_layout": LAYOUT, "mig_boot_python": "python3"},
        "mig_boot_python: set an absolute path",
    ),
    "without": (
        {"mig_layout": LAYOUT, "mig_boot_python": "/bin/false"},
        "is there for /bin/false; run the role nvidia.mig.nvml_python",
    ),
    "percent": ({"mig_layout": LAYOUT, "mig_boot_nfd_directory": "/a%b"}, "mig_boot_nfd_directory: set an"),
}


@pytest.fixture(scope="module")
def messages(tmp_path_factory):
    """What each case fails with; all in one run, each as a host of its own."""
    directory: Path = tmp_path_factory.mktemp("preflight")
    hosts = {name: variables for name, (variables, _words) in CASES.items()}
    shared = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    (directory / "hosts.yml").write_text(yaml.safe_dump({"all": {"hosts": hosts, "vars": shared}}))
    task = {"ansible.builtin.include_role": {"name": "nvidia.mig.mig_boot", "tasks_from": "preflight"}}
    facts = {"cacheable": True, "service_mgr": "systemd", "python": {"executable": sys.executable}}
    play = {"hosts": "all", "gather_facts": False, "tasks": [{"ansible.builtin.set_fact": facts}, task]}
    (directory / "play.yml").write_text(yaml.safe_dump([play]))
    done = subprocess.run(
        [Path(sys.executable).with_name("ansible-playbook"), "-i", "hosts.yml", "play.yml"],
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
    )
    found = re.findall(r"^(\w+) \| FAILED! => (\{.*?^\})", done.stdout, re.MULTILINE | re.DOTALL)
    return {host: json.loads(result)["msg"] for host, result in found}


@pytest.mark.parametrize("name", CASES)
def test_it_is_refused_with_the_variable_and_what_to_do(messages, name):
    assert CASES[name][1] in messages[name]
