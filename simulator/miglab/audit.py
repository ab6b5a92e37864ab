"""What service accounts asked of the lab's API server, from its audit log. The lab itself is not in it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from miglab import paths

_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived", "ResponseStarted"],
    "rules": [
        {"level": "Metadata", "userGroups": ["system:serviceaccounts"]},
        {"level": "None"},
    ],
}


class Request(NamedTuple):
    """One request for a resource. ``resource`` is written as in RBAC: ``pods/eviction``."""

    user: str
    verb: str
    group: str
    resource: str
    namespace: str
    name: str
    code: int


def flags() -> list[str]:
    """Of kube-apiserver; writes the policy that they name."""
    policy = paths.cluster_dir() / "audit-policy.yaml"
    policy.write_text(yaml.safe_dump(_POLICY))
    return [f"--audit-policy-file={policy}", f"--audit-log-path={log()}", "--audit-log-mode=blocking"]


def log() -> Path:
    """One JSON document a line; kube-apiserver appends."""
    return paths.cluster_dir() / "audit.log"


def requests(file: Path) -> list[Request]:
    """Requests for resources, in the order of their answers. No file: none."""
    if not file.exists():
        return []
    events = map(json.loads, file.read_text().splitlines())
    return [_request(event) for event in events if "objectRef" in event]


def _request(event: dict[str, Any]) -> Request:
    target = event["objectRef"]
    parts = [target.get("resource", ""), target.get("subresource", "")]
    return Request(
        user=event["user"]["username"],
        verb=event["verb"],
        group=target.get("apiGroup", ""),
        resource="/".join(filter(None, parts)),
        namespace=target.get("namespace", ""),
        name=target.get("name", ""),
        code=event["responseStatus"]["code"],
    )
