"""What the agent knows, and what it may do about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from miglab.agent.hardware import Hardware
from miglab.agent.settings import Settings

Object = Mapping[str, Any]
Key = tuple[str, str]


@dataclass
class Snapshot:
    """The API server's objects that matter here: nodes by name, the others by (namespace, name)."""

    nodes: dict[str, Object] = field(default_factory=dict)
    daemon_sets: dict[Key, Object] = field(default_factory=dict)
    deployments: dict[Key, Object] = field(default_factory=dict)
    config_maps: dict[Key, Object] = field(default_factory=dict)
    pods: dict[Key, Object] = field(default_factory=dict)


@dataclass(frozen=True)
class Machine:
    """One simulated node as it is now. ``hardware`` is None while NVML cannot be read."""

    hardware: Hardware | None
    boot_id: str = ""
    on: bool = True


@dataclass(frozen=True)
class Change:
    """One call to the API server. ``text`` says for people what changes."""

    method: str  # post, patch, delete; of a pod: end (what runs of it ends first), start, stop
    path: str
    body: Mapping[str, Any]
    text: str


@dataclass(frozen=True)
class Pod:
    """The device plugin or GPU feature discovery on a node: settings, or why it does not run.

    ``workload`` is its DaemonSet, or an object like one. ``identity`` changes at a restart.
    ``waits``: what it mounts is not there yet.
    """

    workload: Object
    identity: str
    settings: Settings | None
    trouble: str = ""
    waits: bool = False


@dataclass(frozen=True)
class Rules:
    """How the agent behaves.

    ``rescan_always``: the device plugin's pods see a new layout at once. False: as in a real cluster, only
    once they are restarted (a changed DaemonSet or named configuration, or a reboot).

    ``controllers``: the cluster has Kubernetes' own, and a scheduler. The agent then plays the nodes alone.
    """

    kubernetes_version: str
    rescan_always: bool = True
    controllers: bool = False
