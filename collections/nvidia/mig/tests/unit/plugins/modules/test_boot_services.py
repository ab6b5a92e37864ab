# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A daemon that holds the GPUs open when a node boots."""

from __future__ import annotations

import sys
from pathlib import Path

import miglab
import pytest
from ansible_collections.nvidia.mig.tests.unit.plugins.modules.boot_support import BootNode
from ansible_collections.nvidia.mig.tests.unit.plugins.modules.test_mig_layout import LAYOUTS, entry
from miglab import control

DAEMON = "nvidia-persistenced"
# Stand-in for systemd: the daemon holds GPU 0 of the simulated node while it runs.
SYSTEMCTL = f"""#!{sys.executable}
import sys
sys.path.insert(0, {str(Path(miglab.__file__).parents[1])!r})
from pathlib import Path
from miglab import control
verb, name = sys.argv[1], sys.argv[-1]
state, here = Path(STATE), Path(__file__).parent
with open(here / "log", "a") as log:
    log.write(f"{{verb}} {{name}}\\n")
running = here / name
if verb == "is-active":
    sys.exit(0 if running.exists() else 3)
elif verb == "stop":
    running.unlink()
    control.remove_processes(state, name=name)
else:
    running.touch()
    control.add_process(state, 0, name=name, kind="open")
"""


@pytest.fixture
def boot(make_host, tmp_path):
    """A node of the model whose daemon runs, and what happened to the daemon."""

    def make(model, runs=True, **options):
        host = make_host(model, 1, **options)
        node = BootNode.make(host, tmp_path, layout=[entry(LAYOUTS[model][1])], services=[DAEMON])
        systemd = tmp_path / "systemd"
        systemd.mkdir()
        (systemd / "systemctl").write_text(SYSTEMCTL.replace("STATE", repr(str(host.node.state))))
        (systemd / "systemctl").chmod(0o755)
        (systemd / "log").touch()
        if runs:
            (systemd / DAEMON).touch()
            control.add_process(host.node.state, 0, name=DAEMON, kind="open")
        return node, systemd

    return make


def said(systemd: Path) -> list[str]:
    return (systemd / "log").read_text().splitlines()


@pytest.mark.parametrize(
    ("model", "options"),
    [("H100-SXM5-80GB", {}), ("A100-SXM4-40GB", {}), ("A100-SXM4-40GB", {"mode_change": "reset"})],
)
def test_it_is_away_while_the_mode_changes(boot, model, options):
    node, systemd = boot(model, **options)
    run = node.restore(path=systemd)
    assert (run.rc, run.status["result"]) == (0, "restored"), run.said
    assert said(systemd) == [f"is-active {DAEMON}", f"stop {DAEMON}", f"start {DAEMON}"]
    assert node.host.gpus()[0]["instances"]
    # Nothing is left to do, so it is left alone.
    again = node.restore(path=systemd)
    assert again.status["result"] == "unchanged"
    assert len(said(systemd)) == 3


def test_it_is_away_for_the_first_instance(boot):
    """The mode is on already, as an attempt that failed left it: from Hopper on that is not enough."""
    node, systemd = boot("H100-SXM5-80GB")
    node.host.layout({"gpus": 0, "profiles": {}})
    assert node.host.gpus()[0]["mode"]["current"] == 1
    run = node.restore(path=systemd)
    assert (run.rc, run.status["result"]) == (0, "restored"), run.said
    assert said(systemd) == [f"is-active {DAEMON}", f"stop {DAEMON}", f"start {DAEMON}"]


def test_without_it_the_first_instance_would_be_refused(boot):
    """What this is for: the same node, whose wish names no services."""
    node, systemd = boot("H100-SXM5-80GB")
    node.want(layout=[entry(LAYOUTS["H100-SXM5-80GB"][1])])
    run = node.restore(path=systemd)
    assert run.status["result"] == "failed"
    assert said(systemd) == []


def test_what_does_not_run_is_not_started(boot):
    node, systemd = boot("H100-SXM5-80GB", runs=False)
    run = node.restore(path=systemd)
    assert run.status["result"] == "restored", run.said
    assert said(systemd) == [f"is-active {DAEMON}"]


def test_it_comes_back_after_a_failure_and_after_a_hang(boot):
    node, systemd = boot("H100-SXM5-80GB")
    create = "nvmlDeviceCreateGpuInstanceWithPlacement"
    control.add_fault(node.host.node.state, create, code=999)
    run = node.restore(path=systemd)
    assert run.status["result"] == "failed"
    assert said(systemd)[1:] == [f"stop {DAEMON}", f"start {DAEMON}"]
    control.clear_faults(node.host.node.state)
    control.add_fault(node.host.node.state, create, latency_ms=60000)
    run = node.restore(timeout=4, path=systemd)
    assert "no answer" in run.status["message"]
    assert said(systemd)[-2:] == [f"stop {DAEMON}", f"start {DAEMON}"]
