"""A copy of the API server's objects, kept current by watches: the agent asks it often, the server seldom."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from miglab.agent.model import Object, Snapshot
from miglab.api import Api, ApiError

_KINDS = {
    "nodes": "/api/v1/nodes",
    "config_maps": "/api/v1/configmaps",
    "daemon_sets": "/apis/apps/v1/daemonsets",
    "pods": "/api/v1/pods",
    "deployments": "/apis/apps/v1/deployments",
}
_WATCH_SECONDS = 300


def fetch(api: Api) -> Snapshot:
    """One look at everything. ApiError."""
    snapshot = Snapshot()
    for kind, path in _KINDS.items():
        objects = api.get(path)["items"]
        getattr(snapshot, kind).update({_key(kind, each): each for each in objects})
    return snapshot


class Mirror:
    """Watches in threads of their own. They end when :meth:`stop` was called, or with the process."""

    def __init__(self, connect: Callable[[float], Api]) -> None:
        """``connect`` makes a client with the given timeout, one for each thread. ApiError if it cannot."""
        self.changed = threading.Event()
        self._connect = connect
        self._lock = threading.Lock()
        self._objects: dict[str, dict[Any, Object]] = {kind: {} for kind in _KINDS}
        self._listed: set[str] = set()
        self._stopping = False
        for kind in _KINDS:
            threading.Thread(target=self._follow, args=(kind,), daemon=True, name=f"watch {kind}").start()

    def snapshot(self) -> Snapshot | None:
        """A consistent copy, None until each kind has been listed once."""
        with self._lock:
            if self._listed != set(_KINDS):
                return None
            return Snapshot(**{kind: dict(objects) for kind, objects in self._objects.items()})

    def stop(self) -> None:
        self._stopping = True

    def _follow(self, kind: str) -> None:
        while not self._stopping:
            try:
                api = self._connect(_WATCH_SECONDS + 30.0)
                answer = api.get(_KINDS[kind])
                objects = {_key(kind, each): each for each in answer["items"]}
                with self._lock:
                    self._objects[kind] = objects
                    self._listed.add(kind)
                self.changed.set()
                self._events(kind, api, str(answer["metadata"]["resourceVersion"]))
            except ApiError:
                time.sleep(1)  # stopped, starting, or the version is too old to watch from: list anew

    def _events(self, kind: str, api: Api, version: str) -> None:
        while not self._stopping:
            for event in api.watch(_KINDS[kind], version, _WATCH_SECONDS):
                item = event["object"]
                version = item["metadata"]["resourceVersion"]
                if event["type"] == "BOOKMARK":
                    continue
                with self._lock:
                    if event["type"] == "DELETED":
                        self._objects[kind].pop(_key(kind, item), None)
                    else:
                        self._objects[kind][_key(kind, item)] = item
                self.changed.set()


def _key(kind: str, item: Object) -> Any:
    metadata = item["metadata"]
    return metadata["name"] if kind == "nodes" else (metadata["namespace"], metadata["name"])
