#!/usr/bin/python
# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: driver_info
short_description: Tell the NVIDIA driver of a node, and whether it needs a reboot
version_added: 0.1.0
author: MIG provisioning toolkit maintainers (@nvidia)
description:
  - Tells the kernel module that runs, from C(/sys/module/nvidia), and the one that is installed, from
    C(modinfo).
  - Tells the GPUs and NVSwitches that are on the PCI bus, from C(/sys/bus/pci/devices). An NVSwitch is a
    device of NVIDIA's (vendor 0x10de) that is a bridge (class 0x0680).
  - Needs neither a driver nor NVML.
attributes:
  check_mode:
    support: full
    description: Changes nothing in any mode.
  diff_mode:
    support: N/A
    description: Changes nothing, so there is nothing to compare.
options:
  packages:
    description:
      - Packages whose versions to tell, for C(dpkg) or C(rpm).
    type: list
    elements: str
    default: []
  manager:
    description:
      - Whose packages these are. Needed with O(packages).
    type: str
    choices: [apt, dnf]
requirements:
  - kmod (on the node)
seealso:
  - module: nvidia.mig.mig_info
"""

EXAMPLES = r"""
- name: Look at the driver
  nvidia.mig.driver_info:
  register: driver

- name: Reboot only if another module runs than is installed
  ansible.builtin.reboot:
  become: true
  when: driver.reboot_required
"""

RETURN = r"""
running:
  description: The kernel module that runs; null where none does.
  returned: success
  type: dict
  contains: &module
    version:
      description: Version of the driver.
      type: str
      sample: 580.95.05
    srcversion:
      description: Digest of the module's sources, null where the module has none.
      type: str
      sample: 0F6C4E9C5B1C9A3D8D0A1B2
    kind:
      description: C(open), C(proprietary), or null where that cannot be told.
      type: str
      sample: open
installed:
  description: The kernel module that would run after a boot; null where none is installed for this kernel.
  returned: success
  type: dict
  contains: *module
packages:
  description: Version of each package of O(packages) that is installed.
  returned: success
  type: dict
  sample: {nvidia-open: 580.95.05-1}
driver:
  description:
    - Version of the driver on disk, from the first package of O(packages) that is installed, or else from
      RV(installed). Null where there is none.
  returned: success
  type: str
  sample: 580.95.05
reboot_required:
  description:
    - Whether the installed module is not the one that runs, or nouveau runs instead of it.
  returned: success
  type: bool
gpus:
  description: PCI addresses of NVIDIA's GPUs.
  returned: success
  type: list
  elements: str
  sample: ["0000:07:00.0"]
nvswitches:
  description: PCI addresses of NVSwitches.
  returned: success
  type: list
  elements: str
  sample: ["0000:c4:00.0"]
nouveau:
  description: Whether the module nouveau runs.
  returned: success
  type: bool
"""

from dataclasses import asdict
from typing import Any, Dict, Optional

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.nvidia.mig.plugins.module_utils.node import kernel_module


def run(module: AnsibleModule) -> Dict[str, Any]:
    """What the module does."""
    installed = kernel_module.installed(lambda field: _modinfo(module, field))
    running = kernel_module.running()
    nouveau = kernel_module.nouveau_runs()
    hardware = kernel_module.hardware()
    versions = {name: _package(module, name) for name in module.params["packages"]}
    packages = {name: version for name, version in versions.items() if version}
    driver = next(map(kernel_module.driver_version, packages.values()), installed and installed.version)
    return {
        "changed": False,
        "running": running and asdict(running),
        "installed": installed and asdict(installed),
        "packages": packages,
        "driver": driver,
        "reboot_required": bool(
            installed and (kernel_module.differ(installed, running) if running else nouveau)
        ),
        "gpus": list(hardware.gpus),
        "nvswitches": list(hardware.nvswitches),
        "nouveau": nouveau,
    }


def _modinfo(module: AnsibleModule, field: str) -> Optional[str]:
    """A field of the installed module. Where no module is installed, modinfo fails."""
    program = module.get_bin_path("modinfo", required=True, opt_dirs=["/usr/sbin", "/sbin"])
    status, out, _err = module.run_command([program, "--field", field, "nvidia"])
    return out.strip() or None if status == 0 else None


def _package(module: AnsibleModule, name: str) -> Optional[str]:
    """Version of an installed package; None if it is not installed."""
    if module.params["manager"] == "apt":
        command = ["dpkg-query", "--show", "--showformat", "${db:Status-Status} ${Version}", name]
    else:
        command = ["rpm", "--query", "--queryformat", "installed %{EPOCHNUM}:%{VERSION}-%{RELEASE}", name]
    status, out, _err = module.run_command(command)
    state, _blank, version = out.strip().partition(" ")
    return version if status == 0 and state == "installed" else None


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "packages": {"type": "list", "elements": "str", "default": []},
            "manager": {"type": "str", "choices": ["apt", "dnf"]},
        },
        supports_check_mode=True,
    )
    if module.params["packages"] and not module.params["manager"]:
        module.fail_json(msg="packages needs manager")
    module.exit_json(**run(module))


if __name__ == "__main__":
    main()
