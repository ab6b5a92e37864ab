"""A small client of the lab's API server, on the standard library: fast to start."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import yaml

from miglab import paths
from miglab.console import LabError

Object = dict[str, Any]

MERGE = "application/merge-patch+json"


class ApiError(LabError):
    """The server said no, or does not answer. ``status`` is the HTTP status, 0 without an answer."""

    def __init__(self, text: str, status: int = 0) -> None:
        super().__init__(text)
        self.status = status


class Api:
    """One keep-alive connection. Not for use by two threads at once."""

    def __init__(self, server: str, token: str, context: ssl.SSLContext, timeout: float = 10.0) -> None:
        """
        Args:
            server: such as ``https://127.0.0.1:6443``.
            token: bearer token; empty: the context has a client certificate.
            context: with the certificate authority.
            timeout: seconds for one answer.
        """
        address = urlsplit(server)
        self._connection = http.client.HTTPSConnection(
            address.hostname or "", address.port, timeout=timeout, context=context
        )
        self._prefix = address.path.rstrip("/")
        self._headers = {"Accept": "application/json"}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"

    @classmethod
    def from_kubeconfig(cls, path: Path | None = None, timeout: float = 10.0) -> Api:
        """For the lab's kubeconfig, which has one cluster and one user. ApiError if there is none."""
        path = path or paths.kubeconfig()
        try:
            config = yaml.safe_load(path.read_text())
            cluster = config["clusters"][0]["cluster"]
            user = config["users"][0]["user"]
            return cls(cluster["server"], user.get("token", ""), _context(cluster, user), timeout)
        except (OSError, yaml.YAMLError, KeyError, IndexError, TypeError, ValueError) as error:
            raise ApiError("the lab's Kubernetes API is not up: run 'mig-lab cluster up'") from error

    def get(self, path: str, **query: object) -> Object:
        return self._call("GET", _with_query(path, query))

    def get_text(self, path: str) -> str:
        """For the paths that answer in plain text, such as /readyz."""
        return self._send("GET", path, None, None).decode(errors="replace")

    def post(self, path: str, body: Object) -> Object:
        return self._call("POST", path, body, "application/json")

    def patch(self, path: str, body: Object, kind: str = MERGE, **query: object) -> Object:
        return self._call("PATCH", _with_query(path, query), body, kind)

    def delete(self, path: str) -> Object:
        return self._call("DELETE", path)

    def watch(self, path: str, version: str, seconds: int) -> Iterator[Object]:
        """Events after ``version``, for ``seconds`` at most. ApiError 410: list anew."""
        query: dict[str, object] = {"watch": 1, "resourceVersion": version, "timeoutSeconds": seconds}
        query["allowWatchBookmarks"] = "true"
        answer = self._open("GET", _with_query(path, query), None, None)
        try:
            while line := answer.readline():
                event = json.loads(line)
                if event["type"] == "ERROR":
                    raise ApiError(str(event["object"].get("message")), int(event["object"].get("code") or 0))
                yield event
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise ApiError(f"the watch of {path} broke off: {error}") from error
        finally:
            self.close()

    def close(self) -> None:
        self._connection.close()

    def _call(self, method: str, path: str, body: Object | None = None, kind: str | None = None) -> Object:
        answer: Object = json.loads(self._send(method, path, body, kind))
        return answer

    def _send(self, method: str, path: str, body: Object | None, kind: str | None) -> bytes:
        try:
            return self._open(method, path, body, kind).read()
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise _silent(error) from error

    def _open(
        self, method: str, path: str, body: Object | None, kind: str | None
    ) -> http.client.HTTPResponse:
        data = None if body is None else json.dumps(body).encode()
        headers = self._headers if kind is None else {**self._headers, "Content-Type": kind}
        fresh = self._connection.sock is None
        try:
            self._connection.request(method, self._prefix + path, data, headers)
            answer = self._connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            self.close()
            # A kept connection may have been closed by the server; a reading call can simply be repeated.
            if method == "GET" and not fresh:
                return self._open(method, path, body, kind)
            raise _silent(error) from error
        if answer.status >= 400:
            text = answer.read().decode(errors="replace")
            try:
                text = json.loads(text)["message"]
            except (ValueError, KeyError, TypeError):
                text = text.strip().splitlines()[0] if text.strip() else answer.reason
            raise ApiError(f"{method} {path.split('?')[0]}: {text}", answer.status)
        return answer


def _context(cluster: Object, user: Object) -> ssl.SSLContext:
    authority = cluster.get("certificate-authority-data")
    context = ssl.create_default_context(cadata=_decode(authority) if authority else None)
    if cluster.get("insecure-skip-tls-verify"):
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if certificate := user.get("client-certificate-data"):
        with tempfile.NamedTemporaryFile("w") as file:  # readable by its owner alone; ssl takes only files
            file.write(f"{_decode(certificate)}\n{_decode(user['client-key-data'])}")
            file.flush()
            context.load_cert_chain(file.name)
    return context


def _decode(text: str) -> str:
    return base64.b64decode(text).decode()


def _silent(error: Exception) -> ApiError:
    return ApiError(f"the lab's Kubernetes API does not answer: {error or type(error).__name__}")


def _with_query(path: str, query: dict[str, object]) -> str:
    return f"{path}?{urlencode(query)}" if query else path
