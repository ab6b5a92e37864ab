# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When a kubeconfig has to be written anew, and when it may not be."""

from __future__ import annotations

import base64
import json

import pytest
from ansible_collections.nvidia.mig.plugins.module_utils.errors import ClusterError
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.kubeconfig import (
    Account,
    check_owner,
    expires,
    kubeconfig,
)

ACCOUNT = Account("mig", "runner", "uid-1")
CLUSTER = {"server": "https://api:6443", "certificate-authority-data": "Y2E="}


def token(uid="uid-1", end=1000):
    claims = {"exp": end, "kubernetes.io": {"serviceaccount": {"name": "runner", "uid": uid}}}
    payload = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"header.{payload}.signature"


def test_a_file_of_the_account_is_good_until_its_token_ends():
    document = kubeconfig(ACCOUNT, CLUSTER, token(end=1234))
    check_owner(document, ACCOUNT, "file")
    assert expires(document, ACCOUNT, CLUSTER) == 1234


@pytest.mark.parametrize(
    "document",
    [
        kubeconfig(ACCOUNT, CLUSTER, token(uid="uid-of-one-before")),
        kubeconfig(ACCOUNT, {**CLUSTER, "server": "https://elsewhere"}, token()),
        kubeconfig(ACCOUNT, CLUSTER, "no-token"),
        kubeconfig(ACCOUNT, CLUSTER, "a.b.c"),
        None,
        {},
    ],
)
def test_a_file_that_does_not_fit_any_more(document):
    assert expires(document, ACCOUNT, CLUSTER) is None


@pytest.mark.parametrize(
    "document",
    [
        None,
        "text",
        {"users": []},
        {"users": [{"name": "admin", "user": {"token": "t"}}]},
        {"users": [{"name": ACCOUNT.user}, {"name": "admin"}]},
        kubeconfig(Account("mig", "other", "uid-1"), CLUSTER, token()),
    ],
)
def test_a_file_of_somebody_else_is_left_alone(document):
    with pytest.raises(ClusterError, match=r"/home/me/config is there and is no kubeconfig of .*:mig:runner"):
        check_owner(document, ACCOUNT, "/home/me/config")
