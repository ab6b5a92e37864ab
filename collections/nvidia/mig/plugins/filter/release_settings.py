# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter ``nvidia.mig.release_settings``; its documentation is in the YAML file beside it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Callable, Dict, Mapping, Optional, Sequence

import yaml
from ansible.errors import AnsibleFilterError
from ansible_collections.nvidia.mig.plugins.module_utils.errors import InputError, MigError
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.charts import DEVICE_PLUGIN, row_for
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.labels import CONFIG_LABEL, PRESENT_LABEL
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.settings import Deployed, settings
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.stages import stages

_KEYS = ("strategy", "sharing", "choices")


def release_settings(
    hosts: Mapping[str, Any],
    deployed: Optional[Mapping[str, Any]] = None,
    nodes: Sequence[Mapping[str, Any]] = (),
    node_names: Optional[Mapping[str, str]] = None,
    kept: Sequence[str] = (),
    switching: Sequence[str] = (),
    version: Optional[str] = None,
    sharing: Optional[Mapping[str, Any]] = None,
    predicted: Optional[Mapping[str, Any]] = None,
    choices: Optional[Mapping[str, Any]] = None,
) -> Dict[str, Any]:
    try:
        if not isinstance(hosts, Mapping):
            raise InputError("a dictionary of hosts is wanted", hint="such as {'dgx01': 'mixed'}")
        wishes: Dict[str, Dict[str, Any]] = {}
        for host, wish in hosts.items():
            if isinstance(wish, Mapping):
                unknown = sorted(str(key) for key in wish if key not in _KEYS)
                if unknown:
                    raise InputError(f"unknown keys {', '.join(unknown)}", path=str(host))
                wishes[str(host)] = dict(wish)
            else:
                wishes[str(host)] = {
                    "strategy": wish,
                    "sharing": (sharing or {}).get(host),
                    "choices": (choices or {}).get(host),
                }
        names = {host: (node_names or {}).get(host) or host for host in wishes}
        found = {node["metadata"]["name"]: node["metadata"].get("labels") or {} for node in nodes}
        foretold = {
            **(predicted or {}).get("node_labels", {}),
            **(predicted or {}).get("switched_labels", {}),
        }
        now = {host: {**found.get(name, {}), **foretold.get(host, {})} for host, name in names.items()}
        labels = {host: has.get(CONFIG_LABEL) for host, has in now.items()}
        marked = [host for host, has in now.items() if PRESENT_LABEL in has]
        elsewhere = [
            found[name][CONFIG_LABEL]
            for name in set(found) - set(names.values())
            if CONFIG_LABEL in found[name]
        ]
        # Without named configs, the strategy is the whole cluster's: nobody can keep another.
        apart = version is None or row_for(DEVICE_PLUGIN, version).configs
        there = _there(deployed, predicted) if apart else None
        wanted = settings(wishes, there, labels, kept, switching, version, elsewhere)
        # A host that is kept may not be a node yet, or no more.
        gone = {host for host in kept if found and names[host] not in found}
        due = {host: label for host, label in wanted.label_by_host.items() if host not in gone}
        wanted = replace(wanted, label_by_host=due)
        way = stages(wanted, there, labels, marked)
        return {**wanted.as_dict(), "stages": [stage.as_dict() for stage in way]}
    except MigError as error:
        raise AnsibleFilterError(f"nvidia.mig.release_settings: {error}") from error


def _there(
    deployed: Optional[Mapping[str, Any]], predicted: Optional[Mapping[str, Any]]
) -> Optional[Deployed]:
    if predicted:
        return Deployed(*(predicted[key] for key in ("strategy", "configs", "default_config")))
    return None if deployed is None else _deployed(deployed)


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
