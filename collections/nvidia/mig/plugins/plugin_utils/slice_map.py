# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A GPU as a picture of text: its memory slices from left to right, and what sits on them."""

from __future__ import annotations

import re
from typing import Any, Dict, List, Mapping, Sequence, Tuple

# All slices of a GPU together; a line with it, its label and diff's sign fits into 80 columns.
_WIDTH = 56
_LEAST = 4
_MEMORY = re.compile(r"\.\d+gb")
_INSTANCE = re.compile(r"(.*\S) (\d+):(\d+)(?: \[(.*)\])?$")


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
        first, *users = draw_with_users(gpus[name], one)
        lines += [f"{name:<7}{first}", *(f"{'':<7}{line}" for line in users)]
    return lines


def draw_with_users(gpu: Mapping[str, Any], one: Mapping[str, Any]) -> List[str]:
    """The picture of one GPU, and a line for each part of it that is in use.

    Args:
        gpu: as `GpuState.summary` tells it.
        one: its entry of mig_layout's ``touched``.
    """
    here = gpu.get("instances", ()) if gpu.get("mig") else ("",)
    users = [
        f"{instance + ' ' if instance else ''}in use by {', '.join(one['held'][instance])}"
        for instance in here
        if instance in one["held"]
    ]
    return [draw_gpu(gpu, one["memory_slices"]), *users]


def draw_diff(result: Mapping[str, Any]) -> Dict[str, Any]:
    """The ``diff`` of mig_layout's result as pictures of the GPUs that the plan touches."""
    sides = ("before", "after")
    drawn = {
        side: "".join(f"{line}\n" for line in draw_gpus(result[side], result["touched"])) for side in sides
    }
    return {**result["diff"], **drawn}


def read_instance(text: str) -> Tuple[str, int, int, str]:
    """The way back from `geometry.state.describe_instance`.

    Returns:
        Profile, first memory slice, memory slices, what is inside.

    Raises:
        ValueError: it is no such text.
    """
    found = _INSTANCE.match(text)
    if found is None:
        raise ValueError(f"{text!r} is no instance")
    profile, start, size, inside = found.groups(default="")
    return profile, int(start), int(size), inside


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
