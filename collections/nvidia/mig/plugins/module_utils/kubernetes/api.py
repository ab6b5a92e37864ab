# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads of the Kubernetes API, through kubernetes.core's client. Needs the Python package kubernetes."""

from __future__ import annotations

import base64
import contextlib
import json
import signal
from typing import Any, Dict, Iterator, List, Mapping, Optional, Tuple

from ansible_collections.nvidia.mig.plugins.module_utils.errors import ClusterError
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.rights import Right, denied

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

# Seconds for one question; the client itself would wait for ever.
PATIENCE = 60
# Objects in one answer.
PAGE = 500

MISSING_COLLECTION = (
    "the collection kubernetes.core is missing; install it with "
    "'ansible-galaxy collection install \"kubernetes.core:>=6.2.0\"'"
)


class NoAnswerError(Exception):
    """Not an OSError, after which the client would try again."""


@contextlib.contextmanager
def _patience() -> Iterator[None]:
    """Give up on a server that takes the connection and says nothing."""

    def give_up(*_: Any) -> None:
        raise NoAnswerError(f"the API server has not answered within {PATIENCE} seconds")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class Api:
    """A connection to the Kubernetes API.

    Args:
        params: a module's parameters; those that authenticate are used.

    Raises:
        ClusterError: no client, no configuration, or no answer.
    """

    @_patience()
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

    @_patience()
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
            raise _refused(f"cannot read {kind} {name}", error) from error
        return found

    @_patience()
    def objects(self, group: str, version: str, plural: str) -> Optional[List[Dict[str, Any]]]:
        """All objects of a kind, in one call; None if the cluster does not know the kind."""
        path = f"/apis/{group}/{version}/{plural}"
        try:
            answer = self._client.client.request("get", path, serialize=False)
            found = json.loads(answer.data)
        except Exception as error:
            if getattr(error, "status", None) == 404:
                return None
            raise _refused(f"cannot list {plural}.{group}", error) from error
        return list(found.get("items") or [])

    def everything(self, plural: str, **selectors: str) -> List[Dict[str, Any]]:
        """All core objects of a kind in the cluster, however many there are.

        Args:
            plural: such as pods.
            selectors: ``field_selector`` and ``label_selector``.
        """
        found, rest = self._page(plural, selectors)
        while rest:
            more, rest = self._page(plural, {**selectors, "_continue": rest})
            found += more
        return found

    @_patience()
    def _page(self, plural: str, selectors: Mapping[str, str]) -> Tuple[List[Dict[str, Any]], str]:
        path = f"/api/v1/{plural}"
        try:
            answer = self._client.client.request("get", path, serialize=False, limit=PAGE, **selectors)
            found = json.loads(answer.data)
        except Exception as error:
            raise _refused(f"cannot list the {plural} of the cluster", error) from error
        return list(found.get("items") or []), str(found.get("metadata", {}).get("continue") or "")

    @_patience()
    def items(self, kind: str, version: str, selector: str) -> List[Dict[str, Any]]:
        """All objects of the cluster with these labels."""
        try:
            resource = self._client.resource(kind, version)
            found = self._client.get(resource, label_selector=selector).to_dict()
        except Exception as error:
            raise _refused(f"cannot list each {kind} of the cluster", error) from error
        return list(found.get("items") or [])

    def server(self) -> Dict[str, Any]:
        """The API server as a kubeconfig names it, with the authority that vouches for it."""
        configuration = self._client.configuration
        cluster: Dict[str, Any] = {"server": configuration.host}
        if not configuration.verify_ssl:
            cluster["insecure-skip-tls-verify"] = True
        elif configuration.ssl_ca_cert:
            with open(configuration.ssl_ca_cert, "rb") as file:
                cluster["certificate-authority-data"] = base64.b64encode(file.read()).decode()
        if getattr(configuration, "tls_server_name", None):
            cluster["tls-server-name"] = configuration.tls_server_name
        if configuration.proxy:
            cluster["proxy-url"] = configuration.proxy
        return cluster

    @_patience()
    def token(self, name: str, namespace: str, seconds: int) -> str:
        """A new token of a service account."""
        try:
            accounts = self._client.resource("ServiceAccount", "v1")
            asked = {
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenRequest",
                "spec": {"expirationSeconds": seconds},
            }
            found = accounts.subresources["token"].create(body=asked, name=name, namespace=namespace)
        except Exception as error:
            raise _refused(f"cannot get a token of {namespace}/{name}", error) from error
        return str(found.to_dict()["status"]["token"])

    @_patience()
    def may(self, right: Right) -> bool:
        """Whether the account that asks has the right."""
        resource, _slash, subresource = right.resource.partition("/")
        asked = {
            "verb": right.verb,
            "group": right.group,
            "resource": resource,
            "subresource": subresource,
            "namespace": right.namespace,
            "name": right.name,
        }
        kind, version = "SelfSubjectAccessReview", "authorization.k8s.io/v1"
        try:
            review = self._client.create(
                self._client.resource(kind, version),
                {"apiVersion": version, "kind": kind, "spec": {"resourceAttributes": asked}},
            ).to_dict()
        except Exception as error:
            raise _refused(f"cannot ask for the right to {right}", error) from error
        return bool(review["status"]["allowed"])

    @_patience()
    def pods(self, namespace: str, selector: Mapping[str, str]) -> List[Dict[str, Any]]:
        """Pods with all of the labels."""
        labels = ",".join(f"{key}={value}" for key, value in sorted(selector.items()))
        try:
            resource = self._client.resource("Pod", "v1")
            found = self._client.get(resource, namespace=namespace, label_selector=labels).to_dict()
        except Exception as error:
            raise _refused(f"cannot list the pods of {namespace}", error) from error
        return list(found.get("items") or [])


def _refused(what: str, error: Exception) -> ClusterError:
    reason = _reason(error)
    return ClusterError(f"{what}: {reason}", hint=denied(reason))


def _reason(error: Exception) -> str:
    """One line: the client's exceptions carry whole responses, and urllib3's whole chains."""
    summary = getattr(error, "summary", None)
    text = str(summary() if callable(summary) else error).strip() or type(error).__name__
    return text.splitlines()[0][:300]
