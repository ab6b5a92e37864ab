# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wanted, per GPU: our own form, and (through `mig_parted`) mig-parted's files.

``gpus: all`` with profiles means every GPU that can do MIG: a display GPU or a T4 beside them is passed over,
as operators of such machines expect. A GPU that is named by index, UUID, bus id, product or device id is
meant, so it is an error if it cannot do MIG.

An entry with a filter is for some kind of GPU. One whose filter fits no GPU of this host is passed over, so
that one layout (or NVIDIA's own file) can serve many kinds of host; but a layout that selects nothing at all
is an error. GPUs that no entry selects are left as they are.
"""

from __future__ import annotations

from typing import Any, Dict, List, Sequence, Tuple

from ansible_collections.nvidia.mig.plugins.module_utils.errors import InputError
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.catalog import short_product
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.entries import (
    GpuLayout,
    LayoutEntry,
    check_keys,
    parse_counts,
    parse_device_ids,
)
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.mig_parted import parse_mig_parted
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.problems import Problems
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.selector import parse_selector
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.state import GpuIdentity, GpuState

__all__ = ["GpuIdentity", "GpuLayout", "LayoutEntry", "assign", "parse_layout", "parse_mig_parted"]

_KEYS = ("gpus", "profiles", "mig", "product", "device_id")


def parse_layout(entries: Any, path: str = "layout") -> Tuple[LayoutEntry, ...]:
    """Read a list such as ``[{gpus: all, profiles: {3g.20gb: 2}}, {gpus: [0], mig: false}]``.

    Args:
        entries: an empty list means: leave every GPU as it is.
        path: the option that holds it, for errors.

    Raises:
        InputError: all that is wrong with it.
    """
    if not isinstance(entries, (list, tuple)):
        raise InputError(
            "a layout is a list of entries", path, "such as - {gpus: all, profiles: {3g.20gb: 2}}"
        )
    problems = Problems()
    found = []
    for position, entry in enumerate(entries):
        with problems.catch():
            found.append(_parse_entry(entry, f"{path}[{position}]", problems))
    problems.raise_all()
    return tuple(found)


def _parse_entry(entry: Any, path: str, problems: Problems) -> LayoutEntry:
    entry = check_keys(entry, path, _KEYS)
    if "gpus" not in entry:
        raise InputError("gpus is missing", path, "write gpus: all, an index, or a list")
    selector = parse_selector(entry["gpus"], f"{path}.gpus")
    counts_path = f"{path}.profiles"
    # Ansible hands over an option that was not given as null.
    counts, mig = entry.get("profiles"), entry.get("mig")
    if mig is not None and not isinstance(mig, bool):
        raise InputError(f"{mig!r} is neither true nor false", f"{path}.mig")
    if counts is None and mig is not False:
        hint = "write profiles: {} for MIG on without instances, mig: false for MIG off"
        raise InputError("profiles is missing", path, hint)
    profiles = parse_counts({} if counts is None else counts, counts_path, problems, zero_ok=False)
    if counts and mig is False:
        raise InputError("profiles are asked for with mig: false", path, "leave out one of the two")
    product, device_id = entry.get("product"), entry.get("device_id")
    if product is not None and (not isinstance(product, str) or not product.strip()):
        raise InputError(
            f"{product!r} is not a product name", f"{path}.product", "such as A100-SXM4-40GB or 'A100*'"
        )
    return LayoutEntry(
        path,
        selector,
        GpuLayout(mig is not False, profiles, counts_path if profiles else path),
        product.strip() if product else None,
        () if device_id is None else parse_device_ids(device_id, f"{path}.device_id"),
    )


def assign(entries: Sequence[LayoutEntry], gpus: Sequence[GpuState]) -> Dict[int, GpuLayout]:
    """Say for each GPU of one host what is wanted.

    Returns:
        By GPU index; a GPU that no entry selects is absent, which means: leave it as it is.

    Raises:
        InputError: all that does not fit this host: a GPU that is not there or cannot do MIG, two entries for
            one GPU, a profile that the GPU does not offer, a layout that selects nothing.
    """
    problems = Problems()
    by_index = {gpu.identity.index: gpu for gpu in gpus}
    owners: Dict[int, LayoutEntry] = {}
    for entry in entries:
        for index in _select(entry, gpus, problems):
            with problems.catch(gpu=index):
                if index in owners:
                    raise InputError(
                        f"selected by both {owners[index].path} and {entry.path}",
                        entry.path,
                        "each GPU takes one entry; narrow one of them down",
                    )
                owners[index] = entry
                _check(entry, by_index[index], problems)
    if entries and not owners and not problems:
        problems.add(_nothing_selected(entries, gpus))
    problems.raise_all()
    return {index: owners[index].layout for index in sorted(owners)}


def _select(entry: LayoutEntry, gpus: Sequence[GpuState], problems: Problems) -> Tuple[int, ...]:
    admitted = [gpu for gpu in gpus if entry.admits(gpu.identity)]
    if entry.filtered and not admitted:
        return ()
    if not gpus:
        problems.add(InputError("this host has no GPU", entry.selector.path))
        return ()
    if entry.layout.mig and entry.selector.every and not entry.filtered:
        capable = [gpu for gpu in gpus if gpu.mig_capable]
        if not capable:
            problems.add(
                InputError(
                    f"no GPU of this host can do MIG ({_products(gpus)})",
                    entry.selector.path,
                    "write mig: false for this host, or leave it out of the play",
                )
            )
        return entry.selector.select(capable)
    indexes = {gpu.identity.index for gpu in admitted}
    return tuple(index for index in entry.selector.select(gpus, problems) if index in indexes)


def _check(entry: LayoutEntry, gpu: GpuState, problems: Problems) -> None:
    if not entry.layout.mig:
        return
    if not gpu.mig_capable:
        product = short_product(gpu.identity.product)
        raise InputError(f"{product} cannot do MIG", entry.selector.path, "leave it out, or write mig: false")
    for profile in dict.fromkeys(entry.layout.profiles):
        with problems.catch(gpu.identity.index):
            gpu.catalog.find(profile, f"{entry.layout.path}.{profile}")


def _nothing_selected(entries: Sequence[LayoutEntry], gpus: Sequence[GpuState]) -> InputError:
    wanted: List[str] = []
    for entry in entries:
        wanted += [entry.product] if entry.product is not None else []
        wanted += entry.device_ids
    ids = ", ".join(sorted({gpu.identity.pci_device_id for gpu in gpus}))
    return InputError(
        f"no entry selects a GPU of this host: they are for {', '.join(dict.fromkeys(wanted))}",
        entries[0].path.rpartition("[")[0],
        f"this host has {_products(gpus)} ({ids})" if gpus else "this host has no GPU",
    )


def _products(gpus: Sequence[GpuState]) -> str:
    return ", ".join(sorted({short_product(gpu.identity.product) for gpu in gpus}))
