#!/usr/bin/python
# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: mig_layout
short_description: Bring the GPUs of a node to a MIG layout
version_added: 0.1.0
author: MIG provisioning toolkit maintainers (@nvidia)
description:
  - Compares all GPUs of a node with a wanted layout, and carries out the steps that destroy least. GPUs and
    instances that are as wanted are not touched.
  - Everything is checked before the first change. A profile that a GPU does not offer, profiles that do not
    fit together, a GPU that is not there, or an instance in use is an error, and nothing is changed. So is a
    GPU that has instances of a profile whose name is not known.
  - Instances are created at explicit placements. Afterwards the GPUs are read again and compared.
  - If a step fails, the GPUs are brought back to how they were, as far as possible. The error says what was
    restored and what is there now. If the module is killed, the next run goes on from what it finds.
  - The MIG mode of some GPUs changes only with a GPU reset. The driver does that by itself where nothing
    holds the GPU. Otherwise the module sets the mode, creates nothing yet, and returns RV(complete=false).
    Reset the GPUs with M(nvidia.mig.gpu_reset) and run the module again.
extends_documentation_fragment:
  - nvidia.mig.node
  - nvidia.mig.node.changes
attributes:
  idempotent:
    support: full
    description: When run twice in a row outside check mode, with the same arguments, the second one changes
      nothing.
options:
  layout:
    description:
      - The wanted layout, a list of entries. Each says for some GPUs what is wanted on each of them. GPUs
        that no entry selects are left as they are.
      - "C(gpus) is needed: V(all), or an index, a UUID, a PCI bus id, or a list of them. V(all) with
        profiles passes over GPUs that cannot do MIG."
      - C(profiles) maps the name of a profile to how many such MIG devices each of the GPUs gets. MIG mode
        is enabled for it. An empty mapping means MIG mode without instances. With a name such as
        C(1c.3g.20gb), compute instances share a GPU instance until it is full.
      - C(mig) set to V(false) disables MIG mode.
      - C(product) restricts the entry to GPUs with this name. The prefix C(NVIDIA) may be left out, and
        C(*) stands for anything.
      - C(device_id) restricts the entry to GPUs with one of these PCI device ids, written as V(0x20B010DE).
      - An entry with such a restriction is passed over on a node that has no such GPU. But a layout of
        which no entry selects any GPU is an error.
      - Mutually exclusive with O(config).
    type: raw
  config:
    description:
      - The content of a configuration file of NVIDIA's mig-parted, version V(v1), instead of O(layout).
      - Needs O(config_name).
    type: raw
  config_name:
    description:
      - Which of the C(mig-configs) in O(config) is wanted.
    type: str
  strategy:
    description:
      - The MIG strategy that the device plugin will use on this node. If it is given, a layout that
        contradicts it is an error.
      - V(none) wants MIG mode disabled on all GPUs, V(single) wants one profile on all GPUs.
    type: str
    choices: [none, single, mixed]
  sharing:
    description:
      - How the node's GPUs will be shared, as in a config of the device plugin. A resource that O(layout)
        and O(strategy) do not offer is an error. MPS with MIG devices is one too.
      - Needs O(strategy) and O(chart_version).
    type: dict
  chart_version:
    description:
      - Version of the device plugin's chart. If it is given, a layout that only this version refuses is an
        error too.
      - Needs O(strategy).
    type: str
  state:
    description:
      - V(present) brings the GPUs to the layout.
      - V(planned) changes nothing, in check mode or not, and reports no change. It returns the plan, and
        fails where V(present) would be refused.
    type: str
    choices: [present, planned]
    default: present
  destroy_in_use:
    description:
      - Whether MIG devices that a pod holds may be destroyed. One with running processes cannot be
        destroyed even so, as NVML refuses that. End the processes first.
      - With O(state=planned), nothing in use is an error, and RV(in_use) and RV(clients) tell who is in the
        way.
    type: bool
    default: false
  drained_pods:
    description:
      - UIDs of pods that have been drained, although kubelet's device checkpoint may list them still. It does
        so until the next pod gets a device. They are in the way of nothing. V(*) stands for every pod.
      - In check mode and with O(state=planned), they are going to be drained. Then the processes on their
        devices are in the way of nothing either.
    type: list
    elements: str
    default: []
  minimum_driver:
    description:
      - The oldest driver that is accepted.
      - What a GPU or a layout needs beyond that is checked in any case.
    type: str
    default: 450.80.02
seealso:
  - module: nvidia.mig.gpu_reset
  - module: nvidia.mig.mig_info
  - name: mig-parted
    description: NVIDIA's tool whose configuration files can be used here.
    link: https://github.com/NVIDIA/mig-parted
"""

EXAMPLES = r"""
- name: Two 3g.20gb on every GPU
  nvidia.mig.mig_layout:
    layout:
      - gpus: all
        profiles:
          3g.20gb: 2
  become: true

- name: A mixed node, whose GPUs 0 to 4 stay whole
  nvidia.mig.mig_layout:
    strategy: mixed
    layout:
      - gpus: [0, 1, 2, 3, 4]
        mig: false
      - gpus: 5
        profiles: {1g.5gb: 2, 2g.10gb: 1, 3g.20gb: 1}
      - gpus: ['0000:CB:00.0', GPU-07fc9e5f-b365-5770-bea9-0c03aee1945a]
        profiles: {2g.10gb: 3}
  become: true

- name: One layout for several kinds of GPUs
  nvidia.mig.mig_layout:
    layout:
      - gpus: all
        product: A100-SXM4-40GB
        profiles: {1g.5gb: 7}
      - gpus: all
        product: H100*
        profiles: {1g.10gb: 7}
  become: true

- name: A named configuration of mig-parted
  nvidia.mig.mig_layout:
    config: "{{ lookup('ansible.builtin.file', 'mig-parted.yaml') | from_yaml }}"
    config_name: all-balanced
  become: true

- name: Only plan, to decide whether the node must be drained
  nvidia.mig.mig_layout:
    state: planned
    destroy_in_use: true
    layout:
      - gpus: all
        mig: false
  become: true
  register: plan
"""

RETURN = r"""
actions:
  description:
    - One line for each step that was carried out, or that would be (in check mode and with
      O(state=planned)).
    - Compute instances that come and go with their GPU instance have no line.
  returned: success, and failure of a step if the GPUs cannot be read after it
  type: list
  elements: str
  sample:
    - 'GPU 0: destroy 3g.20gb at 4:4'
    - 'GPU 0: create 2g.10gb at 4:2'
plan:
  description: All steps of the plan as data, whether they were carried out or not.
  returned: success
  type: list
  elements: dict
  sample:
    - step: destroy_gpu_instance
      gpu: 0
      profile: 3g.20gb
      placement: {start: 4, size: 4}
before:
  description: The GPUs that the layout selects, as they were.
  returned: success, and failure of a step
  type: dict
  sample:
    GPU 0:
      mig: true
      instances: ['3g.20gb 0:4', '3g.20gb 4:4']
after:
  description: The same GPUs as read back, or as they would be (in check mode and with O(state=planned)).
  returned: success, and failure of a step
  type: dict
  sample:
    GPU 0:
      mig: true
      instances: ['3g.20gb 0:4', '2g.10gb 4:2']
gpus:
  description: All GPUs of the node in short, as they are or would be after this.
  returned: success
  type: list
  elements: dict
  contains:
    index:
      description: NVML's index.
      type: int
      sample: 0
    product:
      description: NVML's name.
      type: str
      sample: NVIDIA A100-SXM4-40GB
    mig_capable:
      description: Whether the GPU can do MIG.
      type: bool
      sample: true
    mig:
      description: Whether MIG mode is enabled.
      type: bool
      sample: true
    profiles:
      description: One profile for each MIG device, the biggest first.
      type: list
      elements: str
      sample: [3g.20gb, 2g.10gb]
complete:
  description:
    - Whether the layout is there. It is V(false) if a MIG mode waits for a GPU reset; then run the module
      again after that.
    - In check mode and with O(state=planned), always V(true), as only the attempt tells whether the driver
      can reset a GPU by itself.
  returned: success
  type: bool
  sample: true
reset_required:
  description: Indexes of the GPUs whose MIG mode waits for a GPU reset.
  returned: success
  type: list
  elements: int
  sample: []
in_use:
  description: What is destroyed although it is held. Only with O(destroy_in_use=true).
  returned: success
  type: list
  elements: dict
  sample:
    - gpu: 0
      profile: 3g.20gb
      placement: {start: 4, size: 4}
      holders: [process 4711 (python), pod team-a/train]
must_be_free:
  description:
    - Indexes of the GPUs that nobody may hold open while the plan is carried out, not even a daemon. Their
      MIG mode changes or, from Hopper on, they get their first instance.
    - A daemon such as C(nvidia-persistenced) is not among RV(clients), as NVML does not know of it.
  returned: success
  type: list
  elements: int
  sample: [0]
clients:
  description: Who uses the GPUs of RV(must_be_free), outside of MIG instances. They block the change.
  returned: success
  type: list
  elements: dict
  sample:
    - gpu: 0
      clients: [process 4711 (python)]
pods:
  description:
    - The pods that must go before the plan is carried out. They hold what it destroys, or a GPU whose MIG
      mode it changes. If it resets a GPU, they are all pods that hold a GPU or MIG device of the node.
    - To plan before a drain, set O(drained_pods) to V(*), drain these, and pass their C(uid) when applying.
  returned: success
  type: list
  elements: dict
  sample:
    - namespace: team-a
      name: train
      uid: 2f1d6ad5-8d0c-4a55-9f0f-0a52b2a4d4c1
      container: main
      resource: nvidia.com/mig-3g.20gb
touched:
  description:
    - The GPUs that the plan touches, with what it takes to draw them beside RV(before) and RV(after).
  returned: success
  type: list
  elements: dict
  contains:
    gpu:
      description: NVML's index.
      type: int
      sample: 0
    memory_slices:
      description: How many the GPU has.
      type: int
      sample: 8
    resets:
      description: Whether its MIG mode changes only with a GPU reset.
      type: bool
      sample: false
    held:
      description:
        - Who uses what of it before the plan, by the instance as RV(before) names it.
        - Those who use the GPU outside of MIG instances have an empty name.
      type: dict
      sample:
        3g.20gb 0:4: [pod team-a/train]
reboot_expected:
  description:
    - Whether a GPU must be reset that is lent to this virtual machine. Then the machine has to reboot for
      it, as M(nvidia.mig.gpu_reset) would tell.
  returned: success
  type: bool
  sample: false
way_back:
  description: A layout for O(layout) that asks for what was there before, of the GPUs that the plan touches.
  returned: success
  type: list
  elements: dict
  sample:
    - gpus: 0
      profiles: {3g.20gb: 2}
driver_version:
  description: Version of the NVIDIA driver.
  returned: success
  type: str
  sample: 580.95.05
restored:
  description: What was done to put the GPUs back after a step failed, one line for each step.
  returned: failure of a step
  type: list
  elements: str
not_restored:
  description: What could not be put back, and why.
  returned: failure of a step
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.nvidia.mig.plugins.module_utils.errors import MigError
from ansible_collections.nvidia.mig.plugins.module_utils.node.layout_run import run_layout
from ansible_collections.nvidia.mig.plugins.module_utils.node.python import go_on_with_nvml
from ansible_collections.nvidia.mig.plugins.module_utils.node.wanted import layout_spec


def main() -> None:
    module = AnsibleModule(supports_check_mode=True, **layout_spec())
    try:
        go_on_with_nvml(module.params)
        result = run_layout(module.params, module.check_mode, module._diff)
    except MigError as error:
        module.fail_json(**error.fail_args())
    module.exit_json(**result)


if __name__ == "__main__":
    main()
