#!/usr/bin/python
# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: mig_verify
short_description: Prove that a Kubernetes node offers what its MIG layout and strategy imply
version_added: 0.1.0
author: MIG provisioning toolkit maintainers (@nvidia)
description:
  - Derives from a node's GPUs and its MIG strategy which resources the node must offer and which labels
    GPU Feature
    Discovery must have set, and compares with the node object in the Kubernetes API.
  - Fails, and names every difference, if the node is not as expected within O(timeout).
  - Only labels that follow from layout and strategy are compared. Every C(nvidia.com/mig-*) resource that
    is not
    expected must be 0; a missing resource counts as 0, as kubelet never removes one.
  - What is allocatable counts, by which pods are scheduled. Kubelet keeps the capacity of a resource for five
    minutes after the device plugin stopped to serve it.
requirements:
  - kubernetes (Python package)
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - nvidia.mig.reading
attributes:
  check_mode:
    support: full
    description: Never changes anything. In check mode it looks once and does not wait.
options:
  node_name:
    description:
      - Name of the node object.
    type: str
    required: true
  gpus:
    description:
      - The node's GPUs, as M(nvidia.mig.mig_info) or M(nvidia.mig.mig_layout) return them in C(gpus). All
        of them are
        needed, also those without MIG.
    type: list
    elements: dict
    required: true
  strategy:
    description:
      - The node's MIG strategy.
    type: str
    choices: [none, single, mixed]
    required: true
  chart_version:
    description:
      - Version of the device plugin's chart. Some layouts have other resource names in other versions.
    type: str
    required: true
  gfd_version:
    description:
      - Version of GPU Feature Discovery's chart.
      - By default O(chart_version) from 0.15.0 on, where both have the same numbers. With an older one,
        only labels that every
        version of GPU Feature Discovery sets are compared.
    type: str
  sharing:
    description:
      - >-
        How the node's GPUs are shared, as in a config of the device plugin, such as
        C({timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}).
    type: dict
  sharing_choices:
    description:
      - Other sharings that the node may have instead, in the same form; an empty one is none. The node's
        label C(nvidia.com/device-plugin.config) tells which of them it is; with any other it is O(sharing).
    type: list
    elements: dict
    default: []
  labels:
    description:
      - Compare labels too. Set it to V(false) in a cluster without GPU Feature Discovery.
    type: bool
    default: true
  timeout:
    description:
      - How many seconds to wait for the node to become as expected. Device plugin and kubelet need some
        after a change.
    type: int
    default: 120
  sleep:
    description:
      - Seconds between two looks.
    type: int
    default: 2
seealso:
  - module: nvidia.mig.mig_info
  - module: nvidia.mig.device_plugin_release
  - module: nvidia.mig.gfd_release
"""

EXAMPLES = r"""
- name: Read the node's GPUs
  nvidia.mig.mig_info:
  register: info

- name: Prove that Kubernetes offers them
  nvidia.mig.mig_verify:
    node_name: "{{ inventory_hostname }}"
    gpus: "{{ info.gpus }}"
    strategy: single
    chart_version: 0.17.4
    kubeconfig: ~/.kube/config
  delegate_to: localhost
"""

RETURN = r"""
verdict:
  description: Whether the node is as expected.
  type: bool
  returned: always, if the node could be read
  sample: true
mismatches:
  description: A sentence for each difference.
  type: list
  elements: str
  returned: always, if the node could be read
  sample:
    - "nvidia.com/gpu: 16 expected, 8 allocatable"
    - "label nvidia.com/mig.strategy: 'single' expected, not there"
remedies:
  description: What may help, a sentence for each thing.
  type: list
  elements: str
  returned: always, if the node could be read
  sample:
    - "the node's label nvidia.com/device-plugin.config picks mixed; if that is not the strategy and sharing
      that you want, run playbooks/release.yml"
expected:
  description: What the node must show.
  type: dict
  returned: always, if the node could be read
  contains:
    resources:
      description: Allocatable count by resource.
      type: dict
      sample: {"nvidia.com/gpu": 16}
    labels:
      description: Values by label.
      type: dict
      sample: {"nvidia.com/gpu.count": "16", "nvidia.com/mig.strategy": "single"}
    absent_labels:
      description: Labels that must not be there.
      type: list
      elements: str
      sample: []
interrupted:
  description:
    - Whether the pods that look after GPUs are kept away from the node, as the role P(nvidia.mig.mig#role)
      does while the GPUs change. Then the module does not wait.
  type: bool
  returned: always, if the node could be read
  sample: false
held:
  description: Whether the node is cordoned for a change by the role P(nvidia.mig.mig#role).
  type: bool
  returned: always, if the node could be read
  sample: false
actual:
  description: What the node shows.
  type: dict
  returned: always, if the node could be read
  contains:
    resources:
      description: Allocatable count of each resource that the device plugin publishes.
      type: dict
      sample: {"nvidia.com/gpu": 16}
    labels:
      description: All labels of the node that start with C(nvidia.com/).
      type: dict
      sample: {"nvidia.com/gpu.count": "16", "nvidia.com/mig.strategy": "single"}
"""

import time
from typing import Any, Dict, Mapping, Optional

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.nvidia.mig.plugins.module_utils.errors import ClusterError, MigError
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.access import auth_options, prepare
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.api import Api
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.choices import read_choices
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.hold import hold_marks
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.labels import (
    CONFIG_LABEL,
    Expected,
    compare,
    expected_node,
    shown,
)
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.node_gpu import gpus_from_info
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.remedies import remedies
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.sharing import parse_sharing
from ansible_collections.nvidia.mig.plugins.module_utils.progress import tell


def verify(params: Mapping[str, Any], wait: bool) -> Dict[str, Any]:
    """Read the node until it is as expected or the time is up.

    Raises:
        MigError: bad input, no API, or no such node.
    """
    own = _expected(params, params["sharing"])
    choices = read_choices(params["strategy"], params["sharing"], params["sharing_choices"])
    others = {name: _expected(params, sharing) for name, sharing in choices.items()}
    api = Api(params)
    end = time.monotonic() + (params["timeout"] if wait else 0)
    while True:
        node = api.get("Node", "v1", params["node_name"])
        if node is None:
            raise ClusterError(
                f"the cluster has no node {params['node_name']}",
                path="node_name",
                hint="node names may differ from inventory names: see 'kubectl get nodes'",
            )
        label = (node["metadata"].get("labels") or {}).get(CONFIG_LABEL)
        expected = others.get(str(label), own)
        mismatches = compare(expected, node, labels=params["labels"])
        marks = hold_marks(node)
        # Nothing will change by waiting while those are kept away that would change it.
        left = 0.0 if marks["changing"] else end - time.monotonic()
        if not mismatches or left <= 0:
            return {
                "verdict": not mismatches,
                "mismatches": mismatches,
                "remedies": remedies(expected, node) if mismatches else [],
                "expected": expected.as_dict(),
                "actual": shown(node),
                "held": marks["ours"],
                "interrupted": marks["changing"],
            }
        tell(f"node {params['node_name']}: {'; '.join(mismatches)}")
        time.sleep(min(left, max(params["sleep"], 0.1)))


def _expected(params: Mapping[str, Any], sharing: Optional[Mapping[str, Any]]) -> Expected:
    expected = expected_node(
        params["strategy"],
        gpus_from_info(params["gpus"]),
        params["chart_version"],
        params["gfd_version"],
        parse_sharing(sharing),
    )
    return expected if params["labels"] else Expected(expected.resources)


def message(node: str, result: Mapping[str, Any], waited: int) -> str:
    after = f" after {waited} seconds" if waited else ""
    advice = result["remedies"] or [
        "the device plugin sees a changed layout only when it is restarted; its log says what it refuses"
    ]
    return (
        f"node {node} is not as layout and strategy imply{after}: {'; '.join(result['mismatches'])} "
        f"({'. '.join(advice)})"
    )


def main() -> None:
    spec: Dict[str, Any] = auth_options()
    spec.update(
        node_name={"type": "str", "required": True},
        gpus={"type": "list", "elements": "dict", "required": True},
        strategy={"type": "str", "choices": ["none", "single", "mixed"], "required": True},
        chart_version={"type": "str", "required": True},
        gfd_version={"type": "str"},
        sharing={"type": "dict"},
        sharing_choices={"type": "list", "elements": "dict", "default": []},
        labels={"type": "bool", "default": True},
        timeout={"type": "int", "default": 120},
        sleep={"type": "int", "default": 2},
    )
    module = AnsibleModule(argument_spec=spec, supports_check_mode=True)
    prepare(module)
    try:
        result = verify(module.params, wait=not module.check_mode)
    except MigError as error:
        module.fail_json(**error.fail_args())
    if not result["verdict"]:
        waited = 0 if module.check_mode else module.params["timeout"]
        module.fail_json(msg=message(module.params["node_name"], result, waited), **result)
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
