# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads of the Kubernetes API, through kubernetes.core's client. Needs the Python package kubernetes."""

from __future__ import annotations

import json
from typing import Any, Dict, List, Mapping, Optional

from ansible_collections.nvidia.mig.plugins.module_utils.errors import ClusterError

try:
    from ansible_collections.kubernetes.core.plugins.module_utils.k8s.client import (  # type: ignore[import-untyped]
        get_api_client,
    )
    from ansible_collections.kubernetes.core.plugins.module_utils.k8s.core import (  # type: ignore[import-untyped]
        requires,
    )

    HAS_KUBERNETES_CORE = True
except ImportError:
    HAS_KUBERNETES_CORE = False

# The options of kubernetes.core that say where the API is and who asks.
_AUTHENTICATION = (
    "kubeconfig",
    "context",
    "host",
    "api_key",
    "username",
    "password",
    "validate_certs",
    "ca_cert",
    "client_cert",
    "client_key",
    "proxy",
    "no_proxy",
    "proxy_headers",
    "persist_config",
)

MISSING_COLLECTION = (
    "the collection kubernetes.core is missing; install it with "
    "'ansible-galaxy collection install \"kubernetes.core:>=6.2.0\"'"
)


class Api:
    """A connection to the Kubernetes API.

    Args:
        params: a module's parameters; those that authenticate are used.

    Raises:
        ClusterError: no client, no configuration, or no answer.
    """

    def __init__(self, params: Mapping[str, Any]) -> None:
        if not HAS_KUBERNETES_CORE:
            raise ClusterError(MISSING_COLLECTION)
        known = {name: params[name] for name in _AUTHENTICATION if params.get(name) is not None}
        try:
            requires("kubernetes")
            self._client = get_api_client(**known)
        except Exception as error:
            raise ClusterError(
                f"no connection to the Kubernetes API: {_reason(error)}", hint="check kubeconfig and context"
            ) from error

    def get(
        self, kind: str, version: str, name: str, namespace: Optional[str] = None
    ) -> Optional[Dict[str, Any]]:
        """One object as a dictionary; None if there is none of that name."""
        where = {"namespace": namespace} if namespace else {}
        try:
            resource = self._client.resource(kind, version)
            found: Dict[str, Any] = self._client.get(resource, name=name, **where).to_dict()
        except Exception as error:
            if getattr(error, "status", None) == 404:
                return None
            raise ClusterError(f"cannot read {kind} {name}: {_reason(error)}") from error
        return found

    def objects(self, group: str, version: str, plural: str) -> Optional[List[Dict[str, Any]]]:
        """All objects of a kind, in one call; None if the cluster does not know the kind."""
        path = f"/apis/{group}/{version}/{plural}"
        try:
            answer = self._client.client.request("get", path, serialize=False)
            found = json.loads(answer.data)
        except Exception as error:
            if getattr(error, "status", None) == 404:
                return None
            raise ClusterError(
                f"cannot list {plural}.{group}: {_reason(error)}",
                hint="the account needs the right to list them",
            ) from error
        return list(found.get("items") or [])

    def pods(self, namespace: str, selector: Mapping[str, str]) -> List[Dict[str, Any]]:
        """Pods with all of the labels."""
        labels = ",".join(f"{key}={value}" for key, value in sorted(selector.items()))
        try:
            resource = self._client.resource("Pod", "v1")
            found = self._client.get(resource, namespace=namespace, label_selector=labels).to_dict()
        except Exception as error:
            raise ClusterError(f"cannot list the pods of {namespace}: {_reason(error)}") from error
        return list(found.get("items") or [])


def _reason(error: Exception) -> str:
    """One line: the client's exceptions carry whole responses, and urllib3's whole chains."""
    summary = getattr(error, "summary", None)
    text = str(summary() if callable(summary) else error).strip() or type(error).__name__
    return text.splitlines()[0][:300]
