"""Read the simulated NVML of nodes through pynvml, as a client on the node would.

A program of its own, since NVML must be loaded with the lab's library path: ``python -m miglab.agent.reader
NODE...`` prints a line of JSON per node, with ``hardware`` or, if it cannot be read, ``error``.
It shares no code with the collection that it is there to check.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from typing import Any

from miglab import paths
from miglab.agent.hardware import Hardware, from_json


def read(nodes: Iterable[str]) -> dict[str, Hardware | str]:
    """Each node's hardware, or why it cannot be read. Some may be missing if the reader was killed."""
    names = list(nodes)
    if not names:
        return {}
    environment = {**os.environ, **paths.node_environment(names[0], euid=0)}
    done = subprocess.run(
        [sys.executable, "-m", __name__, *names],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    found: dict[str, Hardware | str] = {}
    for line in done.stdout.splitlines():
        answer = json.loads(line)
        found[answer["node"]] = from_json(answer["hardware"]) if "hardware" in answer else answer["error"]
    if not found and done.returncode != 0:
        last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        return dict.fromkeys(names, f"the reader failed: {last}")
    return found


def _main(names: list[str]) -> None:
    import pynvml  # type: ignore[import-untyped]

    for name in names:
        os.environ["MIG_SIM_NODE"] = str(paths.node_state(name))  # the library looks at it in nvmlInit
        try:
            pynvml.nvmlInit()
            try:
                answer = {"node": name, "hardware": _hardware(pynvml)}
            finally:
                pynvml.nvmlShutdown()
        except pynvml.NVMLError as error:
            answer = {"node": name, "error": f"NVML: {error}"}
        print(json.dumps(answer), flush=True)


def _hardware(nvml: Any) -> dict[str, Any]:
    return {
        "driver_version": nvml.nvmlSystemGetDriverVersion(),
        "cuda_version": nvml.nvmlSystemGetCudaDriverVersion_v2(),
        "gpus": [_gpu(nvml, index) for index in range(nvml.nvmlDeviceGetCount())],
    }


def _gpu(nvml: Any, index: int) -> dict[str, Any]:
    gpu = nvml.nvmlDeviceGetHandleByIndex(index)
    try:
        capable, enabled = True, nvml.nvmlDeviceGetMigMode(gpu)[0] == nvml.NVML_DEVICE_MIG_ENABLE
    except nvml.NVMLError_NotSupported:
        capable, enabled = False, False
    return {
        "index": index,
        "uuid": nvml.nvmlDeviceGetUUID(gpu),
        "name": nvml.nvmlDeviceGetName(gpu),
        "memory_mib": nvml.nvmlDeviceGetMemoryInfo(gpu).total >> 20,
        "compute": nvml.nvmlDeviceGetCudaComputeCapability(gpu),
        "mig_capable": capable,
        "mig": enabled,
        "devices": _devices(nvml, gpu) if enabled else [],
    }


def _devices(nvml: Any, gpu: Any) -> list[dict[str, Any]]:
    names = _profile_names(nvml, gpu)
    devices = []
    for position in range(nvml.nvmlDeviceGetMaxMigDeviceCount(gpu)):
        try:
            device = nvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, position)
        except nvml.NVMLError_NotFound:
            continue
        instance = nvml.nvmlDeviceGetGpuInstanceById(gpu, nvml.nvmlDeviceGetGpuInstanceId(device))
        profile = names[nvml.nvmlGpuInstanceGetInfo(instance).profileId]
        values = nvml.nvmlDeviceGetAttributes_v2(device)
        if values.computeInstanceSliceCount != values.gpuInstanceSliceCount:
            profile = f"{values.computeInstanceSliceCount}c.{profile}"
        attributes = {
            "multiprocessors": values.multiprocessorCount,
            "gpu_slices": values.gpuInstanceSliceCount,
            "compute_slices": values.computeInstanceSliceCount,
            "memory_mib": values.memorySizeMB,
            "copy": values.sharedCopyEngineCount,
            "decoder": values.sharedDecoderCount,
            "encoder": values.sharedEncoderCount,
            "jpeg": values.sharedJpegCount,
            "ofa": values.sharedOfaCount,
        }
        devices.append({"uuid": nvml.nvmlDeviceGetUUID(device), "profile": profile, "attributes": attributes})
    return devices


def _profile_names(nvml: Any, gpu: Any) -> dict[int, str]:
    """GPU instance profiles of this GPU by id, such as ``{19: '1g.5gb', 20: '1g.5gb+me'}``."""
    names = {}
    for number in range(nvml.NVML_GPU_INSTANCE_PROFILE_COUNT):
        try:
            info = nvml.nvmlDeviceGetGpuInstanceProfileInfo(gpu, number)
        except (nvml.NVMLError_NotSupported, nvml.NVMLError_InvalidArgument):
            continue
        name = info.name.decode() if isinstance(info.name, bytes) else info.name
        names[int(info.id)] = name.removeprefix("MIG ")
    return names


if __name__ == "__main__":
    _main(sys.argv[1:])
