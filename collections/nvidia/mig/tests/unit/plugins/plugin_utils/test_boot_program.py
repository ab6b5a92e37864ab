# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The boot-time program as a file: the same sources make the same bytes, and it holds what it needs."""

from __future__ import annotations

import io
import subprocess
import sys
import zipfile
from pathlib import Path

import ansible_collections
from ansible_collections.nvidia.mig.plugins.plugin_utils.boot_program import (
    PLUGINS,
    START,
    boot_program,
    closure,
)

PYTHON = "/opt/gpu/bin/python3"


def test_it_is_an_archive_behind_a_line_that_names_the_python():
    content = boot_program(PYTHON)
    assert content.startswith(f"#!{PYTHON}\n".encode())
    names = zipfile.ZipFile(io.BytesIO(content)).namelist()
    assert {"__main__.py", f"{START.replace('.', '/')}.py"} <= set(names)
    assert len(names) == len(set(names))


def test_the_sources_in_it_are_the_collection_s_own():
    archive = zipfile.ZipFile(io.BytesIO(boot_program(PYTHON)))
    prefix = "ansible_collections/nvidia/mig/plugins/"
    sources = [name for name in archive.namelist() if name.startswith(f"{prefix}module_utils/")]
    assert len(sources) > 20
    for name in sources:
        own = PLUGINS / name.removeprefix(prefix)
        assert archive.read(name) == (own.read_bytes() if own.is_file() else b""), name
    assert not [name for name in archive.namelist() if "/modules/" in name]


def test_every_run_builds_the_same_bytes():
    """Neither the clock, nor the time zone, nor the hash seed shows."""
    code = "import sys; from ansible_collections.nvidia.mig.plugins.plugin_utils.boot_program import *; "
    code += f"sys.stdout.buffer.write(boot_program({PYTHON!r}))"
    for seed in ("1", "2"):
        built = subprocess.run(
            [sys.executable, "-c", code],
            env={
                "PYTHONPATH": str(Path(next(iter(ansible_collections.__path__))).parent),
                "PYTHONHASHSEED": seed,
                "TZ": f"UTC+{seed}",
            },
            capture_output=True,
            check=True,
        ).stdout
        assert built == boot_program(PYTHON)


def test_it_takes_only_what_it_needs():
    needed = closure(START)
    assert any(name.endswith("geometry.transition") for name in needed)
    assert not [name for name in needed if name.endswith(("kubernetes.helm", "kubernetes.api"))]
