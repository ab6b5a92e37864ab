# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The wanted layout as it lies on the node: the options of mig_layout, as JSON."""

from __future__ import annotations

import json
from typing import Any, Dict

from ansible_collections.nvidia.mig.plugins.module_utils.errors import InputError
from ansible_collections.nvidia.mig.plugins.module_utils.node.driver import MINIMUM
from ansible_collections.nvidia.mig.plugins.module_utils.node.kubelet import CHECKPOINT, POD_LOGS

LAYOUT_FILE = "/etc/nvidia-mig/layout.json"
_DEFAULTS: Dict[str, Any] = {
    "layout": None,
    "config": None,
    "config_name": None,
    "strategy": None,
    "minimum_driver": MINIMUM,
    "kubelet_checkpoint": CHECKPOINT,
    "pod_log_directory": POD_LOGS,
    "services": (),
}
_HINT = "let the role nvidia.mig.mig_boot write it"


def read_wish(path: str) -> Dict[str, Any]:
    """The options that ``node.layout_run.run_layout`` takes, and ``services``. Raises InputError."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}", hint=_HINT) from error
    return parse_wish(text, path)


def parse_wish(text: str, path: str) -> Dict[str, Any]:
    """As `read_wish`, of the file's content. Pure."""
    try:
        content = json.loads(text)
    except ValueError as error:
        raise InputError(f"{path} is not JSON: {error}", hint=_HINT) from error
    if not isinstance(content, dict):
        raise InputError(f"{path} is not an object", hint=_HINT)
    unknown = sorted(set(content) - set(_DEFAULTS))
    if unknown:
        raise InputError(f"{path} has unknown keys: {', '.join(unknown)}", hint=_HINT)
    wish = {**_DEFAULTS, **content}
    if (wish["layout"] is None) == (wish["config"] is None):
        raise InputError(f"{path} needs either layout or config", hint=_HINT)
    # Nothing that is in use is ever destroyed, whatever the last run was allowed. What the cluster makes of
    # it was checked before it was written.
    forced = {"state": "present", "destroy_in_use": False, "drained_pods": []}
    return {**wish, **forced, "sharing": None, "chart_version": None}
