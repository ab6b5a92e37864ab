# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filters about GPU Operator's MIG Manager; each is documented in a YAML file beside this one."""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterable, Mapping, Optional, Sequence

import yaml
from ansible.errors import AnsibleFilterError
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.mig_manager import (
    CONFIG,
    DATA_KEY,
    STATE,
    mig_manager_configs,
    mig_manager_plan,
    mig_manager_reads,
)


def config_map(
    plans: Iterable[Mapping[str, Any]],
    current: Optional[Mapping[str, Any]] = None,
    nodes: Sequence[Mapping[str, Any]] = (),
) -> Dict[str, Any]:
    there = None
    if current is not None:
        text = (current.get("data") or {}).get(DATA_KEY) or ""
        try:
            content = yaml.safe_load(text)
        except yaml.YAMLError as error:
            name = current["metadata"]["name"]
            raise AnsibleFilterError(
                f"nvidia.mig.mig_manager_config_map: {DATA_KEY} of the ConfigMap {name} is not YAML"
            ) from error
        there = {
            "name": current["metadata"]["name"],
            "content": content if isinstance(content, dict) else {},
        }
    wishes = [{key: _plain(plan[key]) for key in ("config", "entries")} for plan in plans]
    found = mig_manager_configs(wishes, there, nodes)
    return {"name": found["name"], "data": {DATA_KEY: yaml.safe_dump(found["content"])}}


def _plain(value: Any) -> Any:
    """The same without Ansible's own types, which YAML's and JSON's writers do not know."""
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return value if value is None or isinstance(value, (bool, int)) else str(value)


def labels(name: str) -> Dict[str, Optional[str]]:
    # Without the old state, whatever is there later is the answer to this.
    return {CONFIG: name or None, STATE: None}


def state(node: Mapping[str, Any]) -> str:
    return ((node.get("metadata") or {}).get("labels") or {}).get(STATE) or ""


class FilterModule:
    """Filters of the collection for MIG Manager."""

    def filters(self) -> Dict[str, Callable[..., Any]]:
        return {
            "mig_manager_config_map": config_map,
            "mig_manager_labels": labels,
            "mig_manager_plan": mig_manager_plan,
            "mig_manager_reads": mig_manager_reads,
            "mig_manager_state": state,
        }
