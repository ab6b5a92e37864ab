# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one exception family of the collection. Modules turn it into one ``fail_json``."""

from __future__ import annotations

from typing import Any, Dict, Optional


class MigError(Exception):
    """A failure that an operator can act on.

    Args:
        message: what is wrong, in one sentence, naming GPU, profile, process or node.
        path: the option or file position at fault, such as ``layout[1].profiles``.
        hint: what is allowed, or what to do next.
        details: data for the module's result, merged into ``fail_json``.
    """

    def __init__(
        self,
        message: str,
        path: Optional[str] = None,
        hint: Optional[str] = None,
        details: Optional[Dict[str, Any]] = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.path = path
        self.hint = hint
        self.details = dict(details or {})

    def __str__(self) -> str:
        text = f"{self.path}: {self.message}" if self.path else self.message
        return f"{text} ({self.hint})" if self.hint else text

    def fail_args(self) -> Dict[str, Any]:
        """Keyword arguments for ``AnsibleModule.fail_json``."""
        return {**self.details, "msg": str(self)}


class InputError(MigError):
    """What the operator wrote cannot be: syntax, unknown name, contradiction."""


class InfeasibleError(MigError):
    """What the operator wants does not fit on the GPU."""


class InUseError(MigError):
    """What would have to be destroyed or reset is held by a process or a pod."""


class DeviceError(MigError):
    """NVML or a tool on the node refused or failed."""


class ClusterError(MigError):
    """The Kubernetes API or Helm refused or failed."""
