# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Do a piece of work in a child process, for as long as it may take.

A call into the driver can hang, and then no signal handler of Python's runs. So the parent waits only so
long, and says which call it was.
"""

from __future__ import annotations

import faulthandler
import json
import os
import re
import select
import signal
import sys
import tempfile
import time
from typing import IO, Any, Callable, Dict, Optional

Work = Callable[[], Dict[str, Any]]


class NoAnswerError(Exception):
    """The work ended, or was ended, without an answer. It says why."""


def within(timeout: float, work: Work, spent: float = 0) -> Dict[str, Any]:
    """What ``work`` returns, which must be JSON.

    Args:
        timeout: seconds, for this and what went before.
        work: what to do.
        spent: how many of them are gone.

    Raises:
        NoAnswerError: it did not return in time, was killed, or had an error of its own.
    """
    left = max(1.0, timeout - spent)
    with tempfile.TemporaryFile("w+") as trace:
        answer, question = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(answer)
            _work(work, question, trace, left)
        os.close(question)
        with os.fdopen(answer, "rb") as pipe:
            text = _read(pipe, left)
        if text is None:
            os.killpg(child, signal.SIGKILL)
            # It is not waited for: what hangs in the kernel cannot be killed either.
            raise NoAnswerError(f"no answer within {timeout:g} s{_last_call(trace)}")
        status = os.waitpid(child, 0)[1]
    try:
        return dict(json.loads(text))
    except ValueError:
        code = os.waitstatus_to_exitcode(status)
        raise NoAnswerError(f"it ended by {f'signal {-code}' if code < 0 else f'status {code}'}") from None


def _work(work: Work, question: int, trace: IO[str], timeout: float) -> None:
    """The child: do it, write the answer, and end."""
    try:
        os.setsid()  # so that all that it starts can be ended with it
        # Shortly before the parent loses patience: where it is, even inside of the driver.
        faulthandler.dump_traceback_later(timeout * 0.9, file=trace)
        answer = work()
        with os.fdopen(question, "w", encoding="utf-8") as pipe:
            json.dump(answer, pipe)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        sys.stderr.flush()
        os._exit(1)
    os._exit(0)


def _read(pipe: IO[bytes], timeout: float) -> Optional[bytes]:
    """All that comes until the other side closes it; None if that takes too long."""
    end = time.monotonic() + timeout
    text = b""
    while select.select([pipe], [], [], max(0.0, end - time.monotonic()))[0]:
        part = os.read(pipe.fileno(), 65536)
        if not part:
            return text
        text += part
    return None


def _last_call(trace: IO[str]) -> str:
    """The call into the driver that the child was in."""
    trace.seek(0)
    found = re.search(r"in (nvml[A-Z]\w*|_command)$", trace.read(), re.MULTILINE)
    if found is None:
        return ""
    return f" from {'nvidia-smi' if found[1] == '_command' else found[1]}"
