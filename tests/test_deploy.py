"""What deploy/ has to run playbooks/repartition.yml all the time: taken by the programs that read it."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from lab_runs import BIN, ROOT, Lab, need_cluster

DEPLOY = ROOT / "deploy"
CRON_JOB = DEPLOY / "kubernetes/repartition.yml"
ACCOUNT = yaml.safe_load((ROOT / "collections/nvidia/mig/roles/cluster_access/defaults/main.yml").read_text())


def run(*argv: str | Path, cwd: Path = ROOT) -> str:
    done = subprocess.run([str(word) for word in argv], cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{argv}: {done.stdout}{done.stderr}"
    return done.stdout


def inventory(source: Path | str) -> dict[str, Any]:
    """Hosts, groups and variables as Ansible reads them."""
    program = str(BIN / "ansible-inventory")
    found: dict[str, Any] = json.loads(run(program, "-i", source, "--list"))
    return found


@pytest.fixture(scope="module")
def job() -> dict[str, Any]:
    """The pod of the CronJob."""
    template = yaml.safe_load(CRON_JOB.read_text())["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    assert isinstance(template, dict)
    return template


def test_the_api_server_takes_the_cron_job(lab: Lab) -> None:
    """Strictly: a field that it does not know is an error."""
    need_cluster(lab)
    space = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": ACCOUNT["cluster_access_namespace"]},
    }
    lab.kubectl("apply", "-f", "-", stdin=json.dumps(space))  # as playbooks/access.yml does, which leaves it
    dry = ("apply", "--dry-run=server", "--validate=strict", "-f")
    taken = lab.kubectl(*dry, str(CRON_JOB))
    assert taken["spec"]["concurrencyPolicy"] == "Forbid"
    broken = CRON_JOB.read_text().replace("concurrencyPolicy: Forbid", "concurrentPolicy: Forbid")
    with pytest.raises(AssertionError, match="concurrentPolicy"):
        lab.kubectl(*dry, "-", stdin=broken)


def test_the_cron_job_runs_under_the_account_of_the_role(job: dict[str, Any]) -> None:
    assert job["serviceAccountName"] == ACCOUNT["cluster_access_name"]
    assert (
        yaml.safe_load(CRON_JOB.read_text())["metadata"]["namespace"] == ACCOUNT["cluster_access_namespace"]
    )


def test_the_cron_job_finds_the_playbook_in_the_image(job: dict[str, Any]) -> None:
    steps = yaml.safe_load((DEPLOY / "execution-environment.yml").read_text())["additional_build_steps"]
    [copied] = [step.split() for step in steps["append_final"] if step.startswith("COPY _build/playbooks ")]
    [container] = job["containers"]
    playbook = Path(container["args"][-1])
    assert playbook.parent == Path(copied[2])
    assert (ROOT / "playbooks" / playbook.name).exists()
    mounted = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert mounted == {"/runner/inventory", "/runner/ssh"}
    assert "command" not in container


def test_an_inventory_as_the_config_map_has_it(tmp_path: Path) -> None:
    """One file, with all that group_vars had, in the folder that kubelet makes of it."""
    (tmp_path / "..2026").mkdir()
    (tmp_path / "..data").symlink_to("..2026")
    (tmp_path / "inventory.yml").symlink_to("..data/inventory.yml")
    file = tmp_path / "..2026/inventory.yml"
    source = ROOT / "inventories/example"
    run(BIN / "ansible-inventory", "-i", source, "--list", "--yaml", "--export", "--output", file)
    assert inventory(tmp_path)["_meta"] == inventory(source)["_meta"]
    assert inventory(tmp_path)["dgx"] == inventory(source)["dgx"]


def test_an_execution_environment_can_be_built_of_it(tmp_path: Path) -> None:
    program = BIN / "ansible-builder"
    if not program.exists():
        pytest.skip("no ansible-builder: pip install ansible-builder")
    file = DEPLOY / "execution-environment.yml"
    run(program, "create", "--file", file, "--context", tmp_path, "--output-filename", "Containerfile")
    build = tmp_path / "_build"
    assert (build / "nvidia-mig/galaxy.yml").exists()
    assert (build / "playbooks/repartition.yml").exists()
    assert "COPY _build/playbooks /runner/project/playbooks" in (tmp_path / "Containerfile").read_text()
    # The collection is taken from where the requirements say, in the folder in which the image is built.
    own = yaml.safe_load((build / "requirements.yml").read_text())["collections"][0]
    (tmp_path / "own.yml").write_text(yaml.safe_dump({"collections": [own]}))
    galaxy = (BIN / "ansible-galaxy", "collection", "install", "-r", tmp_path / "own.yml", "--no-deps")
    run(*galaxy, "--collections-path", tmp_path / "installed", cwd=build)
    assert (tmp_path / "installed/ansible_collections/nvidia/mig/plugins/modules/mig_info.py").exists()


def test_systemd_takes_the_units(tmp_path: Path) -> None:
    """With the paths of this repository, as an operator puts theirs in."""
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("no systemd-analyze here")
    home = "/opt/mig-provisioning-toolkit"
    venv = tmp_path / "bin"
    venv.mkdir()
    for name in ("ansible-playbook", "ansible-rulebook"):
        (venv / name).write_text("#!/bin/sh\n")
        (venv / name).chmod(0o755)
    units = sorted(path.name for path in (DEPLOY / "systemd").iterdir())
    for name in units:
        text = (DEPLOY / "systemd" / name).read_text().replace(f"{home}/.venv/bin", str(venv))
        (tmp_path / name).write_text(text.replace(home, str(ROOT)))
    done = subprocess.run(
        [program, "verify", "--man=no", *(str(tmp_path / name) for name in units)],
        capture_output=True,
        text=True,
        check=False,
    )
    # Other units of this machine may be complained of, too.
    assert not [line for line in done.stderr.splitlines() if "mig-" in line]
    assert {"mig-repartition.service", "mig-repartition.timer"} <= set(units)


def test_the_commands_of_the_units_are_there() -> None:
    for path in (DEPLOY / "systemd").glob("*.service"):
        text = path.read_text()
        for word in text.partition("ExecStart=")[2].splitlines()[0].split():
            if word.startswith(("playbooks/", "deploy/")):
                assert (ROOT / word).exists(), f"{path.name}: {word}"
