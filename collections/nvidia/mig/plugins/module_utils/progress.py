# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a module waits for, told while it waits. Ansible itself takes nothing from a module before its end.

The callback mig_summary listens; modules that run beside it, on the control node, tell it. Elsewhere nobody
listens, and nothing is lost but these lines.
"""

from __future__ import annotations

import os
import socket

SOCKET_VARIABLE = "MIG_PROGRESS_SOCKET"
"""The environment variable with the path of the Unix datagram socket that takes one text a message."""

LONGEST = 2000
"""Bytes of a message."""


def tell(text: str) -> None:
    """Say what is waited for at this moment. Never fails, never waits."""
    path = os.environ.get(SOCKET_VARIABLE)
    if not path:
        return
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as link:
            link.setblocking(False)
            link.sendto(text.encode("utf-8")[:LONGEST], path)
    except OSError:  # nobody listens any more
        pass
