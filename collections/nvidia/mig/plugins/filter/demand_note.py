# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter ``nvidia.mig.demand_note``; its documentation is in the YAML file beside it."""

from __future__ import annotations

from typing import Any, Callable, Dict, Mapping, Sequence

from ansible.errors import AnsibleFilterError
from ansible_collections.nvidia.mig.plugins.module_utils.errors import MigError
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.cooldown import noted


def demand_note(
    node: Mapping[str, Any], uuids: Sequence[str], time: str, keep: float = 86400
) -> Dict[str, str]:
    annotations = (node.get("metadata") or {}).get("annotations") or {}
    try:
        return noted(annotations, uuids, time, keep)
    except MigError as error:
        raise AnsibleFilterError(str(error)) from error


class FilterModule:
    """Filters of the collection for GPUs that follow demand."""

    def filters(self) -> Dict[str, Callable[..., Any]]:
        return {"demand_note": demand_note}
