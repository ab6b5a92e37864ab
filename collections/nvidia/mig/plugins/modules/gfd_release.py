#!/usr/bin/python
# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gfd_release
short_description: Manage the Helm release of NVIDIA's GPU Feature Discovery
version_added: 0.1.0
author: MIG provisioning toolkit maintainers (@nvidia)
description:
  - Installs, upgrades and removes the one release of the chart C(gpu-feature-discovery) in a cluster,
    with the MIG strategy
    that its nodes want and the values that the chart's version knows. It labels nodes with what their
    GPUs are.
  - Works with chart 0.2.0 and newer. Named configs need 0.15.0, which is the device plugin's chart under
    another name.
  - Give it the same O(strategy), or O(configs) and O(default_config), as
    M(nvidia.mig.device_plugin_release).
extends_documentation_fragment:
  - nvidia.mig.release
  - kubernetes.core.helm_common_options
options:
  chart_ref:
    description:
      - The chart. A plain name is looked for in O(chart_repo_url).
      - A folder or C(.tgz) on the machine that runs the module, an C(oci://) URL, or C(repository/name)
        of a repository that helm knows
        are taken as they are.
    type: str
    default: gpu-feature-discovery
  release_name:
    description:
      - Name of the release.
    type: str
    default: gpu-feature-discovery
    aliases: [name]
  namespace:
    description:
      - Namespace of the release. Charts from 0.6.0 on refuse V(default).
    type: str
    default: gpu-feature-discovery
    aliases: [release_namespace]
  nfd:
    description:
      - Install Node Feature Discovery with the release; it turns what GPU Feature Discovery finds into
        node labels.
      - Set it to V(false) if the cluster has Node Feature Discovery already. Two of them collide.
      - Charts from 0.19.0 on publish C(NodeFeature) objects and do not start without its custom resources.
    type: bool
    default: true
  sleep_interval:
    description:
      - Seconds between two looks at the GPUs. By default the chart's, which is a minute.
    type: int
seealso:
  - module: nvidia.mig.device_plugin_release
  - module: nvidia.mig.mig_verify
"""

EXAMPLES = r"""
- name: One strategy for the whole cluster
  nvidia.mig.gfd_release:
    version: 0.17.4
    strategy: single
  delegate_to: localhost
  run_once: true

- name: A strategy for each node, picked by the label nvidia.com/device-plugin.config
  nvidia.mig.gfd_release:
    version: 0.17.4
    configs:
      single: {strategy: single}
      mixed: {strategy: mixed}
    default_config: mixed
    nfd: false
    sleep_interval: 30
  delegate_to: localhost
  run_once: true

- name: A chart from a file, as in a cluster without a way out
  nvidia.mig.gfd_release:
    chart_ref: /srv/charts/gpu-feature-discovery-0.17.4.tgz
    strategy: mixed
    kubeconfig: /etc/kubernetes/admin.conf
"""

RETURN = r"""
actions:
  description: What was done, or would be done in check mode and with O(state=planned).
  type: list
  elements: str
  returned: success
  sample:
    - "upgrade release gpu-feature-discovery in namespace gpu-system: chart 0.16.2 -> 0.17.4"
commands:
  description: The helm commands that changed something. Values were given to them on standard input.
  type: list
  elements: str
  returned: success
  sample:
    - helm uninstall gpu-feature-discovery --namespace gpu-feature-discovery --timeout 300s
release:
  description: The release after the module ran; with O(state=planned) and in check mode, as it is now.
  type: dict
  returned: success
  contains:
    name:
      description: Its name.
      type: str
      sample: gpu-feature-discovery
    namespace:
      description: Its namespace.
      type: str
      sample: gpu-feature-discovery
    chart:
      description: The chart's name.
      type: str
      sample: gpu-feature-discovery
    version:
      description: The chart's version; null if there is no release.
      type: str
      sample: 0.17.4
    app_version:
      description: The version of the software in the chart; null if there is no release.
      type: str
      sample: 0.17.4
    revision:
      description: Helm's count of installs and upgrades; 0 if there is no release.
      type: int
      sample: 3
    status:
      description: Helm's word for its state, or V(absent).
      type: str
      sample: deployed
    adopted:
      description: It was made under another name and is managed under that, see O(adopt).
      type: bool
      sample: false
    user_values:
      description: The user-supplied values that are wanted.
      type: dict
      sample:
        devicePlugin: {enabled: false}
        gfd: {enabled: true}
        migStrategy: single
        nfd: {enabled: true}
    previous_values:
      description: The user-supplied values that were there before; null if there was no release.
      type: dict
      sample:
        migStrategy: none
"""

from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.charts import FEATURE_DISCOVERY
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.release_run import main as run


def main() -> None:
    own = {"nfd": {"type": "bool", "default": True}, "sleep_interval": {"type": "int"}}
    run(FEATURE_DISCOVERY, own)


if __name__ == "__main__":
    main()
