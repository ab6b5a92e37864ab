# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Named configs of the device plugin, and the sharings among which a node's label may pick. Pure.

The release has a config for each of them, whether a node uses it or not. So another sharing is another label,
and no other node's pods start anew for it.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any, Dict, List, Mapping, Optional, Sequence

from ansible_collections.nvidia.mig.plugins.module_utils.errors import InputError
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.sharing import (
    check_sharing,
    parse_sharing,
    plain_sharing,
)

Choices = Dict[str, Optional[Dict[str, Any]]]
"""By a config's name, its sharing in the device plugin's form; None: nothing is shared."""


def read_choices(
    strategy: str, own: Any, choices: Any, path: str = "sharing_choices", version: Optional[str] = None
) -> Choices:
    """The sharings that a node may have, its own first; none at all if it has no choice.

    Args:
        strategy: the node's.
        own: the sharing that it has as long as nobody chose.
        choices: the others, in the device plugin's form; an empty one means that nothing is shared.
        version: the device plugin's chart; with it, what only some versions can do is found too.

    Raises:
        InputError: one of them is malformed or impossible.
    """
    if not choices:
        return {}
    if not isinstance(choices, Sequence) or isinstance(choices, str):
        raise InputError(f"{choices!r} is not a list", path, "each entry is as sharing, or {} for none")
    if strategy != "none":
        raise InputError(
            f"the strategy is {strategy}: only whole GPUs are shared as pods ask for it",
            path,
            "use strategy none, or leave it out",
        )
    found: Choices = {config_name(strategy, plain_sharing(own)): plain_sharing(own)}
    for position, value in enumerate(choices):
        here = f"{path}[{position}]"
        check_sharing(parse_sharing(value, here), strategy, here, version)
        sharing = plain_sharing(value, here)
        found[config_name(strategy, sharing)] = sharing
    return found


def config_name(strategy: str, sharing: Optional[Mapping[str, Any]]) -> str:
    """A config's name: it must be the same in every run, and is a label's value of at most 63 characters.

    Args:
        sharing: as plain_sharing returns it.
    """
    if not sharing:
        return strategy
    parsed = parse_sharing(sharing)
    parts: List[str] = [strategy, parsed.kind]
    parts.extend(f"{name.split('/')[-1]}-x{count}" for name, count in sorted(parsed.replicas.items()))
    text = re.sub(r"[^A-Za-z0-9._-]", "-", "-".join(parts))
    # Flags such as renameByDefault are not in the text, so a digest of all of it keeps settings apart.
    digest = hashlib.sha256(json.dumps(sharing, sort_keys=True).encode()).hexdigest()[:6]
    return f"{text[:56]}-{digest}"
