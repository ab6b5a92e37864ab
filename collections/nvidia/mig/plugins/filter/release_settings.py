# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter ``nvidia.mig.release_settings``; its documentation is in the YAML file beside it."""

from __future__ import annotations

from typing import Any, Callable, Dict, Mapping, Optional, Sequence

import yaml
from ansible.errors import AnsibleFilterError
from ansible_collections.nvidia.mig.plugins.module_utils.errors import InputError, MigError
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.charts import DEVICE_PLUGIN, row_for
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.labels import CONFIG_LABEL
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.settings import Deployed, settings


def release_settings(
    hosts: Mapping[str, Any],
    deployed: Optional[Mapping[str, Any]] = None,
    nodes: Sequence[Mapping[str, Any]] = (),
    node_names: Optional[Mapping[str, str]] = None,
    kept: Sequence[str] = (),
    switching: Sequence[str] = (),
    version: Optional[str] = None,
    sharing: Optional[Mapping[str, Any]] = None,
) -> Dict[str, Any]:
    try:
        if not isinstance(hosts, Mapping):
            raise InputError("a dictionary of hosts is wanted", hint="such as {'dgx01': 'mixed'}")
        wishes: Dict[str, Dict[str, Any]] = {}
        for host, wish in hosts.items():
            if isinstance(wish, Mapping):
                unknown = sorted(str(key) for key in wish if key not in ("strategy", "sharing"))
                if unknown:
                    raise InputError(f"unknown keys {', '.join(unknown)}", path=str(host))
                wishes[str(host)] = dict(wish)
            else:
                wishes[str(host)] = {"strategy": wish, "sharing": (sharing or {}).get(host)}
        found = {
            node["metadata"]["name"]: (node["metadata"].get("labels") or {}).get(CONFIG_LABEL)
            for node in nodes
        }
        labels = {host: found.get((node_names or {}).get(host) or host) for host in wishes}
        # Without named configs, the strategy is the whole cluster's: nobody can keep another.
        apart = version is None or row_for(DEVICE_PLUGIN, version).configs
        there = _deployed(deployed) if deployed is not None and apart else None
        return settings(wishes, there, labels, kept, switching, version).as_dict()
    except MigError as error:
        raise AnsibleFilterError(f"nvidia.mig.release_settings: {error}") from error


def _deployed(values: Mapping[str, Any]) -> Deployed:
    """What the values of the device plugin's release mean; a chart's own default is the strategy none."""
    config = values.get("config") or {}
    documents = {name: yaml.safe_load(text) or {} for name, text in (config.get("map") or {}).items()}
    if not documents:
        return Deployed(str(values.get("migStrategy") or "none"))
    configs = {
        name: {
            "strategy": (document.get("flags") or {}).get("migStrategy") or "none",
            "sharing": document.get("sharing"),
        }
        for name, document in documents.items()
    }
    return Deployed(None, configs, config.get("default") or next(iter(configs)))


class FilterModule:
    """Filters of the collection for releases."""

    def filters(self) -> Dict[str, Callable[..., Any]]:
        return {"release_settings": release_settings}
