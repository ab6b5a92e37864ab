"""``mig-lab cluster``: a real kube-apiserver with etcd on loopback, as whoever runs the command.

No scheduler, controllers or kubelets run: the lab's agent plays what the lab needs of them.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import yaml

from miglab import audit, binaries, paths
from miglab.api import Api, ApiError
from miglab.certificates import Credentials
from miglab.console import LabError, Stopwatch, say
from miglab.daemons import Daemon

_START_SECONDS = 90.0
_ADDRESS = "127.0.0.1"


def up() -> None:
    """Start what is not running, wait until it is ready, and write the kubeconfig.

    Raises:
        MissingError: no kube-apiserver or etcd to be had.
        LabError: one of them ended, with the end of its log.
    """
    watch = Stopwatch()
    etcd, server = _daemons()
    running = [daemon.pid() is not None for daemon in (etcd, server)]
    if all(running) and _ready():
        say(f"the Kubernetes API is up already: {_server_address()}")
        link_tools()
        return
    if any(running):
        down()
    programs = binaries.control_plane()
    credentials = Credentials(paths.cluster_dir())
    paths.cluster_dir().mkdir(parents=True, exist_ok=True)
    paths.cluster_dir().chmod(0o700)
    credentials.ensure()
    ports = _ports()
    fast = _knows(programs["etcd"].path, "unsafe-no-fsync")
    etcd.start([str(programs["etcd"].path), *_etcd_flags(ports, credentials, fast)])
    server.start([str(programs["kube-apiserver"].path), *_server_flags(ports, credentials)])
    address = f"https://{_ADDRESS}:{ports['server']}"
    try:
        _wait(etcd, server, Api(address, credentials.token, credentials.ca.read_text()))
    except BaseException:
        down()
        raise
    _write_kubeconfig(address, credentials)
    link_tools()
    say(f"the Kubernetes API is up after {watch}: {address}, {paths.kubeconfig()}")


def down() -> bool:
    """Stop what ``up`` started; its data stays. False if nothing was running."""
    paths.kubeconfig().unlink(missing_ok=True)  # playbooks take it for the sign that there is an API
    etcd, server = _daemons()
    # The server would wait long for clients that watch it.
    return any([server.stop(patience=1), etcd.stop()])


def is_up() -> bool:
    """Both servers run and the API is ready."""
    return all(daemon.pid() is not None for daemon in _daemons()) and _ready()


def status() -> bool:
    """Say what runs and where; True if the API is up."""
    for daemon in _daemons():
        pid = daemon.pid()
        say(f"{daemon.name}: pid {pid}, log {daemon.log}" if pid else f"{daemon.name}: not running")
    if not is_up():
        say("the Kubernetes API is not up: 'mig-lab cluster up' starts it")
        return False
    version = Api.from_kubeconfig().get("/version")["gitVersion"]
    say(f"the Kubernetes API is up: {_server_address()}, Kubernetes {version}")
    say(f"export KUBECONFIG={paths.kubeconfig()}")
    return True


def link_tools() -> None:
    """Link helm and kubectl into the lab's own bin directory, which is first in a lab process's PATH."""
    paths.bin_dir().mkdir(parents=True, exist_ok=True)
    for program in (binaries.helm(), binaries.find_kubectl()):
        if program is None:
            continue
        link, new = paths.bin_dir() / program.name, paths.bin_dir() / f".{program.name}-{os.getpid()}"
        if program.path == link:
            continue
        new.symlink_to(program.path.absolute())
        os.replace(new, link)


def _daemons() -> tuple[Daemon, Daemon]:
    return Daemon("etcd", paths.cluster_dir()), Daemon("kube-apiserver", paths.cluster_dir())


def _ready() -> bool:
    try:
        return Api.from_kubeconfig(timeout=3).get_text("/readyz") == "ok"
    except ApiError:
        return False


def _server_address() -> str:
    return str(yaml.safe_load(paths.kubeconfig().read_text())["clusters"][0]["cluster"]["server"])


def _wait(etcd: Daemon, server: Daemon, api: Api) -> None:
    deadline = time.monotonic() + _START_SECONDS
    last = "no answer"
    while time.monotonic() < deadline:
        for daemon in (etcd, server):
            if daemon.pid() is None:
                raise LabError(f"{daemon.name} ended at once: {daemon.last_words()} (log: {daemon.log})")
        try:
            # The namespace shows that the server's own start-up work is done too.
            if api.get_text("/readyz") == "ok" and api.get("/api/v1/namespaces/kube-system"):
                return
        except ApiError as error:
            last = str(error)
        time.sleep(0.1)
    raise LabError(f"kube-apiserver was not ready within {_START_SECONDS:.0f} s ({last}; log: {server.log})")


def _ports() -> dict[str, int]:
    """Free ports, the same as last time where they are still free."""
    file = paths.cluster_dir() / "ports.json"
    names = ("etcd", "etcd-peer", "server")
    try:
        ports = {name: int(json.loads(file.read_text())[name]) for name in names}
    except (OSError, ValueError, KeyError, TypeError):
        ports = {}
    with _Reserved() as reserved:
        if not ports or not all(reserved.take(port) for port in ports.values()):
            ports = {name: reserved.any() for name in names}
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
            probe.bind((_ADDRESS, port))
        except OSError:
            return False
        return True

    def any(self) -> int:
        probe = socket.socket()
        self._sockets.append(probe)
        probe.bind((_ADDRESS, 0))
        return int(probe.getsockname()[1])


def _knows(program: Path, flag: str) -> bool:
    """Does the program have the flag? etcd before 3.5 lacks one."""
    try:
        shown = subprocess.run(
            [str(program), "--help"], capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return flag in shown.stdout + shown.stderr


def _etcd_flags(ports: dict[str, int], credentials: Credentials, fast: bool) -> list[str]:
    client, peer = (f"https://{_ADDRESS}:{ports[name]}" for name in ("etcd", "etcd-peer"))
    flags = [
        "--name=lab",
        f"--data-dir={paths.cluster_dir() / 'etcd'}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=lab={peer}",
        "--log-level=warn",
    ]
    if fast:
        flags.append("--unsafe-no-fsync")  # the lab's data may be lost when the machine goes down
    for prefix in ("", "peer-"):
        flags += [
            f"--{prefix}cert-file={credentials.certificate}",
            f"--{prefix}key-file={credentials.key}",
            f"--{prefix}trusted-ca-file={credentials.ca}",
            f"--{prefix}client-cert-auth",
        ]
    return flags


def _server_flags(ports: dict[str, int], credentials: Credentials) -> list[str]:
    return [
        f"--bind-address={_ADDRESS}",
        f"--advertise-address={_ADDRESS}",
        f"--secure-port={ports['server']}",
        f"--tls-cert-file={credentials.certificate}",
        f"--tls-private-key-file={credentials.key}",
        f"--token-auth-file={credentials.tokens}",
        "--anonymous-auth=false",
        "--authorization-mode=RBAC",
        f"--service-account-key-file={credentials.account_public_key}",
        f"--service-account-signing-key-file={credentials.account_key}",
        "--service-account-issuer=https://kubernetes.default.svc",
        "--service-cluster-ip-range=10.96.0.0/16",
        "--endpoint-reconciler-type=none",
        "--disable-admission-plugins=ServiceAccount",  # no controller makes the tokens it would wait for
        "--allow-privileged=true",
        *audit.flags(),
        f"--etcd-servers=https://{_ADDRESS}:{ports['etcd']}",
        f"--etcd-cafile={credentials.ca}",
        f"--etcd-certfile={credentials.certificate}",
        f"--etcd-keyfile={credentials.key}",
    ]


def _write_kubeconfig(address: str, credentials: Credentials) -> None:
    authority = base64.b64encode(credentials.ca.read_bytes()).decode()
    server = {"server": address, "certificate-authority-data": authority}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "mig-lab", "cluster": server}],
        "users": [{"name": "mig-lab", "user": {"token": credentials.token}}],
        "contexts": [{"name": "mig-lab", "context": {"cluster": "mig-lab", "user": "mig-lab"}}],
        "current-context": "mig-lab",
    }
    temporary = paths.kubeconfig().with_suffix(".new")
    with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        yaml.safe_dump(config, file, sort_keys=False)
    os.replace(temporary, paths.kubeconfig())


def register(subparsers: Any) -> None:
    """Add ``mig-lab cluster``."""
    parser = subparsers.add_parser("cluster", help="the lab's Kubernetes API, on loopback")
    commands = parser.add_subparsers(dest="cluster_command", metavar="COMMAND", required=True)
    start = commands.add_parser("up", help="start it; the agent then registers the fleet's nodes")
    start.set_defaults(run=_run_up)
    commands.add_parser("down", help="stop it; what is stored in it stays").set_defaults(run=_run_down)
    commands.add_parser("status", help="is it up, and where").set_defaults(run=_run_status)
    binaries.register(commands)


def _run_up(_: argparse.Namespace) -> int:
    up()
    return 0


def _run_down(_: argparse.Namespace) -> int:
    say("the Kubernetes API is stopped" if down() else "the Kubernetes API was not running")
    return 0


def _run_status(_: argparse.Namespace) -> int:
    return 0 if status() else 1
