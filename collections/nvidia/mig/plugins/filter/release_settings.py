# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter ``nvidia.mig.release_settings``; its documentation is in the YAML file beside it."""

from __future__ import annotations

from typing import Any, Callable, Dict, Mapping

from ansible.errors import AnsibleFilterError
from ansible_collections.nvidia.mig.plugins.module_utils.errors import InputError, MigError
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.settings import settings


def release_settings(hosts: Mapping[str, Any]) -> Dict[str, Any]:
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
                wishes[str(host)] = {"strategy": wish}
        return settings(wishes).as_dict()
    except MigError as error:
        raise AnsibleFilterError(f"nvidia.mig.release_settings: {error}") from error


class FilterModule:
    """Filters of the collection for releases."""

    def filters(self) -> Dict[str, Callable[..., Any]]:
        return {"release_settings": release_settings}
