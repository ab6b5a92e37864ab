# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter ``nvidia.mig.rollout_batches``; its documentation is in the YAML file beside it."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping, Sequence

from ansible.errors import AnsibleFilterError
from ansible_collections.nvidia.mig.plugins.module_utils.errors import MigError
from ansible_collections.nvidia.mig.plugins.plugin_utils.batches import batches, interrupted, limits, out


def rollout_batches(
    actions: Mapping[str, Sequence[str]],
    groups: Mapping[str, Sequence[str]],
    max_unavailable: Mapping[str, Any],
    canaries: int = 1,
    nodes: Sequence[Mapping[str, Any]] = (),
    node_names: Mapping[str, str] | None = None,
    also: Sequence[str] = (),
) -> List[List[str]]:
    try:
        limited = limits(max_unavailable, groups)
        names: Dict[str, str] = {host: name or host for host, name in (node_names or {}).items()}
        held = interrupted(nodes, {host: names.get(host, host) for host in actions})
        due = [host for host, wanted in actions.items() if wanted or host in held or host in also]
        return batches(due, limited, canaries, out(nodes, names))
    except MigError as error:
        raise AnsibleFilterError(str(error)) from error


class FilterModule:
    """Filters of the collection for changes of a whole fleet."""

    def filters(self) -> Dict[str, Callable[..., Any]]:
        return {"rollout_batches": rollout_batches}
