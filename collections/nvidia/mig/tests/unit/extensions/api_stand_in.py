# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A stand-in for the Kubernetes API that fails in the ways in which a real one cannot be made to."""

from __future__ import annotations

import http.server
import json
import queue
import threading
import urllib.parse
from pathlib import Path
from typing import Any

import yaml

# What a watch may do, besides sending lines: end as after its time, break off, answer with an error.
END, BREAK = "end", "break"


class StandIn:
    """Lists ``pods``, and plays one of ``watches`` for each watch; without any left, a watch stays silent.

    ``later``, if there are any, are the pods of every list but the first. A watch is a list of lines to send,
    the last of which may be END or BREAK; or the code of an error.
    """

    def __init__(self) -> None:
        self.pods: list[Any] = []
        self.later: list[Any] = []
        self.version = 1
        self.page = 500
        self.watches: queue.Queue[Any] = queue.Queue()
        self.refuse: list[int] = []
        self.token = ""
        self.lists: list[dict[str, str]] = []
        self.asked: list[dict[str, str]] = []
        self.over = threading.Event()
        stand_in = self

        class Handler(_Handler):
            api = stand_in

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def break_off(self) -> None:
        """End every watch that stays silent, as a network that fails does."""
        over, self.over = self.over, threading.Event()
        over.set()

    def stop(self) -> None:
        self.over.set()
        self._server.shutdown()
        self._server.server_close()

    def kubeconfig(self, path: Path, token: str = "") -> str:
        address = f"http://127.0.0.1:{self._server.server_address[1]}"
        path.write_text(
            yaml.safe_dump(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "clusters": [{"name": "c", "cluster": {"server": address}}],
                    "users": [{"name": "u", "user": {"token": token} if token else {}}],
                    "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                    "current-context": "x",
                }
            )
        )
        return str(path)


def line(change: str, item: Any) -> str:
    """A line of a watch."""
    return json.dumps({"type": change, "object": item})


def gone() -> str:
    """What the API says in a watch from a version that it has forgotten."""
    return line("ERROR", _status(410, "Expired", "too old resource version: 1 (9)"))


def _status(code: int, reason: str, message: str) -> dict[str, Any]:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
    }


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    api: StandIn

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        url = urllib.parse.urlsplit(self.path)
        asked = dict(urllib.parse.parse_qsl(url.query))
        if self.api.token and self.headers.get("Authorization") != f"Bearer {self.api.token}":
            self._refuse(401)
        elif "watch" in asked:
            self.api.asked.append(asked)
            self._watch()
        else:
            self.api.lists.append(asked)
            if self.api.refuse:
                self._refuse(self.api.refuse.pop(0))
            else:
                self._list(int(asked.get("continue", 0)))
                self.api.pods = self.api.later or self.api.pods

    def _list(self, start: int) -> None:
        api = self.api
        metadata = {"resourceVersion": str(api.version)}
        if start + api.page < len(api.pods):
            metadata["continue"] = str(start + api.page)
        items = api.pods[start : start + api.page]
        self._answer(200, {"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": items})

    def _watch(self) -> None:
        try:
            script = self.api.watches.get_nowait()
        except queue.Empty:
            script = []
        if isinstance(script, int):
            self._refuse(script)
            return
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for text in script:
            if text == END:
                self._chunk(b"")
                return
            if text == BREAK:
                self._chunk(b'{"type": "ADDED", "obj')
                break
            self._chunk(text.encode() + b"\n")
        else:
            self.api.over.wait(60)
        self.close_connection = True

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()

    def _refuse(self, code: int) -> None:
        self._answer(code, _status(code, "Refused", f"refused with {code}"))

    def _answer(self, code: int, body: Any) -> None:
        data = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
