# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A program: what there is of the virtual environment PATH, as JSON. For the Python that shall make it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec

ASK = """
import pip
from importlib import metadata
try:
    print(metadata.version("nvidia-ml-py"))
except metadata.PackageNotFoundError:
    print()
"""


def look(path):
    """What is there.

    Returns:
        ``lacks``: of ensurepip and packaging, what this Python lacks; ``foreign``: whether something else is
        at the path; ``broken``: whether the environment's Python or its pip does not run; ``version``: of
        nvidia-ml-py in it, or empty.
    """
    is_environment = os.path.isfile(os.path.join(path, "pyvenv.cfg"))
    is_free = not os.path.lexists(path) or (os.path.isdir(path) and not os.listdir(path))
    version = ask(os.path.join(path, "bin", "python3")) if is_environment else ""
    return {
        "lacks": [
            *([] if find_spec("ensurepip") else ["ensurepip"]),
            # The module pip takes either.
            *([] if find_spec("packaging") or find_spec("pkg_resources") else ["packaging"]),
        ],
        "foreign": not is_environment and not is_free,
        "broken": version is None,
        "version": version or "",
    }


def ask(python):
    """The version that an environment's Python tells; None if it does not run, or has no pip."""
    try:
        done = subprocess.run([python, "-I", "-c", ASK], capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


if __name__ == "__main__":
    sys.stdout.write(json.dumps(look(sys.argv[1])) + "\n")
