"""Start, recognise and stop the lab's background processes.

A pid file holds start time and boot id too, so that after a reboot, or once the pid is reused, nobody else's
process is taken for the lab's.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from miglab.console import LabError


@dataclass(frozen=True)
class Daemon:
    """One background process: ``<directory>/<name>.pid`` and ``<directory>/<name>.log``."""

    name: str
    directory: Path

    @property
    def log(self) -> Path:
        return self.directory / f"{self.name}.log"

    @property
    def _pid_file(self) -> Path:
        return self.directory / f"{self.name}.pid"

    def start(self, command: list[str], environment: dict[str, str] | None = None) -> int:
        """Start it in a session of its own, with its output in the log. Returns the pid.

        Raises:
            LabError: it is running already, or the program cannot be started.
        """
        if self.pid() is not None:
            raise LabError(f"{self.name} is running already")
        self.directory.mkdir(parents=True, exist_ok=True)
        with open(self.log, "wb") as log:
            try:
                process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd="/",
                    env=environment,
                    start_new_session=True,
                )
            except OSError as error:
                raise LabError(f"{self.name} cannot be started: {error}") from error
        self._write(process.pid)
        return process.pid

    def adopt_self(self) -> None:
        """Note this very process as the daemon."""
        self.directory.mkdir(parents=True, exist_ok=True)
        self._write(os.getpid())

    def pid(self) -> int | None:
        """The pid, if the process that was started still runs."""
        try:
            noted = json.loads(self._pid_file.read_text())
            pid, identity = int(noted["pid"]), noted["identity"]
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return pid if _identity(pid) == identity else None

    def stop(self, patience: float = 5.0) -> bool:
        """End it: SIGTERM, after ``patience`` seconds SIGKILL. False if it was not running."""
        pid = self.pid()
        if pid is None:
            self._pid_file.unlink(missing_ok=True)
            return False
        for number, seconds in ((signal.SIGTERM, patience), (signal.SIGKILL, 10.0)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
            deadline = time.monotonic() + seconds
            while time.monotonic() < deadline:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)  # a child of this process would stay as a zombie
                if self.pid() is None:
                    self._pid_file.unlink(missing_ok=True)
                    return True
                time.sleep(0.05)
        raise LabError(f"{self.name} (pid {pid}) does not end")

    def last_words(self, lines: int = 3) -> str:
        """The end of its log, for an error."""
        try:
            text = self.log.read_text(errors="replace")
        except OSError:
            return "(it left no log)"
        return " | ".join(text.splitlines()[-lines:]) or "(its log is empty)"

    def _write(self, pid: int) -> None:
        temporary = self._pid_file.with_suffix(".new")
        temporary.write_text(json.dumps({"pid": pid, "identity": _identity(pid)}))
        os.replace(temporary, self._pid_file)


def _identity(pid: int) -> str | None:
    """Boot id and start time of a process, None if there is none (or only a zombie is left of it)."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()  # the command's name, in parentheses, may hold anything
    state, started = fields[0], fields[19]
    return None if state in "ZX" else f"{boot} {started}"
