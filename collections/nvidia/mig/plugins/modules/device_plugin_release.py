#!/usr/bin/python
# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: device_plugin_release
short_description: Manage the Helm release of NVIDIA's Kubernetes device plugin
version_added: 0.1.0
author: MIG provisioning toolkit maintainers (@nvidia)
description:
  - Installs, upgrades and removes the one release of the chart C(nvidia-device-plugin) in a cluster, with
    the MIG strategy
    that its nodes want and the values that the chart's version knows.
  - Works with chart 0.7.0 and newer. Named configs need 0.12.0.
  - GPU Feature Discovery is left to M(nvidia.mig.gfd_release), and switched off in this release.
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
    default: nvidia-device-plugin
  release_name:
    description:
      - Name of the release.
    type: str
    default: nvidia-device-plugin
    aliases: [name]
  namespace:
    description:
      - Namespace of the release. Charts from 0.12.0 on refuse V(default).
    type: str
    default: nvidia-device-plugin
    aliases: [release_namespace]
seealso:
  - module: nvidia.mig.gfd_release
  - module: nvidia.mig.mig_verify
"""

EXAMPLES = r"""
- name: One strategy for the whole cluster
  nvidia.mig.device_plugin_release:
    version: 0.17.4
    strategy: single
  delegate_to: localhost
  run_once: true

- name: A strategy for each node, picked by the label nvidia.com/device-plugin.config
  nvidia.mig.device_plugin_release:
    version: 0.17.4
    configs:
      single: {strategy: single}
      mixed: {strategy: mixed}
    default_config: mixed
    values:
      tolerations:
        - operator: Exists
  delegate_to: localhost
  run_once: true

- name: A chart from a file, as in a cluster without a way out
  nvidia.mig.device_plugin_release:
    chart_ref: /srv/charts/nvidia-device-plugin-0.17.4.tgz
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
    - "upgrade release nvidia-device-plugin in namespace gpu-system: chart 0.16.2 -> 0.17.4"
commands:
  description: The helm commands that changed something. Values were given to them on standard input.
  type: list
  elements: str
  returned: success
  sample:
    - helm uninstall nvidia-device-plugin --namespace nvidia-device-plugin --timeout 300s
release:
  description: The release after the module ran; with O(state=planned) and in check mode, as it is now.
  type: dict
  returned: success
  contains:
    name:
      description: Its name.
      type: str
      sample: nvidia-device-plugin
    namespace:
      description: Its namespace.
      type: str
      sample: nvidia-device-plugin
    chart:
      description: The chart's name.
      type: str
      sample: nvidia-device-plugin
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
        devicePlugin: {enabled: true}
        gfd: {enabled: false}
        migStrategy: single
        nfd: {enabled: false}
    previous_values:
      description: The user-supplied values that were there before; null if there was no release.
      type: dict
      sample:
        migStrategy: none
"""

from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.charts import DEVICE_PLUGIN
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.release_run import main as run


def main() -> None:
    run(DEVICE_PLUGIN)


if __name__ == "__main__":
    main()
