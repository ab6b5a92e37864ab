"""The toolkit under an account that may do in the cluster what it does there, and no more."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import accounts
import pytest
import yaml
from accounts import RBAC, Rules
from lab_runs import Lab, Run, need_cluster

NODE = "dgx01"
NAME = "tested"  # the suite itself may run under an account of the usual name
USER = accounts.user(NAME)
RELEASES = "nvidia-device-plugin"
FORBIDDEN = [
    ("get", "", "secrets", "kube-system", ""),
    ("list", "", "secrets", "", ""),
    ("delete", "", "nodes", "", NODE),
    ("create", "", "pods", "default", ""),
    ("delete", "", "pods", "kube-system", ""),
    ("create", "apps", "daemonsets", "kube-system", ""),
    ("escalate", RBAC, "clusterroles", "", ""),
    ("bind", RBAC, "clusterroles", "", "cluster-admin"),
    ("delete", RBAC, "clusterroles", "", "cluster-admin"),
    ("create", "", "serviceaccounts/token", "kube-system", ""),
    ("impersonate", "", "users", "", ""),
]


@dataclass(frozen=True)
class Account:
    """The account's kubeconfig, what it was granted, and every run that has to do with it."""

    kubeconfig: Path
    rules: Rules
    runs: dict[str, Run]

    @property
    def token(self) -> str:
        """What must never show."""
        return str(yaml.safe_load(self.kubeconfig.read_text())["users"][0]["user"]["token"])


def access(lab: Lab, *argv: str, **more: Any) -> Run:
    """``ansible-playbook playbooks/access.yml``"""
    return accounts.access(lab, NAME, *argv, **more)


def plugin_pod(lab: Lab) -> None:
    """A pod of the device plugin on the node: the lab's DaemonSets make none."""
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "plugin",
            "namespace": RELEASES,
            "labels": {"app.kubernetes.io/name": "nvidia-device-plugin"},
        },
        "spec": {"nodeName": NODE, "containers": [{"name": "plugin", "image": "plugin"}]},
    }
    lab.kubectl("apply", "-f", "-", stdin=json.dumps(pod))


@pytest.fixture(scope="module")
def account(lab: Lab) -> Iterator[Account]:
    """From nothing to a partitioned node, a switch with a drain, and back, by the account."""
    need_cluster(lab)
    kubeconfig = lab.directory / "tested"
    file = {"cluster_access_kubeconfig": str(kubeconfig)}
    own = {"MIG_LAB_KUBECONFIG": str(kubeconfig)}
    runs = {}
    runs["predicted"] = access(lab, "--check", **file)
    runs["narrow"] = access(
        lab, cluster_access_drain=False, cluster_access_pod_namespaces=["default"], **file
    )
    switch = ("site.yml", "-l", NODE, "-e", "dgx_strategy=single", "-e", "mig_drain=true")
    runs["refused"] = lab.play(*switch, **own)
    runs["made"] = access(lab, "-vvv", **file)
    runs["again"] = access(lab, **file)
    rules = accounts.granted(lab, NAME)
    runs["site"] = lab.play("site.yml", "-l", NODE, "-vvv", **own)
    instance = lab.nodes()[NODE]["gpus"][7]["instances"]
    try:
        assert instance, runs["site"].messages()
        where = ("--gpu", "7", "--instance", str(instance[0]["id"]))
        lab.command("workload", "add", NODE, *where, "--pod", "team-a/train", "--managed")
        plugin_pod(lab)
        runs["switch"] = lab.play(*switch, "-vvv", **own)
        runs["teardown"] = lab.play("playbooks/teardown.yml", **own)
        yield Account(kubeconfig, rules, runs)
    finally:
        lab.kubectl("delete", "jobs,pods", "--all", "-n", "team-a", json=False)
        lab.command("workload", "remove", NODE)
        gone = access(lab, cluster_access_state="absent")
    assert gone.rc == 0, gone.messages()
    assert USER not in json.dumps(lab.kubectl("get", "clusterrolebindings,rolebindings", "-A")["items"])


def test_the_whole_job_needs_no_more(account: Account) -> None:
    for name in ("made", "site", "switch", "teardown"):
        assert account.runs[name].rc == 0, f"{name}: {account.runs[name].messages()}"
    assert account.runs["switch"].results("kubernetes.core.k8s_drain", NODE)


def test_it_may_do_no_more(lab: Lab, account: Account) -> None:
    """Each right was used by these runs."""
    assert accounts.unused(lab, NAME, account.rules) == set()


@pytest.mark.parametrize("right", FORBIDDEN, ids=" ".join)
def test_what_it_may_not_do(lab: Lab, account: Account, right: tuple[str, ...]) -> None:
    verb, group, resource, namespace, name = right
    resource, _, subresource = resource.partition("/")
    keys = ("verb", "group", "resource", "subresource", "namespace", "name")
    asked = dict(zip(keys, (verb, group, resource, subresource, namespace, name), strict=True))
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{NAME}", "system:authenticated"]
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": USER, "groups": groups, "resourceAttributes": asked},
    }
    assert not lab.kubectl("create", "-f", "-", stdin=json.dumps(review))["status"]["allowed"]


def test_check_mode_predicts_the_account(account: Account) -> None:
    assert account.runs["predicted"].rc == 0, account.runs["predicted"].messages()
    assert account.runs["predicted"].changed()[NODE] == account.runs["narrow"].changed()[NODE] > 0
    assert not any(account.runs["again"].changed().values()), account.runs["again"].changed()


def test_a_right_that_is_not_wanted_any_more_goes(account: Account) -> None:
    assert {namespace for namespace, _ in account.rules} == {"", RELEASES}


def test_a_missing_right_stops_the_run_before_any_change(account: Account) -> None:
    refused = account.runs["refused"]
    assert refused.rc != 0
    assert not any(refused.changed().values()), refused.changed()
    for words in ("create pods/eviction in the whole cluster", "playbooks/access.yml"):
        assert words in refused.messages()


def test_the_token_is_in_the_file_alone(account: Account) -> None:
    assert stat.S_IMODE(account.kubeconfig.stat().st_mode) == 0o600
    signature = account.token.rpartition(".")[2]
    for run in account.runs.values():
        assert signature not in run.text
        assert "certificate-authority-data" not in run.text


def test_a_file_of_somebody_else_is_not_overwritten(lab: Lab, account: Account, tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text("kind: Config\nusers: [{name: admin, user: {token: precious}}]\n")
    run = access(lab, cluster_access_kubeconfig=str(file))
    assert run.rc != 0
    assert "is no kubeconfig of" in run.messages()
    assert "precious" in file.read_text()
    assert "precious" not in run.text
