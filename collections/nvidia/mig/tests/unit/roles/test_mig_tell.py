# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What role mig says of a host whose change did not end well."""

from __future__ import annotations

from ansible_collections.nvidia.mig.tests.unit.roles.plays import messages, play

AGAIN = "Run the playbook again when the cause is gone: it goes on from what is there."
SWITCHED = {"__mig_rollout_also": ["unproven", "unlabelled", "held"], "__mig_plan": {"actions": []}}
CASES = {
    # Only the configuration was to change: such a node is not cordoned, and its GPUs are not changed.
    "unproven": (
        {**SWITCHED, "__mig_unproven": "It offers less.", "__mig_seen": {"held": False}},
        f"It offers less. {AGAIN}",
    ),
    "unlabelled": (
        {**SWITCHED, "__mig_trouble": ["Its label could not be changed: no."]},
        f"Its GPUs are as wanted. Its label could not be changed: no. {AGAIN}",
    ),
    "held": (
        {**SWITCHED, "__mig_unproven": "It offers less.", "__mig_seen": {"held": True}},
        f"It offers less. Node held stays cordoned. {AGAIN}",
    ),
    "changed": (
        {"__mig_plan": {"actions": ["create"]}, "__mig_trouble": ["A service is down."]},
        f"The GPUs were changed. A service is down. Node changed stays cordoned. {AGAIN}",
    ),
}


def test_one_message_for_each(tmp_path):
    tell = {"name": "nvidia.mig.mig", "tasks_from": "tell", "rolespec_validate": False}
    hosts = {host: given for host, (given, _text) in CASES.items()}
    output = play(tmp_path, hosts, [{"ansible.builtin.include_role": tell}])
    assert messages(output) == {host: text for host, (_given, text) in CASES.items()}, output
