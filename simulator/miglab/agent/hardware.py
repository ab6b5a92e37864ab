"""A node's GPUs as the device plugin and GPU feature discovery read them from NVML."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_PROFILE = re.compile(r"(?:\d+c\.)?(?P<whole>\d+g\.\d+gb)(?P<attributes>.*)")


@dataclass(frozen=True)
class Attributes:
    """NVML's attributes of a MIG device. Two devices are of one type if these are equal."""

    multiprocessors: int
    gpu_slices: int
    compute_slices: int
    memory_mib: int
    copy: int
    decoder: int
    encoder: int
    jpeg: int
    ofa: int


@dataclass(frozen=True)
class MigDevice:
    """``profile`` reads like ``3g.20gb``, ``1g.5gb+me``, ``1c.3g.20gb``."""

    uuid: str
    profile: str
    attributes: Attributes

    @property
    def dotted(self) -> str:
        """The profile as it stands in names of resources and labels: ``1g.5gb.me``."""
        return self.profile.replace("+", ".")

    @property
    def gpu_instance(self) -> str:
        """Without compute slices and attributes: ``3g.20gb``."""
        match = _PROFILE.fullmatch(self.profile)
        return match["whole"] if match else self.profile

    @property
    def fills_its_instance(self) -> bool:
        return self.attributes.compute_slices == self.attributes.gpu_slices


@dataclass(frozen=True)
class Gpu:
    index: int
    name: str
    memory_mib: int
    compute: tuple[int, int]
    mig_capable: bool
    mig: bool
    devices: tuple[MigDevice, ...]
    uuid: str = ""


@dataclass(frozen=True)
class Hardware:
    """``cuda_version`` as NVML gives it: 12080 for 12.8."""

    driver_version: str
    cuda_version: int
    gpus: tuple[Gpu, ...]

    @property
    def devices(self) -> tuple[MigDevice, ...]:
        """All MIG devices, in order."""
        return tuple(device for gpu in self.gpus for device in gpu.devices)


def from_json(data: Mapping[str, Any]) -> Hardware:
    """What :mod:`miglab.agent.reader` prints for one node."""
    gpus = []
    for gpu in data["gpus"]:
        devices = tuple(
            MigDevice(each["uuid"], each["profile"], Attributes(**each["attributes"]))
            for each in gpu["devices"]
        )
        gpus.append(Gpu(**{**gpu, "compute": tuple(gpu["compute"]), "devices": devices}))
    return Hardware(data["driver_version"], data["cuda_version"], tuple(gpus))
