# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rights in the Kubernetes API: what an account lacks, in one sentence. Pure."""

from __future__ import annotations

import re
from typing import NamedTuple, Optional

from ansible_collections.nvidia.mig.plugins.module_utils.errors import InputError

REMEDY = "playbooks/access.yml (role nvidia.mig.cluster_access) grants what this toolkit uses"

_DENIED = re.compile(
    r'User "(?P<user>[^"]+)" cannot (?P<verb>\w+) resource "(?P<resource>[^"]+)"'
    r' in API group "(?P<group>[^"]*)"(?: in the namespace "(?P<namespace>[^"]+)")?'
)
_GRANTS = "attempting to grant RBAC permissions not currently held"


class Right(NamedTuple):
    """One verb on one kind of object.

    Args:
        resource: as in RBAC, with its subresource: ``pods/eviction``.
        group: its API group; empty for the core's.
        namespace: empty for cluster-wide.
        name: the one object that is meant; empty for any.
    """

    verb: str
    resource: str
    group: str = ""
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        what = f"{self.resource}.{self.group}" if self.group else self.resource
        where = f"in namespace {self.namespace}" if self.namespace else "in the whole cluster"
        return f"{self.verb} {what}{' ' + self.name if self.name else ''} {where}"


def parse_right(text: str, path: str) -> Right:
    """A right as an operator writes it: ``VERB RESOURCE[.GROUP][/SUBRESOURCE] [NAMESPACE]``.

    Raises:
        InputError: it is not of that form.
    """
    words = text.split()
    if len(words) not in (2, 3):
        raise InputError(
            f"{text!r} is no right",
            path=path,
            hint="VERB RESOURCE[.GROUP][/SUBRESOURCE] [NAMESPACE], such as 'create pods/eviction'",
        )
    whole, _slash, subresource = words[1].partition("/")
    resource, _dot, group = whole.partition(".")
    return Right(
        words[0],
        f"{resource}/{subresource}" if subresource else resource,
        group,
        words[2] if len(words) == 3 else "",
    )


def denied(text: str) -> Optional[str]:
    """What to do about an answer of the API or of helm, if it refused a right; None if it did not."""
    plain = text.replace('\\"', '"')
    match = _DENIED.search(plain)
    if match:
        right = Right(match["verb"], match["resource"], match["group"], match["namespace"] or "")
        return f"{match['user']} lacks the right to {right}; {REMEDY}"
    if _GRANTS in plain:
        return f"the chart has a role that grants more than the account holds; {REMEDY}"
    return None
