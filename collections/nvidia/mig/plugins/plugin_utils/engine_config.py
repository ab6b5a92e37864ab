# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What ``nvidia-ctk runtime configure`` would do to a container engine's configuration, from its dry run."""

from __future__ import annotations

import json
import re
from typing import Any, Dict, Iterator, List, Mapping, Tuple

import tomllib
from ansible_collections.nvidia.mig.plugins.module_utils.errors import InputError

Path = Tuple[str, ...]

# An assignment at the start of a line. After a table has begun, only another document has one.
_TOP_LEVEL_KEY = re.compile(r"^[A-Za-z0-9_-]+ = ")
_MISSING = object()


def plan_engine_config(
    dry_run: str, files: Mapping[str, str], config: str, drop_in: str = "", runtime: str = "nvidia"
) -> Dict[str, Any]:
    """Compare ``dry_run`` with ``files`` (path -> text; absent files left out).

    nvidia-ctk prints the new ``config``; with ``drop_in`` that file, and for containerd ``config`` after it.
    Comments and the order of keys do not count. Raises InputError.
    """
    new = _documents(dry_run, config, drop_in)
    old = {path: parse(files.get(path, ""), path) for path in new}
    differing = sorted(path for path in new if new[path] != old[path])
    lost: List[str] = []
    # The drop-in file is nvidia-ctk's own; what stands in the other is the operator's.
    if config in differing:
        lost = [".".join(path) for path in _lost(old[config], new[config]) if not _ours(path, runtime)]
    return {"files": differing, "lost": lost}


def parse(text: str, path: str) -> Dict[str, Any]:
    """The content of a TOML or JSON configuration. Raises InputError."""
    try:
        if path.endswith(".json"):
            content = json.loads(text) if text.strip() else {}
        else:
            content = tomllib.loads(text)
    except ValueError as error:
        raise InputError(f"{path} cannot be read: {error}", hint="correct the file") from error
    if not isinstance(content, dict):
        raise InputError(f"{path} holds no object", hint="correct the file")
    return content


def _documents(dry_run: str, config: str, drop_in: str) -> Dict[str, Dict[str, Any]]:
    if not drop_in:
        return {config: parse(dry_run, config)}
    lines = dry_run.splitlines(keepends=True)
    in_table = False
    for number, line in enumerate(lines):
        in_table = in_table or line.startswith("[")
        if in_table and _TOP_LEVEL_KEY.match(line):
            first, second = "".join(lines[:number]), "".join(lines[number:])
            return {drop_in: parse(first, drop_in), config: parse(second, config)}
    return {drop_in: parse(dry_run, drop_in)}


def _lost(old: Mapping[str, Any], new: Mapping[str, Any], path: Path = ()) -> Iterator[Path]:
    """Where ``old`` has a value that ``new`` has not."""
    for key, value in old.items():
        here = (*path, key)
        other = new.get(key, _MISSING)
        if isinstance(value, dict) and isinstance(other, dict):
            yield from _lost(value, other, here)
        elif isinstance(value, list) and isinstance(other, list):
            if any(item not in other for item in value):
                yield here
        elif value != other:
            yield here


def _ours(path: Path, runtime: str) -> bool:
    """Whether it is nvidia-ctk's to change: its runtime, the default runtime, CDI."""
    return (
        ("runtimes", runtime) in zip(path, path[1:])
        or path[-1] in ("default-runtime", "default_runtime_name", "default_runtime", "enable_cdi")
        or path == ("features", "cdi")
    )
