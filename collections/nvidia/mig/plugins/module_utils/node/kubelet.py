# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which pod holds which device: kubelet's device checkpoint, and its pod log directories for the pods' names.

Kubelet forgets a pod in the checkpoint only when it hands out the next device. So an entry counts only while
the pod's log directory is there: kubelet removes that with the pod.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any, Collection, Dict, Iterator, List, Mapping, Optional, Tuple

from ansible_collections.nvidia.mig.plugins.module_utils.errors import DeviceError

CHECKPOINT = "/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint"
POD_LOGS = "/var/log/pods"


@dataclass(frozen=True)
class Pod:
    """A pod that has a device. ``namespace`` and ``name`` are empty if nothing on the node tells them."""

    namespace: str
    name: str
    uid: str
    container: str
    resource: str

    def __str__(self) -> str:
        return f"pod {self.namespace}/{self.name}" if self.name else f"pod with uid {self.uid}"

    def as_dict(self) -> Dict[str, str]:
        return {
            "namespace": self.namespace,
            "name": self.name,
            "uid": self.uid,
            "container": self.container,
            "resource": self.resource,
        }


@dataclass(frozen=True)
class Allocations:
    """Pods by the UUID of the device that they hold."""

    pods: Mapping[str, Tuple[Pod, ...]]

    def of(self, uuid: str) -> Tuple[Pod, ...]:
        return self.pods.get(uuid, ())

    def split(self, uids: Collection[str]) -> Tuple[Allocations, Allocations]:
        """Those of these pods (``*`` among them: of every pod), and those of the others."""
        own: Dict[str, Tuple[Pod, ...]] = {}
        others: Dict[str, Tuple[Pod, ...]] = {}
        for device, pods in self.pods.items():
            for pod in pods:
                part = own if "*" in uids or pod.uid in uids else others
                part[device] = (*part.get(device, ()), pod)
        return Allocations(own), Allocations(others)

    @property
    def has_mig_devices(self) -> bool:
        """A pod holds a MIG device, so the MIG devices' UUIDs are worth reading."""
        return any(uuid.startswith("MIG-") for uuid in self.pods)


def read_allocations(checkpoint: str = CHECKPOINT, pod_logs: str = POD_LOGS) -> Allocations:
    """Read the checkpoint; a node without one runs no kubelet, and no pod holds anything.

    Args:
        pod_logs: directory with ``<namespace>_<name>_<uid>`` for each pod; if it is not there at all, every
            entry of the checkpoint counts, without a name.

    Raises:
        DeviceError: a file that cannot be read, or not understood.
    """
    try:
        with open(checkpoint, encoding="utf-8") as file:
            content = json.load(file)
    except FileNotFoundError:
        return Allocations({})
    except OSError as error:
        raise DeviceError(
            f"cannot read kubelet's device checkpoint {checkpoint}: {error.strerror}",
            hint="run it as root: become: true",
        ) from error
    except ValueError as error:
        raise _unknown_form(checkpoint, str(error)) from error
    names = _pod_names(pod_logs)
    found: Dict[str, List[Pod]] = {}
    for entry in _entries(content, checkpoint):
        try:
            uid = str(entry["PodUID"])
            if names is not None and uid not in names:
                continue
            namespace, name = names[uid] if names is not None else ("", "")
            pod = Pod(namespace, name, uid, str(entry["ContainerName"]), str(entry["ResourceName"]))
            for device in _device_ids(entry["DeviceIDs"]):
                # A shared device has the ids <uuid>::0, <uuid>::1, ...
                holders = found.setdefault(device.partition("::")[0], [])
                if pod not in holders:
                    holders.append(pod)
        except (AttributeError, KeyError, TypeError) as error:
            raise _unknown_form(checkpoint, f"an entry of PodDeviceEntries lacks {error}") from error
    return Allocations({uuid: tuple(pods) for uuid, pods in found.items()})


def _entries(content: Any, checkpoint: str) -> Iterator[Mapping[str, Any]]:
    try:
        # Go writes null for an empty list.
        entries = content["Data"]["PodDeviceEntries"] or []
    except (KeyError, TypeError) as error:
        raise _unknown_form(checkpoint, "it has no Data.PodDeviceEntries") from error
    if not isinstance(entries, list):
        raise _unknown_form(checkpoint, "Data.PodDeviceEntries is not a list")
    yield from entries


def _device_ids(value: Any) -> List[str]:
    """Kubelet 1.19 and older write a list; newer ones a list for each NUMA node."""
    if isinstance(value, list):
        return [str(device) for device in value]
    return [str(device) for devices in value.values() for device in devices or []]


def _pod_names(pod_logs: str) -> Optional[Dict[str, Tuple[str, str]]]:
    try:
        directories = os.listdir(pod_logs)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise DeviceError(
            f"cannot read the pod log directory {pod_logs}: {error.strerror}",
            hint="run it as root: become: true",
        ) from error
    found: Dict[str, Tuple[str, str]] = {}
    for directory in directories:
        parts = directory.split("_")
        if len(parts) == 3:
            found[parts[2]] = (parts[0], parts[1])
    return found


def _unknown_form(checkpoint: str, why: str) -> DeviceError:
    return DeviceError(
        f"{checkpoint} is not a device checkpoint as kubelet writes it: {why}",
        path="kubelet_checkpoint",
        hint="give the path of kubelet's file kubelet_internal_checkpoint",
    )
