# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What --diff shows of Kubernetes objects says what changes, and not when."""

from __future__ import annotations

from typing import Any, Iterator, Tuple

import pytest
import yaml
from ansible_collections.nvidia.mig.tests.unit.plugins.modules.node_support import COLLECTIONS

ROLES = COLLECTIONS / "ansible_collections/nvidia/mig/roles"
MODULE = "kubernetes.core.k8s"


def tasks(found: Any) -> Iterator[Any]:
    for task in found or ():
        yield task
        for part in ("block", "rescue", "always"):
            yield from tasks(task.get(part))


def written() -> Iterator[Tuple[str, Any]]:
    """Every task that writes an object: file and name, arguments."""
    for path in sorted(ROLES.glob("*/tasks/*.yml")):
        for task in tasks(yaml.safe_load(path.read_text(encoding="utf-8"))):
            if MODULE in task and task[MODULE].get("state") != "absent":
                yield f"{path.parent.parent.name}/{path.name}: {task['name']}", task[MODULE]


WRITTEN = dict(written())


def test_they_are_found() -> None:
    assert "mig/cordon.yml: Cordon the node" in WRITTEN
    assert len(WRITTEN) > 10


@pytest.mark.parametrize("name", WRITTEN)
def test_who_wrote_what_when_is_left_out(name: str) -> None:
    assert WRITTEN[name].get("hidden_fields") == ["metadata.managedFields"]
