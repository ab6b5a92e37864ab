"""The lab's control plane: which one it is, as noted beside its data, and its programs.

- ``light``: kube-apiserver and etcd; the lab's agent plays what else the lab needs. Quick to start.
- ``whole``: the controllers and the scheduler, too; the agent plays the nodes alone.
- ``existing``: that of the cluster that KUBECONFIG names; the agent plays as in a whole one.
"""

from __future__ import annotations

import ssl
import time
from pathlib import Path

from miglab import binaries, kubeconfig, paths, ports, servers
from miglab.api import Api, ApiError
from miglab.certificates import CONTROLLER_MANAGER, SCHEDULER, Credentials
from miglab.console import LabError
from miglab.daemons import Daemon

LIGHT, WHOLE, EXISTING = KINDS = ("light", "whole", "existing")
#: In the order of their start.
_PROGRAMS = {
    LIGHT: ("etcd", "kube-apiserver"),
    WHOLE: ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"),
    EXISTING: (),
}
#: Each has objects of its own: controllers would act on those of a light one.
_DATA = {LIGHT: "etcd", WHOLE: "etcd-whole"}
_START_SECONDS = 90.0


def kind() -> str:
    """What is up, or was last."""
    try:
        noted = _note().read_text().strip()
    except OSError:
        return LIGHT
    return noted if noted in KINDS else LIGHT


def has_controllers() -> bool:
    """Whether DaemonSets, Jobs, pods without a node and so on are somebody else's work than the agent's."""
    return kind() != LIGHT


def note(name: str) -> None:
    paths.cluster_dir().mkdir(parents=True, exist_ok=True)
    paths.cluster_dir().chmod(0o700)
    _note().write_text(f"{name}\n")


def daemons() -> list[Daemon]:
    """Of the kind that is up, or was last."""
    return [Daemon(name, paths.cluster_dir()) for name in _PROGRAMS[kind()]]


def start(name: str) -> None:
    """Start a light or a whole one, wait until it is ready, and write the kubeconfig.

    Raises:
        MissingError: a program is not to be had.
        LabError: one of them ended, with the end of its log.
    """
    programs = binaries.control_plane(binaries.WHOLE if name == WHOLE else binaries.LIGHT)
    note(name)
    credentials = Credentials(paths.cluster_dir())
    credentials.ensure()
    chosen = ports.choose()
    address = f"https://{ports.ADDRESS}:{chosen['server']}"
    flags = {
        "etcd": servers.etcd(programs["etcd"].path, chosen, credentials, _DATA[name]),
        "kube-apiserver": servers.kube_apiserver(chosen, credentials, whole=name == WHOLE),
    }
    api = Api(address, credentials.token(), ssl.create_default_context(cafile=str(credentials.ca)))
    _start(programs, flags)
    # The namespace shows that the server's own start-up work is done too.
    _wait(api, "/api/v1/namespaces/kube-system")
    if name == WHOLE:
        manager, scheduler = (_login(address, credentials, user) for user in (CONTROLLER_MANAGER, SCHEDULER))
        flags = {
            "kube-controller-manager": servers.kube_controller_manager(manager, credentials),
            "kube-scheduler": servers.kube_scheduler(scheduler),
        }
        _start(programs, flags)
        _wait(api, "/api/v1/namespaces/default/serviceaccounts/default")  # no pod can be made before
    kubeconfig.write(paths.kubeconfig(), address, credentials.ca, "mig-lab", credentials.token())


def stop() -> bool:
    """False if nothing was running."""
    # kube-apiserver would wait long for clients that watch it.
    patience = {"kube-apiserver": 1.0}
    stopped = [daemon.stop(patience.get(daemon.name, 5.0)) for daemon in reversed(daemons())]
    return any(stopped)


def _note() -> Path:
    return paths.cluster_dir() / "control-plane"


def _start(programs: dict[str, binaries.Program], flags: dict[str, list[str]]) -> None:
    for daemon in daemons():
        if daemon.name in flags:
            daemon.start([str(programs[daemon.name].path), *flags[daemon.name]])


def _login(address: str, credentials: Credentials, user: str) -> Path:
    path = paths.cluster_dir() / f"{user.removeprefix('system:')}.kubeconfig"
    kubeconfig.write(path, address, credentials.ca, user, credentials.token(user))
    return path


def _wait(api: Api, path: str) -> None:
    """Until the API is ready and has the object; fails if a program that was started ends."""
    started = [daemon for daemon in daemons() if daemon.pid() is not None]
    deadline = time.monotonic() + _START_SECONDS
    last = "no answer"
    while time.monotonic() < deadline:
        for daemon in started:
            if daemon.pid() is None:
                raise LabError(f"{daemon.name} ended at once: {daemon.last_words()} (log: {daemon.log})")
        try:
            if api.get_text("/readyz") == "ok" and api.get(path):
                return
        except ApiError as error:
            last = str(error)
        time.sleep(0.1)
    log = started[-1].log
    raise LabError(f"the control plane was not ready within {_START_SECONDS:.0f} s ({last}; log: {log})")
