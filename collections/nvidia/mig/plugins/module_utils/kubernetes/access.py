# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How modules that only talk to the Kubernetes API get there, and tell nobody what lets them in."""

from __future__ import annotations

import copy
from typing import Any, Dict

from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.api import MISSING_COLLECTION

try:
    from ansible_collections.kubernetes.core.plugins.module_utils.args_common import (  # type: ignore[import-untyped]
        AUTH_ARG_SPEC,
    )

    HAS_KUBERNETES_CORE = True
except ImportError:
    HAS_KUBERNETES_CORE = False
    AUTH_ARG_SPEC = {"kubeconfig": {"type": "raw"}, "context": {}}

try:
    from ansible_collections.kubernetes.core.plugins.module_utils.args_common import (
        extract_sensitive_values_from_kubeconfig as secrets_of,
    )
except ImportError:
    secrets_of = None  # an older kubernetes.core hides the whole kubeconfig


def auth_options() -> Dict[str, Any]:
    """The options by which kubernetes.core's modules find and enter a cluster, as an argument spec."""
    return copy.deepcopy(AUTH_ARG_SPEC)


def prepare(module: Any) -> None:
    """Fail without kubernetes.core, and hide the secrets of a kubeconfig that is given as data."""
    if not HAS_KUBERNETES_CORE:
        module.fail_json(msg=MISSING_COLLECTION)
    if secrets_of is not None and isinstance(module.params["kubeconfig"], dict):
        module.no_log_values.update(secrets_of(module.params["kubeconfig"]))
