# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cluster's pods without a node, kept up to date by a watch. Needs the Python package kubernetes."""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

from ansible_collections.nvidia.mig.plugins.module_utils.errors import ClusterError
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.rights import denied

try:
    from kubernetes import client, config, watch

    HAS_KUBERNETES = True
except ImportError:
    HAS_KUBERNETES = False

# All that can become demand; what counts is for pending.py to say. A pod that gets a node leaves it.
SELECTOR = "status.phase=Pending,spec.nodeName="
# Objects in one answer.
PAGE = 500
# Seconds that the server keeps one watch open, and that the client waits beyond that.
STREAM = 240
PATIENCE = 30
# Seconds between two attempts to reach the API.
FIRST_RETRY = 1.0
LAST_RETRY = 60.0

_CHANGES = ("ADDED", "MODIFIED", "DELETED")

logger = logging.getLogger("nvidia.mig.pending_pods")


def connection(kubeconfig: Optional[str] = None, context: Optional[str] = None) -> Any:
    """The core API as kubernetes.core finds it: of this pod, of a kubeconfig, of the default one.

    Raises:
        ClusterError: there is no client or no configuration.
    """
    if not HAS_KUBERNETES:
        raise ClusterError("the Python package kubernetes is missing", hint="pip install kubernetes")
    configuration = client.Configuration()
    try:
        if kubeconfig or context:
            _load(configuration, kubeconfig, context)
        else:
            try:
                config.load_incluster_config(client_configuration=configuration)
            except config.ConfigException:
                _load(configuration, None, None)
    except Exception as error:  # of a file, of YAML, of a program that gives credentials
        raise ClusterError(
            f"no configuration of the Kubernetes API: {_line(error)}", hint="check kubeconfig and context"
        ) from error
    # What fails is told and tried again here.
    configuration.retries = False
    return client.CoreV1Api(client.ApiClient(configuration))


def _load(configuration: Any, kubeconfig: Optional[str], context: Optional[str]) -> None:
    file = os.path.expanduser(kubeconfig) if kubeconfig else None
    config.load_kube_config(file, context, configuration, persist_config=False)


class PodWatch(threading.Thread):
    """Follows the API until it is stopped, whatever happens there.

    Args:
        connect: a new connection. The old one may have a token that has ended.
        changed: called in this thread after each change.
    """

    def __init__(self, connect: Callable[[], Any], changed: Callable[[], None]) -> None:
        super().__init__(name="pending-pods", daemon=True)
        self._connect = connect
        self._changed = changed
        self._lock = threading.Lock()
        self._pods: Dict[str, Any] = {}
        self._in_touch = False
        self._ended = threading.Event()
        self._watch: Optional[Any] = None

    def pods(self) -> Optional[List[Any]]:
        """The pods as the API has them; None while it cannot be reached."""
        with self._lock:
            return list(self._pods.values()) if self._in_touch else None

    def stop(self) -> None:
        """End soon. The thread does not outlive the process in any case."""
        self._ended.set()
        if self._watch is not None:
            self._watch.stop()

    def run(self) -> None:
        """Read and follow, again and again, with a back-off after failures."""
        failures = 0
        while not self._ended.is_set():
            began = time.monotonic()
            try:
                self._follow()
            except Exception as error:  # whatever it is, the next attempt may do
                if self._ended.is_set():
                    break
                # What lasted was no failure to connect.
                failures = 0 if time.monotonic() - began > LAST_RETRY else failures
                pause = min(FIRST_RETRY * 2 ** min(failures, 10), LAST_RETRY)
                failures += 1
                self._lost(error, pause)
                self._ended.wait(pause)

    def _lost(self, error: Exception, pause: float) -> None:
        with self._lock:
            self._in_touch = False
        self._changed()
        reason = _reason(error)
        hint = denied(reason)
        logger.warning(
            "cannot watch the pods of the cluster: %s%s; the next attempt is in %g seconds",
            reason,
            f" ({hint})" if hint else "",
            pause,
        )

    def _follow(self) -> None:
        """List, then watch from there on; returns when it is stopped. Raises whatever goes wrong."""
        api = self._connect()
        pods, version = _everything(api)
        with self._lock:
            self._pods = pods
            self._in_touch = True
        self._changed()
        logger.info("watching the pods of the cluster: %d have no node", len(pods))
        while not self._ended.is_set():
            version = self._stream(api, version)
            # A server or proxy that ends every watch at once is not asked without pause.
            self._ended.wait(FIRST_RETRY)

    def _stream(self, api: Any, version: str) -> str:
        """One watch, until the server ends it. Returns the version that it came to."""
        self._watch = watch.Watch()

        def pods(**more: Any) -> Any:  # without the return type that the watch would make objects of
            return api.list_pod_for_all_namespaces(**more)

        stream = self._watch.stream(
            pods,
            field_selector=SELECTOR,
            resource_version=version,
            allow_watch_bookmarks=True,
            timeout_seconds=STREAM,
            _request_timeout=(PATIENCE, STREAM + PATIENCE),
        )
        for event in stream:
            found = event["raw_object"]
            if not isinstance(found, Mapping) or not isinstance(found.get("metadata"), Mapping):
                logger.warning("the API sent something that is no pod; it is passed over")
                continue
            version = str(found["metadata"].get("resourceVersion") or version)
            if event["type"] in _CHANGES:
                self._note(event["type"], found)
        return version

    def _note(self, change: str, pod: Mapping[str, Any]) -> None:
        with self._lock:
            if change == "DELETED":
                self._pods.pop(_key(pod), None)
            else:
                self._pods[_key(pod)] = _light(pod)
        self._changed()


def _everything(api: Any) -> Tuple[Dict[str, Any], str]:
    """All pods that the selector takes, and the version of the cluster that they are of."""
    pods: Dict[str, Any] = {}
    rest: Dict[str, str] = {}
    while True:
        answer = api.list_pod_for_all_namespaces(
            field_selector=SELECTOR,
            limit=PAGE,
            _preload_content=False,  # objects of the client refuse what they do not know
            _request_timeout=(PATIENCE, PATIENCE),
            **rest,
        )
        found = json.loads(answer.data)
        for item in found.get("items") or []:
            pods[_key(item)] = _light(item)
        metadata = found["metadata"]
        if not metadata.get("continue"):
            return pods, str(metadata["resourceVersion"])
        rest = {"_continue": metadata["continue"]}


def _key(pod: Any) -> str:
    metadata = pod.get("metadata") if isinstance(pod, Mapping) else None
    metadata = metadata if isinstance(metadata, Mapping) else {}
    return str(metadata.get("uid") or f"{metadata.get('namespace')}/{metadata.get('name')}")


def _light(pod: Any) -> Any:
    """The pod without what may be half of it and tells nothing."""
    metadata = pod.get("metadata") if isinstance(pod, Mapping) else None
    if isinstance(metadata, dict):
        metadata.pop("managedFields", None)
    return pod


def _reason(error: Exception) -> str:
    """One line of what went wrong. The API says why it refuses in the body of its answer."""
    if isinstance(error, client.ApiException):
        try:
            return str(json.loads(error.body)["message"])[:300]
        except (TypeError, ValueError, KeyError):
            return f"{error.status} {error.reason}"
    return _line(error)


def _line(error: Exception) -> str:
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0][:300]
