"""For tests: hardware without a simulator, as ``a100s("7x1g.5gb", "off", "empty")``, and a merge patch."""

from __future__ import annotations

from typing import Any

from miglab.agent.hardware import Attributes, Gpu, Hardware, MigDevice

# Of an A100-SXM4-40GB: compute slices, GPU slices, memory MiB, multiprocessors, copy, decoder, jpeg, ofa
_A100 = {
    "1g.5gb": (1, 1, 4864, 14, 1, 0, 0, 0),
    "1g.5gb+me": (1, 1, 4864, 14, 1, 1, 1, 1),
    "2g.10gb": (2, 2, 9856, 28, 2, 1, 0, 0),
    "1c.2g.10gb": (1, 2, 9856, 14, 2, 1, 0, 0),
    "3g.20gb": (3, 3, 19968, 42, 3, 2, 0, 0),
}


def a100s(*gpus: str, name: str = "NVIDIA A100-SXM4-40GB") -> Hardware:
    """One GPU per text: ``off``, ``empty`` (MIG without instances), or or ``3x1g.5gb 1x2g.10gb``."""
    return Hardware("580.95.05", 13000, tuple(_gpu(index, text, name) for index, text in enumerate(gpus)))


def merge_patch(target: dict[str, Any], patch: dict[str, Any]) -> None:
    """Change ``target`` as a JSON merge patch (RFC 7386) says."""
    for name, value in patch.items():
        if value is None:
            target.pop(name, None)
        elif isinstance(value, dict):
            merge_patch(target.setdefault(name, {}), value)
        else:
            target[name] = value


def _gpu(index: int, text: str, name: str) -> Gpu:
    devices = []
    if text not in ("off", "empty"):
        for part in text.split(" "):
            count, _, profile = part.partition("x")
            compute, whole, memory, multiprocessors, copy, decoder, jpeg, ofa = _A100[profile]
            attributes = Attributes(multiprocessors, whole, compute, memory, copy, decoder, 0, jpeg, ofa)
            devices += [
                MigDevice(f"MIG-{index}-{profile}-{n}", profile, attributes) for n in range(int(count))
            ]
    return Gpu(index, name, 40960, (8, 0), True, text != "off", tuple(devices))
