# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``-e mig_drain=false`` is a text, and a text is true: roles read flags and numbers as what they are."""

from __future__ import annotations

from typing import Any, Iterator, List, Set, Tuple

import jinja2
import pytest
import yaml
from ansible_collections.nvidia.mig.tests.unit.plugins.modules.node_support import COLLECTIONS
from jinja2 import nodes

ROLES = COLLECTIONS / "ansible_collections/nvidia/mig/roles"
CONDITIONS = ("when", "until", "changed_when", "failed_when", "that")
TYPES = ("bool", "int", "float")
# What looks at a value's meaning, and would see a text.
JUDGES = (
    nodes.And,
    nodes.Or,
    nodes.Not,
    nodes.CondExpr,
    nodes.Compare,
    nodes.Operand,
    nodes.BinExpr,
    nodes.Filter,
    nodes.Test,
    nodes.List,
)


def typed() -> Set[str]:
    """The options of all roles that are flags or numbers."""
    return {
        name
        for path in ROLES.glob("*/meta/argument_specs.yml")
        for entry in yaml.safe_load(path.read_text(encoding="utf-8"))["argument_specs"].values()
        for name, option in (entry.get("options") or {}).items()
        if option.get("type") in TYPES
    }


def expressions(found: Any, key: str = "") -> Iterator[str]:
    """The templates in a file, conditions among them."""
    if isinstance(found, dict):
        for name, value in found.items():
            yield from expressions(value, str(name))
    elif isinstance(found, list):
        for value in found:
            yield from expressions(value, key)
    elif isinstance(found, str) and key in CONDITIONS and "{{" not in found:
        yield "{{ (" + found + ") and true }}"
    elif isinstance(found, str):
        yield found


def raw(node: nodes.Node, names: Set[str], above: Tuple[nodes.Node, ...] = ()) -> Iterator[str]:
    """The options that are judged as the text that they may be."""
    if isinstance(node, nodes.Name) and node.name in names:
        # Empty or not, a text is passed on to a module, which knows the type.
        passed = [each for each in above if not _is_or_omit(each)]
        closest = passed[-1] if passed else None
        if isinstance(closest, nodes.Filter) and closest.name == "default":
            closest = passed[-2] if len(passed) > 1 else None
        if isinstance(closest, JUDGES) and not (
            isinstance(closest, nodes.Filter) and closest.name in (*TYPES, "string")
        ):
            yield node.name
    for child in node.iter_child_nodes():
        yield from raw(child, names, (*above, node))


def _is_or_omit(node: nodes.Node) -> bool:
    return isinstance(node, nodes.Or) and isinstance(node.right, nodes.Name) and node.right.name == "omit"


def told(text: str) -> List[str]:
    return sorted(
        {name for each in expressions(yaml.safe_load(text)) for name in raw(_parsed(each), {"x", "y"})}
    )


def _parsed(text: str) -> nodes.Template:
    return jinja2.Environment(autoescape=True).parse(text)


@pytest.mark.parametrize(
    "text, names",
    [
        ("when: x", ["x"]),
        ("when: x | bool", []),
        ("when: x | default(false) | bool and y", ["y"]),
        ("a: '{{ x }} seconds, see {{ y }}'", []),
        ("a: '{{ x or omit }}'", []),
        ("a: '{{ 1 if x else y }}'", ["x", "y"]),
        ("a: '{{ [x // 5, 1] | max }}'", ["x"]),
        ("a: '{{ [x | int // 5, 1] | max }}'", []),
        ("a: '{{ z ~ x ~ z }}'", []),
        ("block: [{until: not x}]", ["x"]),
        ("that: 1 <= x < 3", ["x"]),
    ],
)
def test_what_is_noticed(text: str, names: List[str]) -> None:
    assert told(text) == names


FILES = [path for part in ("tasks", "vars") for path in sorted(ROLES.glob(f"*/{part}/*.yml"))]
TEMPLATES = sorted(ROLES.glob("*/templates/*.j2"))


def name_of(path: Any) -> str:
    return f"{path.parent.parent.name}/{path.parent.name}/{path.name}"


@pytest.mark.parametrize("path", [*FILES, *TEMPLATES], ids=name_of)
def test_a_role_reads_flags_and_numbers_as_such(path: Any) -> None:
    text = path.read_text(encoding="utf-8")
    found = text if path in TEMPLATES else yaml.safe_load(text)
    names = typed()
    assert not {name for each in expressions(found) for name in raw(_parsed(each), names)}
