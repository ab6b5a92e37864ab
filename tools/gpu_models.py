#!/usr/bin/env python3
"""Writes the collection's table of GPU models, for where there is no GPU to ask, from the simulator's.

With --check it writes nothing, and fails if the table is not what it would write.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "simulator/gpus.json"
TABLE = ROOT / "collections/nvidia/mig/plugins/plugin_utils/gpu_models.json"


def main() -> None:
    """Write, or check, the table."""
    gpus = json.loads(SOURCE.read_text(encoding="utf-8"))["gpus"]
    wanted = text({model: entry(gpu) for model, gpu in gpus.items()})
    if TABLE.exists() and TABLE.read_text(encoding="utf-8") == wanted:
        return
    if "--check" in sys.argv:
        sys.exit(
            f"not as {SOURCE.relative_to(ROOT)} says, run tools/gpu_models.py: {TABLE.relative_to(ROOT)}"
        )
    TABLE.write_text(wanted, encoding="utf-8")


def entry(gpu: dict[str, Any]) -> dict[str, Any]:
    """What a layout can be checked against."""
    mig = gpu.get("mig") or {}
    keys = ("name", "id", "max", "memory_mib", "sm", "placements")
    return {
        "product": gpu["name"],
        "pci_device_id": gpu["pci_device_id"],
        "resetless": mig.get("mode_change") == "resetless",
        "profiles": [{key: profile[key] for key in keys} for profile in mig.get("profiles", ())],
    }


def text(models: dict[str, Any]) -> str:
    """JSON with a profile in each line."""
    parts = []
    for model, own in models.items():
        lines = ",".join(f"\n   {json.dumps(profile)}" for profile in own["profiles"])
        head = json.dumps({key: value for key, value in own.items() if key != "profiles"})[:-1]
        parts.append(f'\n {json.dumps(model)}: {head}, "profiles": [{lines}]}}')
    return "{" + ",".join(parts) + "\n}\n"


if __name__ == "__main__":
    main()
