# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every host's strategy and sharing -> the settings of the cluster's two releases. Pure.

``migStrategy`` is a value of a release, so it holds for the whole cluster. Hosts that want different
things share one release with named configs, and each node's label picks one. So do hosts that switch
one after another: until its turn comes, a node keeps what it has.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import Any, Collection, Dict, Mapping, Optional, Tuple

from ansible_collections.nvidia.mig.plugins.module_utils.errors import InputError
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.choices import (
    Choices,
    config_name,
    read_choices,
)
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.labels import CONFIG_LABEL, PRESENT_LABEL
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.sharing import (
    check_sharing,
    parse_sharing,
    plain_sharing,
)
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.strategy import STRATEGIES, check_strategy

Wish = Tuple[str, Optional[Mapping[str, Any]]]
"""Strategy and sharing."""


@dataclass(frozen=True)
class ReleaseSettings:
    """What the releases and the node labels must be.

    Args:
        strategy: the cluster's one strategy; None with configs.
        configs: by name, ``{'strategy': ...}`` and, where there is one, ``'sharing'``.
        default_config: for nodes without the label.
        config_by_host: the label's value for each host; an empty text means that the label is not wanted.
        label_by_host: the same where the label has to be written; None takes it away.
        switched_by_host: the label's value for each host that is still to switch, once its turn has come.
    """

    strategy: Optional[str]
    configs: Dict[str, Dict[str, Any]] = field(default_factory=dict)
    default_config: Optional[str] = None
    config_by_host: Dict[str, str] = field(default_factory=dict)
    label_by_host: Dict[str, Optional[str]] = field(default_factory=dict)
    switched_by_host: Dict[str, str] = field(default_factory=dict)

    def as_dict(self) -> Dict[str, Any]:
        return {
            "strategy": self.strategy,
            "configs": self.configs,
            "default_config": self.default_config,
            "config_by_host": self.config_by_host,
            "node_labels": {
                host: {CONFIG_LABEL: config, PRESENT_LABEL: "true"}
                for host, config in self.label_by_host.items()
            },
            "switched_labels": {
                host: {CONFIG_LABEL: config, PRESENT_LABEL: "true"}
                for host, config in self.switched_by_host.items()
            },
        }


@dataclass(frozen=True)
class Deployed:
    """What the release says that is there: one strategy, or configs as in ReleaseSettings."""

    strategy: Optional[str]
    configs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    default_config: Optional[str] = None

    def wish(self, label: Optional[str]) -> Optional[Wish]:
        """What a node with this label has; None if its label names no config."""
        if self.strategy is not None:
            return self.strategy, None
        name = label or self.default_config or ""
        config = self.configs.get(name)
        if config is None:
            return None
        path = f"config {name} of the release: sharing"
        return config["strategy"], plain_sharing(config.get("sharing"), path)

    def parts(self, names: Collection[str]) -> Dict[str, Dict[str, Any]]:
        """Those of these configs that are there and can be written again, as in ReleaseSettings."""
        found: Dict[str, Dict[str, Any]] = {}
        for name in sorted(set(names) & set(self.configs)):
            with contextlib.suppress(InputError):
                strategy, sharing = self.wish(name) or ("", None)
                found[name] = (
                    {"strategy": strategy, "sharing": sharing} if sharing else {"strategy": strategy}
                )
        return found


def settings(
    hosts: Mapping[str, Mapping[str, Any]],
    deployed: Optional[Deployed] = None,
    labels: Optional[Mapping[str, Optional[str]]] = None,
    kept: Collection[str] = (),
    switching: Collection[str] = (),
    version: Optional[str] = None,
    elsewhere: Collection[str] = (),
) -> ReleaseSettings:
    """Combine the wishes of all hosts of a cluster.

    Args:
        hosts: by host name, ``{'strategy': 'single', 'sharing': {...} or None}``. All GPU hosts of the
            cluster belong in it, not just those of the current run, or the others would lose theirs.
            With ``choices``, a list of sharings, the node keeps whichever of them its label picks.
        deployed: the release that is there; None if there is none, and then nothing is kept.
        labels: the value of each node's config label now.
        kept: hosts whose nodes stay as they are, whatever they wish.
        switching: those of them whose turn comes before these settings are replaced.
        version: the device plugin's chart; with it, sharing that only some versions can do is checked too.
        elsewhere: values of the config label on nodes that are no host's.

    Raises:
        InputError: no hosts, or a host's wish is malformed or impossible.
    """
    if not hosts:
        raise InputError("no host of the inventory has GPUs to release for", path="hosts")
    labels = labels or {}
    kept = () if deployed is None else kept
    wishes = {host: _parse(host, wish, version) for host, wish in hosts.items()}
    choices = {host: _choices(host, wish, version) for host, wish in hosts.items()}
    for host, offered in choices.items():
        if labels.get(host) in offered:
            wishes[host] = wishes[host][0], offered[labels.get(host) or ""]
    now = dict(wishes)
    if deployed is not None:
        now.update((host, deployed.wish(labels.get(host)) or wishes[host]) for host in kept)
    moving = {host: wishes[host] for host in sorted(switching) if now[host] != wishes[host]}
    names = {host: config_name(*now[host]) for host in sorted(hosts)}
    distinct = sorted(set(names.values()))
    # With choices, every node has its label: what one of them picks is none of the release's business.
    alike = len(distinct) == 1 and not any(choices.values())
    if alike and not moving and not any(sharing for _strategy, sharing in now.values()):
        ((strategy, _none),) = set(now.values())
        bare = dict.fromkeys(names, "")
        return ReleaseSettings(
            strategy, config_by_host=bare, label_by_host={h: None for h in names if h not in kept}
        )
    # All plain strategies are always there: a node that changes its strategy then needs a new label only,
    # while a changed config map would restart the device plugin on every node.
    configs: Dict[str, Dict[str, Any]] = {strategy: {"strategy": strategy} for strategy in STRATEGIES}
    for strategy, sharing in [*now.values(), *moving.values()]:
        if sharing:
            configs[config_name(strategy, sharing)] = {"strategy": strategy, "sharing": sharing}
    for host, offered in choices.items():
        for name, sharing in offered.items():
            if sharing:
                configs[name] = {"strategy": wishes[host][0], "sharing": sharing}
    if deployed is not None:
        # Not ours to write to: the plugin there would exit without the config that its label names.
        configs = {**deployed.parts(elsewhere), **configs}
    # mixed is right for whatever an unlabelled node has: whole GPUs, and MIG devices by their own names.
    default = distinct[0] if alike else "mixed"
    config_by_host = {host: "" if alike else name for host, name in names.items()}
    return ReleaseSettings(
        None,
        configs,
        default,
        config_by_host,
        {
            host: config_by_host[host] or None
            for host, name in names.items()
            # A node that is kept is written to only if it would not keep what it has.
            if host not in kept or (labels.get(host) or default) != name
        },
        {host: config_name(*wish) for host, wish in moving.items()},
    )


def _parse(host: str, wish: Mapping[str, Any], version: Optional[str]) -> Wish:
    strategy = check_strategy(wish.get("strategy"), f"{host}: strategy")
    path = f"{host}: sharing"
    check_sharing(parse_sharing(wish.get("sharing"), path), strategy, path, version)
    return strategy, plain_sharing(wish.get("sharing"))


def _choices(host: str, wish: Mapping[str, Any], version: Optional[str]) -> Choices:
    return read_choices(
        wish["strategy"], wish.get("sharing"), wish.get("choices"), f"{host}: sharing_choices", version
    )
