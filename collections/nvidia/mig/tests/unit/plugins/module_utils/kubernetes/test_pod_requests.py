# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a pod requests, as the scheduler counts it."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.nvidia.mig.plugins.module_utils.errors import InputError
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.pod_requests import effective_requests
from ansible_collections.nvidia.mig.tests.unit.plugins.module_utils.kubernetes.observing import container, pod
from hypothesis import given
from hypothesis import strategies as st

CPU = {"cpu": 2000}


def sidecar(name: str, **requests: Any) -> dict[str, Any]:
    return {**container(name, **requests), "restartPolicy": "Always"}


def asked(*containers: dict[str, Any], status: Any = None, **spec: Any) -> dict[str, int]:
    return effective_requests(pod("a", *containers, spec=spec, status=status or {}))


@pytest.mark.parametrize(
    ("init", "expected"),
    [
        ([], 3000),
        ([container("i", cpu=2)], 3000),
        ([container("i", cpu=5)], 5000),
        ([container("i", cpu=2), container("j", cpu=2)], 3000),
        ([sidecar("s", cpu=1)], 4000),
        # An init container runs beside the sidecars before it, not beside those after it.
        ([sidecar("s", cpu=1), container("i", cpu=5)], 6000),
        ([container("i", cpu=5), sidecar("s", cpu=1)], 5000),
        ([sidecar("s", cpu=3), sidecar("t", cpu=3)], 9000),
    ],
)
def test_init_containers_and_sidecars(init, expected):
    assert asked(container(cpu=1), container("b", cpu=2), initContainers=init)["cpu"] == expected


def test_devices_of_all_containers_together():
    found = asked(container(mig_1g_5gb=1), container("b", mig_1g_5gb=2, gpu=1))
    assert found == {"nvidia.com/mig-1g.5gb": 3000, "nvidia.com/gpu": 1000}


def test_what_has_a_limit_only_requests_it():
    limited = {"name": "main", "resources": {"limits": {"cpu": "2"}}}
    assert asked(limited) == CPU
    assert asked({"name": "main", "resources": {"limits": {"cpu": "4"}, "requests": {"cpu": "2"}}}) == CPU


def test_overhead_comes_on_top():
    assert asked(container(cpu=1), overhead={"cpu": "1"}) == CPU


def test_requests_of_the_pod_replace_those_of_its_containers():
    own = {"requests": {"cpu": "2", "example.com/other": "1"}}
    found = asked(container(cpu=5, memory="1Gi", mig_1g_5gb=1), resources=own)
    # Only for what Kubernetes knows on the level of pods.
    assert found == {**CPU, "memory": (1 << 30) * 1000, "nvidia.com/mig-1g.5gb": 1000}
    assert asked(container(cpu=5), resources=own, overhead={"cpu": "500m"}) == {"cpu": 2500}


@pytest.mark.parametrize("where", ["allocatedResources", "resources"])
def test_a_container_that_shrinks_still_has_what_it_had(where):
    shown = {"cpu": "2"} if where == "allocatedResources" else {"requests": {"cpu": "2"}}
    status = {"containerStatuses": [{"name": "main", where: shown}]}
    assert asked(container(cpu=1), status=status) == CPU
    assert asked(container(cpu=3), status=status) == {"cpu": 3000}


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ({}, "spec: it is missing"),
        ({"spec": {"containers": {}}}, "spec.containers: {} is not a list"),
        ({"spec": {"containers": ["x"]}}, "spec.containers: 'x' is not a mapping"),
        ({"spec": {"containers": [container(cpu="many")]}}, "main: requests.cpu: 'many' is not a quantity"),
        ({"spec": {"overhead": {"cpu": None}}}, "spec.overhead.cpu: None is not a quantity"),
        ({"spec": {"resources": 3}}, "spec.resources: 3 is not a mapping"),
    ],
)
def test_what_is_wrong_is_named(broken, message):
    with pytest.raises(InputError) as told:
        effective_requests(broken)
    assert message in str(told.value)


AMOUNTS = st.integers(0, 9)


@given(st.lists(AMOUNTS, max_size=4), st.lists(st.tuples(AMOUNTS, st.booleans()), max_size=5))
def test_it_is_the_most_that_runs_at_one_time(main, init):
    moments = []
    running = 0
    for amount, stays in init:
        moments.append(running + amount)
        running += amount if stays else 0
    moments.append(running + sum(main))
    found = asked(
        *(container(f"c{number}", cpu=amount) for number, amount in enumerate(main)),
        initContainers=[
            (sidecar if stays else container)(f"i{number}", cpu=amount)
            for number, (amount, stays) in enumerate(init)
        ],
    )
    assert found.get("cpu", 0) == 1000 * max(moments)
