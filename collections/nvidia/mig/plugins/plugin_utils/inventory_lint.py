# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What can be said of an inventory where there is no GPU and no cluster to ask."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible_collections.nvidia.mig.plugins.module_utils.errors import MigError
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.transition import plan_host
from ansible_collections.nvidia.mig.plugins.module_utils.node.wanted import (
    entries_from,
    layout_spec,
    wanted_on,
)
from ansible_collections.nvidia.mig.plugins.plugin_utils.gpu_models import catalog, declared, models
from ansible_collections.nvidia.mig.plugins.plugin_utils.names import some

# Others have variables that begin so, too: only what is nearly one of ours is taken for a slip.
_SHARED = ("nvidia_", "container_", "gpu_", "package_", "cluster_")
# Given by Ansible, or of no consequence here.
_GIVEN = ("groups", "omit", "playbook_dir", "role_names", "ansible_play_hosts")
# A value with one of these may be another one on each host.
_OF_THE_HOST = re.compile(r"inventory_hostname|hostvars|ansible_\w+")
_NEAR = 0.85
_NEWEST_DRIVER = "9999"
_SHOWN = 8


@dataclass(frozen=True)
class GroupVars:
    """What one group of a host sets.

    Args:
        rank: its depth and its ``ansible_group_priority``; with one rank, the last group by name counts.
    """

    name: str
    rank: tuple[int, int]
    values: Mapping[str, Any]


def layout_problems(options: Mapping[str, Any], gpus: Any) -> list[str]:
    """What mig_layout would refuse on a host with such GPUs.

    Args:
        options: mig_layout's, as the role mig sets them.
        gpus: the variable ``mig_gpus``; empty: not known, so only the form of the layout is checked.
    """
    found = ArgumentSpecValidator(**layout_spec()).validate(dict(options))
    if found.error_messages:
        return list(found.error_messages)
    params = found.validated_parameters
    try:
        entries = entries_from(params)
        if gpus:
            states = declared(gpus, "mig_gpus")
            plan_host(states, wanted_on(states, _NEWEST_DRIVER, entries, params))
    except MigError as error:
        return [str(error)]
    return []


def unoffered(options: Mapping[str, Any]) -> list[str]:
    """Profiles of the layout that no GPU model of the table offers; ``options`` as above, and right."""
    try:
        entries = entries_from({"config": None, "config_name": None, **options})
    except MigError:
        return []
    wanted = {device.gpu_instance for entry in entries for device in entry.layout.profiles}
    known = {offered.profile for model in models() for offered in catalog(model).profiles}
    return [f"no GPU model that is known offers {profile}" for profile in sorted(map(str, wanted - known))]


def unknown(names: Iterable[str], known: Collection[str]) -> dict[str, str]:
    """Names that look like ours and are not, with the nearest that is (empty: none is near)."""
    families = {name.split("_")[0] + "_" for name in known}
    found = {}
    for name in sorted(set(names) - set(known)):
        if not name.startswith(tuple(families)):
            continue
        shared = name.startswith(_SHARED)
        near = get_close_matches(name, known, 1, _NEAR if shared else 0.6)
        if near or not shared:
            found[name] = near[0] if near else ""
    return found


def surprises(groups: Sequence[GroupVars], known: Collection[str]) -> list[str]:
    """Variables that two groups of a host set differently, where only their names decide which counts."""
    found = []
    for name in sorted({name for group in groups for name in group.values if name in known}):
        setters = [group for group in groups if name in group.values]
        last = max((group.rank, group.name) for group in setters)
        rivals = [group for group in setters if group.rank == last[0]]
        values = {json.dumps(group.values[name], sort_keys=True, default=str) for group in rivals}
        if len(values) > 1:
            names = ", ".join(sorted(group.name for group in rivals))
            found.append(
                f"{name} is set by the groups {names}, none of which is inside another: {last[1]} counts, as "
                "the last by name (set it in one of them, or say ansible_group_priority)"
            )
    return found


def alike(host: str, variables: Mapping[str, Any]) -> str:
    """A key that hosts share for which the same is to be told: they are looked at once.

    Args:
        variables: the host's, not rendered.
    """
    own = {
        name: value
        for name, value in variables.items()
        if name not in _GIVEN and not name.startswith(("ansible_", "inventory_"))
    }
    key = repr(sorted(own.items(), key=lambda item: item[0]))
    own.pop("mig_node_name", None)  # any text will do
    return f"{host} {key}" if _OF_THE_HOST.search(repr(own)) else key


def together(told: Mapping[str, Sequence[str]]) -> list[str]:
    """One line for hosts of which the same is told.

    Args:
        told: by host.
    """
    hosts: dict[str, list[str]] = {}
    for host, lines in told.items():
        for line in lines:
            hosts.setdefault(line, []).append(host)
    return [f"{some(own, _SHOWN)}: {line}" for line, own in hosts.items()]
