# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real Kubernetes API, and pods in it that wait for MIG devices."""

from __future__ import annotations

import pytest
from ansible_collections.nvidia.mig.tests.unit.plugins.module_utils.kubernetes.observing import UNSCHEDULABLE
from ansible_collections.nvidia.mig.tests.unit.plugins.modules.kubernetes_support import (
    start_cluster,
    waiting_room,
)

SPACE = "demand"
SMALL = "nvidia.com/mig-1g.5gb"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    yield from start_cluster(tmp_path_factory.mktemp("cluster"))


@pytest.fixture(scope="module")
def core(cluster):
    return waiting_room(cluster, SPACE)


@pytest.fixture
def pod(core):
    def create(name, resource=SMALL):
        made.append(name)
        container = {
            "name": "main",
            "image": "nowhere.invalid/none",
            "resources": {"limits": {resource: "1"}},
        }
        core.create_namespaced_pod(SPACE, {"metadata": {"name": name}, "spec": {"containers": [container]}})
        core.patch_namespaced_pod_status(name, SPACE, {"status": {"conditions": [UNSCHEDULABLE]}})

    made = []
    yield create
    for name in made:
        core.delete_namespaced_pod(name, SPACE, grace_period_seconds=0)
