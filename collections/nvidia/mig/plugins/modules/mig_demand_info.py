#!/usr/bin/python
# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: mig_demand_info
short_description: Tell which pods wait for MIG devices, and what nodes have left for them
version_added: 0.1.0
author: MIG provisioning toolkit maintainers (@nvidia)
description:
  - Lists the pods and nodes of a cluster, and joins them with what M(nvidia.mig.mig_info) told of the nodes'
    GPUs. What it returns is what M(nvidia.mig.mig_partition_plan) takes.
  - Run it after M(nvidia.mig.mig_info). A pod that gets a node in between is seen, and the devices that it
    could hold are kept.
  - It needs the right to list nodes and pods of the whole cluster.
  - A pod counts if it is pending, has no node, is not being deleted, and the scheduler said that it is
    unschedulable. Pods behind a scheduling gate do not, nor do pods for which others are being preempted.
  - The requests of a pod are those that the scheduler reckons with; init containers, sidecars, pod-level
    resources and overhead are part of it.
  - Volumes, pod affinity and topology spread constraints are not looked at.
requirements:
  - kubernetes (Python package)
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - nvidia.mig.reading
options:
  nodes:
    description:
      - The nodes whose GPUs may change. Other keys than those below are ignored.
      - V(name) of the node in the cluster.
      - V(gpus) as M(nvidia.mig.mig_info) returned them. A GPU may have V(frozen), a reason why it must not
        change.
      - V(strategy) is the node's MIG strategy. Default is the one of which the node's labels tell, or
        V(mixed).
      - V(frozen) is a reason why no GPU of the node may change.
      - V(sharing_choices) is a list of sharings that the node may get as pods ask for it, as the option
        O(nvidia.mig.mig_verify#module:sharing_choices) takes them, V(sharing) the one that it has as long
        as nobody chose. They need V(chart_version), the version of the device plugin's chart. As soon as a
        node has choices, pods count as well that ask for C(nvidia.com/gpu.shared).
    type: list
    elements: raw
    required: true
  opt_in:
    description:
      - Labels. Only GPUs of nodes that have all of them may change.
    type: dict
    default: {}
  cool_down:
    description:
      - A GPU does not change for so many seconds after it was last partitioned anew for pending pods. The
        annotation C(nvidia.com/mig-change.by-demand) of its node tells when that was.
    type: float
    default: 0
  batch_window:
    description:
      - A pod that is younger than so many seconds waits for others, so that one change serves them all.
      - With V(0), no pod waits.
    type: float
    default: 0
  idle_window:
    description:
      - If no other pod has come for so many seconds, O(batch_window) is not waited for.
    type: float
    default: 10
  whole_gpus:
    description:
      - Whether pods count as well that ask for whole GPUs only. MIG is disabled on GPUs for them.
    type: bool
    default: false
  gang_jobs:
    description:
      - Whether the pods of a Job run all or none.
      - Pods of a group do so in any case. A group is named by C(spec.schedulingGroup), by the label
        C(scheduling.x-k8s.io/pod-group) (coscheduling of scheduler-plugins) or
        C(kueue.x-k8s.io/pod-group-name) (Kueue), or by the annotation C(scheduling.k8s.io/group-name),
        C(scheduling.volcano.sh/group-name) (Volcano) or C(nvidia.com/mig-demand.gang) (none of them).
    type: bool
    default: false
seealso:
  - module: nvidia.mig.mig_info
  - module: nvidia.mig.mig_partition_plan
"""

EXAMPLES = r"""
- name: Read the GPUs
  nvidia.mig.mig_info:
  become: true
  register: node

- name: Name the node as the cluster does
  ansible.builtin.set_fact:
    observed: {name: "{{ inventory_hostname }}", gpus: "{{ node.gpus }}"}

- name: See what is asked for
  nvidia.mig.mig_demand_info:
    nodes: "{{ ansible_play_hosts | map('extract', hostvars, 'observed') }}"
    cool_down: 300
    batch_window: 60
    kubeconfig: ~/.kube/config
  delegate_to: localhost
  run_once: true
  register: demand

- name: Plan for it
  nvidia.mig.mig_partition_plan:
    nodes: "{{ demand.nodes }}"
    pods: "{{ demand.pods }}"
  delegate_to: localhost
  run_once: true
  register: plan
"""

RETURN = r"""
nodes:
  description: The nodes, as O(nvidia.mig.mig_partition_plan#module:nodes) takes them.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name of the node.
      type: str
      sample: dgx01
    labels:
      description: Its labels.
      type: dict
      sample: {kubernetes.io/hostname: dgx01}
    taints:
      description: Its taints; that of a node that is not ready is always among them.
      type: list
      elements: dict
      sample: [{key: nvidia.com/gpu, effect: NoSchedule}]
    unschedulable:
      description: Whether it is cordoned.
      type: bool
      sample: false
    free:
      description: What is allocatable and not requested by its pods, except for GPUs and MIG devices.
      type: dict
      sample: {cpu: "96", memory: 900Gi, pods: "100"}
    strategy:
      description: Its MIG strategy.
      type: str
      sample: mixed
    frozen:
      description:
        - Why no GPU of it may change, if there is a reason. It is not ready, cordoned by somebody, held by a
          change of its GPUs, or has not opted in; or a pod has just got a device of it, and it is not known
          which.
      type: str
      sample: its node is cordoned
    keep_mode:
      description:
        - Why no GPU of it may change its MIG mode, if there is a reason. That takes a reset of its GPUs, and
          a pod holds one of them.
      type: str
      sample: that takes a reset, and pod ml/train-1 holds a GPU of the node
    sharing:
      description: How its GPUs are shared and could be; of nodes with choices only.
      type: dict
      contains:
        config:
          description: The config of the device plugin that its label picks, or null.
          type: str
          sample: none-mps-gpu-x4-0b6a5e
        frozen:
          description: Why it cannot be another one now; empty if it can.
          type: str
          sample: pod ml/serve-1 has a part of its GPUs
        offers:
          description: GPUs and parts of them that pods could still get as it is.
          type: dict
          sample: {nvidia.com/gpu.shared: 3}
        choices:
          description:
            - Each sharing that it may have, with the V(config) of that name, V(sharing) as the device plugin
              has it, the V(resources) that the node would offer, and the V(labels) that it would have.
          type: list
          elements: dict
    gpus:
      description:
        - As they were given. V(frozen) is added to those that rest after a change, and to those of which a
          pod may just have got a device. As many devices as such pods ask for have them among their V(pods).
      type: list
      elements: dict
pods:
  description:
    - The pods to plan for, as O(nvidia.mig.mig_partition_plan#module:pods) takes them, the oldest first.
  returned: success
  type: list
  elements: dict
  contains:
    namespace:
      description: Namespace of the pod.
      type: str
      sample: ml
    name:
      description: Name of the pod.
      type: str
      sample: train-1
    priority:
      description: Its priority.
      type: int
      sample: 100
    requests:
      description: What it requests in all.
      type: dict
      sample: {nvidia.com/mig-3g.40gb: "1", cpu: "8", memory: 32Gi}
    node_selector:
      description: Its node selector.
      type: dict
      sample: {disk: ssd}
    node_affinity:
      description: Its required node affinity, or null.
      type: dict
      sample: null
    tolerations:
      description: Its tolerations.
      type: list
      elements: dict
      sample: [{key: nvidia.com/gpu, operator: Exists}]
    gang:
      description: The group with which it runs all or none, if it is in one.
      type: str
      sample: train
waiting:
  description: Pending pods that ask for MIG devices, and are not planned for yet.
  returned: success
  type: list
  elements: dict
  contains:
    pod:
      description: Namespace and name.
      type: str
      sample: ml/train-2
    reason:
      description: Why.
      type: str
      sample: is younger than 60 seconds, and others are coming
problems:
  description: What was wrong with the input or the cluster's objects, and what was passed over for it.
  returned: success
  type: list
  elements: str
  sample: ['node dgx07: gpus are missing (pass what mig_info returned); it is passed over']
"""

import time
from typing import Any, Dict, Mapping

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.nvidia.mig.plugins.module_utils.errors import InputError, MigError
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.access import auth_options, prepare
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.api import Api
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.capacity import Rules, plannable_nodes
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.pending import Window, pending_pods

_NOT_ENDED = "status.phase!=Succeeded,status.phase!=Failed"


def demand(params: Mapping[str, Any]) -> Dict[str, Any]:
    """Ask the cluster. Raises MigError."""
    for name in ("cool_down", "batch_window", "idle_window"):
        if params[name] < 0:
            raise InputError(f"{params[name]} is below zero", name)
    api = Api(params)
    nodes = api.everything("nodes")
    pods = api.everything("pods", field_selector=_NOT_ENDED)
    now = time.time()
    window = Window(params["batch_window"], params["idle_window"])
    shared = any(isinstance(item, Mapping) and item.get("sharing_choices") for item in params["nodes"])
    pending = pending_pods(pods, now, window, params["whole_gpus"], params["gang_jobs"], shared)
    rules = Rules(params["cool_down"], params["opt_in"])
    found, problems = plannable_nodes(params["nodes"], nodes, pods, rules, now)
    return {
        "nodes": found,
        "pods": pending.pods,
        "waiting": pending.waiting,
        "problems": problems + pending.problems,
    }


def main() -> None:
    spec: Dict[str, Any] = auth_options()
    spec.update(
        nodes={"type": "list", "elements": "raw", "required": True},
        opt_in={"type": "dict", "default": {}},
        cool_down={"type": "float", "default": 0.0},
        batch_window={"type": "float", "default": 0.0},
        idle_window={"type": "float", "default": 10.0},
        whole_gpus={"type": "bool", "default": False},
        gang_jobs={"type": "bool", "default": False},
    )
    module = AnsibleModule(argument_spec=spec, supports_check_mode=True)
    prepare(module)
    try:
        result = demand(module.params)
    except MigError as error:
        module.fail_json(**error.fail_args())
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
