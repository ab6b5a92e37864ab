# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From the release that is there to the settings that are wanted, upgrade by upgrade. Pure.

No label of a node may name a config that the release lacks: the pods' config manager exits on one
(``cmd/config-manager`` of k8s-device-plugin). Nor may a node have anything but its old or its new settings.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Collection, Dict, List, Mapping, Optional

from ansible_collections.nvidia.mig.plugins.module_utils.errors import InputError
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.labels import CONFIG_LABEL, PRESENT_LABEL
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.settings import (
    Deployed,
    ReleaseSettings,
    Wish,
)

Labels = Dict[str, Dict[str, Optional[str]]]
"""By host, the labels to write; None takes one away."""


@dataclass(frozen=True)
class Stage:
    """One upgrade of the releases, and the labels to write around it.

    Args:
        release: its settings.
        before: labels that the release serves already, or does not read.
        after: labels that wait for it.
    """

    release: Deployed
    before: Labels = field(default_factory=dict)
    after: Labels = field(default_factory=dict)

    def as_dict(self) -> Dict[str, Any]:
        release = {
            "strategy": self.release.strategy,
            "configs": self.release.configs,
            "default_config": self.release.default_config,
        }
        return {"release": release, "labels_before": self.before, "labels_after": self.after}


def stages(
    wanted: ReleaseSettings,
    deployed: Optional[Deployed] = None,
    labels: Optional[Mapping[str, Optional[str]]] = None,
    marked: Collection[str] = (),
) -> List[Stage]:
    """What to do, in order: one stage, or two. The last one's release is the wanted one.

    Args:
        deployed: the release that is there; None if there is none, or none with named configs.
        labels: the value of each host's config label now.
        marked: hosts whose nodes have the label by which the pods find them.
    """
    labels = labels or {}
    target = Deployed(wanted.strategy, wanted.configs, wanted.default_config)
    due = {host: label for host, label in wanted.label_by_host.items() if labels.get(host) != label}
    unmarked: Labels = {host: {PRESENT_LABEL: "true"} for host in wanted.label_by_host if host not in marked}
    if deployed is None or deployed.strategy is not None:
        return [Stage(target, before={**unmarked, **_written(due)})]  # nobody reads labels yet
    if wanted.strategy is not None:
        return [Stage(target, before=unmarked, after=_written(due))]  # nobody reads them from then on
    late = {host: label for host, label in due.items() if not _alike(deployed, target, label)}
    before = {
        **{host: label for host, label in unmarked.items() if host not in late},
        **_written({host: label for host, label in due.items() if host not in late}),
    }
    if not late:
        return [Stage(target, before=before)]
    return [Stage(_between(target, deployed, late, labels), before, _written(late)), Stage(target)]


def _between(
    target: Deployed,
    deployed: Deployed,
    late: Mapping[str, Optional[str]],
    labels: Mapping[str, Optional[str]],
) -> Deployed:
    """A release that serves the late hosts before and after their label is written."""
    default = deployed.default_config
    names = {name for name in (labels.get(host) or default for host in late) if name is not None}
    configs = {**deployed.parts(names), **target.configs}
    # A label that is taken away leaves its node to the new default; one that is to come finds it at the old.
    waits_at_default = any(label and not labels.get(host) for host, label in late.items())
    keeps_default = waits_at_default and default in configs
    return Deployed(None, configs, default if keeps_default else target.default_config)


def _alike(one: Deployed, other: Deployed, label: Optional[str]) -> bool:
    """Does a node with this label have the same from both?"""
    first = _wish(one, label)
    return first is not None and first == _wish(other, label)


def _wish(release: Deployed, label: Optional[str]) -> Optional[Wish]:
    try:
        return release.wish(label)
    except InputError:
        return None  # a config that somebody else wrote, with what we do not know


def _written(configs: Mapping[str, Optional[str]]) -> Labels:
    return {host: {CONFIG_LABEL: config, PRESENT_LABEL: "true"} for host, config in configs.items()}
