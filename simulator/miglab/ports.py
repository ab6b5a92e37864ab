"""Ports of the loopback interface for the lab's servers."""

from __future__ import annotations

import json
import socket

from miglab import paths

ADDRESS = "127.0.0.1"
_NAMES = ("etcd", "etcd-peer", "server")


def choose() -> dict[str, int]:
    """Free ports, the same as last time where they are still free."""
    file = paths.cluster_dir() / "ports.json"
    try:
        ports = {name: int(json.loads(file.read_text())[name]) for name in _NAMES}
    except (OSError, ValueError, KeyError, TypeError):
        ports = {}
    with _Reserved() as reserved:
        if not ports or not all(reserved.take(port) for port in ports.values()):
            ports = {name: reserved.any() for name in _NAMES}
    file.write_text(json.dumps(ports))
    return ports


class _Reserved:
    """Ports of the loopback interface, bound until the end of the block so that none is given out twice."""

    def __enter__(self) -> _Reserved:
        self._sockets: list[socket.socket] = []
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._sockets:
            each.close()

    def take(self, port: int) -> bool:
        probe = socket.socket()
        self._sockets.append(probe)
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((ADDRESS, port))
        except OSError:
            return False
        return True

    def any(self) -> int:
        probe = socket.socket()
        self._sockets.append(probe)
        probe.bind((ADDRESS, 0))
        return int(probe.getsockname()[1])
