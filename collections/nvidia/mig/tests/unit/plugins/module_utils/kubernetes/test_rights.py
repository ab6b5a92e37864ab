# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an account lacks, and which releases it can see."""

from __future__ import annotations

import pytest
from ansible_collections.nvidia.mig.plugins.module_utils.errors import ClusterError, InputError
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.release import Release
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.rights import Right, denied, parse_right
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.sight import releases_in_sight

PLUGIN, OPERATOR = "nvidia-device-plugin", "gpu-operator"


def refusal(namespace):
    """As the API server and helm word it."""
    return (
        'secrets is forbidden: User "system:serviceaccount:mig:mig" cannot list resource "secrets" '
        f'in API group "" in the namespace "{namespace}"'
    )


def test_a_refusal_names_verb_resource_place_and_remedy():
    told = denied(f"Error: list: failed to list: {refusal('gpus')}")
    assert "system:serviceaccount:mig:mig lacks the right to list secrets in namespace gpus" in told
    assert "playbooks/access.yml" in told


def test_a_refusal_within_json_is_understood():
    text = '{"message":"nodes \\"n\\" is forbidden: User \\"u\\" cannot patch resource \\"nodes\\" in API group \\"\\" at the cluster scope"}'  # noqa: E501
    assert "u lacks the right to patch nodes in the whole cluster" in denied(text)


def test_a_chart_that_grants_more_than_the_account_has():
    text = (
        'clusterroles "x" is forbidden: user "u" is attempting to grant RBAC permissions not currently held:'
    )
    assert "grants more than the account holds" in denied(text)


@pytest.mark.parametrize("text", ["", "connection refused", 'secrets "x" not found'])
def test_what_is_no_refusal(text):
    assert denied(text) is None


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("patch nodes", Right("patch", "nodes")),
        ("create pods/eviction", Right("create", "pods/eviction")),
        ("patch daemonsets.apps gpus", Right("patch", "daemonsets", "apps", "gpus")),
        ("update nodes.metrics.k8s.io/status", Right("update", "nodes/status", "metrics.k8s.io")),
    ],
)
def test_rights_as_they_are_written(text, right):
    assert parse_right(text, "rights[0]") == right


@pytest.mark.parametrize("text", ["", "patch", "patch nodes in gpus"])
def test_what_is_no_right(text):
    with pytest.raises(InputError, match=r"rights\[0\]"):
        parse_right(text, "rights[0]")


class Helm:
    """Releases by namespace; the account may not look into the others."""

    def __init__(self, **visible):
        self.visible = visible

    def releases(self, namespace):
        if namespace in self.visible:
            return list(self.visible[namespace])
        raise ClusterError("helm list failed", details={"stderr": refusal(namespace)})


class Api:
    def __init__(self, *objects):
        self.objects = objects

    def items(self, kind, version, selector):
        assert (version, selector) == ("apps/v1", "helm.sh/chart")
        return [item for of, item in self.objects if of == kind]


def workload(kind, chart, namespace):
    notes = {"meta.helm.sh/release-name": "it", "meta.helm.sh/release-namespace": namespace}
    return kind, {"metadata": {"labels": {"helm.sh/chart": chart}, "annotations": notes}}


def release(namespace):
    return Release("it", namespace, 1, "deployed", PLUGIN, "0.17.4")


def seen(helm, *objects):
    return releases_in_sight(helm, Api(*objects), (PLUGIN, OPERATOR), "gpus")


def test_the_own_namespace_is_enough_where_nothing_shows_elsewhere():
    other = workload("DaemonSet", "fluentd-1.0.0", "logs")
    assert seen(Helm(gpus=[release("gpus")]), other) == [release("gpus")]


def test_a_release_elsewhere_is_seen_by_its_daemonset():
    other = workload("DaemonSet", f"{PLUGIN}-0.14.5", "old")
    assert seen(Helm(gpus=[], old=[release("old")]), other) == [release("old")]


@pytest.mark.parametrize(
    "other",
    [workload("DaemonSet", f"{PLUGIN}-0.14.5", "old"), workload("Deployment", f"{OPERATOR}-v25.3.0", "old")],
)
def test_a_release_elsewhere_that_cannot_be_read_is_named(other):
    with pytest.raises(ClusterError, match=r"namespace old.*add old to cluster_access_release_namespaces"):
        seen(Helm(gpus=[]), other)


def test_another_failure_is_not_taken_for_a_lack_of_rights():
    class Broken(Helm):
        def releases(self, namespace):
            raise ClusterError("helm list failed", details={"stderr": "connection refused"})

    with pytest.raises(ClusterError, match="^helm list failed$"):
        seen(Broken())
