#!/usr/bin/python
# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: inventory_lint
short_description: Look over an inventory where there is no GPU at hand
version_added: 0.1.0
author: MIG provisioning toolkit maintainers (@nvidia)
description:
  - Checks the variables of all hosts at once, on the control node alone. No host is connected to.
  - A variable that a role of this collection has must be of its type. A variable that looks like one and is
    none is told, with the nearest that is.
  - The layout of a host that says in the variable C(mig_gpus) which GPUs it has is checked as
    M(nvidia.mig.mig_layout) would do there, against a table of GPU models - profiles, placements, strategy,
    sharing. Of other hosts, only the form of the layout.
  - Where two groups of a host, none of which is inside the other, set one variable differently, only their
    names decide. That is told, too.
extends_documentation_fragment:
  - nvidia.mig.reading
attributes:
  platform:
    support: full
    platforms: posix
    description: Runs on the control node.
options:
  hosts:
    description: Names of the hosts to look at.
    type: list
    elements: str
    required: true
  known:
    description: Variables of the playbooks, beside those of the roles.
    type: list
    elements: str
    default: []
seealso:
  - module: nvidia.mig.mig_layout
"""

EXAMPLES = r"""
- name: Look over the inventory
  nvidia.mig.inventory_lint:
    hosts: "{{ groups.gpu_nodes }}"
  run_once: true
"""

RETURN = r"""
problems:
  description: What stops a run, or goes wrong in it. The task fails if there are any.
  returned: always
  type: list
  elements: str
  sample:
    - 'dgx01, dgx02: layout[0].profiles: A100-SXM4-40GB does not offer 3g.40gb (did you mean 3g.20gb?)'
notes:
  description: What may be meant so.
  returned: always
  type: list
  elements: str
  sample:
    - '4 hosts do not say which GPUs they have: set mig_gpus'
"""
