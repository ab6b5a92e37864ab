# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filters about sample workloads; each is documented in a YAML file beside this one."""

from __future__ import annotations

from typing import Any, Callable, Dict, Mapping, Sequence

from ansible.errors import AnsibleFilterError
from ansible_collections.nvidia.mig.plugins.module_utils.errors import MigError
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.verdicts import verdict
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.workloads import (
    SAMPLES,
    workloads,
)


def sample_workloads(
    expected: Mapping[str, Any],
    node: Mapping[str, Any],
    samples: Sequence[str] = SAMPLES,
    pods: Sequence[Mapping[str, Any]] = (),
    namespace: Sequence[Mapping[str, Any]] = (),
) -> Dict[str, Any]:
    try:
        return workloads(expected, node, samples, pods, namespace)
    except MigError as error:
        raise AnsibleFilterError(f"nvidia.mig.sample_workloads: {error}") from error


def sample_verdict(objects: Sequence[Mapping[str, Any]], sample: Mapping[str, Any]) -> Dict[str, Any]:
    return verdict(sample, objects)


class FilterModule:
    """Filters of the collection for sample workloads."""

    def filters(self) -> Dict[str, Callable[..., Any]]:
        return {
            "sample_verdict": sample_verdict,
            "sample_workloads": sample_workloads,
        }
