# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Exact search: which GPU instance sits where."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Sequence, Tuple

from ansible_collections.nvidia.mig.plugins.module_utils.geometry.catalog import Catalog, Placement
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.profile import Profile


@dataclass(frozen=True)
class Placed:
    """A GPU instance at its placement."""

    profile: Profile
    placement: Placement

    def __str__(self) -> str:
        return f"{self.profile} at {self.placement}"


def place(catalog: Catalog, profiles: Sequence[Profile], pinned: Sequence[Placed] = ()) -> Tuple[Placed, ...]:
    raise NotImplementedError
