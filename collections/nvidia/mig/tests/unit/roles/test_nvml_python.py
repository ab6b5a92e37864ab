# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role nvml_python on real virtual environments of this machine, and what it refuses elsewhere."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any, Dict

import pynvml
import pytest
import yaml
from ansible_collections.nvidia.mig.tests.unit.plugins.modules.node_support import COLLECTIONS
from ansible_collections.nvidia.mig.tests.unit.roles.plays import messages, play

ROLE = COLLECTIONS / "ansible_collections/nvidia/mig/roles/nvml_python"
VERSION = yaml.safe_load((ROLE / "defaults/main.yml").read_text())["nvml_python_version"]
OTHER = "12.575.51"
SECRET = "kept-out-of-logs"


def changes(output: str) -> Dict[str, int]:
    """Host -> how many tasks changed something there."""
    found = re.findall(r"^(\w+) \| (SUCCESS|CHANGED|FAILED)", output, re.MULTILINE)
    return {host: sum(word == "CHANGED" for other, word in found if other == host) for host in dict(found)}


def test_the_version_is_the_one_that_this_repository_is_tested_with():
    assert f'"nvidia-ml-py=={VERSION}"' in (COLLECTIONS.parent / "pyproject.toml").read_text()


# What is refused.

PYTHON = {"executable": sys.executable, "version_info": list(sys.version_info[:3])}
DEBIAN = {
    "python": PYTHON,
    "os_family": "Debian",
    "distribution": "Debian",
    "distribution_version": "12",
    "distribution_major_version": "12",
}
# Name of the case -> variables, words of the message.
REFUSED: Dict[str, Any] = {
    "relative": (
        {"nvml_python_path": "opt/python"},
        'nvml_python_path is "opt/python"; set an absolute path',
    ),
    "root": ({"nvml_python_path": "/"}, 'nvml_python_path is "/"'),
    "percent": ({"nvml_python_path": "/opt/%h"}, 'nvml_python_path is "/opt/%h"'),
    "foreign": ({"nvml_python_path": "/usr/bin"}, "/usr/bin is there and is no virtual environment. Move it"),
    "words": ({"nvml_python_version": "latest"}, 'nvml_python_version is "latest", which is no version'),
    "old": ({"nvml_python_version": "11.495.46"}, "need nvidia-ml-py 11.525 or newer"),
    "both": (
        {"nvml_python_index_url": "http://mirror", "nvml_python_find_links": "/srv"},
        "Both nvml_python_index_url and nvml_python_find_links are set",
    ),
    "ancient": (
        {"facts": {**DEBIAN, "python": {**PYTHON, "version_info": [3, 8, 20]}}},
        "is Python 3.8, and 3.9 or newer is needed; set ansible_python_interpreter",
    ),
}


@pytest.fixture(scope="module")
def refusals(tmp_path_factory):
    hosts = {name: {"facts": DEBIAN, **variables} for name, (variables, _words) in REFUSED.items()}
    tasks = [
        {
            "ansible.builtin.set_fact": {
                "cacheable": True,
                **{key: f"{{{{ facts.{key} }}}}" for key in DEBIAN},
            }
        },
        {"ansible.builtin.include_role": {"name": "nvidia.mig.nvml_python", "tasks_from": "preflight"}},
    ]
    return messages(play(tmp_path_factory.mktemp("refusals"), hosts, tasks))


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused_with_the_variable_and_what_to_do(refusals, name):
    assert REFUSED[name][1] in refusals[name]
    assert refusals[name].endswith("Nothing was changed.")


# What is installed on which distribution, if its Python lacks both.


def node(family: str, major: str, *version: int, **variables: Any) -> Dict[str, Any]:
    python = {**PYTHON, "version_info": list(version)}
    facts = {**DEBIAN, "python": python, "os_family": family, "distribution_major_version": major}
    return {"facts": facts, "nvml_python_packages": [], **variables}


PACKAGES: Dict[str, Any] = {
    "bookworm": (node("Debian", "12", 3, 11), ["python3.11-venv", "python3-packaging"]),
    "noble": (node("Debian", "24", 3, 12), ["python3.12-venv", "python3-packaging"]),
    "el8": (node("RedHat", "8", 3, 12), ["python3.12-setuptools"]),
    "el8_module": (node("RedHat", "8", 3, 9), ["python39-setuptools"]),
    "el9": (node("RedHat", "9", 3, 9), ["python3-setuptools"]),
    "el9_other": (node("RedHat", "9", 3, 11), ["python3.11-setuptools"]),
    "el10": (node("RedHat", "10", 3, 12), ["python3-setuptools"]),
    "unknown": (node("Suse", "15", 3, 11), []),
    "named": (node("Suse", "15", 3, 11, nvml_python_packages=["python311-pip"]), ["python311-pip"]),
}


def test_it_installs_what_the_distribution_s_python_lacks(tmp_path):
    look = {"lacks": ["ensurepip", "packaging"], "foreign": False, "broken": False, "version": ""}
    hosts = {
        name: {**host, "__nvml_python_look": {"stdout": json.dumps(look)}}
        for name, (host, _packages) in PACKAGES.items()
    }
    tasks = [
        {"ansible.builtin.include_vars": {"file": str(ROLE / "vars/main.yml")}},
        {
            "ansible.builtin.set_fact": {
                "cacheable": True,
                **{key: f"{{{{ facts.{key} }}}}" for key in DEBIAN},
            }
        },
        {"ansible.builtin.debug": {"var": "__nvml_python_to_install"}},
    ]
    output = play(tmp_path, hosts, tasks)
    found = re.findall(r'^(\w+) \| SUCCESS => (\{\s*"__nvml_python_to_install".*?^\})', output, re.M | re.S)
    told = {host: json.loads(result)["__nvml_python_to_install"] for host, result in found}
    assert told == {name: packages for name, (_host, packages) in PACKAGES.items()}


# What it does.


def wheel(directory: Path, version: str) -> None:
    """nvidia-ml-py as a wheel: the file that is installed here, under any number."""
    directory.mkdir(exist_ok=True)
    information = f"nvidia_ml_py-{version}.dist-info"
    with zipfile.ZipFile(directory / f"nvidia_ml_py-{version}-py3-none-any.whl", "w") as archive:
        archive.write(pynvml.__file__, "pynvml.py")
        archive.writestr(
            f"{information}/METADATA", f"Metadata-Version: 2.1\nName: nvidia-ml-py\nVersion: {version}\n"
        )
        archive.writestr(
            f"{information}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        names = ("pynvml.py", f"{information}/METADATA", f"{information}/WHEEL", f"{information}/RECORD")
        archive.writestr(f"{information}/RECORD", "".join(f"{name},,\n" for name in names))


def installed(path: Path) -> str:
    """The version in an environment, as its own pip tells it; empty where there is none."""
    python = path / "bin/python3"
    if not python.exists():
        return ""
    done = subprocess.run(
        [python, "-m", "pip", "show", "nvidia-ml-py"], capture_output=True, text=True, check=False
    )
    return "".join(re.findall(r"^Version: (.*)$", done.stdout, re.MULTILINE))


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two runs: one makes environments, the other finds them as they are; output, and where they are."""
    directory = tmp_path_factory.mktemp("nvml_python")
    for version in (VERSION, OTHER):
        wheel(directory / "wheels", version)
    host = {"nvml_python_find_links": str(directory / "wheels"), "check": False}
    role = {
        "ansible.builtin.include_role": {
            "name": "nvidia.mig.nvml_python",
            "apply": {"check_mode": "{{ check }}"},
        }
    }
    first = {
        name: {**host, "nvml_python_path": str(directory / "made" / name)}
        for name in ("same", "other", "new")
    }
    first["new"]["check"] = True
    outputs = [play(directory, first, [role])]
    for name in ("broken", "broken_check"):
        (directory / "made" / name / "bin").mkdir(parents=True)
        for file in ("pyvenv.cfg", "bin/activate", "left-over"):
            (directory / "made" / name / file).write_text("")
    paths = {name: directory / "made" / name for name in ("same", "other", "broken", "broken_check", "new")}
    second = {name: {**host, "nvml_python_path": str(path)} for name, path in paths.items() if name != "new"}
    second["other"]["nvml_python_version"] = OTHER
    second["other_check"] = {**second["other"], "nvml_python_path": str(paths["same"]), "check": True}
    second["broken_check"]["check"] = True
    second["unreachable"] = {
        **second["same"],
        "nvml_python_version": OTHER,
        "nvml_python_find_links": "",
        "nvml_python_index_url": f"http://reader:{SECRET}@127.0.0.1:9/simple",
        "nvml_python_pip_args": ["--retries=0", "--no-cache-dir"],
    }
    outputs.append(play(directory, second, [role], "-vvv"))
    return outputs, paths


def test_it_makes_the_environment(runs):
    outputs, paths = runs
    assert changes(outputs[0]) == {"same": 1, "other": 1, "new": 1}, outputs[0]
    assert installed(paths["same"]) == VERSION
    assert paths["same"].stat().st_mode & 0o777 == 0o755


def test_check_mode_makes_nothing(runs):
    assert not runs[1]["new"].exists()


def test_the_second_run_and_check_mode_are_exact(runs):
    outputs, paths = runs
    counted = changes(outputs[1])
    assert (counted["same"], counted["other"], counted["other_check"]) == (0, 1, 1)
    assert installed(paths["other"]) == OTHER
    assert installed(paths["same"]) == VERSION


def test_an_environment_that_does_not_run_is_made_anew(runs):
    outputs, paths = runs
    counted = changes(outputs[1])
    assert (counted["broken"], counted["broken_check"]) == (2, 1)
    assert installed(paths["broken"]) == VERSION
    assert not (paths["broken"] / "left-over").exists()
    assert (paths["broken_check"] / "left-over").exists()


def test_a_failure_is_told_without_credentials(runs):
    outputs, _paths = runs
    assert f"nvidia-ml-py {OTHER} could not be installed into" in messages(outputs[1])["unreachable"]
    assert "http://****@127.0.0.1:9/simple" in messages(outputs[1])["unreachable"]
    assert SECRET not in outputs[1]
