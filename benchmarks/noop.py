"""What a run costs that has nothing to do: our partition play beside a play of one bare ``nvidia-smi -L``.

Usage: benchmarks/noop.py [HOSTS] [ROUNDS]      (100 hosts, 3 rounds; ratios of medians)
Needs the environment that ``make lab`` makes. Uses a lab of its own, without Kubernetes.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
LAYOUT = [{"gpus": "all", "profiles": {"3g.20gb": 2}}]

PLAYS = {
    "bare nvidia-smi -L": [{"hosts": "all", "tasks": [{"command": "nvidia-smi -L"}]}],
    "partition": [
        {"hosts": "all", "tasks": [{"import_role": {"name": "nvidia.mig.mig", "rolespec_validate": False}}]}
    ],
}


def main() -> None:
    """Print seconds per play, their ratio, and the tasks per host of a no-op."""
    hosts = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        environment = {**os.environ, "MIG_LAB_DIR": name, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg")}
        fleet(place, environment, hosts)
        for play, content in PLAYS.items():
            (place / f"{play}.yml").write_text(yaml.safe_dump(content))

        def run(play: str) -> float:
            start = time.monotonic()
            done = subprocess.run(
                [BIN / "ansible-playbook", "-i", place / "hosts.yml", place / f"{play}.yml"],
                env=environment,
                cwd=ROOT,
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode:
                sys.exit(done.stdout + done.stderr)
            return time.monotonic() - start

        print(f"{hosts} hosts with 8 GPUs each; first run: {run('partition'):.1f} s")
        seconds: dict[str, list[float]] = {play: [] for play in PLAYS}
        for _ in range(rounds):
            for play in PLAYS:
                seconds[play].append(run(play))
    medians = {play: statistics.median(values) for play, values in seconds.items()}
    for play, median in medians.items():
        print(f"{play:<20} {median:6.1f} s  {[round(value, 1) for value in seconds[play]]}")
    bare, ours = medians.values()
    print(f"ratio {ours / bare:.3f}  (bar: 1.15)")


def fleet(place: Path, environment: dict[str, str], hosts: int) -> None:
    """A fleet of equal nodes and its inventory."""
    names = [f"node{number:04d}" for number in range(1, hosts + 1)]
    nodes = {node: {"gpu": "A100-SXM4-40GB", "count": 8} for node in names}
    (place / "fleet.yml").write_text(yaml.safe_dump({"nodes": nodes}))
    for command in (["build"], ["fleet", "create", "--fleet", str(place / "fleet.yml")]):
        subprocess.run([BIN / "mig-lab", *command], env=environment, check=True, stdout=subprocess.DEVNULL)
    variables = {
        "ansible_connection": "lab",
        "ansible_python_interpreter": sys.executable,
        "mig_strategy": "single",
        "mig_layout": LAYOUT,
        "mig_kubernetes_enabled": False,
    }
    (place / "hosts.yml").write_text(
        yaml.safe_dump({"all": {"hosts": dict.fromkeys(names), "vars": variables}})
    )


if __name__ == "__main__":
    main()
