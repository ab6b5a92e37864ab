# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the layout was restored at boot, as a file on the node: below /run, so it is always of this boot."""

from __future__ import annotations

import json
import os
import tempfile
from typing import Any, Dict, Optional

STATUS_FILE = "/run/nvidia-mig/restore.json"
_TEXTS = ("result", "message", "booted_at", "finished_at")


def read_status(path: str) -> Optional[Dict[str, Any]]:
    """What the file tells; None if there is none. One that cannot be read has the result ``unreadable``."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        return _unreadable(f"cannot read {path}: {error.strerror}")
    return parse_status(text, path)


def parse_status(text: str, path: str) -> Dict[str, Any]:
    """As `read_status`, of the file's content. Pure."""
    try:
        content = json.loads(text)
        status: Dict[str, Any] = {key: content[key] for key in _TEXTS}
        status["actions"] = list(content["actions"])
    except (KeyError, TypeError, ValueError):
        return _unreadable(f"{path} is not as nvidia-mig-restore writes it")
    return status


def write_atomically(path: str, text: str) -> None:
    """Write a file that a reader sees as a whole or not at all. Its name is hidden until then."""
    directory = os.path.dirname(path)
    os.makedirs(directory, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=f".{os.path.basename(path)}.", dir=directory)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except OSError:
        os.unlink(temporary)
        raise


def _unreadable(message: str) -> Dict[str, Any]:
    return {**dict.fromkeys(_TEXTS), "result": "unreadable", "message": message, "actions": []}
