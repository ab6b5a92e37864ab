# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which nodes a pod may run on: selector, required node affinity, taints, as the scheduler judges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, List, Mapping, Optional, Tuple

from ansible_collections.nvidia.mig.plugins.module_utils.errors import InputError
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.fields import sequence

_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_NAME_FIELD = "metadata.name"
_UNSCHEDULABLE = ("node.kubernetes.io/unschedulable", "", "NoSchedule")

Taint = Tuple[str, str, str]  # key, value, effect
Toleration = Tuple[str, str, str, str]  # key, operator, value, effect; empty: any


@dataclass(frozen=True)
class Requirement:
    """One expression of a node affinity; ``field`` if it speaks of the node's name, not of a label."""

    key: str
    operator: str
    values: Tuple[str, ...]
    field: bool = False

    def holds(self, value: Optional[str]) -> bool:
        """Whether it holds for the label's value; None: the node has no such label."""
        if self.operator in ("Exists", "DoesNotExist"):
            return (value is not None) == (self.operator == "Exists")
        if self.operator == "NotIn":
            return value not in self.values
        if value is None:
            return False
        if self.operator == "In":
            return value in self.values
        try:
            left, right = int(value), int(self.values[0])
        except ValueError:
            return False
        return left > right if self.operator == "Gt" else left < right


@dataclass(frozen=True)
class Where:
    """What a pod demands of its node's labels and taints.

    Args:
        selector: its node selector.
        terms: of its required node affinity: one of them must hold, and of that one every requirement.
            None: it has no such affinity.
    """

    selector: Tuple[Tuple[str, str], ...] = ()
    terms: Optional[Tuple[Tuple[Requirement, ...], ...]] = None
    tolerations: Tuple[Toleration, ...] = ()

    @property
    def keys(self) -> Tuple[str, ...]:
        """The labels that it looks at."""
        found = [key for key, _value in self.selector]
        found += [r.key for term in self.terms or () for r in term if not r.field]
        return tuple(found)

    @property
    def names_nodes(self) -> bool:
        """It looks at the node's name."""
        return any(r.field for term in self.terms or () for r in term)

    def obstacle(
        self, name: str, labels: Mapping[str, str], taints: Tuple[Taint, ...], unschedulable: bool
    ) -> Optional[str]:
        """Why the node is not for the pod, in words; None if it is."""
        for key, value in self.selector:
            if labels.get(key) != value:
                return f"lacks the label {key}={value} of its node selector"
        if self.terms is not None and not any(
            term and all(r.holds(name if r.field else labels.get(r.key)) for r in term) for term in self.terms
        ):
            return "does not match its node affinity"
        if unschedulable and not self._tolerates(_UNSCHEDULABLE):
            return "is cordoned"
        for taint in taints:
            if taint[2] in ("NoSchedule", "NoExecute") and not self._tolerates(taint):
                key, value, effect = taint
                return f"has the taint {key}={value}:{effect}" if value else f"has the taint {key}:{effect}"
        return None

    def _tolerates(self, taint: Taint) -> bool:
        key, value, effect = taint
        return any(
            (not own_effect or own_effect == effect)
            and (own_key == key or (not own_key and operator == "Exists"))
            and (operator == "Exists" or own_value == value)
            for own_key, operator, own_value, own_effect in self.tolerations
        )


def parse_where(selector: Any, affinity: Any, tolerations: Any, path: str) -> Where:
    """Read them as they stand in a pod's specification; None: it has none. Raises InputError."""
    return Where(
        tuple(sorted(_texts(selector, f"{path}.node_selector").items())),
        None if not affinity else _terms(affinity, f"{path}.node_affinity"),
        tuple(
            _toleration(item, f"{path}.tolerations") for item in sequence(tolerations, f"{path}.tolerations")
        ),
    )


def parse_taints(taints: Any, path: str) -> Tuple[Taint, ...]:
    """A node's taints, as they stand in its specification. Raises InputError."""
    found: List[Taint] = []
    for item in sequence(taints, path):
        if not isinstance(item, Mapping) or not item.get("key") or not item.get("effect"):
            raise InputError(f"{item!r} is not a taint", path, "it has a key, perhaps a value, and an effect")
        found.append((str(item["key"]), str(item.get("value") or ""), str(item["effect"])))
    return tuple(sorted(found))


def _terms(affinity: Any, path: str) -> Tuple[Tuple[Requirement, ...], ...]:
    if not isinstance(affinity, Mapping) or "nodeSelectorTerms" not in affinity:
        raise InputError(
            f"{affinity!r} is not a required node affinity", path, "it is a mapping with nodeSelectorTerms"
        )
    found = []
    for term in sequence(affinity["nodeSelectorTerms"], path):
        if not isinstance(term, Mapping):
            raise InputError(f"{term!r} is not a node selector term", path)
        labels = [_requirement(item, False, path) for item in sequence(term.get("matchExpressions"), path)]
        fields = [_requirement(item, True, path) for item in sequence(term.get("matchFields"), path)]
        found.append(tuple(labels + fields))
    return tuple(found)


def _requirement(item: Any, field: bool, path: str) -> Requirement:
    if not isinstance(item, Mapping) or not item.get("key") or item.get("operator") not in _OPERATORS:
        raise InputError(
            f"{item!r} is not a requirement", path, f"it has a key and one of {', '.join(_OPERATORS)}"
        )
    values = tuple(str(value) for value in sequence(item.get("values"), path))
    if item["operator"] in ("Gt", "Lt") and len(values) != 1:
        raise InputError(f"{item['operator']} takes one value, not {len(values)}", path)
    if field and item["key"] != _NAME_FIELD:
        raise InputError(f"{item['key']!r} is not a field of a node", path, f"only {_NAME_FIELD} is")
    return Requirement(str(item["key"]), item["operator"], values, field)


def _toleration(item: Any, path: str) -> Toleration:
    if not isinstance(item, Mapping):
        raise InputError(f"{item!r} is not a toleration", path)
    texts = [str(item.get(key) or "") for key in ("key", "operator", "value", "effect")]
    return texts[0], texts[1] or "Equal", texts[2], texts[3]


def _texts(value: Any, path: str) -> Mapping[str, str]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InputError(f"{value!r} is not a mapping", path)
    return {str(key): str(item) for key, item in value.items()}
