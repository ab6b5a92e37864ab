# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which release is meant, and what separates it from what is wanted."""

from __future__ import annotations

import pytest
from ansible_collections.nvidia.mig.plugins.module_utils.errors import ClusterError
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.charts import unlisted
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.release import (
    Release,
    Target,
    check_gpu_operator,
    compare,
    find,
    removal,
)

CHART = "nvidia-device-plugin"


def release(name=CHART, namespace="gpu", status="deployed", chart=CHART, version="0.17.4"):
    return Release(name, namespace, 1, status, chart, version, version)


OWN = release()
GENERATED = release("nvidia-device-plugin-1619479152", "kube-system", version="0.7.0")
OTHER = release("gpu-feature-discovery", chart="gpu-feature-discovery")


@pytest.mark.parametrize(
    ("releases", "adopt", "target"),
    [
        ([], True, Target(CHART, "gpu")),
        ([OTHER], False, Target(CHART, "gpu")),
        ([OTHER, OWN], False, Target(CHART, "gpu", OWN)),
        ([GENERATED], True, Target(GENERATED.name, "kube-system", GENERATED, adopted=True)),
        ([release(status="failed")], True, Target(CHART, "gpu", release(status="failed"))),
        (
            [release(namespace="other")],
            True,
            Target(CHART, "other", release(namespace="other"), adopted=True),
        ),
    ],
)
def test_find(releases, adopt, target):
    assert find(releases, CHART, CHART, "gpu", adopt) == target


@pytest.mark.parametrize(
    ("releases", "adopt", "words"),
    [
        (
            [GENERATED],
            False,
            ["under another name", GENERATED.name, "kube-system", "set adopt to true", "helm uninstall"],
        ),
        (
            [OWN, GENERATED],
            True,
            [
                "2 releases",
                "keep nvidia-device-plugin,",
                "helm uninstall nvidia-device-plugin-1619479152 -n kube-system",
            ],
        ),
        ([GENERATED, release("another")], True, ["2 releases", "helm uninstall another -n gpu"]),
        ([release(chart="nginx")], True, ["name is taken", "nginx 0.17.4", "release_name"]),
        (
            [release(status="pending-install")],
            True,
            ["interrupted", "helm uninstall nvidia-device-plugin -n gpu"],
        ),
        (
            [release(status="pending-upgrade")],
            True,
            ["interrupted", "helm rollback nvidia-device-plugin -n gpu"],
        ),
        ([release(status="pending-rollback")], True, ["helm rollback"]),
        ([release(status="uninstalling")], True, ["helm uninstall"]),
    ],
)
def test_no_second_release(releases, adopt, words):
    with pytest.raises(ClusterError) as caught:
        find(releases, CHART, CHART, "gpu", adopt)
    for word in words:
        assert word in str(caught.value)


OPERATOR = release("gpu-operator", chart="gpu-operator", version="v25.3.0")


def test_the_gpu_operator_runs_it_already():
    with pytest.raises(ClusterError, match="devicePlugin.enabled"):
        check_gpu_operator([OPERATOR], {"gpu-operator": {}}, "devicePlugin")
    with pytest.raises(ClusterError):
        check_gpu_operator([OPERATOR], {"gpu-operator": {"gfd": {"enabled": False}}}, "devicePlugin")
    check_gpu_operator([OPERATOR], {"gpu-operator": {"devicePlugin": {"enabled": False}}}, "devicePlugin")
    check_gpu_operator([OWN], {}, "devicePlugin")


def difference(current, wanted, version="0.17.4", status="deployed"):
    return compare(Target(CHART, "gpu", release(status=status)), current, CHART, version, wanted)


def test_nothing_to_do():
    values = {"migStrategy": "single", "nfd": {"enabled": False}, "tolerations": ({"operator": "Exists"},)}
    found = difference({**values, "tolerations": [{"operator": "Exists"}]}, values)
    assert found.actions == ()
    assert found.before == found.after


@pytest.mark.parametrize(
    ("current", "wanted", "version", "status", "reason"),
    [
        ({"migStrategy": "single"}, {"migStrategy": "mixed"}, "0.17.4", "deployed", "values migStrategy"),
        ({}, {"nfd": {"enabled": False}}, "0.17.4", "deployed", "values nfd"),
        (
            {"nfd": {"enabled": True, "x": 1}},
            {"nfd": {"enabled": False, "x": 1}},
            "0.17.4",
            "deployed",
            "values nfd.enabled",
        ),
        ({"x": {"a": {}}}, {"x": {"a": {"b": 1}}}, "0.17.4", "deployed", "values x.a"),
        ({"affinity": None}, {}, "0.17.4", "deployed", "values affinity"),
        ({"x": 1}, {"x": True}, "0.17.4", "deployed", "values x"),
        ({}, {}, "0.20.0", "deployed", "chart 0.17.4 -> 0.20.0"),
        ({}, {}, "0.17.4", "failed", "the last attempt is failed"),
        ({}, {"a": 1}, "0.20.0", "deployed", "chart 0.17.4 -> 0.20.0; values a"),
    ],
)
def test_upgrade(current, wanted, version, status, reason):
    found = difference(current, wanted, version, status)
    assert found.actions == (f"upgrade release nvidia-device-plugin in namespace gpu: {reason}",)
    assert repr(found.before) != repr(found.after)


def test_numbers_are_compared_as_helm_stores_them():
    assert difference({"x": 1, "y": [2]}, {"x": 1.0, "y": [2.0]}).actions == ()
    assert difference({"x": [1], "y": [{"z": 0}]}, {"x": [True], "y": [{"z": False}]}).actions != ()


def test_install_and_removal():
    found = compare(Target(CHART, "gpu"), {}, CHART, "0.17.4", {"a": 1})
    assert found.actions == (
        "install release nvidia-device-plugin in namespace gpu: chart nvidia-device-plugin 0.17.4",
    )
    assert (found.before, found.after) == ({}, {"chart": "nvidia-device-plugin 0.17.4", "values": {"a": 1}})
    assert removal(Target(CHART, "gpu")).actions == ()
    assert removal(Target(CHART, "gpu", OWN)).actions == (
        "uninstall release nvidia-device-plugin in namespace gpu: chart nvidia-device-plugin 0.17.4",
    )


def test_what_only_an_adopted_release_has():
    current = {
        "migStrategy": "none",
        "namespace": "kube-system",
        "config": {"map": {"a": "b"}, "fallbackStrategies": ["empty"]},
        "runtimeClassName": "nvidia",
        "nfd": {"enabled": True, "master": {"x": 1}},
    }
    assert unlisted(current, {"nfd": {"enabled": False}}) == {
        "config": {"fallbackStrategies": ["empty"]},
        "runtimeClassName": "nvidia",
        "nfd": {"master": {"x": 1}},
    }
