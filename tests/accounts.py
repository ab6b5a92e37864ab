"""Accounts of ``playbooks/access.yml``: what they may do, and what of it they did."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lab_runs import Lab, Run
from miglab import audit

RBAC = "rbac.authorization.k8s.io"
# Granted, and not to be found in an audit log.
_ONLY_TO_HAND_ON = {("watch", "", "nodes")}  # nobody may make a role that can do more
# Helm 4 applies what Helm 3 creates, which takes the right to create as well.
_CREATED = {
    ("create", "", "configmaps"),
    ("create", "", "serviceaccounts"),
    ("create", "apps", "daemonsets"),
    ("create", RBAC, "clusterroles"),
    ("create", RBAC, "clusterrolebindings"),
}
_APPLIED = {("patch", group, resource) for _, group, resource in _CREATED}

Rules = list[tuple[str, dict[str, Any]]]
Right = tuple[str, str, str]


def user(name: str) -> str:
    """How the API server knows the account."""
    return f"system:serviceaccount:{name}:{name}"


def access(lab: Lab, name: str, *argv: str, **more: Any) -> Run:
    """``ansible-playbook playbooks/access.yml``"""
    names = {"cluster_access_name": name, "cluster_access_namespace": name, **more}
    return lab.play("playbooks/access.yml", "-e", json.dumps(names), *argv)


@contextmanager
def account(lab: Lab, name: str, **more: Any) -> Iterator[dict[str, str]]:
    """The environment in which plays run under such an account, while it is there."""
    kubeconfig: Path = lab.directory / name
    made = access(lab, name, cluster_access_kubeconfig=str(kubeconfig), **more)
    assert made.rc == 0, made.messages()
    try:
        yield {"MIG_LAB_KUBECONFIG": str(kubeconfig)}
    finally:
        gone = access(lab, name, cluster_access_state="absent", **more)
        assert gone.rc == 0, gone.messages()


def granted(lab: Lab, name: str) -> Rules:
    """The account's rules, each with the namespace that it is for."""
    everywhere = lab.kubectl("get", "clusterrole", name)["rules"]
    roles = [item for item in lab.kubectl("get", "roles", "-A")["items"] if item["metadata"]["name"] == name]
    return [("", rule) for rule in everywhere] + [
        (role["metadata"]["namespace"], rule) for role in roles for rule in role["rules"]
    ]


def unused(lab: Lab, name: str, rules: Rules) -> set[Right]:
    """Verb, group and resource of each right that the account has never used. A 404 is an answer, too."""
    used = {
        (asked.verb, asked.group, asked.resource, asked.namespace, asked.name)
        for asked in audit.requests(lab.directory / "cluster/audit.log")
        if asked.user == user(name) and asked.code not in (401, 403)
    }
    assert used
    idle = set()
    for namespace, rule in rules:
        names = rule.get("resourceNames")
        for verb, group, resource in (
            (verb, group, resource)
            for verb in rule["verbs"]
            for group in rule["apiGroups"]
            for resource in rule["resources"]
        ):
            if not any(
                (verb, group, resource) == request[:3]
                and (not namespace or request[3] == namespace)
                and (names is None or request[4] in names)
                for request in used
            ):
                idle.add((verb, group, resource))
    for _, group, resource in _CREATED:
        either = {("create", group, resource), ("patch", group, resource)}
        if not either <= idle:
            idle -= either
    return idle - _ONLY_TO_HAND_ON
