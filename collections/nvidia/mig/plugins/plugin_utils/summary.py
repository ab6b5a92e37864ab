# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run did, or would do, to each host's GPUs and to the releases, from its modules' results."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Dict, Iterator, List, Mapping, Optional, Tuple

RELEASES = ("nvidia.mig.device_plugin_release", "nvidia.mig.gfd_release")


@dataclass
class HostSummary:
    """The results of one host, as far as they tell of its GPUs.

    Args:
        before, after: by ``GPU <index>``, as mig_layout tells them.
        touched: by the same, what mig_layout's ``touched`` has of it.
        pods: those that must go for it, by their UID; ``drained`` tells whether they went.
    """

    products: List[str] = field(default_factory=list)
    before: Optional[Mapping[str, Any]] = None
    after: Optional[Mapping[str, Any]] = None
    touched: Dict[str, Mapping[str, Any]] = field(default_factory=dict)
    pods: Dict[str, Mapping[str, Any]] = field(default_factory=dict)
    drained: bool = False
    resources: Optional[Mapping[str, int]] = None
    verified: bool = False
    changed: bool = False
    predicted: bool = False
    reset: bool = False
    rebooted: bool = False
    reboot_required: bool = False
    failure: Optional[str] = None

    def note(self, action: str, result: Mapping[str, Any], args: Mapping[str, Any], check_mode: bool) -> None:
        """Take what ``result`` of the module ``action`` tells; ignore other modules."""
        changed = bool(result.get("changed"))
        if action == "nvidia.mig.mig_layout":
            self._note_layout(result, args.get("state") == "planned", check_mode)
            # Where GPU Operator changes the GPUs, there are plans only.
            self.predicted |= check_mode and bool(changed or result.get("actions"))
            changed |= self.before != self.after and not check_mode
        elif action == "nvidia.mig.gpu_reset":
            self.reset |= changed
            self.reboot_required |= bool(result.get("reboot_required"))
        elif action == "kubernetes.core.k8s_drain":
            self.drained |= changed or check_mode
            return
        elif action == "nvidia.mig.mig_verify":
            self.resources = result.get("actual", {}).get("resources", {})
            self.verified = bool(result.get("verdict"))
        elif action == "kubernetes.core.k8s" and (result.get("result") or {}).get("kind") == "Node":
            # Such as the label by which a node gets another strategy or sharing.
            self.predicted |= check_mode and changed
        elif action == "ansible.builtin.reboot":
            self.rebooted |= changed
            self.reboot_required = False
        elif action == "ansible.builtin.set_fact":
            self.reboot_required |= bool((result.get("ansible_facts") or {}).get("mig_reboot_required"))
            return
        else:
            return
        self.changed |= changed

    def note_failure(self, message: Optional[str]) -> None:
        """Remember the last failure, since an earlier one was rescued. None: so was the last."""
        self.failure = message

    @property
    def is_empty(self) -> bool:
        """Whether no module of this collection told anything of the host."""
        return self.before is None and self.failure is None

    @property
    def done(self) -> str:
        """What was done to the host, or would be, in a few words."""
        if self.failure:
            return "FAILED"
        words = [
            word
            for word, holds in (
                ("would change" if self.predicted else "changed", self.changed or self.predicted),
                ("reset", self.reset and not (self.predicted and self.rebooted)),
                ("reboot" if self.predicted else "rebooted", self.rebooted),
                ("REBOOT REQUIRED", self.reboot_required),
            )
            if holds
        ]
        return " + ".join(words) or "nothing"

    @property
    def gpus(self) -> Dict[str, Dict[str, Any]]:
        """The GPUs that were cut anew, or would be: before, after, and what ``touched`` has of them."""
        return {
            name: {"before": self.before[name], "after": self.after[name], **touched}
            for name, touched in self.touched.items()
            if self.before and self.after and self.before.get(name) != self.after.get(name)
        }

    def as_dict(self) -> Dict[str, Any]:
        """The same as plain data."""
        return {
            "done": self.done,
            "products": dict(Counter(self.products)),
            "before": dict(self.before or {}),
            "after": dict(self.after or {}),
            "gpus": self.gpus,
            "pods_drained": self.pods_drained,
            "resources": self.resources,
            "verified": self.verified,
            "failure": self.failure,
        }

    @property
    def pods_drained(self) -> List[str]:
        """The pods that were drained, or would be, as ``namespace/name``."""
        names = [f"{pod['namespace']}/{pod['name']}" for pod in self.pods.values()]
        return sorted(names) if self.drained else []

    def _note_layout(self, result: Mapping[str, Any], planned: bool, check_mode: bool) -> None:
        self.products = [gpu["product"] for gpu in result.get("gpus", [])]
        # One run may be about some GPUs, the next about others.
        self.before = _by_index({**result.get("before", {}), **(self.before or {})})
        # A plan's "after" has not happened; what is now is its "before".
        now = result.get("before" if planned and not check_mode else "after", {})
        self.after = _by_index({**(self.after or {}), **now})
        for gpu in result.get("touched", []):
            self.touched.setdefault(f"GPU {gpu['gpu']}", gpu)
        self.pods.update((pod["uid"], pod) for pod in result.get("pods", []))
        # Complete although the mode needed a reset: the driver made it itself.
        if not planned and result.get("complete"):
            self.reset |= any(step.get("resets") for step in result.get("plan", []))


@dataclass
class RunSummary:
    """The results of a run.

    Args:
        releases: by name, what was done to a release or would be, a line each; for one that was there also
            to which of its values.
        check_mode: whether it only predicts.
    """

    hosts: Dict[str, HostSummary] = field(default_factory=dict)
    releases: Dict[str, List[str]] = field(default_factory=dict)
    check_mode: bool = False

    def note(
        self, host: str, action: str, result: Mapping[str, Any], args: Mapping[str, Any], check_mode: bool
    ) -> None:
        """Take what a module told."""
        self.check_mode |= check_mode
        if action in RELEASES and result.get("changed"):
            self._note_release(result)
        self._host(host).note(action, result, args, check_mode)

    def note_failure(self, host: str, message: Optional[str]) -> None:
        """Remember why the host dropped out; None: it did not."""
        self._host(host).note_failure(message)

    @property
    def told(self) -> Dict[str, HostSummary]:
        """The hosts of which something is to be told, by name; none if no GPU was looked at."""
        found = {name: host for name, host in sorted(self.hosts.items()) if not host.is_empty}
        return found if any(host.before is not None for host in found.values()) else {}

    @property
    def totals(self) -> Dict[str, Any]:
        """Counts over all hosts."""
        hosts = self.told.values()
        return {
            "hosts": len(hosts),
            "done": dict(sorted(Counter(host.done for host in hosts).items())),
            "gpus": sum(len(host.products) for host in hosts),
            "gpus_changed": sum(len(host.gpus) for host in hosts),
            "gpus_reset": sum(gpu["resets"] for host in hosts for gpu in host.gpus.values()),
            "pods_drained": sum(len(host.pods_drained) for host in hosts),
        }

    def as_dict(self) -> Dict[str, Any]:
        """All of it as plain data, for a file."""
        return {
            "check_mode": self.check_mode,
            "totals": self.totals,
            "releases": self.releases,
            "hosts": {name: host.as_dict() for name, host in self.told.items()},
        }

    def _host(self, name: str) -> HostSummary:
        return self.hosts.setdefault(name, HostSummary())

    def _note_release(self, result: Mapping[str, Any]) -> None:
        release = result["release"]
        lines = self.releases.setdefault(release["name"], [])
        previous = release.get("previous_values")
        values = [] if previous is None else _changes(previous, release.get("user_values") or {})
        for line in (*result["actions"], *values):
            if line not in lines:
                lines.append(line)


def _by_index(gpus: Mapping[str, Any]) -> Dict[str, Any]:
    return dict(sorted(gpus.items(), key=lambda item: int(item[0].rpartition(" ")[2])))


def _changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    """``migStrategy: none -> single``; of a text of several lines only that it is another."""
    old, new = dict(_leaves(before)), dict(_leaves(after))
    for path in sorted({*old, *new}):
        if path not in new:
            yield f"{path}: removed"
        elif path not in old:
            yield f"{path}: {_short(new[path])}"
        elif old[path] != new[path]:
            words = (_short(old[path]), _short(new[path]))
            yield f"{path}: changed" if "..." in words else f"{path}: {' -> '.join(words)}"


def _leaves(values: Mapping[str, Any], prefix: str = "") -> Iterator[Tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _short(value: Any) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text if len(text) <= 40 and "\n" not in text else "..."
