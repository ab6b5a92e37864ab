# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a pod requests of its node, as the scheduler counts it, in thousandths. Pure."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping

from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.fields import mapping, sequence
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.quantities import thousandths


def effective_requests(pod: Mapping[str, Any]) -> Dict[str, int]:
    """What a node must have for the pod, by resource.

    Init containers run one after another, each beside the sidecars that started before it. Then the
    containers run beside all sidecars. The pod requests the larger of both, and its overhead.

    Raises:
        InputError: it has no specification, or something in it is no quantity.
    """
    spec = mapping(pod.get("spec"), "spec")
    resized = _resized(mapping(pod.get("status") or {}, "status"))
    steady: Dict[str, int] = {}
    for container in _containers(spec, "containers"):
        _add(steady, _asked(container, resized))
    sidecars: Dict[str, int] = {}
    start: Dict[str, int] = {}
    for container in _containers(spec, "initContainers"):
        asked = _asked(container, resized)
        if container.get("restartPolicy") == "Always":
            _add(sidecars, asked)
            asked = {}
        _add(asked, sidecars)
        _raise(start, asked)
    _add(steady, sidecars)
    _raise(steady, start)
    steady.update(_of_the_pod(spec))
    _add(steady, _quantities(spec.get("overhead"), "spec.overhead"))
    return steady


def _containers(spec: Mapping[str, Any], kind: str) -> List[Mapping[str, Any]]:
    return [mapping(item, f"spec.{kind}") for item in sequence(spec.get(kind), f"spec.{kind}")]


def _asked(container: Mapping[str, Any], resized: Mapping[str, List[Dict[str, int]]]) -> Dict[str, int]:
    name = str(container.get("name"))
    resources = mapping(container.get("resources") or {}, f"{name}: resources")
    # What has a limit only requests that much.
    asked = _quantities(resources.get("limits"), f"{name}: limits")
    asked.update(_quantities(resources.get("requests"), f"{name}: requests"))
    for shown in resized.get(name, ()):
        _raise(asked, shown)
    return asked


def _resized(status: Mapping[str, Any]) -> Dict[str, List[Dict[str, int]]]:
    """By container, what it still has while it is resized in place."""
    found: Dict[str, List[Dict[str, int]]] = {}
    for kind in ("containerStatuses", "initContainerStatuses"):
        for item in sequence(status.get(kind), f"status.{kind}"):
            shown = mapping(item, f"status.{kind}")
            name = str(shown.get("name"))
            resources = mapping(shown.get("resources") or {}, f"{name}: resources")
            found[name] = [
                _quantities(shown.get("allocatedResources"), f"{name}: allocatedResources"),
                _quantities(resources.get("requests"), f"{name}: requests"),
            ]
    return found


def _of_the_pod(spec: Mapping[str, Any]) -> Dict[str, int]:
    """Requests that stand for the whole pod, in place of its containers'."""
    own = mapping(spec.get("resources") or {}, "spec.resources")
    found = _quantities(own.get("requests"), "spec.resources.requests")
    return {
        name: amount
        for name, amount in found.items()
        if name in ("cpu", "memory") or name.startswith("hugepages-")
    }


def _quantities(values: Any, path: str) -> Dict[str, int]:
    items = mapping(values or {}, path).items()
    return {str(name): thousandths(value, f"{path}.{name}", up=True) for name, value in items}


def _add(total: Dict[str, int], more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _raise(total: Dict[str, int], least: Mapping[str, int]) -> None:
    for name, amount in least.items():
        total[name] = max(total.get(name, 0), amount)
