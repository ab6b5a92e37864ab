# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A GPU as a picture of text: its memory slices from left to right, and what sits on them."""

from __future__ import annotations

import re
from typing import Any, Dict, List, Mapping, Sequence, Tuple

from ansible_collections.nvidia.mig.plugins.module_utils.geometry.state import read_instance

# All slices of a GPU together; a line with it, its label and diff's sign fits into 80 columns.
_WIDTH = 56
_LEAST = 4
_MEMORY = re.compile(r"\.\d+gb")


def draw_gpu(gpu: Mapping[str, Any], slices: int) -> str:
    """One line: ``|2g.10gb      |1g.5gb|......|3g.20gb                    |``; dots are free slices.

    Args:
        gpu: as `GpuState.summary` tells it.
        slices: memory slices of the GPU; 0: not known, then as many as its instances need.
    """
    if not gpu.get("mig"):
        text = "whole GPU"
    else:
        text = _draw([read_instance(instance) for instance in gpu.get("instances", ())], slices)
    if gpu.get("mig_pending", gpu.get("mig")) != gpu.get("mig"):
        text += f"  MIG mode {'on' if gpu['mig_pending'] else 'off'} is pending"
    return text


def draw_gpus(gpus: Mapping[str, Mapping[str, Any]], touched: Sequence[Mapping[str, Any]]) -> List[str]:
    """Lines for the GPUs that a plan touches, and beneath each who uses what of it.

    Args:
        gpus: by ``GPU <index>``, as `GpuState.summary` tells them, before the plan or after it.
        touched: as mig_layout returns it.
    """
    lines = []
    for one in touched:
        name = f"GPU {one['gpu']}"
        gpu = gpus[name]
        lines.append(f"{name:<7}{draw_gpu(gpu, one['memory_slices'])}")
        here = gpu.get("instances", ()) if gpu.get("mig") else ("",)
        lines += [
            f"{'':<7}{instance + ' ' if instance else ''}in use by {', '.join(one['held'][instance])}"
            for instance in here
            if instance in one["held"]
        ]
    return lines


def _draw(instances: Sequence[Tuple[str, int, int, str]], slices: int) -> str:
    end = max([slices, *(start + size for _name, start, size, _inside in instances)])
    if not end:
        return "MIG on, no instances"
    cell = max(_LEAST, _WIDTH // end)
    blocks: Dict[int, Tuple[int, str, str]] = {
        start: (size, name, inside) for name, start, size, inside in instances
    }
    parts: List[str] = []
    at = 0
    while at < end:
        if at in blocks:
            size, name, inside = blocks[at]
            parts.append(_fit(name, inside, size * cell - 1).ljust(size * cell - 1))
        else:
            size = min([start for start in blocks if start > at], default=end) - at
            parts.append("." * (size * cell - 1))
        at += size
    return f"|{'|'.join(parts)}|"


def _fit(name: str, inside: str, width: int) -> str:
    """As much of the name as there is room for. Its memory is left out first, as the block shows that."""
    short = _MEMORY.sub("", name)
    texts = [f"{name} [{inside}]", name, short] if inside else [name, short]
    return next((text for text in texts if len(text) <= width), short[:width])
