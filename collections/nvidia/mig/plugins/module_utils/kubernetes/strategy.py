# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Do a node's layout and its MIG strategy agree? Pure.

The rules are the device plugin's own (``internal/rm/device_map.go``): it exits where they are broken, so the
toolkit refuses before anything on the node is touched.
"""

from __future__ import annotations

from typing import Dict, List, Optional, Sequence

from ansible_collections.nvidia.mig.plugins.module_utils.errors import InputError
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.problems import name_gpus
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.node_gpu import NodeGpu
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.versions import parse_version

STRATEGIES = ("none", "single", "mixed")


def check_strategy(strategy: object, path: str = "strategy") -> str:
    """Return the strategy, or raise InputError if it is none of none, single, mixed."""
    if strategy is None:
        raise InputError(
            "null is not a MIG strategy", path=path, hint="for no strategy write the word 'none' in quotes"
        )
    if strategy not in STRATEGIES:
        raise InputError(f"{strategy!r} is not a MIG strategy", path=path, hint="use none, single or mixed")
    return str(strategy)


def check_layout(
    strategy: str, gpus: Sequence[NodeGpu], path: str = "strategy", chart_version: Optional[str] = None
) -> None:
    """Refuse a layout that the strategy cannot expose.

    Args:
        strategy: none, single or mixed.
        gpus: every GPU of the node, with the layout that it will have.
        path: where the strategy stands in the input, for the error.
        chart_version: the device plugin's chart; with it, what only some versions refuse is found too.

    Raises:
        InputError: naming GPUs, profiles and what to change.
    """
    check_strategy(strategy, path)
    if strategy == "none":
        _check_none(gpus, path)
    elif strategy == "single":
        _check_single(gpus, path)
    elif chart_version is not None:
        _check_mixed(gpus, path, chart_version)


def _check_none(gpus: Sequence[NodeGpu], path: str) -> None:
    on = [gpu for gpu in gpus if gpu.mig]
    if on:
        raise InputError(
            f"strategy none wants MIG off on every GPU, but the layout enables it on {_gpus(on)}",
            path=path,
            hint="set 'mig: false' for them in the layout, or use strategy single or mixed",
        )


def _check_single(gpus: Sequence[NodeGpu], path: str) -> None:
    on = [gpu for gpu in gpus if gpu.mig]
    off = [gpu for gpu in gpus if not gpu.mig]
    incapable = [gpu for gpu in off if not gpu.mig_capable]
    if gpus and len(incapable) == len(gpus):
        raise InputError(
            f"strategy single wants MIG enabled, but no GPU of this node can do MIG ({_products(gpus)})",
            path=path,
            hint="use strategy none",
        )
    if not on:
        raise InputError(
            "strategy single wants MIG and one profile on every GPU, but the layout enables MIG on none",
            path=path,
            hint="give the GPUs a profile in the layout, or use strategy none",
        )
    if incapable:
        raise InputError(
            f"strategy single wants MIG enabled on every GPU, but {_gpus(incapable)} "
            f"({_products(incapable)}) cannot do MIG",
            path=path,
            hint="use strategy mixed",
        )
    if off:
        raise InputError(
            f"strategy single wants MIG enabled on every GPU, but the layout leaves it off on "
            f"{_gpus(off)} and enables it on {_gpus(on)}",
            path=path,
            hint=f"give {_gpus(off)} the profile of the others in the layout, or use strategy mixed",
        )
    empty = [gpu for gpu in on if not gpu.instances]
    if empty:
        raise InputError(
            f"strategy single wants instances on every GPU, but {_gpus(empty)} would have none",
            path=path,
            hint="give every GPU the same profile in the layout, or use strategy mixed",
        )
    by_profile = _by_profile(on)
    if len(by_profile) > 1:
        text = "; ".join(f"{profile} on {_gpus(holders)}" for profile, holders in by_profile.items())
        raise InputError(
            f"strategy single wants one profile on all MIG GPUs of the node, but the layout has "
            f"{len(by_profile)}: {text}",
            path=path,
            hint="use one profile in the layout, or strategy mixed",
        )
    if len({gpu.product for gpu in on}) > 1:
        raise InputError(
            f"strategy single wants one GPU product on the node, but there are {_products(on)}",
            path=path,
            hint="use strategy mixed",
        )


def _check_mixed(gpus: Sequence[NodeGpu], path: str, chart_version: str) -> None:
    version = parse_version(chart_version, "version")
    empty = [gpu for gpu in gpus if gpu.mig and not gpu.instances]
    if empty and not version.at_least("0.16.0"):
        raise InputError(
            f"{_gpus(empty)} would have MIG enabled and no instance: "
            f"the device plugin {version} exits on that",
            path=path,
            hint="create instances there, turn MIG off, or use chart 0.16.0 or newer",
        )
    partial = [
        gpu for gpu in gpus if gpu.mig and any(device.ci_slices is not None for device in gpu.devices())
    ]
    if partial and version.at_least("0.20.0"):
        names = sorted(
            {str(device) for gpu in partial for device in gpu.devices() if device.ci_slices is not None}
        )
        raise InputError(
            f"strategy mixed has no resource for {', '.join(names)} on {_gpus(partial)}: "
            f"the device plugin {version} exits on compute instances smaller than their GPU instance",
            path=path,
            hint="use whole profiles, or strategy single with one profile",
        )


def _by_profile(gpus: Sequence[NodeGpu]) -> Dict[str, List[NodeGpu]]:
    found: Dict[str, List[NodeGpu]] = {}
    for gpu in gpus:
        for name in dict.fromkeys(str(device) for device in gpu.devices()):
            found.setdefault(name, []).append(gpu)
    return dict(sorted(found.items()))


def _products(gpus: Sequence[NodeGpu]) -> str:
    return ", ".join(sorted({gpu.product for gpu in gpus}))


def _gpus(gpus: Sequence[NodeGpu]) -> str:
    return name_gpus(gpu.index for gpu in gpus)
