"""Kubeconfigs, readable by their owner alone."""

from __future__ import annotations

import base64
import os
from pathlib import Path

import yaml


def write(path: Path, address: str, authority: Path, user: str, token: str) -> None:
    """The kubeconfig of ``user`` of the lab's own API server."""
    data = base64.b64encode(authority.read_bytes()).decode()
    server = {"server": address, "certificate-authority-data": data}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "mig-lab", "cluster": server}],
        "users": [{"name": user, "user": {"token": token}}],
        "contexts": [{"name": "mig-lab", "context": {"cluster": "mig-lab", "user": user}}],
        "current-context": "mig-lab",
    }
    save(path, yaml.safe_dump(config, sort_keys=False))


def save(path: Path, text: str) -> None:
    """Whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".new")
    with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(text)
    os.replace(temporary, path)
