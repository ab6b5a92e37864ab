# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The boot-time program on simulated nodes: the very file that a node gets, on a Python without Ansible."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Optional

import pynvml
from ansible_collections.nvidia.mig.plugins.plugin_utils.boot_program import boot_program
from ansible_collections.nvidia.mig.tests.unit.plugins.modules.node_support import Host
from miglab import control


@dataclass
class Run:
    """How the program ended, and what it left on the node."""

    rc: int
    said: str
    status: Dict[str, Any]


@dataclass
class BootNode:
    """A simulated node with the program and a wanted layout."""

    host: Host
    directory: Path
    python: str = sys.executable

    @classmethod
    def make(cls, host: Host, directory: Path, **wish: Any) -> BootNode:
        """Install the program with a layout; ``wish`` holds options of mig_layout."""
        node = cls(host, directory)
        (directory / "packages").mkdir()
        shutil.copy(pynvml.__file__, directory / "packages")
        (directory / "restore").write_bytes(boot_program("/usr/bin/python3"))
        node.want(**wish)
        return node

    @property
    def layout(self) -> Path:
        return self.directory / "layout.json"

    @property
    def status(self) -> Path:
        return self.directory / "run" / "restore.json"

    @property
    def features(self) -> Path:
        return self.directory / "features.d"

    def want(self, **wish: Any) -> None:
        places = {
            "kubelet_checkpoint": str(self.host.node.checkpoint),
            "pod_log_directory": str(self.host.node.pods),
        }
        self.layout.write_text(json.dumps({**places, **wish}))

    def reboot(self) -> None:
        """As `mig-lab reboot`, and /run is empty again."""
        control.reboot(self.host.node.state)
        shutil.rmtree(self.status.parent, ignore_errors=True)

    def restore(
        self, timeout: float = 60, euid: int = 0, packages: Optional[Path] = None, path: Optional[Path] = None
    ) -> Run:
        """Run the program. -S hides site-packages, so there is no Ansible. ``path`` comes first in PATH."""
        environment = self.host.node.environment(euid)
        if path:
            environment["PATH"] = f"{path}:{environment['PATH']}"
        done = subprocess.run(
            [
                *(self.python, "-S", str(self.directory / "restore"), "--timeout", str(timeout)),
                *("--layout", str(self.layout), "--status", str(self.status)),
                *("--features", str(self.features)),
            ],
            env={
                **environment,
                "PYTHONPATH": str(packages or self.directory / "packages"),
            },
            capture_output=True,
            text=True,
            timeout=timeout + 30,
            check=False,
        )
        assert "Traceback" not in done.stderr, done.stderr
        status = json.loads(self.status.read_text()) if self.status.exists() else {}
        return Run(done.returncode, done.stdout + done.stderr, status)
