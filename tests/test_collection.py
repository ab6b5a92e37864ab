"""The collection as an operator's own repository uses it: built, installed, run from there."""

from __future__ import annotations

import subprocess
from pathlib import Path

from lab_runs import BIN, ROOT, Lab


def test_an_own_repository_can_use_the_collection(lab: Lab, tmp_path: Path) -> None:
    def galaxy(*argv: str) -> None:
        done = subprocess.run(
            [str(BIN / "ansible-galaxy"), "collection", *argv],
            env=lab.environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    galaxy("build", str(ROOT / "collections/nvidia/mig"), "--output-path", str(tmp_path))
    archive = next(tmp_path.glob("nvidia-mig-*.tar.gz"))
    galaxy(
        "install", str(archive), "--no-deps", "--force", "--collections-path", str(tmp_path / "collections")
    )
    (tmp_path / "ansible.cfg").write_text(
        "[defaults]\n"
        f"inventory = {ROOT}/inventories/lab\n"
        f"connection_plugins = {ROOT}/simulator/ansible/connection\n"
        "collections_path = collections\n"
        "callbacks_enabled = nvidia.mig.mig_summary\n"
    )
    (tmp_path / "site.yml").write_text(
        "- hosts: a30-01\n  gather_facts: false\n  roles:\n    - role: nvidia.mig.mig\n"
    )
    own = {"ANSIBLE_CONFIG": str(tmp_path / "ansible.cfg")}
    first = lab.play("site.yml", cwd=tmp_path, **own)
    assert first.rc == 0, first.messages() or first.text
    second = lab.play("site.yml", cwd=tmp_path, **own)
    assert second.rc == 0
    assert not any(second.changed().values())
