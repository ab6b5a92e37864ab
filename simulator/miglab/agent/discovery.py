"""GPU feature discovery: the labels of a node. Pure. As NVIDIA's ``internal/lm`` does it, by version."""

from __future__ import annotations

import re

from miglab.agent.hardware import Gpu, Hardware, MigDevice
from miglab.agent.settings import RefusedError, Settings

Labels = dict[str, str]

_FAMILIES = {7: "turing", 8: "ampere", 9: "hopper", 10: "blackwell", 12: "blackwell"}


def labels(hardware: Hardware, settings: Settings, machine: str = "unknown") -> Labels:
    """Labels of the node, without the timestamp.

    Args:
        hardware: what NVML says.
        settings: what the DaemonSet says.
        machine: the machine type, as in /sys/class/dmi/id/product_name.

    Raises:
        RefusedError: GFD exits.
    """
    if settings.sharing == "mps" and any(gpu.mig for gpu in hardware.gpus):
        raise RefusedError("error creating sharing labeler: MPS sharing is not supported for mig devices")
    if not hardware.gpus:
        return {}
    found = _versions(hardware, settings)
    found["nvidia.com/gpu.machine"] = _clean(machine, settings)
    found["nvidia.com/mig.capable"] = _boolean(any(gpu.mig_capable for gpu in hardware.gpus))
    if settings.version >= (0, 15, 0):
        found["nvidia.com/mps.capable"] = _boolean(settings.sharing == "mps")
    if settings.version >= (0, 16, 0):
        # By the PCI class of the GPUs. GPUs with MIG, and data centre GPUs, are 3D controllers.
        found["nvidia.com/gpu.mode"] = "compute"
        found["nvidia.com/vgpu.present"] = "false"
    found.update(_gpus(hardware, settings))
    if settings.strategy != "none":
        found["nvidia.com/mig.strategy"] = settings.strategy
        found.update(
            _single(hardware, settings) if settings.strategy == "single" else _mixed(hardware, settings)
        )
    return found


def _versions(hardware: Hardware, settings: Settings) -> Labels:
    major, minor, *rest = hardware.driver_version.split(".")
    revision = rest[0] if rest else ""
    cuda_major, cuda_minor = divmod(hardware.cuda_version, 1000)
    runtime = (str(cuda_major), str(cuda_minor // 10))
    found = {
        "nvidia.com/cuda.driver.major": major,
        "nvidia.com/cuda.driver.minor": minor,
        "nvidia.com/cuda.driver.rev": revision,
        "nvidia.com/cuda.runtime.major": runtime[0],
        "nvidia.com/cuda.runtime.minor": runtime[1],
    }
    if settings.version >= (0, 15, 0):
        found |= {
            "nvidia.com/cuda.driver-version.major": major,
            "nvidia.com/cuda.driver-version.minor": minor,
            "nvidia.com/cuda.driver-version.revision": revision,
            "nvidia.com/cuda.driver-version.full": hardware.driver_version,
            "nvidia.com/cuda.runtime-version.major": runtime[0],
            "nvidia.com/cuda.runtime-version.minor": runtime[1],
            "nvidia.com/cuda.runtime-version.full": ".".join(runtime),
        }
    return found


def _gpus(hardware: Hardware, settings: Settings) -> Labels:
    """Whole GPUs. All GPUs of a product count; one without MIG, if there is one, gives the other labels."""
    found: Labels = {}
    for gpu in sorted(hardware.gpus, key=lambda gpu: not gpu.mig):  # later ones override
        count = sum(other.name == gpu.name for other in hardware.gpus)
        found.update(_base("nvidia.com/gpu", settings, count, gpu.name, can_share=not gpu.mig))
        found["nvidia.com/gpu.memory"] = str(gpu.memory_mib)
        found["nvidia.com/gpu.family"] = _family(gpu)
        found["nvidia.com/gpu.compute.major"], found["nvidia.com/gpu.compute.minor"] = map(str, gpu.compute)
    return found


def _family(gpu: Gpu) -> str:
    major, minor = gpu.compute
    if (major, minor) == (7, 0):
        return "volta"
    if (major, minor) == (8, 9):
        return "ada-lovelace"
    return _FAMILIES.get(major, "undefined")


def _single(hardware: Hardware, settings: Settings) -> Labels:
    """The MIG devices take the place of the GPUs, if all are of one type."""
    enabled = [gpu for gpu in hardware.gpus if gpu.mig]
    if not enabled:
        return {}
    names = {device.dotted for device in hardware.devices}
    if len(enabled) < len(hardware.gpus) or not all(gpu.devices for gpu in enabled) or len(names) != 1:
        return {
            "nvidia.com/gpu.product": _product(settings, "nvidia.com/gpu", enabled[0].name, "MIG", "INVALID"),
            "nvidia.com/gpu.count": "0",
            "nvidia.com/gpu.replicas": "0",
            "nvidia.com/gpu.sharing-strategy": "",
            "nvidia.com/gpu.memory": "0",
        }
    return _devices("nvidia.com/gpu", settings, enabled[0].name, list(hardware.devices))


def _mixed(hardware: Hardware, settings: Settings) -> Labels:
    """A set of labels per profile; GPUs in MIG mode without devices are passed over."""
    found: Labels = {}
    by_name: dict[str, list[MigDevice]] = {}
    products: dict[str, str] = {}
    for gpu in hardware.gpus:
        for device in gpu.devices:
            by_name.setdefault(device.dotted, []).append(device)
            products.setdefault(device.dotted, gpu.name)
    for name, devices in by_name.items():
        found.update(_devices(f"nvidia.com/mig-{name}", settings, products[name], devices))
    return found


def _devices(resource: str, settings: Settings, product: str, devices: list[MigDevice]) -> Labels:
    attributes = devices[0].attributes
    found = _base(resource, settings, len(devices), product, "MIG", devices[0].dotted)
    values = {
        "memory": attributes.memory_mib,
        "multiprocessors": attributes.multiprocessors,
        "slices.gi": attributes.gpu_slices,
        "slices.ci": attributes.compute_slices,
        "engines.copy": attributes.copy,
        "engines.decoder": attributes.decoder,
        "engines.encoder": attributes.encoder,
        "engines.jpeg": attributes.jpeg,
        "engines.ofa": attributes.ofa,
    }
    return found | {f"{resource}.{name}": str(value) for name, value in values.items()}


def _base(resource: str, settings: Settings, count: int, *parts: str, can_share: bool = True) -> Labels:
    """Whole GPUs in MIG mode are not for use: they have no replicas, and no sharing."""
    replicas = settings.replicas(resource) if can_share else 0
    names = _product(settings, resource, *parts) if can_share else _join(settings, *parts)
    return {
        f"{resource}.product": names,
        f"{resource}.count": str(count),
        f"{resource}.replicas": str(replicas),
        f"{resource}.sharing-strategy": settings.sharing if replicas > 1 else "none",
    }


def _product(settings: Settings, resource: str, *parts: str) -> str:
    shared = settings.replicas(resource) > 1 and not settings.rename_by_default
    return _join(settings, *parts, *(["SHARED"] if shared else []))


def _join(settings: Settings, *parts: str) -> str:
    return "-".join(_clean(part, settings) for part in parts)


def _clean(text: str, settings: Settings) -> str:
    if settings.version >= (0, 16, 0):
        text = re.sub(r"[^A-Za-z0-9\-_. ]", "", text)
    return "-".join(text.split())


def _boolean(value: bool) -> str:
    return "true" if value else "false"
