# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The summary of a run as text for a terminal of 80 columns. Hosts that are alike are told of once."""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from typing import Any, Dict, Iterator, List, Mapping, Sequence, Tuple

from ansible_collections.nvidia.mig.plugins.plugin_utils.names import some
from ansible_collections.nvidia.mig.plugins.plugin_utils.slice_map import draw_with_users
from ansible_collections.nvidia.mig.plugins.plugin_utils.summary import HostSummary, RunSummary

_WIDTH = 80
_LABEL = 7
_INDENT = " " * 11
_MOST_NAMES = 12  # of hosts that are alike
_MOST_UNCHANGED = 10  # kinds of hosts to which nothing was done


def render(run: RunSummary, command: str = "ansible-playbook", limit: str = "") -> List[str]:
    """Lines: totals, then what failed, what changed, what did not. Empty if there is nothing to tell.

    Args:
        command: that of the run, without check mode, diff and limit.
        limit: the run's, for ``-l``.
    """
    hosts = run.told
    if not hosts:
        return []
    lines = ["", "MIG SUMMARY " + "*" * (_WIDTH - 12), *_totals(run), ""]
    kinds = _kinds(hosts)
    unchanged = [kind for kind in kinds if kind[0].done == "nothing"]
    for host, names in kinds:
        if host.done != "nothing" or len(unchanged) <= _MOST_UNCHANGED:
            lines.extend(_host_lines(host, names, run.check_mode))
    if len(unchanged) > _MOST_UNCHANGED:
        count = sum(len(names) for _host, names in unchanged)
        lines.append(f"{count} hosts are as wanted; the file of this summary has them, too")
    following = list(_following(run, command, limit))
    return [*lines, *([""] if following else []), *following]


def _totals(run: RunSummary) -> Iterator[str]:
    totals = run.totals
    counts = "; ".join(f"{count} {word}" for word, count in totals["done"].items())
    yield from _wrap(f"{_count(totals['hosts'], 'host')}: {counts}", "")
    would = "would be " if run.check_mode else ""
    if totals["gpus_changed"]:
        reset = f", {totals['gpus_reset']} with a reset" if totals["gpus_reset"] else ""
        yield f"{_count(totals['gpus'], 'GPU')}: {totals['gpus_changed']} {would}cut anew{reset}"
    if totals["pods_drained"]:
        yield f"{_count(totals['pods_drained'], 'pod')} {would}drained"
    for changes in run.releases.values():
        yield from _wrap("; ".join(changes), "  ")


def _count(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"


def _wrap(text: str, indent: str) -> List[str]:
    return textwrap.wrap(text, _WIDTH, subsequent_indent=indent, break_on_hyphens=False)


def _kinds(hosts: Mapping[str, HostSummary]) -> List[Tuple[HostSummary, List[str]]]:
    """Hosts that are alike together: those that failed, those that changed, the others; by name."""
    alike: Dict[str, Tuple[HostSummary, List[str]]] = {}
    for name, host in hosts.items():
        alike.setdefault(repr(sorted(host.as_dict().items())), (host, []))[1].append(name)
    order = {"FAILED": 0, "nothing": 2}
    return sorted(alike.values(), key=lambda kind: order.get(kind[0].done, 1))


def _host_lines(host: HostSummary, names: Sequence[str], check_mode: bool) -> Iterator[str]:
    products = ", ".join(f"{count}x {product}" for product, count in Counter(host.products).items())
    if host.after:
        products += f", MIG on {sum(bool(gpu.get('mig')) for gpu in host.after.values())}"
    if len(names) == 1:
        yield f"{names[0]:<10} {products:<40} {host.done}".rstrip()
    else:
        yield from _wrap(some(names, _MOST_NAMES), "")
        yield f"{_INDENT}{products:<40} {host.done}".rstrip()
    if host.before is not None and host.after is not None:
        before, after = describe_layout(host.before), describe_layout(host.after)
        yield from _field("layout", before)
        if before != after:
            yield from _field("    ->", after)
    if check_mode:
        yield from _picture(host.gpus)
    yield from _field("drains", ", ".join(host.pods_drained))
    if host.resources is not None:
        offered = ", ".join(f"{key} {count}" for key, count in sorted(host.resources.items()) if count)
        yield from _field("offers", (offered or "nothing") + (" (verified)" if host.verified else ""))
    if host.failure:
        yield from _field("failed", host.failure)


def _picture(gpus: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Slices before and after, of GPUs that are alike once."""
    alike: Dict[Tuple[Tuple[str, ...], Tuple[str, ...]], List[int]] = {}
    for gpu in gpus.values():
        before, after = (tuple(draw_with_users(gpu[side], gpu)) for side in ("before", "after"))
        alike.setdefault((before, after), []).append(gpu["gpu"])
    for (before, after), indexes in alike.items():
        label = f"GPU {_ranges(indexes)}"
        width = _LABEL + 1  # GPU 5-6 is usual
        if len(label) >= width:
            yield f"{_INDENT}{label}"
            label = ""
        marks = [label, *[""] * (len(before) - 1), "    ->", *[""] * (len(after) - 1)]
        for mark, line in zip(marks, (*before, *after)):
            yield from _field(mark, line, width)


def _ranges(indexes: Sequence[int]) -> str:
    """``0-4,6``."""
    runs: List[List[int]] = []
    for index in sorted(indexes):
        if runs and index == runs[-1][-1] + 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def _following(run: RunSummary, command: str, limit: str) -> Iterator[str]:
    """The commands to type next, each in a line of its own, however long."""
    hosts = run.told
    failed = [name for name, host in hosts.items() if host.failure]
    waiting = [name for name, host in hosts.items() if host.reboot_required and not host.failure]
    if failed:
        yield "To see what is left to do on the hosts that failed:"
        yield f"  {command} -l {','.join(failed)} --check --diff"
    if waiting:
        yield "Once they were rebooted, or with mig_reboot_ok: true:"
        yield f"  {command} -l {','.join(waiting)}"
    if run.check_mode and not failed and any(host.predicted for host in hosts.values()):
        yield "To do it:"
        yield f"  {command}{f' -l {limit}' if limit else ''}"


def _field(label: str, text: str, width: int = _LABEL) -> List[str]:
    return textwrap.wrap(
        text,
        _WIDTH,
        initial_indent=f"{_INDENT}{label:<{width}}",
        subsequent_indent=f"{_INDENT}{'':<{width}}",
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
