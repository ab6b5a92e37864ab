# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which GPUs are meant: ``all``, an index, a UUID, a PCI bus id, or a list of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Sequence, Tuple, Union

from ansible_collections.nvidia.mig.plugins.module_utils.geometry.state import GpuState


@dataclass(frozen=True)
class Selector:
    """Names of GPUs; with ``every`` all of the host.

    Args:
        names: indexes as int; UUIDs and PCI bus ids as lower-case text, the bus id with an 8-digit domain.
        path: where it stands in the operator's input.
    """

    every: bool
    names: Tuple[Union[int, str], ...]
    path: str

    def select(self, gpus: Sequence[GpuState]) -> Tuple[int, ...]:
        """Indexes of the GPUs, in the order of ``gpus``. Raises InputError for a GPU that is not there."""
        raise NotImplementedError


def parse_selector(value: Any, path: str = "gpus") -> Selector:
    """Raises InputError: not ``all``, an index, a UUID, a PCI bus id or a list of those."""
    raise NotImplementedError
