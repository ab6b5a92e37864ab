# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The program that restores a layout at boot, as one file: a Python zip application.

It is made of the collection's own module_utils, of exactly those that it imports. The same sources make the
same bytes, whatever Python and zlib the control node has.
"""

from __future__ import annotations

import ast
import io
import zipfile
from pathlib import Path

PLUGINS = Path(__file__).resolve().parents[1]
PACKAGE = "ansible_collections.nvidia.mig.plugins"
START = f"{PACKAGE}.module_utils.boot.program"
MAIN = f"from {START} import main\n\nraise SystemExit(main())\n"


def boot_program(python: str) -> bytes:
    """The file's content.

    Args:
        python: path of the interpreter that it names in its first line.
    """
    files = {"__main__.py": MAIN.encode()}
    for name in sorted(closure(START)):
        parts = name.split(".")
        # The packages of module_utils are empty, and the namespaces above them have no file.
        for length in range(1, len(parts)):
            files["/".join((*parts[:length], "__init__.py"))] = b""
        files["/".join(parts) + ".py"] = _path(name).read_bytes()
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_STORED) as target:
        for file, content in sorted(files.items()):
            entry = zipfile.ZipInfo(file, (1980, 1, 1, 0, 0, 0))
            entry.create_system = 3  # as on Unix, wherever this runs
            entry.external_attr = 0o644 << 16
            target.writestr(entry, content)
    return f"#!{python}\n".encode() + archive.getvalue()


def closure(start: str) -> set[str]:
    """The modules of this collection that ``start`` needs, itself among them."""
    found: set[str] = set()
    todo = [start]
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo.extend(_imports(name))
    return found


def _imports(name: str) -> set[str]:
    """What a module imports of this collection; all imports there are absolute."""
    found = set()
    for node in ast.walk(ast.parse(_path(name).read_bytes())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"{PACKAGE}."):
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found.add(inner if _exists(inner) else str(node.module))
    return found


def _path(name: str) -> Path:
    return PLUGINS.joinpath(*name.removeprefix(f"{PACKAGE}.").split(".")).with_suffix(".py")


def _exists(name: str) -> bool:
    return _path(name).is_file()
