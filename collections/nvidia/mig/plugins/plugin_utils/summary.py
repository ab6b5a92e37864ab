# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run did to each host's GPUs, as text for a terminal of 80 columns."""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, List, Mapping, Optional

_WIDTH = 80
_INDENT = " " * 11


@dataclass
class HostSummary:
    """The results of one host, as far as they tell of its GPUs."""

    products: List[str] = field(default_factory=list)
    before: Optional[Mapping[str, Any]] = None
    after: Optional[Mapping[str, Any]] = None
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
        elif action == "nvidia.mig.mig_verify":
            self.resources = result.get("actual", {}).get("resources", {})
            self.verified = bool(result.get("verdict"))
        elif action == "kubernetes.core.k8s" and (result.get("result") or {}).get("kind") == "Node":
            # Such as the label by which a node gets another strategy or sharing.
            self.predicted |= check_mode and changed
        elif action == "ansible.builtin.reboot":
            self.rebooted |= changed
            self.reboot_required = False
        else:
            return
        self.changed |= changed

    def note_failure(self, message: str) -> None:
        """Remember the first failure: the later ones follow from it."""
        self.failure = self.failure or message

    @property
    def is_empty(self) -> bool:
        """Whether no module of this collection told anything of the host."""
        return self.before is None and self.failure is None

    @property
    def done(self) -> str:
        """What was done to the host, in a few words."""
        if self.failure:
            return "FAILED"
        if self.predicted:
            return "would change"
        words = [
            word
            for word, holds in (
                ("changed", self.changed),
                ("reset", self.reset),
                ("rebooted", self.rebooted),
                ("REBOOT REQUIRED", self.reboot_required),
            )
            if holds
        ]
        return " + ".join(words) or "nothing"

    def _note_layout(self, result: Mapping[str, Any], planned: bool, check_mode: bool) -> None:
        self.products = [gpu["product"] for gpu in result.get("gpus", [])]
        # One run may be about some GPUs, the next about others.
        self.before = {**result.get("before", {}), **(self.before or {})}
        # A plan's "after" has not happened; what is now is its "before".
        now = result.get("before" if planned and not check_mode else "after", {})
        self.after = {**(self.after or {}), **now}
        # Complete although the mode needed a reset: the driver made it itself.
        if not planned and not check_mode and result.get("complete"):
            self.reset |= any(step.get("resets") for step in result.get("plan", []))


def render(hosts: Mapping[str, HostSummary]) -> List[str]:
    """Lines of the summary, hosts in the order of their names. Empty if there is nothing to tell."""
    rows = {name: host for name, host in sorted(hosts.items()) if not host.is_empty}
    if not any(host.before is not None for host in rows.values()):
        return []
    totals = Counter(host.done for host in rows.values())
    lines = ["", "MIG SUMMARY " + "*" * (_WIDTH - 12)]
    counts = "; ".join(f"{count} {word}" for word, count in sorted(totals.items()))
    lines.append(f"{len(rows)} host{'s' if len(rows) > 1 else ''}: {counts}")
    lines.append("")
    for name, host in rows.items():
        lines.extend(_host_lines(name, host))
    return lines


def _host_lines(name: str, host: HostSummary) -> List[str]:
    products = ", ".join(f"{count}x {product}" for product, count in Counter(host.products).items())
    if host.after:
        products += f", MIG on {sum(bool(gpu.get('mig')) for gpu in host.after.values())}"
    lines = [f"{name:<10} {products:<40} {host.done}"]
    if host.before is not None and host.after is not None:
        before, after = describe_layout(host.before), describe_layout(host.after)
        if before == after:
            lines.extend(_field("layout", after))
        else:
            lines.extend(_field("layout", before))
            lines.extend(_field("    ->", after))
    if host.resources is not None:
        offered = ", ".join(f"{key} {count}" for key, count in sorted(host.resources.items()) if count)
        lines.extend(_field("offers", (offered or "nothing") + (" (verified)" if host.verified else "")))
    if host.failure:
        lines.extend(_field("failed", host.failure))
    return lines


def _field(label: str, text: str) -> List[str]:
    return textwrap.wrap(
        text,
        _WIDTH,
        initial_indent=f"{_INDENT}{label:<7}",
        subsequent_indent=f"{_INDENT}       ",
        break_on_hyphens=False,
    )


def describe_layout(gpus: Mapping[str, Any]) -> str:
    """A node's layout in one line, equal GPUs counted: ``5x whole GPU, 2x (3g.20gb, 2g.10gb, 1g.5gb)``."""
    kinds = Counter(_describe_gpu(gpu) for gpu in gpus.values())
    return ", ".join(f"{count}x {kind}" for kind, count in kinds.items()) or "no GPUs"


def _describe_gpu(gpu: Mapping[str, Any]) -> str:
    if not gpu.get("mig"):
        return "whole GPU"
    profiles = Counter(instance.split()[0] for instance in gpu.get("instances", []))
    biggest_first = sorted(
        profiles.items(), key=lambda item: [-int(part) for part in re.findall(r"\d+", item[0])]
    )
    inner = ", ".join(profile if count == 1 else f"{count}x {profile}" for profile, count in biggest_first)
    return f"({inner or 'MIG on, no instances'})"
