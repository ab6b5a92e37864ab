# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The node's services that hold GPUs open: they keep a reset away, and from Hopper on the first instance."""

from __future__ import annotations

import shutil
import subprocess
from typing import List, Sequence

_PATIENCE = 30


def stop(names: Sequence[str]) -> List[str]:
    """Stop those that run, and return them. One that will not stop shows in what the driver then refuses."""
    running = [name for name in names if _systemctl("is-active", "--quiet", name) == 0]
    for name in running:
        _systemctl("stop", name)
    return running


def start(names: Sequence[str]) -> None:
    """Start them, the last one stopped first, and do not wait: at boot they may have to wait for others."""
    for name in reversed(names):
        _systemctl("start", "--no-block", name)


def _systemctl(*arguments: str) -> int:
    systemctl = shutil.which("systemctl")
    if systemctl is None:
        return 1
    try:
        # No module runs here that could do it.
        return subprocess.run(  # pylint: disable=ansible-bad-function
            [systemctl, *arguments], check=False, timeout=_PATIENCE
        ).returncode
    except subprocess.TimeoutExpired:
        return 1
