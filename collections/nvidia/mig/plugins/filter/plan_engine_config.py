# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter ``nvidia.mig.plan_engine_config``; its documentation is in the YAML file beside it."""

from __future__ import annotations

from typing import Any, Callable, Dict, Mapping

from ansible.errors import AnsibleFilterError
from ansible_collections.nvidia.mig.plugins.module_utils.errors import MigError
from ansible_collections.nvidia.mig.plugins.plugin_utils.engine_config import plan_engine_config as plan


def plan_engine_config(
    dry_run: str, files: Mapping[str, str], config: str, drop_in: str = ""
) -> Dict[str, Any]:
    try:
        return plan(dry_run, files, config, drop_in)
    except MigError as error:
        raise AnsibleFilterError(f"nvidia.mig.plan_engine_config: {error}") from error


class FilterModule:
    """Filters of the collection for container engines."""

    def filters(self) -> Dict[str, Callable[..., Any]]:
        return {"plan_engine_config": plan_engine_config}
