#!/usr/bin/python
# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_managers_info
short_description: Tell who else manages the GPUs of a Kubernetes cluster
version_added: 0.1.0
author: MIG provisioning toolkit maintainers (@nvidia)
description:
  - Finds NVIDIA's GPU Operator by its ClusterPolicy, and NVIDIA's DRA driver by its device classes.
  - It costs two calls of the Kubernetes API, however many nodes there are. It needs the right to list
    C(clusterpolicies.nvidia.com) and C(deviceclasses.resource.k8s.io).
requirements:
  - kubernetes (Python package)
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - nvidia.mig.reading
seealso:
  - module: nvidia.mig.device_plugin_release
  - module: nvidia.mig.gfd_release
"""

EXAMPLES = r"""
- name: See who manages the cluster's GPUs
  nvidia.mig.gpu_managers_info:
    kubeconfig: ~/.kube/config
  delegate_to: localhost
  register: managers

- name: Nobody else does
  ansible.builtin.assert:
    that: not managers.gpu_operator and not managers.dra_classes
"""

RETURN = r"""
gpu_operator:
  description: What GPU Operator manages; null if the cluster has no ClusterPolicy.
  returned: success
  type: dict
  contains:
    policy:
      description: Name of the ClusterPolicy. Of several it is the oldest, as the operator ignores the others.
      type: str
      sample: cluster-policy
    api_version:
      description: API version of ClusterPolicies.
      type: str
      sample: nvidia.com/v1
    parts:
      description:
        - Parts of its C(spec) that do the work of this collection, and are not switched off by
          C(enabled=false). Empty if the operator looks after drivers and the like only.
      type: list
      elements: str
      sample: [migManager, devicePlugin, gfd]
    manages:
      description: The same in words.
      type: list
      elements: str
      sample: [MIG Manager, the device plugin, GPU Feature Discovery]
    strategy:
      description: Its MIG strategy; null if it sets none.
      type: str
      sample: single
    mig_config:
      description: Name of the ConfigMap that MIG Manager reads; null if it sets none.
      type: str
      sample: custom-mig-parted-configs
    namespace:
      description: The operator's namespace; null if the operator has not told yet.
      type: str
      sample: gpu-operator
dra_classes:
  description:
    - Device classes of the DRA driver that hand out GPUs or MIG devices. Empty if there is no such driver, or
      one for compute domains only.
  returned: success
  type: list
  elements: str
  sample: [gpu.nvidia.com, mig.nvidia.com]
"""

from typing import Any, Dict, Mapping

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.nvidia.mig.plugins.module_utils.errors import MigError
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.access import auth_options, prepare
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.api import Api
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.managers import (
    CLUSTER_POLICIES,
    DEVICE_CLASSES,
    dra_classes,
    gpu_operator,
)


def managers(params: Mapping[str, Any]) -> Dict[str, Any]:
    """Ask the cluster. Raises ClusterError."""
    api = Api(params)
    # The first version that the cluster serves; the objects are the same in all.
    served = (api.objects(*kind) for kind in DEVICE_CLASSES)
    classes = next((found for found in served if found is not None), [])
    return {
        "gpu_operator": gpu_operator(api.objects(*CLUSTER_POLICIES) or []),
        "dra_classes": dra_classes(classes),
    }


def main() -> None:
    module = AnsibleModule(argument_spec=auth_options(), supports_check_mode=True)
    prepare(module)
    try:
        result = managers(module.params)
    except MigError as error:
        module.fail_json(**error.fail_args())
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
