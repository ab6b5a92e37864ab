# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the documentation of device_plugin_release and gfd_release have in common."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
requirements:
  - helm >= 3.8 (3 and 4)
  - PyYAML
  - kubernetes (Python package, for O(wait=true))
attributes:
  check_mode:
    support: full
    description: Can run in check_mode and return changed status prediction without modifying target.
  diff_mode:
    support: full
    description: Returns the chart's version and the user-supplied values, before and after.
  idempotent:
    support: full
    description:
      - When run twice in a row outside check mode, with the same arguments, the second invocation
        indicates no change.
options:
  state:
    description:
      - V(present) installs or upgrades the release.
      - V(planned) changes nothing, in check mode or not, reports no change, and returns RV(actions). It
        finds what V(present) would
        stumble over, as far as it can be known beforehand.
      - V(absent) uninstalls the release. The namespace stays.
    type: str
    choices: [present, planned, absent]
    default: present
  strategy:
    description:
      - The MIG strategy of every node in the cluster.
      - Needed for O(state=present) and O(state=planned), unless O(configs) is given.
    type: str
    choices: [none, single, mixed]
  configs:
    description:
      - Named configs, where nodes want different strategies or sharing. The node label
        C(nvidia.com/device-plugin.config) picks
        one for a node.
      - Each is a dictionary with the key C(strategy), and optionally C(sharing) in the device plugin's
        own form.
      - The filter P(nvidia.mig.release_settings#filter) makes them from an inventory.
    type: dict
  default_config:
    description:
      - The config of nodes without the label. Needed if there is more than one config.
    type: str
  version:
    description:
      - The chart's version. It may be left out only for a chart on this machine, whose own version is
        then taken.
    type: str
    aliases: [chart_version]
  chart_repo_url:
    description:
      - URL of the chart repository to take O(chart_ref) from, if that is a chart's plain name.
      - By default NVIDIA's public repository for the chart and version.
    type: str
  create_namespace:
    description:
      - Create the release's namespace if it is missing.
    type: bool
    default: true
  values:
    description:
      - More values for the chart. They are merged with those that the other options lead to, and may not
        contradict them.
      - What a release has in user-supplied values and what is not listed here is removed, so that the
        inventory tells the
        whole truth. The one exception is a release that was adopted, see O(adopt).
    type: dict
    default: {}
  adopt:
    description:
      - What to do if the cluster has a release of the chart under another name or in another namespace,
        as C(helm install --generate-name) makes it.
        There must never be two, because they overwrite each other's socket on the nodes.
      - With V(true) that release is managed under its own name, in its own namespace. Values that only it
        has are kept, and named in a warning.
      - With V(false) the module fails and says how to proceed.
      - If there is more than one such release, the module fails in any case.
    type: bool
    default: true
  hooks:
    description:
      - Run the chart's hooks when the release is uninstalled.
    type: bool
    default: true
  wait:
    description:
      - After installing, upgrading or finding the release as wanted, wait until all pods of its
        DaemonSets are up to date and ready.
      - A DaemonSet that matches no node is reported as a warning.
    type: bool
    default: true
  wait_timeout:
    description:
      - How many seconds to wait for pods, and for hooks.
    type: int
    default: 300
notes:
  - If helm fails to install or to upgrade, the release is rolled back to the revision before, or removed if
    there was none, and the module fails and says so. A failed release that is found is upgraded again, even
    if its values are as wanted. A release that helm is busy with is an error.
  - Pods that do not become ready in time are an error, too, but the release stays as it was asked for.
  - Values are handed to helm on standard input. Set C(no_log) on the task if O(values) hold secrets, as
    the diff shows them.
"""
