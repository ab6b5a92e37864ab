# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every host's strategy -> the settings of the cluster's two releases. Pure.

``migStrategy`` is a value of a release, so it holds for the whole cluster. Hosts that want different
things share one release with named configs, and each node's label picks one.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Optional, Tuple

from ansible_collections.nvidia.mig.plugins.module_utils.errors import InputError
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.labels import CONFIG_LABEL, PRESENT_LABEL
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.sharing import parse_sharing
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.strategy import STRATEGIES, check_strategy


@dataclass(frozen=True)
class ReleaseSettings:
    """What the releases and the node labels must be.

    Args:
        strategy: the cluster's one strategy; None with configs.
        configs: by name, ``{'strategy': ...}`` and, where there is one, ``'sharing'``.
        default_config: for nodes without the label.
        config_by_host: the label's value for each host; an empty text means that the label is not wanted.
    """

    strategy: Optional[str]
    configs: Dict[str, Dict[str, Any]] = field(default_factory=dict)
    default_config: Optional[str] = None
    config_by_host: Dict[str, str] = field(default_factory=dict)

    def as_dict(self) -> Dict[str, Any]:
        return {
            "strategy": self.strategy,
            "configs": self.configs,
            "default_config": self.default_config,
            "config_by_host": self.config_by_host,
            "node_labels": {
                host: {CONFIG_LABEL: config or None, PRESENT_LABEL: "true"}
                for host, config in self.config_by_host.items()
            },
        }


def settings(hosts: Mapping[str, Mapping[str, Any]]) -> ReleaseSettings:
    """Combine the wishes of all hosts of a cluster.

    Args:
        hosts: by host name, ``{'strategy': 'single', 'sharing': {...} or None}``. All GPU hosts of the
            cluster belong in it, not just those of the current run, or the others would lose theirs.

    Raises:
        InputError: no hosts, or a host's wish is malformed.
    """
    if not hosts:
        raise InputError("no host of the inventory has GPUs to release for", path="hosts")
    wishes: Dict[str, Tuple[str, Optional[Mapping[str, Any]]]] = {}
    for host, wish in hosts.items():
        strategy = check_strategy(wish.get("strategy"), f"{host}: strategy")
        sharing = wish.get("sharing") or None
        parse_sharing(sharing, f"{host}: sharing")
        wishes[host] = (strategy, sharing)
    names = {host: _name(strategy, sharing) for host, (strategy, sharing) in wishes.items()}
    distinct = sorted(set(names.values()))
    if len(distinct) == 1 and not any(sharing for _strategy, sharing in wishes.values()):
        (strategy,) = {strategy for strategy, _sharing in wishes.values()}
        return ReleaseSettings(strategy, config_by_host=dict.fromkeys(sorted(hosts), ""))
    # All plain strategies are always there: a node that changes its strategy then needs a new label only,
    # while a changed config map would restart the device plugin on every node.
    configs: Dict[str, Dict[str, Any]] = {strategy: {"strategy": strategy} for strategy in STRATEGIES}
    for host, (strategy, sharing) in wishes.items():
        if sharing:
            configs[names[host]] = {"strategy": strategy, "sharing": sharing}
    if len(distinct) == 1:
        return ReleaseSettings(None, configs, distinct[0], dict.fromkeys(sorted(hosts), ""))
    # mixed is right for whatever an unlabelled node has: whole GPUs, and MIG devices by their own names.
    return ReleaseSettings(None, configs, "mixed", {host: names[host] for host in sorted(hosts)})


def _name(strategy: str, sharing: Optional[Mapping[str, Any]]) -> str:
    """A config's name: it must be the same in every run, and is a label's value of at most 63 characters."""
    if not sharing:
        return strategy
    parsed = parse_sharing(sharing)
    parts: List[str] = [strategy, parsed.kind]
    parts.extend(f"{name.split('/')[-1]}-x{count}" for name, count in sorted(parsed.replicas.items()))
    text = re.sub(r"[^A-Za-z0-9._-]", "-", "-".join(parts))
    # Flags such as renameByDefault are not in the text, so a digest of all of it keeps settings apart.
    digest = hashlib.sha256(json.dumps(sharing, sort_keys=True).encode()).hexdigest()[:6]
    return f"{text[:56]}-{digest}"
