# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Helm releases of an account that may not read every namespace's secrets, where Helm keeps them.

Helm notes on each object which release it belongs to, so a second device plugin anywhere in the cluster
shows by its DaemonSet.
"""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Sequence, Tuple

from ansible_collections.nvidia.mig.plugins.module_utils.errors import ClusterError
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.release import Release
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.rights import REMEDY, denied

_WORKLOADS = (("DaemonSet", "apps/v1"), ("Deployment", "apps/v1"))
_CHART = "helm.sh/chart"
_NAME = "meta.helm.sh/release-name"
_NAMESPACE = "meta.helm.sh/release-namespace"


def releases_in_sight(helm: Any, api: Any, charts: Sequence[str], namespace: str) -> List[Release]:
    """Releases in ``namespace``, and in every other one that has an object of these charts.

    Raises:
        ClusterError: there is such an object in a namespace whose releases the account may not see.
    """
    objects = [item for kind, version in _WORKLOADS for item in api.items(kind, version, _CHART)]
    others = homes(objects, charts)
    found: List[Release] = helm.releases(namespace)
    for other, (name, chart) in sorted(others.items()):
        if other == namespace:
            continue
        try:
            found += helm.releases(other)
        except ClusterError as error:
            if denied(str(error.details.get("stderr", ""))) is None:
                raise
            raise ClusterError(
                f"release {name} ({chart}) is in namespace {other}, whose releases this account may not see",
                hint=f"add {other} to cluster_access_release_namespaces; {REMEDY}",
            ) from error
    return found


def homes(objects: Sequence[Mapping[str, Any]], charts: Sequence[str]) -> Dict[str, Tuple[str, str]]:
    """Namespaces with releases of these charts -> one release's name, and its chart with version."""
    found: Dict[str, Tuple[str, str]] = {}
    for item in objects:
        metadata = item["metadata"]
        notes = metadata.get("annotations") or {}
        chart = (metadata.get("labels") or {}).get(_CHART, "")
        if _NAMESPACE in notes and any(chart.startswith(f"{name}-") for name in charts):
            found[notes[_NAMESPACE]] = (notes.get(_NAME, ""), chart)
    return found
