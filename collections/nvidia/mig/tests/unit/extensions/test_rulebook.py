# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rulebook: under the real ansible-rulebook, beside a real Kubernetes API."""

from __future__ import annotations

import json
import os
import runpy
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.demand_events import Backoff, Events
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.demand_options import (
    ARGUMENTS,
    parse_options,
)
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.pending import Pending
from ansible_collections.nvidia.mig.tests.unit.extensions.source_support import COLLECTION, SOURCE

BIN = Path(sys.executable).parent
COLLECTIONS = COLLECTION.parents[1]
RULEBOOK = COLLECTION / "extensions/eda/rulebooks/repartition.yml"

# In place of playbooks/repartition.yml: notes what it was called with.
PLAYBOOK = """\
- hosts: all
  gather_facts: false
  tasks:
    - ansible.builtin.lineinfile:
        path: "{{ noted }}"
        line: "{{ dict(told | to_json | from_json, window=repartition_batch_window) | to_json }}"
        create: true
        mode: "0600"
      vars:
        told: "{{ ansible_eda.event.pending_pods }}"
"""


@pytest.fixture(scope="module")
def program():
    found = shutil.which("ansible-rulebook", path=f"{BIN}{os.pathsep}{os.environ['PATH']}")
    if found is None:
        pytest.skip("no ansible-rulebook: pip install -e '.[eda]'")
    told = subprocess.run([found, "--version"], capture_output=True, text=True, check=False)
    if told.returncode != 0:
        pytest.skip(f"ansible-rulebook does not start: {told.stdout}{told.stderr}")
    return found


@pytest.fixture
def site(tmp_path, cluster):
    """What an operator has: a playbook, an inventory directory, and what the rulebook has to know."""
    (tmp_path / "inventory/group_vars").mkdir(parents=True)
    local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    (tmp_path / "inventory/hosts.yml").write_text(yaml.safe_dump({"all": {"hosts": {"node": local}}}))
    (tmp_path / "inventory/group_vars/all.yml").write_text(yaml.safe_dump({"noted": str(tmp_path / "noted")}))
    (tmp_path / "playbooks").mkdir()
    (tmp_path / "playbooks/repartition.yml").write_text(PLAYBOOK)
    (tmp_path / "ansible.cfg").write_text(f"[defaults]\ncollections_path = {COLLECTIONS}\n")
    known = {"mig_kubeconfig": str(cluster.kubeconfig), "repartition_idle_window": 2}
    (tmp_path / "rulebook.yml").write_text(yaml.safe_dump(known))
    return tmp_path


@pytest.fixture
def start(program, site):
    """The command of docs/demand.md. Its output is in the file log."""

    def begin(**more):
        known = yaml.safe_load((site / "rulebook.yml").read_text())
        (site / "rulebook.yml").write_text(yaml.safe_dump({**known, **more}))
        environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith("ANSIBLE_")},
            "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
            "ANSIBLE_CONFIG": str(site / "ansible.cfg"),
        }
        command = [program, "--rulebook", "nvidia.mig.repartition", "--inventory", "inventory"]
        with (site / "log").open("w") as log:
            running.append(
                subprocess.Popen(
                    [*command, "--vars", "rulebook.yml", "-v"],
                    cwd=site,
                    env=environment,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                )
            )
        return running[-1]

    running = []
    yield begin
    for process in running:
        if process.poll() is None:
            process.terminate()
            process.wait(60)


def noted(site, count):
    """The first runs, as soon as there are so many."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        lines = (site / "noted").read_text().splitlines() if (site / "noted").exists() else []
        if len(lines) >= count:
            return [json.loads(line) for line in lines]
        time.sleep(0.2)
    raise AssertionError((site / "log").read_text())


def test_the_playbook_runs_once_per_batch(start, site, pod, cluster):
    running = start()
    pod("a")
    pod("b")
    noted(site, 1)
    pod("c")
    runs = noted(site, 2)
    assert [run["names"] for run in runs] == [
        ["demand/a", "demand/b"],
        ["demand/a", "demand/b", "demand/c"],
    ]
    assert runs[0]["devices"] == {"nvidia.com/mig-1g.5gb": 2}
    assert [run["window"] for run in runs] == [0, 0]  # they have waited already
    running.terminate()
    running.wait(60)
    log = (site / "log").read_text()
    assert "pods that wait: 2, for 2 x nvidia.com/mig-1g.5gb" in log
    for secret in yaml.safe_load(cluster.kubeconfig.read_text())["users"][0]["user"].values():
        assert str(secret) not in log


def test_a_wrong_argument_stops_it_with_a_word(start, site):
    assert start(repartition_retry=0).wait(60) == 1
    assert "retry: 0 is too short (at least 1 second)" in (site / "log").read_text()


def test_the_rulebook_passes_every_argument_on():
    [rules] = yaml.safe_load(RULEBOOK.read_text())
    [source] = rules["sources"]
    assert set(source["nvidia.mig.pending_pods"]) == set(ARGUMENTS)
    assert rules["execution_strategy"] == "sequential"


def test_the_documentation_tells_every_argument():
    module = runpy.run_path(str(SOURCE))
    options = yaml.safe_load(module["DOCUMENTATION"])["options"]
    assert set(options) == set(ARGUMENTS)
    told = {name: option["default"] for name, option in options.items() if "default" in option}
    assert parse_options(told) == parse_options({})
    [rules] = yaml.safe_load(module["EXAMPLES"])
    [source] = rules["sources"]
    assert parse_options(source["nvidia.mig.pending_pods"])
    event = Events(Backoff(1, 1)).sent(Pending(), 0)["pending_pods"]
    assert set(yaml.safe_load(module["RETURN"])["pending_pods"]["contains"]) == set(event)
