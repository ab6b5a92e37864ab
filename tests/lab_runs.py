"""Playbook runs on the lab, as data."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from json import JSONDecoder, loads
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent


@dataclass(frozen=True)
class Run:
    """What a playbook run told: exit code, recap per host, and the results of every task on every host."""

    rc: int
    stats: dict[str, dict[str, int]]
    tasks: list[tuple[str, str, dict[str, Any]]]
    text: str

    def out_together(self) -> list[set[str]]:
        """Which hosts were cordoned at the same time, as it grew and shrank."""
        found: list[set[str]] = [set()]
        for name, host, result in self.tasks:
            if result.get("changed") and name.endswith(": Cordon the node"):
                found.append(found[-1] | {host})
            elif result.get("changed") and name.endswith(": Uncordon it"):
                found.append(found[-1] - {host})
        return found

    def changed(self) -> dict[str, int]:
        """Number of changed tasks per host."""
        return {host: counts["changed"] for host, counts in self.stats.items()}

    def results(self, action: str, host: str) -> list[dict[str, Any]]:
        """Results of the module ``action`` on ``host``, in order."""
        return [
            result for name, of, result in self.tasks if of == host and result.get("action", name) == action
        ]

    def messages(self) -> str:
        """Every failure's message, one a line."""
        return "\n".join(
            f"{host}: {result.get('msg')}"
            for _, host, result in self.tasks
            if result.get("failed") or result.get("unreachable")
        )


def lab_environment(directory: Path) -> dict[str, str]:
    """The environment of a lab in ``directory``, whatever the caller's own says of labs and Ansible."""
    return {
        **{key: value for key, value in os.environ.items() if not key.startswith("ANSIBLE_")},
        "MIG_LAB_DIR": str(directory),
        "PATH": f"{BIN}:{os.environ['PATH']}",
        "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
    }


@dataclass(frozen=True)
class Lab:
    """The lab, and the means to act on it as an operator would."""

    directory: Path
    environment: dict[str, str]
    has_cluster: bool

    def command(self, *argv: str) -> str:
        """Run ``mig-lab`` and return what it printed."""
        done = subprocess.run(
            [str(BIN / "mig-lab"), *argv],
            env=self.environment,
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"mig-lab {' '.join(argv)}: {done.stdout}{done.stderr}"
        return done.stdout

    def nodes(self) -> dict[str, Any]:
        """The hardware state of every node, by name."""
        return {node["name"]: node for node in loads(self.command("fleet", "show", "--json"))}

    def play(self, *argv: str, cwd: Path = ROOT, **environment: str) -> Run:
        """Run ``ansible-playbook`` and return its results as data."""
        done = subprocess.run(
            [str(BIN / "ansible-playbook"), *argv],
            env={**self.environment, "ANSIBLE_STDOUT_CALLBACK": "ansible.posix.json", **environment},
            cwd=cwd,
            capture_output=True,
            text=True,
            check=False,
        )
        start = done.stdout.find("{\n")
        assert start >= 0, f"no JSON in: {done.stdout}{done.stderr}"
        told, _ = JSONDecoder().raw_decode(done.stdout[start:])
        tasks = [
            (task["task"]["name"], host, result)
            for play in told["plays"]
            for task in play["tasks"]
            for host, result in task["hosts"].items()
        ]
        return Run(done.returncode, told["stats"], tasks, done.stdout + done.stderr)

    def kubectl(self, *argv: str, stdin: str = "", json: bool = True) -> Any:
        """Run ``kubectl`` against the lab's API and return its JSON, or its text."""
        text = self._client("kubectl", *argv, *(["-o", "json"] if json else []), stdin=stdin)
        return loads(text) if json else text

    def helm(self, *argv: str, json: bool = True) -> Any:
        """Run ``helm`` against the lab's API and return its JSON, or its text."""
        text = self._client("helm", *argv, *(["-o", "json"] if json else []))
        return loads(text) if json else text

    def _client(self, program: str, *argv: str, stdin: str = "") -> str:
        done = subprocess.run(
            [
                str(self.directory / "bin" / program),
                "--kubeconfig",
                str(self.directory / "kubeconfig"),
                *argv,
            ],
            env=self.environment,
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{program} {' '.join(argv)}: {done.stdout}{done.stderr}"
        return done.stdout


def need_cluster(lab: Lab) -> None:
    """Skip with a plain word where the lab has no Kubernetes API."""
    if not lab.has_cluster:
        pytest.skip("this lab has no Kubernetes API: 'mig-lab cluster binaries' tells why")
