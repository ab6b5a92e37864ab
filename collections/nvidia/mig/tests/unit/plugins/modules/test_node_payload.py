# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What Ansible sends to a node: how big it is, and that an old node's Python runs it."""

from __future__ import annotations

import base64
import io
import json
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pynvml
import pytest
from ansible_collections.nvidia.mig.tests.unit.plugins.modules.node_support import COLLECTIONS

MODULES = ("gpu_reset", "mig_info", "mig_layout", "mig_mode")
# The oldest Python that a node of ansible-core 2.19 to 2.21 may have.
OLDEST = "python3.9"


def payload(module: str, args: dict) -> str:
    """The program that Ansible sends for a module."""
    maker = Path(__file__).with_name("node_payload.py")
    return subprocess.run(
        [sys.executable, str(maker), str(COLLECTIONS), module, json.dumps(args)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def zipped(program: str) -> bytes:
    """The archive inside: the module and all that it imports of Ansible and of this collection."""
    return base64.b64decode(max(re.findall(r"[A-Za-z0-9+/]{1000,}=*", program), key=len))


def old_python() -> str:
    """Path of the oldest Python, or skip."""
    installed = sorted(Path.home().glob(f".pyenv/versions/{OLDEST[6:]}.*/bin/{OLDEST}"))
    for path in filter(None, [*map(str, installed), shutil.which(OLDEST)]):
        # pyenv's shims are there for versions that are not.
        if subprocess.run([path, "--version"], capture_output=True, check=False).returncode == 0:
            return path
    return str(pytest.skip(f"no {OLDEST} on this machine"))


@pytest.mark.parametrize("module", MODULES)
def test_a_small_payload(module):
    """What this collection adds: Ansible's own part, some 100 to 135 kB, depends on its version alone."""
    with zipfile.ZipFile(io.BytesIO(zipped(payload(module, {"layout": []})))) as archive:
        ours = [
            part for part in archive.infolist() if part.filename.startswith("ansible_collections/nvidia/mig/")
        ]
    assert 10_000 < sum(part.compress_size for part in ours) <= 75_000


def test_an_old_python_runs_it(make_host, tmp_path):
    """The very program that Ansible would send, on nothing but Python and nvidia-ml-py."""
    python = old_python()
    host = make_host("A100-SXM4-40GB", 2, mode_change="reset")
    packages = tmp_path / "packages"
    packages.mkdir()
    shutil.copy(pynvml.__file__, packages)
    common = {"kubelet_checkpoint": str(host.node.checkpoint), "pod_log_directory": str(host.node.pods)}

    def run(module: str, **args: object) -> dict:
        program = tmp_path / f"{module}.py"
        program.write_text(payload(module, {**common, **args}))
        done = subprocess.run(
            [python, str(program)],
            env={**host.node.environment(), "PYTHONPATH": str(packages)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stdout, done.stderr
        return dict(json.loads(done.stdout))

    layout = [{"gpus": 0, "profiles": {"3g.20gb": 1, "1c.3g.20gb": 3}}]
    assert run("mig_mode", gpus=0, enabled=True)["reset_required"] == [0]
    assert run("gpu_reset")["reset"] == [0]
    assert run("mig_layout", layout=layout, strategy="mixed")["complete"] is True
    assert run("mig_layout", layout=layout)["changed"] is False
    assert len(run("mig_info")["gpus"][0]["mig_devices"]) == 4
    refused = run("mig_layout", layout=[{"gpus": 5, "mig": False}])
    assert "no GPU 5" in refused["msg"]


def test_without_nvidia_ml_py_it_says_what_is_missing(make_host, tmp_path):
    host = make_host("A100-SXM4-40GB", 1)
    program = tmp_path / "mig_info.py"
    program.write_text(payload("mig_info", {}))
    hidden = tmp_path / "old" / "pynvml"
    hidden.mkdir(parents=True)
    (hidden / "__init__.py").write_text("")
    for path, words in (("", ("nvidia-ml-py",)), (str(hidden.parent), ("nvidia-ml-py", "uninstall pynvml"))):
        done = subprocess.run(
            [sys.executable, "-S", str(program)],
            env={**host.node.environment(), "PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stdout, done.stderr
        result = json.loads(done.stdout)
        assert result["failed"]
        for word in words:
            assert word in result["msg"]
