# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The geometry core stays pure and small: it is sent to every node with every module."""

from __future__ import annotations

import ast
import io
import sys
import zipfile
from pathlib import Path

import pytest
from ansible_collections.nvidia.mig.plugins.module_utils.geometry import transition

ROOM = Path(transition.__file__).parent
FILES = sorted(ROOM.glob("*.py"))
UTILS = "ansible_collections.nvidia.mig.plugins.module_utils."
# What would make it depend on the machine or the moment.
IMPURE = {
    "datetime",
    "io",
    "os",
    "pathlib",
    "random",
    "shutil",
    "socket",
    "subprocess",
    "tempfile",
    "time",
    "urllib",
}


def imports(file: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            found.add(str(node.module))
    return found


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_imports_only_the_standard_library_and_errors(file: Path) -> None:
    for name in imports(file):
        if name.startswith(UTILS):
            assert name == UTILS + "errors" or name.startswith(UTILS + "geometry.")
        else:
            top = name.partition(".")[0]
            assert top in sys.stdlib_module_names
            assert top not in IMPURE


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_python_3_9_reads_it(file: Path) -> None:
    ast.parse(file.read_text(), feature_version=(3, 9))


def test_no_import_circles() -> None:
    rest = {
        f.stem: {n.rpartition(".")[2] for n in imports(f) if n.startswith(UTILS + "geometry.")} for f in FILES
    }
    while rest:
        leaves = {name for name, needs in rest.items() if not needs & rest.keys()}
        assert leaves, f"in a circle: {sorted(rest)}"
        rest = {name: needs for name, needs in rest.items() if name not in leaves}


def test_share_of_a_modules_payload() -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in FILES:
            archive.writestr(file.name, file.read_text())
    assert len(buffer.getvalue()) < 40_000
