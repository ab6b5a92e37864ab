# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the role mig_boot refuses, before it looks at a node or changes anything."""

from __future__ import annotations

import sys

import pytest
from ansible_collections.nvidia.mig.tests.unit.roles.plays import messages, play

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
def refusals(tmp_path_factory):
    """What each case fails with."""
    hosts = {name: variables for name, (variables, _words) in CASES.items()}
    facts = {"cacheable": True, "service_mgr": "systemd", "python": {"executable": sys.executable}}
    tasks = [
        {"ansible.builtin.set_fact": facts},
        {"ansible.builtin.include_role": {"name": "nvidia.mig.mig_boot", "tasks_from": "preflight"}},
    ]
    return messages(play(tmp_path_factory.mktemp("preflight"), hosts, tasks))


@pytest.mark.parametrize("name", CASES)
def test_it_is_refused_with_the_variable_and_what_to_do(refusals, name):
    assert CASES[name][1] in refusals[name]
