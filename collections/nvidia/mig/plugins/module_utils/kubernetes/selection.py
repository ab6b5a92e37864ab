# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options strategy, configs and default_config of a release, checked. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Optional

from ansible_collections.nvidia.mig.plugins.module_utils.errors import InputError
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.sharing import (
    check_sharing,
    parse_sharing,
)
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.strategy import check_strategy

_CONFIG_NAME = re.compile(r"^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$")


@dataclass(frozen=True)
class Selection:
    """How a release gets its MIG strategy: one for the cluster, or named configs that node labels choose.

    Args:
        strategy: the one strategy; None with configs.
        configs: by name, the parsed ``{'strategy': ..., 'sharing': {...}}``.
        default_config: the config of nodes without the label.
    """

    strategy: Optional[str] = None
    configs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    default_config: Optional[str] = None


def select(
    strategy: Optional[str], configs: Optional[Mapping[str, Any]], default_config: Optional[str]
) -> Selection:
    """Check the options strategy, configs and default_config against each other.

    Raises:
        InputError: neither or both of strategy and configs, or a malformed config.
    """
    if (strategy is None) == (not configs):
        raise InputError(
            "one of strategy and configs is wanted"
            if strategy is None
            else "strategy and configs exclude each other",
            path="strategy",
            hint="strategy is for the whole cluster; configs are for several, chosen by node label",
        )
    if strategy is not None:
        if default_config is not None:
            raise InputError(
                "there are no configs to choose from", path="default_config", hint="set configs too"
            )
        return Selection(check_strategy(strategy))
    parsed: Dict[str, Mapping[str, Any]] = {}
    for name, config in (configs or {}).items():
        parsed[str(name)] = _parse_config(name, config)
    if default_config is None and len(parsed) > 1:
        raise InputError(
            "nodes without the label need one of several configs",
            path="default_config",
            hint=f"name one of {', '.join(sorted(parsed))}",
        )
    default = default_config or next(iter(parsed))
    if default not in parsed:
        raise InputError(
            f"there is no config {default!r}",
            path="default_config",
            hint=f"name one of {', '.join(sorted(parsed))}",
        )
    return Selection(None, parsed, default)


def _parse_config(name: object, config: object) -> Mapping[str, Any]:
    path = f"configs.{name}"
    if not isinstance(name, str) or not _CONFIG_NAME.match(name):
        raise InputError(
            f"{name!r} cannot be a config's name",
            path="configs",
            hint="it is a label's value: up to 63 letters, digits, '-', '_', '.'; a number needs quotes",
        )
    if not isinstance(config, Mapping):
        raise InputError("a mapping is wanted", path=path, hint="such as {strategy: single}")
    unknown = sorted(str(key) for key in config if key not in ("strategy", "sharing"))
    if unknown:
        raise InputError(f"unknown keys {', '.join(unknown)}", path=path, hint="known are strategy, sharing")
    strategy = check_strategy(config.get("strategy"), f"{path}.strategy")
    check_sharing(parse_sharing(config.get("sharing"), f"{path}.sharing"), strategy, f"{path}.sharing")
    return {"strategy": strategy, "sharing": config.get("sharing") or None}


def config_document(config: Mapping[str, Any]) -> str:
    """A named config as the text that the chart puts into its ConfigMap; the same input, the same text."""
    lines = ["version: v1", "flags:", f"  migStrategy: {config['strategy']}"]
    if config.get("sharing"):
        lines.append("sharing:")
        lines.extend(_yaml(config["sharing"], 1))
    return "\n".join(lines) + "\n"


def _yaml(value: Mapping[str, Any], depth: int) -> List[str]:
    """The checked sharing section as YAML; it holds mappings, booleans, and lists of name and replicas."""
    indent = "  " * depth
    lines: List[str] = []
    for key, item in value.items():
        if isinstance(item, Mapping):
            lines.append(f"{indent}{key}:")
            lines.extend(_yaml(item, depth + 1))
        elif isinstance(item, (list, tuple)):
            lines.append(f"{indent}{key}:")
            for entry in item:
                lines.append(f"{indent}  - name: {entry['name']}")
                lines.append(f"{indent}    replicas: {entry['replicas']}")
        else:
            lines.append(f"{indent}{key}: {str(item).lower() if isinstance(item, bool) else item}")
    return lines
