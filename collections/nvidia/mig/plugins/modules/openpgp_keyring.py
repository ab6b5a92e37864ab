#!/usr/bin/python
# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: openpgp_keyring
short_description: Put a package repository's key on a node, if it is the pinned one
version_added: 0.1.0
author: MIG provisioning toolkit maintainers (@nvidia)
description:
  - Gets a file of OpenPGP public keys, computes the fingerprint of each, and writes the file only if each is
    one of O(fingerprints).
  - Needs neither C(gpg) nor C(apt-key) on the node.
  - It does not verify the signatures in the file. C(apt) and C(rpm) do that when they use it.
attributes:
  check_mode:
    support: full
    description: Gets the keys and checks them, and writes nothing.
  diff_mode:
    support: full
    description: Shows fingerprints and names of the keys.
options:
  path:
    description:
      - The file to write.
    type: path
    required: true
  url:
    description:
      - Where the node gets the keys. C(http), C(https), or C(file) for a file on the node.
    type: str
  content:
    description:
      - The keys as armored text, instead of O(url).
    type: str
  fingerprints:
    description:
      - Fingerprints of the primary keys that are accepted. Blanks in them do not count.
      - The file may lack some of them, so that a key and its successor can be pinned at once.
    type: list
    elements: str
    required: true
  armored:
    description:
      - Whether the file is to be text, as C(rpm) wants it, or binary, as C(signed-by) of C(apt) does.
    type: bool
    default: false
  timeout:
    description:
      - Seconds to wait for O(url).
    type: int
    default: 30
extends_documentation_fragment:
  - ansible.builtin.files
"""

EXAMPLES = r"""
- name: The key of NVIDIA's repository
  nvidia.mig.openpgp_keyring:
    path: /etc/apt/keyrings/nvidia-driver.gpg
    url: https://developer.download.nvidia.com/compute/cuda/repos/ubuntu2404/x86_64/3bf863cc.pub
    fingerprints: [EB693B3035CD5710E231E123A4B469963BF863CC]
    mode: "0644"
  become: true

- name: The same from a file on the control node, for rpm
  nvidia.mig.openpgp_keyring:
    path: /etc/pki/rpm-gpg/RPM-GPG-KEY-nvidia-driver
    content: "{{ lookup('ansible.builtin.file', 'D42D0685.pub') }}"
    fingerprints: [610C7B14E068A878070DA4E99CD0A493D42D0685]
    armored: true
    mode: "0644"
  become: true
"""

RETURN = r"""
public_keys:
  description: The keys in the file.
  returned: success
  type: list
  elements: dict
  contains:
    fingerprint:
      description: Fingerprint of the primary key.
      type: str
      sample: EB693B3035CD5710E231E123A4B469963BF863CC
    user_ids:
      description: Names in the key.
      type: list
      elements: str
      sample: [cudatools <cudatools@nvidia.com>]
"""

import os
import tempfile
from typing import Any, Dict, List

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.urls import fetch_url
from ansible_collections.nvidia.mig.plugins.module_utils.errors import InputError, MigError
from ansible_collections.nvidia.mig.plugins.module_utils.node.openpgp import (
    PublicKey,
    armor,
    check_pinned,
    dearmor,
    parse_fingerprint,
    read_keys,
)

# A keyring has some kilobytes. What is larger is something else.
LARGEST = 1 << 20


def run(module: AnsibleModule) -> Dict[str, Any]:
    """What the module does; raises MigError."""
    params = module.params
    pinned = [
        parse_fingerprint(text, f"fingerprints[{index}]") for index, text in enumerate(params["fingerprints"])
    ]
    if not pinned:
        raise InputError("no fingerprint is pinned", "fingerprints", "name at least one")
    source = params["url"] or "content"
    try:
        packets = dearmor(_fetch(module) if params["url"] else params["content"].encode())
        keys = read_keys(packets)
    except InputError as error:
        raise InputError(f"cannot take {source} for a key: {error}", hint="nothing was changed") from error
    check_pinned(keys, pinned, source)

    wanted = armor(packets) if params["armored"] else packets
    present = _read(params["path"])
    changed = present != wanted
    if changed and not module.check_mode:
        _write(module, wanted)
    # In check mode there may be no file yet to have attributes.
    if not module.check_mode or present:
        attributes = module.load_file_common_arguments(params)
        changed = module.set_fs_attributes_if_different(attributes, changed)
    result = {"changed": changed, "public_keys": [_told(key) for key in keys]}
    if changed:
        result["diff"] = {"before": {"keys": _known(present)}, "after": {"keys": result["public_keys"]}}
    return result


def _fetch(module: AnsibleModule) -> bytes:
    """What ``url`` holds."""
    url = module.params["url"]
    if url.startswith("file:///"):
        return _read(url[len("file://") :])
    if not url.startswith(("http://", "https://")):
        raise InputError(f"{url!r} is not an address", "url", "http, https or file:///path is")
    response, info = fetch_url(module, url, timeout=module.params["timeout"])
    if response is None or info["status"] != 200:
        raise InputError(f"{info['msg']}", hint="is the address right, and can the node reach it?")
    data: bytes = response.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise InputError("it is too large")
    return data


def _read(path: str) -> bytes:
    """The file's content, nothing where there is no file."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error


def _write(module: AnsibleModule, content: bytes) -> None:
    """Write the file as a whole or not at all."""
    handle, temporary = tempfile.mkstemp(dir=module.tmpdir)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
    module.atomic_move(temporary, module.params["path"])


def _told(key: PublicKey) -> Dict[str, Any]:
    return {"fingerprint": key.fingerprint, "user_ids": list(key.user_ids)}


def _known(content: bytes) -> List[Dict[str, Any]]:
    """The keys in the file as it was, as far as it can be read."""
    try:
        return [_told(key) for key in read_keys(dearmor(content))]
    except InputError:
        return []


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "url": {"type": "str"},
            "content": {"type": "str"},
            "fingerprints": {"type": "list", "elements": "str", "required": True, "no_log": False},
            "armored": {"type": "bool", "default": False},
            "timeout": {"type": "int", "default": 30},
        },
        add_file_common_args=True,
        mutually_exclusive=[("url", "content")],
        required_one_of=[("url", "content")],
        supports_check_mode=True,
    )
    try:
        result = run(module)
    except MigError as error:
        module.fail_json(**error.fail_args())
    module.exit_json(**result)


if __name__ == "__main__":
    main()
