# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node whose Python has no nvidia-ml-py, and a virtual environment beside it that has: both are real."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any, Dict

import pynvml
import pytest
from ansible_collections.nvidia.mig.plugins.module_utils.node.python import MOST
from ansible_collections.nvidia.mig.tests.unit.plugins.modules.node_support import COLLECTIONS
from ansible_collections.nvidia.mig.tests.unit.plugins.modules.test_node_payload import MODULES, payload

OPTIONS: Dict[str, Dict[str, Any]] = {
    "mig_layout": {"layout": [{"gpus": "all", "mig": False}]},
    "mig_mode": {"gpus": "all", "enabled": False},
}


class Node:
    """A simulated node with two Pythons; what Ansible sends runs under the one without the binding."""

    def __init__(self, host: Any, directory: Path) -> None:
        self.host = host
        self.directory = directory
        for name in ("usual", "other"):
            venv.create(directory / name, with_pip=False)
        self.usual, self.other = (str(directory / name / "bin/python3") for name in ("usual", "other"))
        (packages,) = (directory / "other/lib").glob("python*/site-packages")
        self.binding = packages / "pynvml.py"
        shutil.copy(pynvml.__file__, self.binding)

    def run(self, module: str, **options: Any) -> Dict[str, Any]:
        """Send a module there."""
        node = self.host.node
        common = {"kubelet_checkpoint": str(node.checkpoint), "pod_log_directory": str(node.pods)}
        program = self.directory / f"{module}.py"
        program.write_text(payload(module, {**common, "nvml_python": self.other, **options}))
        done = subprocess.run(
            [self.usual, str(program)],
            env={**node.environment(), "PYTHONPATH": ""},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.stdout, done.stderr
        result = dict(json.loads(done.stdout))
        assert (done.returncode != 0) == bool(result.get("failed"))
        return result


def task(node: Node, entry: Dict[str, Any]) -> str:
    """What Ansible says of mig_layout as a task; it names a module that it sends."""
    options = {"layout": [entry], "state": "planned", "nvml_python": node.other}
    done = subprocess.run(
        [
            *(Path(sys.executable).with_name("ansible"), "localhost", "-vvv", "--connection=local"),
            *("-m", "nvidia.mig.mig_layout", "-a", json.dumps(options)),
            *("-e", f"ansible_python_interpreter={node.usual}", "-i", "localhost,"),
        ],
        env={
            **os.environ,
            **node.host.node.environment(),
            "PYTHONPATH": "",
            "ANSIBLE_COLLECTIONS_PATH": str(COLLECTIONS),
            "ANSIBLE_PIPELINING": "true",
            "ANSIBLE_NOCOLOR": "1",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def node(make_host, tmp_path):
    return Node(make_host("A100-SXM4-40GB", 1), tmp_path)


@pytest.mark.parametrize("module", MODULES)
def test_it_goes_on_under_the_python_that_has_the_binding(node, module):
    result = node.run(module, **OPTIONS.get(module, {}))
    assert result["changed"] is False
    assert not result.get("failed"), result


def test_it_works_there_and_fails_there_as_ever(node):
    halves = [{"gpus": 0, "profiles": {"3g.20gb": 2}}]
    assert node.run("mig_layout", layout=halves)["changed"] is True
    assert len(node.host.gpus()[0]["instances"]) == 2
    assert "no GPU 5" in node.run("mig_layout", layout=[{"gpus": 5, "mig": False}])["msg"]


def test_without_such_a_python_it_names_the_role(node):
    message = node.run("mig_info", nvml_python=str(node.directory / "none"))["msg"]
    assert f"nvidia-ml-py is missing for {node.usual}" in message
    assert "the role nvidia.mig.nvml_python" in message


def test_one_that_has_it_no_more_is_named(node):
    node.binding.unlink()
    message = node.run("mig_info")["msg"]
    assert f"nvidia-ml-py is missing for {node.other}" in message
    assert "the role nvidia.mig.nvml_python" in message


def test_an_old_package_in_the_usual_python_does_not_matter(node):
    (packages,) = (node.directory / "usual/lib").glob("python*/site-packages")
    (packages / "pynvml").mkdir()
    (packages / "pynvml/__init__.py").write_text("")
    assert not node.run("mig_info").get("failed")


def test_the_usual_python_is_taken_if_it_has_the_binding(node):
    (packages,) = (node.directory / "usual/lib").glob("python*/site-packages")
    shutil.copy(node.binding, packages)
    node.binding.unlink()
    assert not node.run("mig_info").get("failed")


def test_a_node_as_wanted_is_probed_with_it(node):
    assert "Using module file" in task(node, {"gpus": 0, "profiles": {"3g.20gb": 2}})
    assert "Using module file" not in task(node, {"gpus": 0, "mig": False})


def test_options_that_no_pipe_holds_are_told_and_do_not_hang(node):
    long = [{"gpus": 0, "profiles": {"3g.20gb": 2}, "product": "A100*"}] * 1000
    message = node.run("mig_layout", layout=long)["msg"]
    assert "bytes of options are too many to go on under" in message
    assert f"set ansible_python_interpreter to {node.other}" in message


def test_options_as_long_as_they_may_be_do_not_hang(node):
    off = [{"devices": "all", "mig-enabled": False}]
    configs = {"off": off, **{f"{number:03}'\\\"": off for number in range(910)}}
    config = {"version": "v1", "mig-configs": configs}
    assert MOST - 2000 < len(repr(json.dumps(config).encode())) < MOST - 500
    result = node.run("mig_layout", config=config, config_name="off")
    assert not result.get("failed"), result


def test_the_tests_have_a_python_without_the_binding(node):
    done = subprocess.run([node.usual, "-c", "import pynvml"], capture_output=True, check=False)
    assert done.returncode != 0
    assert sys.prefix != sys.base_prefix
