"""Where everything of the lab lies. The only place that spells these paths.

All of it is below ``$MIG_LAB_DIR`` (default ``.lab`` in the repository), except what is worth
keeping for later clones, which is below ``$XDG_CACHE_HOME/mig-lab``.
The environment is read at each call, so a test may point the lab at a directory of its own.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
SIMULATOR = REPOSITORY / "simulator"

_NODE_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?")


def lab_dir() -> Path:
    """The lab's directory, absolute. It may not exist yet."""
    return Path(os.environ.get("MIG_LAB_DIR") or REPOSITORY / ".lab").absolute()


def lib_dir() -> Path:
    """Holds ``libnvidia-ml.so.1``; goes into LD_LIBRARY_PATH."""
    return lab_dir() / "lib"


def bin_dir() -> Path:
    """Holds ``nvidia-smi``; goes first into PATH."""
    return lab_dir() / "bin"


def nodes_dir() -> Path:
    """Holds one directory per simulated node."""
    return lab_dir() / "nodes"


def node_dir(name: str) -> Path:
    """Directory of one node. ValueError for what cannot be a node's name (it becomes a path)."""
    if not _NODE_NAME.fullmatch(name):
        raise ValueError(f"{name!r} is not a node name: letters, digits, '-' and '.' only")
    return nodes_dir() / name


def node_state(name: str) -> Path:
    """The node's hardware and driver state; a process on the node has it in MIG_SIM_NODE."""
    return node_dir(name) / "nvml.state"


def boot_id(name: str) -> Path:
    """Text file with a UUID that is new after each reboot, as /proc/sys/kernel/random/boot_id."""
    return node_dir(name) / "boot_id"


def switched_off(name: str) -> Path:
    """Empty file that is there while the node cannot be reached."""
    return node_dir(name) / "switched_off"


def checkpoint(name: str) -> Path:
    """Kubelet's device manager checkpoint of the node (kubelet's own JSON)."""
    return node_dir(name) / "kubelet_internal_checkpoint"


def pods_dir(name: str) -> Path:
    """As /var/log/pods: one directory ``<namespace>_<name>_<uid>`` per pod."""
    return node_dir(name) / "pods"


def kubeconfig() -> Path:
    """Kubeconfig of the lab's API server."""
    return lab_dir() / "kubeconfig"


def cluster_dir() -> Path:
    """etcd's data, certificates, pid files and logs of the lab's API server."""
    return lab_dir() / "cluster"


def cache_dir() -> Path:
    """Downloads and builds that later clones reuse."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "mig-lab"


def node_environment(name: str, euid: int | None = None) -> dict[str, str]:
    """What a process on the node has in its environment, on top of ``os.environ``'s own values.

    ``euid`` is the user id that root-only NVML calls see; None leaves the real one.
    """
    return state_environment(node_state(name), euid)


def state_environment(state: Path, euid: int | None = None) -> dict[str, str]:
    """As :func:`node_environment`, for a state file that lies anywhere."""
    environment = {
        "LD_LIBRARY_PATH": _before(lib_dir(), os.environ.get("LD_LIBRARY_PATH")),
        "MIG_SIM_NODE": str(state.absolute()),
        "PATH": _before(bin_dir(), os.environ.get("PATH")),
    }
    if euid is not None:
        environment["MIG_SIM_EUID"] = str(euid)
    return environment


def _before(first: Path, rest: str | None) -> str:
    return f"{first}:{rest}" if rest else str(first)
