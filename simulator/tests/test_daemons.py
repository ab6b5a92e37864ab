"""Background processes are recognised by more than their pid, and end when they are told to."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from miglab.console import LabError
from miglab.daemons import Daemon

SLEEP = [sys.executable, "-c", "import time; print('started', flush=True); time.sleep(60)"]
STUBBORN = [
    sys.executable,
    "-c",
    "import signal, time; signal.signal(15, signal.SIG_IGN); print('deaf', flush=True); time.sleep(60)",
]


@pytest.fixture
def daemon(tmp_path):
    daemon = Daemon("sleeper", tmp_path)
    yield daemon
    daemon.stop(patience=0.1)


def wait_for(daemon, text):
    for _ in range(1200):
        if text in daemon.log.read_text():
            return
        subprocess.run(["sleep", "0.05"], check=True)
    raise AssertionError(daemon.log.read_text())


def test_it_runs_in_a_session_of_its_own_until_it_is_stopped(daemon):
    pid = daemon.start(SLEEP)
    assert daemon.pid() == pid
    assert os.getsid(pid) == pid
    wait_for(daemon, "started")
    with pytest.raises(LabError, match="running already"):
        daemon.start(SLEEP)
    assert daemon.stop() is True
    assert daemon.pid() is None
    assert daemon.stop() is False


def test_one_that_ignores_sigterm_is_killed(daemon):
    daemon.start(STUBBORN)
    wait_for(daemon, "deaf")
    assert daemon.stop(patience=0.2) is True


def test_a_process_that_only_has_the_pid_is_not_touched(daemon, tmp_path):
    stranger = subprocess.Popen(SLEEP, stdout=subprocess.DEVNULL)
    try:
        (tmp_path / "sleeper.pid").write_text(json.dumps({"pid": stranger.pid, "identity": "another boot 1"}))
        assert daemon.pid() is None
        assert daemon.stop() is False
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_a_process_that_ended_is_not_running_and_its_log_is_quoted(daemon):
    daemon.start([sys.executable, "-c", "raise SystemExit('no such flag')"])
    wait_for(daemon, "no such flag")
    for _ in range(100):
        if daemon.pid() is None:
            break
        subprocess.run(["sleep", "0.05"], check=True)
    assert daemon.pid() is None
    assert "no such flag" in daemon.last_words()


def test_a_program_that_is_not_there(daemon):
    with pytest.raises(LabError, match="cannot be started"):
        daemon.start(["/no/such/program"])
