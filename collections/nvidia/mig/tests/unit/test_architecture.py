# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What must never be: who may import whom, and who may know which name."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import pytest

COLLECTION = Path(__file__).resolve().parents[2]
PLUGINS = COLLECTION / "plugins"
ROOT = "ansible_collections.nvidia.mig.plugins"

# Of the standard library, what looks at the world outside, at a clock, or at chance.
IMPURE = {
    "asyncio",
    "ctypes",
    "datetime",
    "glob",
    "http",
    "io",
    "logging",
    "multiprocessing",
    "os",
    "pathlib",
}
IMPURE |= {
    "random",
    "secrets",
    "select",
    "shutil",
    "signal",
    "socket",
    "ssl",
    "subprocess",
    "sys",
    "tempfile",
}
IMPURE |= {"threading", "time", "urllib", "uuid"}
PURE_KUBERNETES = (
    "capacity",
    "charts",
    "choices",
    "cooldown",
    "demand_events",
    "demand_options",
    "fields",
    "hold",
    "labels",
    "newcomers",
    "node_features",
    "node_gpu",
    "pending",
    "pod_requests",
    "quantities",
    "remedies",
    "resources",
    "selection",
    "settings",
    "shared_nodes",
    "sharing",
    "strategy",
    "verdicts",
    "versions",
    "workloads",
)
BOOT = f"{ROOT}.module_utils.boot.program"
SOLVER = f"{ROOT}.module_utils.demand.solver"
NODE_MODULES = ("mig_info", "mig_mode", "gpu_reset", "mig_layout")
DOCUMENTATION = {"DOCUMENTATION", "EXAMPLES", "RETURN"}


def sources(directory):
    """Module name -> syntax tree of every Python file below ``directory``."""
    trees = {}
    for path in sorted(directory.rglob("*.py")):
        parts = path.relative_to(PLUGINS).with_suffix("").parts
        name = ".".join((ROOT, *parts))
        trees[name.removesuffix(".__init__")] = (path, ast.parse(path.read_text(encoding="utf-8")))
    return trees


def imports(name, tree, is_package=False):
    """Absolute names of what a module imports, wherever in the module it does."""
    found = set()
    package = name.split(".") if is_package else name.split(".")[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*base, *([node.module] if node.module else [])])
            found.update(f"{base}.{alias.name}" for alias in node.names)
    return found


def module_of(name, known):
    """The module that an imported name lies in: itself, or what it is taken from. None if it is not ours."""
    while name:
        if name in known:
            return name
        name = name.rpartition(".")[0]
    return None


def graph(trees):
    """Module -> the modules of ``trees`` that it imports."""
    edges = {}
    for name, (path, tree) in trees.items():
        targets = {module_of(target, trees) for target in imports(name, tree, path.name == "__init__.py")}
        edges[name] = targets - {None, name}
    return edges


def circle(edges):
    """Some circle of ``edges`` as a list of its members, or None."""
    done = set()

    def walk(node, trail):
        if node in trail:
            return trail[trail.index(node) :]
        if node in done:
            return None
        for target in sorted(edges[node]):
            found = walk(target, [*trail, node])
            if found:
                return found
        done.add(node)
        return None

    return next(filter(None, (walk(node, []) for node in sorted(edges))), None)


def reachable(start, edges):
    """Every module that ``start`` draws in, itself included."""
    found = set()
    todo = [start]
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo.extend(edges[name])
    return found


def texts(tree):
    """Every string of a module that is data: neither a docstring nor documentation for Ansible."""
    prose = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            prose.add(id(node.value))
        elif isinstance(node, ast.Assign) and DOCUMENTATION & {
            getattr(name, "id", "") for name in node.targets
        }:
            prose.update(id(part) for part in ast.walk(node))
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose
    ]


ALL = sources(PLUGINS)
EDGES = graph(ALL)
UTILS = f"{ROOT}.module_utils"
PURE = sorted(
    name
    for name in ALL
    if name.startswith((f"{UTILS}.geometry", f"{UTILS}.demand"))
    or name in {f"{UTILS}.kubernetes.{stem}" for stem in PURE_KUBERNETES}
)


def outside(name):
    """Top-level names that a module imports from outside the collection."""
    path, tree = ALL[name]
    names = imports(name, tree, path.name == "__init__.py")
    return {target.split(".")[0] for target in names if module_of(target, ALL) is None} - {"__future__"}


def test_nothing_imports_in_a_circle():
    assert circle(EDGES) is None


def test_module_utils_import_no_plugins():
    for name in ALL:
        if name.startswith(UTILS):
            assert not [target for target in EDGES[name] if not target.startswith(UTILS)], name


def test_the_pure_rooms_exist():
    assert {name.rpartition(".")[2] for name in PURE} >= {
        "profile",
        "placement",
        "transition",
        *PURE_KUBERNETES,
    }


@pytest.mark.parametrize("name", PURE)
def test_a_pure_room_sees_nothing_but_the_standard_library(name):
    solver = {"highspy", "numpy"} if name == SOLVER else set()
    assert outside(name) - solver <= set(sys.stdlib_module_names) - IMPURE
    for target in reachable(name, EDGES):
        rooms = {f"{UTILS}.{room}" for room in ("errors", "kubernetes", "demand")}
        assert target in PURE or target in rooms, target
    called = {getattr(node.func, "id", "") for node in ast.walk(ALL[name][1]) if isinstance(node, ast.Call)}
    assert not called & {"open", "print", "input", "exec", "eval", "__import__"}


def test_geometry_does_not_know_kubernetes():
    for name in ALL:
        if name.startswith(f"{UTILS}.geometry"):
            assert not [target for target in reachable(name, EDGES) if ".kubernetes" in target], name


def test_one_room_imports_pynvml():
    importers = {name for name in ALL if "pynvml" in outside(name)}
    assert importers
    assert not [name for name in importers if not name.startswith(f"{UTILS}.nvml")]


@pytest.mark.parametrize("module", NODE_MODULES)
def test_a_module_on_the_node_needs_nothing_but_pynvml(module):
    """A GPU node has Python and nvidia-ml-py, not the packages of the control node."""
    allowed = set(sys.stdlib_module_names) | {"ansible", "pynvml"}
    for name in reachable(f"{ROOT}.modules.{module}", EDGES):
        assert outside(name) <= allowed, name


def test_the_boot_time_program_does_without_ansible():
    for name in reachable(BOOT, EDGES):
        assert outside(name) <= set(sys.stdlib_module_names) | {"pynvml"}, name


def test_the_probe_stands_alone():
    """It is sent as it is. Ansible's library is most of what a module costs, and the probe is to be cheap."""
    probe = f"{UTILS}.nvml.probe"
    assert outside(probe) <= set(sys.stdlib_module_names) | {"pynvml"}
    assert not EDGES[probe]


def test_one_room_spells_kubernetes_names():
    """Labels, resources and annotations of NVIDIA's are known to module_utils/kubernetes alone."""
    speakers = {
        name for name, (path, tree) in ALL.items() if any("nvidia.com/" in text for text in texts(tree))
    }
    assert speakers
    assert not [name for name in speakers if not name.startswith(f"{UTILS}.kubernetes")]


def test_no_role_spells_kubernetes_names():
    files = [path for path in (COLLECTION / "roles").rglob("*") if path.suffix in (".yml", ".j2")]
    assert files
    # A name, not a part of a web address.
    name = re.compile(r"(?<![\w.])nvidia\.com/")
    assert name.search('label: "nvidia.com/gpu"')
    assert not [str(path) for path in files if name.search(path.read_text(encoding="utf-8"))]


def test_the_checks_see_what_they_look_for():
    tree = ast.parse(
        '"""nvidia.com/in-a-docstring"""\n'
        'DOCUMENTATION = "nvidia.com/documented"\n'
        "from . import sibling\n"
        "from ..errors import InputError\n"
        "def late():\n"
        "    import pynvml\n"
        '    return f"nvidia.com/{pynvml}"\n'
    )
    assert texts(tree) == ["nvidia.com/"]
    assert imports("a.b.c", tree) == {"a.b.sibling", "a.errors.InputError", "pynvml"}
    assert imports("a.b", tree, is_package=True) == {"a.b.sibling", "a.errors.InputError", "pynvml"}
    assert module_of("a.errors.InputError", {"a.errors"}) == "a.errors"
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c"]
    assert circle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) is None
