# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What passes between the program of groups of nodes and the nodes themselves."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Dict, List, Tuple

from ansible_collections.nvidia.mig.plugins.module_utils.demand.options import Option
from ansible_collections.nvidia.mig.plugins.module_utils.demand.pods import Form

# The parts of the objective that `Option.cost` has, in its order.
COSTS = ("destroyed", "changed", "mode_changes")


@dataclass(frozen=True)
class Part:
    """One part of the objective, and what nobody can beat."""

    name: str
    bound: int


@dataclass
class Targets:
    """What the program chose.

    Args:
        options: by group and class, how many GPUs take which option; the others stay as they are.
        pods: by group and shape.
        single: by (shape, level), how many pods outside gangs.
        gangs: how many of each form.
    """

    parts: List[Part] = field(default_factory=list)
    options: List[Dict[int, List[Tuple[Option, int]]]] = field(default_factory=list)
    pods: List[Dict[int, int]] = field(default_factory=list)
    single: Dict[Tuple[int, int], int] = field(default_factory=dict)
    gangs: Dict[Form, int] = field(default_factory=dict)
    solved: bool = False


@dataclass
class Laid:
    """What is fixed in a group.

    Args:
        options: by class, the options that GPUs have taken (by identity; those that stay as they are, too).
        pods: by shape, how many run; of others it is open.
    """

    options: Dict[int, List[Option]] = field(default_factory=dict)
    pods: Dict[int, int] = field(default_factory=dict)

    def take(self, name: int, option: Option) -> None:
        self.options.setdefault(name, []).append(option)


class Prices:
    """What it costs the objective if one more GPU takes an option, by the relaxed program; of one group.

    Args:
        prices: by class and the option's identity.
    """

    def __init__(self, prices: Dict[Tuple[int, int], float]) -> None:
        self._prices = prices

    def of(self, name: int, option: Option) -> float:
        return self._prices.get((name, id(option)), 0.0)
