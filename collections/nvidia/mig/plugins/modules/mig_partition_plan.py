#!/usr/bin/python
# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: mig_partition_plan
short_description: Plan which GPUs to partition or share anew for pending pods
version_added: 0.1.0
author: MIG provisioning toolkit maintainers (@nvidia)
description:
  - From nodes as they are and pods that wait, it plans new layouts with which the most valuable set of
    these pods can run, and tells which pods that are, where, which others are left and why.
  - It is a calculation. It looks at nothing and changes nothing.
  - The most valuable set has the most pods of the highest priority, then of the next, and so on. Of all
    plans for such a set, it takes one that destroys the fewest free instances, then changes the fewest
    GPUs, then the fewest MIG modes; then one that leaves the most room for big profiles.
  - An instance that a pod or a process holds is never moved or removed. Pods that can take a free device
    that is there already need no change and cause none.
  - Nodes that may share their GPUs in several ways (those with V(sharing)) get another of these in place of a
    layout. That is for nodes of which no pod holds a part, as it ends whoever uses them. Of all plans for the
    same pods, it takes one that changes the fewest nodes, then one with the biggest shares.
  - Input that is wrong is told in RV(problems) and passed over, never fatal to the rest.
  - Only nodes with the MIG strategy V(mixed) get new layouts. Resources are named as device plugins from
    0.20 on name them, such as C(nvidia.com/mig-1g.10gb.me) for V(1g.10gb+me).
requirements:
  - highspy (Python package, on the host where the module runs; usually the control node)
options:
  nodes:
    description:
      - The nodes. Other keys than those below are ignored.
      - V(name) of the node.
      - V(labels), V(taints) and V(unschedulable) as in the Kubernetes object. Default is none.
      - V(free) is what pods could still request, as Kubernetes quantities by resource. It has V(cpu),
        V(memory) and V(pods) at least. A resource that is missing there is not there.
      - V(strategy) is the node's MIG strategy. Default is V(mixed).
      - V(frozen) is a reason why no GPU of the node may change, such as a cool-down. Free devices still
        count.
      - V(keep_mode) is a reason why no GPU of the node may change its MIG mode.
      - V(gpus) as M(nvidia.mig.mig_info) returns them in RV(nvidia.mig.mig_info#module:gpus). Of each
        are needed V(index), V(product), V(mig_capable), V(mig_mode), V(profiles) and V(instances), with
        the V(pods) and V(processes) of each instance and of the GPU. V(uuid) is taken for the layout, if
        there is one.
      - V(sharing) as M(nvidia.mig.mig_demand_info) returns it, where the node may share its GPUs in several
        ways.
      - A GPU may have V(frozen) as well, and V(catalog), the name of an entry of O(catalogs), in place of
        V(profiles).
    type: list
    elements: raw
    required: true
  pods:
    description:
      - The pods that wait, those that shall come first among equals first. Other keys are ignored.
      - V(namespace) and V(name) of the pod.
      - V(priority), a whole number. Default is 0.
      - V(requests) of all its containers together, as Kubernetes quantities by resource.
      - V(node_selector) and V(tolerations) as in the pod's specification.
      - V(node_affinity) as C(affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution) there.
      - V(gang) is a name. Pods of a namespace with the same name run all or none.
    type: list
    elements: raw
    required: true
  bounds:
    description:
      - What must not happen. Each counts for the nodes that it covers, and all of them count.
      - V(name) for messages.
      - V(nodes), a list of names, and V(labels), a mapping, say what it covers. Without them it covers
        all nodes.
      - V(keep_whole) GPUs of all its nodes together stay whole (MIG mode off), and
        V(keep_whole_per_node) of each. If fewer are whole now, none of them changes.
      - V(profiles) is the list of profiles that may be created. Instances of others may stay.
      - V(keep_mode), if true, forbids a change of MIG mode.
      - V(frozen), true or a reason, forbids every change. Of a node with V(sharing), that is what counts.
    type: list
    elements: raw
    default: []
  catalogs:
    description:
      - Lists of profiles as in RV(nvidia.mig.mig_info#module:gpus[].profiles), by names of your own. It
        saves repeating them for every GPU of a big fleet.
    type: dict
    default: {}
  time_limit:
    description:
      - After so many seconds it returns the best plan that was found, with its RV(gap). It may take a
        little longer.
    type: float
    default: 30
  gap:
    description:
      - How far from the optimum is near enough, as a part of the pods. V(0.001) is one in a thousand.
    type: float
    default: 0
  change_cost:
    description:
      - What it costs to change a GPU, in pods. A GPU is changed only if more pods than that run because
        of it, so a higher value avoids flapping. A node that shares its GPUs in another way counts as one.
      - With V(0), a GPU is changed as soon as one more pod can run.
    type: float
    default: 0
extends_documentation_fragment:
  - nvidia.mig.reading
seealso:
  - module: nvidia.mig.mig_demand_info
  - module: nvidia.mig.mig_info
  - module: nvidia.mig.mig_layout
"""

EXAMPLES = r"""
- name: Plan for the pods that wait
  nvidia.mig.mig_partition_plan:
    nodes:
      - name: dgx01
        free: {cpu: "96", memory: 900Gi, pods: 100}
        gpus: "{{ hostvars['dgx01'].node.gpus }}"   # from nvidia.mig.mig_info
    pods:
      - namespace: ml
        name: notebook-1
        requests: {nvidia.com/mig-1g.10gb: 1, cpu: "2", memory: 8Gi}
      - namespace: ml
        name: train-1
        priority: 100
        requests: {nvidia.com/mig-3g.40gb: 2, cpu: "16", memory: 64Gi}
        node_selector: {nvidia.com/gpu.product: NVIDIA-A100-SXM4-80GB}
    bounds:
      - name: two GPUs stay whole
        keep_whole: 2
  delegate_to: localhost
  register: plan

- name: Show who is left, and why
  ansible.builtin.debug:
    var: plan.unplaced

- name: Partition this host's GPUs as planned
  nvidia.mig.mig_layout:
    layout: "{{ (plan.nodes | selectattr('name', 'eq', inventory_hostname) | first).layout }}"
  become: true
  when: inventory_hostname in plan.nodes | map(attribute='name')
"""

RETURN = r"""
nodes:
  description: The nodes that change. All other GPUs stay as they are.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name of the node.
      type: str
      sample: dgx01
    layout:
      description:
        - The new layout of the GPUs that change, as O(nvidia.mig.mig_layout#module:layout) takes it.
          Instances in use are part of it, so that they stay. Not there for a node with a new V(sharing).
      type: list
      elements: dict
      sample: [{gpus: [GPU-07fc9e5f-b365-5770-bea9-0c03aee1945a], profiles: {3g.40gb: 1, 1g.10gb: 4}}]
    config:
      description: The device plugin's config that the node's label must pick; only with V(sharing).
      type: str
      sample: none-mps-gpu-x8-70b0c2
    node_labels:
      description: That label; only with V(sharing).
      type: dict
      sample: {nvidia.com/device-plugin.config: none-mps-gpu-x8-70b0c2}
    sharing:
      description: How the node is to share its GPUs, as the device plugin has it.
      type: dict
      sample: {mps: {renameByDefault: true, resources: [{name: nvidia.com/gpu, replicas: 8}]}}
    pods:
      description: The pods for which a node with V(sharing) changes.
      type: list
      elements: str
      sample: [ml/notebook-2]
    reason:
      description: The same in words.
      type: str
      sample: 8 pods on each GPU by MPS for ml/notebook-2; it was 2 pods on each GPU by MPS
    gpus:
      description:
        - The GPUs that change. With V(sharing), all of the node, with V(index), V(uuid) and V(product) alone.
      type: list
      elements: dict
      contains:
        index:
          description: NVML's index.
          type: int
          sample: 0
        uuid:
          description: UUID of the GPU; empty if the input has none.
          type: str
          sample: GPU-07fc9e5f-b365-5770-bea9-0c03aee1945a
        product:
          description: NVML's name.
          type: str
          sample: NVIDIA A100-SXM4-80GB
        before:
          description: What it is, as an entry of a layout has it.
          type: dict
          sample: {profiles: {2g.20gb: 3}}
        after:
          description: What it becomes.
          type: dict
          sample: {profiles: {3g.40gb: 1, 1g.10gb: 4}}
        destroyed:
          description: How many free instances go.
          type: int
          sample: 3
        mode_change:
          description: Whether its MIG mode changes.
          type: bool
          sample: false
        pods:
          description: The pods for which it changes.
          type: list
          elements: str
          sample: [ml/train-1]
        reason:
          description: All this in words.
          type: str
          sample: 3g.40gb for ml/train-1; 3 free instances go
placed:
  description:
    - The pods that can run. The scheduler decides where they really run; this shows that all of them can.
  returned: success
  type: list
  elements: dict
  contains:
    pod:
      description: Namespace and name.
      type: str
      sample: ml/train-1
    node:
      description: A node on which it can run.
      type: str
      sample: dgx01
    needs_change:
      description: Whether it waits for a GPU that changes; if not, its devices are there already.
      type: bool
      sample: true
unplaced:
  description: The pods that cannot run.
  returned: success
  type: list
  elements: dict
  contains:
    pod:
      description: Namespace and name.
      type: str
      sample: ml/train-2
    reason:
      description: Why, with the names of what is in its way.
      type: str
      sample: >-
        asks for 3g.40gb: no A100-SXM4-80GB has 4 contiguous free slices for it; freeing dgx01/GPU3 needs pod
        ml/serve-1 to end
problems:
  description: What was wrong with the input, and what was passed over for it.
  returned: success
  type: list
  elements: str
  sample: ['node dgx07: free: cpu is missing; the node is passed over']
objective:
  description: What was reached, and what no plan can beat.
  returned: success
  type: dict
  contains:
    pods:
      description: One entry per priority, the highest first.
      type: list
      elements: dict
      sample: [{priority: 100, asked: 12, placed: 10, bound: 10}]
    destroyed:
      description: Free instances that go. Its C(bound) is for a plan with as many pods as the bounds say.
      type: dict
      sample: {value: 3, bound: 3}
    changed:
      description: GPUs that change.
      type: dict
      sample: {value: 2, bound: 2}
    mode_changes:
      description: GPUs of which the MIG mode changes.
      type: dict
      sample: {value: 0, bound: 0}
    room:
      description: Free placements on all GPUs afterwards, each counted with the square of its size.
      type: int
      sample: 2142
gap:
  description: The biggest part of the pods of a priority by which the plan could fall short of the optimum.
  returned: success
  type: float
  sample: 0.0
proven:
  description: Whether no plan can place a more valuable set of pods.
  returned: success
  type: bool
  sample: true
"""

import time
from typing import Any, Dict

from ansible.module_utils.basic import AnsibleModule, missing_required_lib
from ansible_collections.nvidia.mig.plugins.module_utils.demand.settings import Settings
from ansible_collections.nvidia.mig.plugins.module_utils.demand.solver import HIGHSPY_ERROR
from ansible_collections.nvidia.mig.plugins.module_utils.demand.together import plan_all
from ansible_collections.nvidia.mig.plugins.module_utils.errors import InputError, MigError


def run(params: Dict[str, Any]) -> Dict[str, Any]:
    """Plan. Raises InputError."""
    for name in ("gap", "change_cost", "time_limit"):
        if params[name] < 0:
            raise InputError(f"{params[name]} is below zero", name)
    settings = Settings(params["time_limit"], params["gap"], params["change_cost"])
    return plan_all(
        params["nodes"], params["pods"], params["bounds"], params["catalogs"], settings, time.monotonic
    )


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "nodes": {"type": "list", "elements": "raw", "required": True},
            "pods": {"type": "list", "elements": "raw", "required": True},
            "bounds": {"type": "list", "elements": "raw", "default": []},
            "catalogs": {"type": "dict", "default": {}},
            "time_limit": {"type": "float", "default": 30.0},
            "gap": {"type": "float", "default": 0.0},
            "change_cost": {"type": "float", "default": 0.0},
        },
        supports_check_mode=True,
    )
    if HIGHSPY_ERROR is not None:
        module.fail_json(msg=missing_required_lib("highspy"), exception=HIGHSPY_ERROR)
    try:
        result = run(module.params)
    except MigError as error:
        module.fail_json(**error.fail_args())
    module.exit_json(**result)


if __name__ == "__main__":
    main()
