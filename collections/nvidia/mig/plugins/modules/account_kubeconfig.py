#!/usr/bin/python
# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: account_kubeconfig
short_description: Write a kubeconfig of a Kubernetes service account
version_added: 0.1.0
author: MIG provisioning toolkit maintainers (@nvidia)
description:
  - Asks the Kubernetes API for a token of a service account, as C(kubectl create token) does, and writes a
    kubeconfig with it, for its owner alone. The token is neither in the result nor in the diff.
  - A file whose token is good for long enough stays as it is. A file that is no kubeconfig of that account is
    never overwritten.
requirements:
  - kubernetes (Python package)
  - PyYAML
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
attributes:
  check_mode:
    support: full
    description: Can run in check_mode and return changed status prediction without modifying target.
  diff_mode:
    support: none
    description: A kubeconfig is not for showing.
  idempotent:
    support: full
    description:
      - When run twice in a row outside check mode, with the same arguments, the second invocation
        indicates no change.
options:
  name:
    description:
      - Name of the service account.
    type: str
    required: true
  namespace:
    description:
      - Its namespace.
    type: str
    required: true
  path:
    description:
      - The file to write. Its directory must be there.
    type: path
    required: true
  server:
    description:
      - URL of the API server to write. By default the one that this module uses.
    type: str
  lifetime:
    description:
      - How many seconds the token shall be good for, at least 600. The API server may grant another time.
    type: int
    default: 86400
  renew_below:
    description:
      - With fewer seconds left than that, a new token is asked for.
    type: int
    default: 14400
seealso:
  - module: nvidia.mig.access_review
"""

EXAMPLES = r"""
- name: A kubeconfig for a day
  nvidia.mig.account_kubeconfig:
    name: mig-provisioning
    namespace: mig-provisioning
    path: ~/.kube/mig-provisioning
    kubeconfig: ~/.kube/config
  delegate_to: localhost
  run_once: true
"""

RETURN = r"""
path:
  description: The file.
  type: str
  returned: success
  sample: /home/admin/.kube/mig-provisioning
user:
  description: The account's name in the API.
  type: str
  returned: success
  sample: system:serviceaccount:mig-provisioning:mig-provisioning
expires:
  description: When the token in the file ends, in UTC; empty if check mode would have asked for one.
  type: str
  returned: success
  sample: "2026-01-31T12:00:00Z"
"""

import os
import tempfile
import time
from typing import Any, Dict, Tuple

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.nvidia.mig.plugins.module_utils.errors import ClusterError, InputError, MigError
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.access import auth_options, prepare
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.api import Api
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.kubeconfig import (
    Account,
    check_owner,
    expires,
    kubeconfig,
)

try:
    import yaml
except ImportError:
    yaml = None

_MODE = 0o600


def run(module: Any) -> Dict[str, Any]:
    """Write what has to be written, and tell of it.

    Raises:
        MigError: bad options, no such account, or a file that is somebody else's.
    """
    params = module.params
    if params["lifetime"] < 600:
        raise InputError(f"{params['lifetime']} seconds are too short", path="lifetime", hint="600 or more")
    api = Api(params)
    found = api.get("ServiceAccount", "v1", params["name"], params["namespace"])
    if found is None and not module.check_mode:  # which may have predicted it
        raise ClusterError(f"there is no service account {params['name']} in {params['namespace']}")
    account = Account(params["namespace"], params["name"], found["metadata"]["uid"] if found else "")
    cluster = api.server()
    if params["server"]:
        cluster["server"] = params["server"]
    end, mode = _look(params["path"], account, cluster)
    stale = end - time.time() < params["renew_below"]
    if stale and not module.check_mode:
        token = api.token(account.name, account.namespace, params["lifetime"])
        module.no_log_values.add(token)
        document = kubeconfig(account, cluster, token)
        _write(module, params["path"], document)
        end = expires(document, account, cluster) or 0
    elif mode != _MODE and not module.check_mode:
        os.chmod(params["path"], _MODE)
    text = "" if stale and module.check_mode else time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(end))
    changed = stale or mode != _MODE
    return {"changed": changed, "path": params["path"], "user": account.user, "expires": text}


def _look(path: str, account: Account, cluster: Dict[str, Any]) -> Tuple[float, int]:
    """When the token in the file ends (0: there is none that fits), and the file's mode."""
    if not os.path.lexists(path):
        return 0, _MODE
    try:
        with open(path, encoding="utf-8") as file:
            document = yaml.safe_load(file)
        mode = os.stat(path).st_mode & 0o777
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise InputError(f"cannot be read: {type(error).__name__}", path="path") from error
    check_owner(document, account, path)
    return expires(document, account, cluster) or 0, mode


def _write(module: Any, path: str, document: Dict[str, Any]) -> None:
    """Never is there a file that is half written, or that others can read."""
    try:
        handle, temporary = tempfile.mkstemp(dir=os.path.dirname(os.path.abspath(path)))
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", path="path") from error
    with open(handle, "w", encoding="utf-8") as file:
        yaml.safe_dump(document, file, sort_keys=False)
    module.atomic_move(temporary, path)
    os.chmod(path, _MODE)


def main() -> None:
    spec: Dict[str, Any] = auth_options()
    spec.update(
        name={"type": "str", "required": True},
        namespace={"type": "str", "required": True},
        path={"type": "path", "required": True},
        server={"type": "str"},
        lifetime={"type": "int", "default": 86400},
        renew_below={"type": "int", "default": 14400},
    )
    module = AnsibleModule(argument_spec=spec, supports_check_mode=True)
    prepare(module)
    if yaml is None:
        module.fail_json(msg="the Python package PyYAML is missing")
    try:
        result = run(module)
    except MigError as error:
        module.fail_json(**error.fail_args())
    module.exit_json(**result)


if __name__ == "__main__":
    main()
