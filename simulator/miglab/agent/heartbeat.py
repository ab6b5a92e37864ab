"""The nodes' leases: a node whose lease is not renewed is taken for dead by the cluster's controllers."""

from __future__ import annotations

import datetime
import time
from collections.abc import Mapping

from miglab.agent.model import Object
from miglab.api import Api, ApiError

_EVERY_SECONDS = 10.0
_LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"


class Heartbeat:
    """Renews as often as kubelet does."""

    def __init__(self) -> None:
        self._renewed: dict[str, float] = {}

    def beat(self, api: Api, nodes: Mapping[str, Object]) -> None:
        """Renew what is due. ApiError."""
        for name, node in nodes.items():
            if time.monotonic() - self._renewed.get(name, -_EVERY_SECONDS) >= _EVERY_SECONDS:
                _renew(api, name, str(node["metadata"]["uid"]))
                self._renewed[name] = time.monotonic()


def _renew(api: Api, name: str, uid: str) -> None:
    now = datetime.datetime.now(datetime.timezone.utc)
    spec = {
        "holderIdentity": name,
        "leaseDurationSeconds": 40,
        "renewTime": now.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
    }
    owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid}
    lease = {"metadata": {"name": name, "ownerReferences": [owner]}, "spec": spec}
    try:
        api.patch(f"{_LEASES}/{name}", lease)
    except ApiError as error:
        if error.status != 404:
            raise
        api.post(_LEASES, lease)
