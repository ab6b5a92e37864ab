#!/usr/bin/python
# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: access_review
short_description: Fail before a change if the account lacks a right in the Kubernetes API
version_added: 0.1.0
author: MIG provisioning toolkit maintainers (@nvidia)
description:
  - Asks the Kubernetes API whether the account that a play uses has some rights, and fails with all that it
    lacks, so that a change is not stopped half-way.
requirements:
  - kubernetes (Python package)
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - nvidia.mig.reading
options:
  rights:
    description:
      - What the account must be allowed, each as a verb, a resource with its API group and subresource, and
        a namespace if the right is needed only there.
    type: list
    elements: str
    required: true
seealso:
  - module: nvidia.mig.account_kubeconfig
"""

EXAMPLES = r"""
- name: The account can hold and drain nodes
  nvidia.mig.access_review:
    rights:
      - patch nodes
      - list pods
      - create pods/eviction
      - patch daemonsets.apps nvidia-device-plugin
    kubeconfig: ~/.kube/mig-provisioning
  delegate_to: localhost
  run_once: true
"""

RETURN = r"""
missing:
  description: What the account may not do.
  type: list
  elements: str
  returned: always
  sample: [create pods/eviction in the whole cluster]
"""

from typing import Any, Dict

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.nvidia.mig.plugins.module_utils.errors import MigError
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.access import auth_options, prepare
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.api import Api
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.rights import REMEDY, parse_right


def main() -> None:
    spec: Dict[str, Any] = auth_options()
    spec.update(rights={"type": "list", "elements": "str", "required": True})
    module = AnsibleModule(argument_spec=spec, supports_check_mode=True)
    prepare(module)
    try:
        rights = [
            parse_right(text, f"rights[{position}]") for position, text in enumerate(module.params["rights"])
        ]
        api = Api(module.params)
        missing = [str(right) for right in rights if not api.may(right)]
    except MigError as error:
        module.fail_json(**error.fail_args())
    if missing:
        module.fail_json(
            msg=f"the account lacks the rights to: {'; '.join(missing)} ({REMEDY})", missing=missing
        )
    module.exit_json(changed=False, missing=[])


if __name__ == "__main__":
    main()
