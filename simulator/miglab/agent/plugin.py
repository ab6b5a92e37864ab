"""The device plugin: which extended resources it registers with kubelet. Pure.

As NVIDIA's ``internal/rm`` does it, by version; what it exits on is a RefusedError with its own words.
"""

from __future__ import annotations

from miglab.agent.hardware import Hardware, MigDevice
from miglab.agent.settings import RefusedError, Settings

GPU = "nvidia.com/gpu"


def resources(hardware: Hardware, settings: Settings) -> dict[str, int]:
    """Resource name -> number of devices, without zeros. RefusedError as :func:`devices`."""
    return {name: len(ids) for name, ids in devices(hardware, settings).items()}


def devices(hardware: Hardware, settings: Settings) -> dict[str, list[str]]:
    """Resource name -> ids of the devices, as kubelet gets them.

    Raises:
        RefusedError: the plugin exits and registers nothing.
    """
    if settings.sharing == "mps" and settings.strategy == "mixed":
        raise RefusedError("using --mig-strategy=mixed is not supported with MPS")
    if settings.sharing == "mps":
        _check_mps(hardware, settings)
    found: dict[str, list[str]] = {}
    for gpu in hardware.gpus:
        if settings.strategy == "none" or not gpu.mig:
            found.setdefault(GPU, []).append(gpu.uuid)
    if settings.strategy != "none":
        for device in hardware.devices:
            name = GPU if settings.strategy == "single" else _mixed_name(device, settings)
            found.setdefault(name, []).append(device.uuid)
        _check_devices(hardware, settings)
    return _share(found, settings)


def _check_mps(hardware: Hardware, settings: Settings) -> None:
    """The plugin's own words, and those of the MPS control daemon without which it serves nothing."""
    if settings.strategy == "single" and hardware.devices:
        raise RefusedError("sharing using MPS is not supported for MIG devices")
    for each in settings.shared:
        most = min((48 if gpu.compute >= (7, 5) else 16 for gpu in hardware.gpus), default=48)
        if each.replicas > most:
            raise RefusedError(
                "invalid MPS configuration: invalid device maximum allowed replicas exceeded: "
                f"{each.replicas} > {most}"
            )


def _mixed_name(device: MigDevice, settings: Settings) -> str:
    """Before 0.20 a profile was looked for anywhere in the device's name: variants count as the plain one."""
    if settings.version < (0, 20, 0):
        return f"nvidia.com/mig-{device.gpu_instance}"
    if not device.fills_its_instance:
        raise RefusedError(f"MIG profile '{device.profile}' does not match any resource patterns")
    return f"nvidia.com/mig-{device.dotted}"


def _check_devices(hardware: Hardware, settings: Settings) -> None:
    single = settings.strategy == "single"
    for gpu in hardware.gpus:
        # Since 0.16 the mixed strategy leaves a GPU without MIG devices out; the single one never does.
        if gpu.mig and not gpu.devices and (single or settings.version < (0, 16, 0)):
            raise RefusedError(
                "invalid MIG configuration: at least one device with migEnabled=true was not configured "
                f"correctly: device {gpu.index} has no MIG devices configured"
            )
    if not single:
        return
    if len({device.attributes for device in hardware.devices}) > 1:
        raise RefusedError("invalid MIG configuration: more than one MIG device type present on node")
    if hardware.devices and not all(gpu.mig for gpu in hardware.gpus):
        raise RefusedError("all devices on the node must be configured with the same migEnabled value")


def _share(found: dict[str, list[str]], settings: Settings) -> dict[str, list[str]]:
    shared: dict[str, list[str]] = {}
    for name, ids in found.items():
        replicas = settings.replicas(name)
        renamed = f"{name}.shared" if replicas > 1 and settings.rename_by_default else name
        shared[renamed] = [f"{each}::{n}" for each in ids for n in range(replicas)] if replicas > 1 else ids
    return shared
