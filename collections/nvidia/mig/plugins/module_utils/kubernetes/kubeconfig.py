# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A kubeconfig with the token of one service account: what is in it, and whether it is still good. Pure."""

from __future__ import annotations

import base64
import json
from typing import Any, Dict, Mapping, NamedTuple, Optional

from ansible_collections.nvidia.mig.plugins.module_utils.errors import ClusterError


class Account(NamedTuple):
    """A service account. Made anew under its name, it has another ``uid``, and its old tokens are void."""

    namespace: str
    name: str
    uid: str

    @property
    def user(self) -> str:
        """Its name in the API."""
        return f"system:serviceaccount:{self.namespace}:{self.name}"


def kubeconfig(account: Account, cluster: Mapping[str, Any], token: str) -> Dict[str, Any]:
    """The document. ``cluster`` is its entry for the API server."""
    entry = account.user.replace(":", "-")
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": entry, "cluster": dict(cluster)}],
        "users": [{"name": account.user, "user": {"token": token}}],
        "contexts": [{"name": entry, "context": {"cluster": entry, "user": account.user}}],
        "current-context": entry,
    }


def check_owner(document: Any, account: Account, path: str) -> None:
    """Raises ClusterError if a file is not a kubeconfig of this account, and so not to be overwritten."""
    users = document.get("users") if isinstance(document, Mapping) else None
    names = [user.get("name") for user in users or [] if isinstance(user, Mapping)]
    if names != [account.user]:
        raise ClusterError(
            f"{path} is there and is no kubeconfig of {account.user}",
            path="path",
            hint="nothing was written; name another file, or remove this one",
        )


def expires(document: Any, account: Account, cluster: Mapping[str, Any]) -> Optional[float]:
    """When the token in a file ends, in seconds since the epoch; None if the file does not fit any more."""
    try:
        token = document["users"][0]["user"]["token"]
        same = document == kubeconfig(account, cluster, token)
        claims = _claims(token)
        holder = claims["kubernetes.io"]["serviceaccount"]["uid"]
        return float(claims["exp"]) if same and holder == account.uid else None
    except (LookupError, TypeError, ValueError, AttributeError):
        return None


def _claims(token: str) -> Any:
    payload = token.split(".")[1]
    return json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
