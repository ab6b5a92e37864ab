"""What the lab's commands share on the console: progress lines, and errors that end a command."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

#: Exit code of a command that cannot go on because a program (kube-apiserver, helm, ...) is not to be had.
EXIT_MISSING = 3


class LabError(Exception):
    """A command of the lab cannot go on. The text says what is wrong and what to do about it, in one line."""

    exit_code = 1


class MissingError(LabError):
    """A program is neither here nor to be had; the rest of the lab works without it."""

    exit_code = EXIT_MISSING


def say(text: str) -> None:
    """Print a progress line at once, also into a pipe."""
    print(text, flush=True)


def fail(error: LabError) -> int:
    """Print the error's line and return the command's exit code."""
    print(f"mig-lab: {error}", file=sys.stderr, flush=True)
    return error.exit_code


def duration(seconds: float) -> str:
    """``4.2 s``, ``45 s``, ``3 min 20 s``."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{int(seconds) // 60} min {int(seconds) % 60} s"


class Stopwatch:
    """Measures from its making; ``str()`` is the time so far."""

    def __init__(self) -> None:
        self._start = time.monotonic()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._start

    def __str__(self) -> str:
        return duration(self.seconds)


def listed(names: Sequence[str]) -> str:
    """``a, b and c``."""
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))
