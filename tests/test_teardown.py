"""Back to whole GPUs and no releases."""

from __future__ import annotations

import json
import subprocess

from lab_runs import Lab, need_cluster


def releases(lab: Lab) -> list[str]:
    """Names of the Helm releases in the cluster."""
    told = subprocess.run(
        [
            lab.directory / "bin/helm",
            "--kubeconfig",
            lab.directory / "kubeconfig",
            "list",
            "-A",
            "-o",
            "json",
        ],
        env=lab.environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return sorted(release["name"] for release in json.loads(told.stdout))


def test_teardown(lab: Lab) -> None:
    need_cluster(lab)
    ready = lab.play("site.yml", "-l", "dgx01,hgx01")
    assert ready.rc == 0, ready.messages()
    installed = releases(lab)
    assert len(installed) == 2

    one = lab.play("playbooks/teardown.yml", "-l", "dgx01")
    assert one.rc == 0, one.messages()
    nodes = lab.nodes()
    assert not any(gpu["mig"]["current"] for gpu in nodes["dgx01"]["gpus"])
    assert any(gpu["mig"]["current"] for gpu in nodes["hgx01"]["gpus"])
    # The other nodes need them.
    assert releases(lab) == installed
    assert not lab.kubectl("get", "node", "dgx01")["spec"].get("unschedulable")

    everything = lab.play("playbooks/teardown.yml")
    assert everything.rc == 0, everything.messages()
    assert not any(gpu["mig"]["current"] for node in lab.nodes().values() for gpu in node["gpus"])
    # A batch at a time, and the nodes of one are back before the next goes.
    together = everything.out_together()
    assert max(map(len, together)) <= len(nodes) // 2
    assert together[-1] == set()
    assert releases(lab) == []
    again = lab.play("playbooks/teardown.yml")
    assert again.rc == 0, again.messages()
    assert not any(again.changed().values()), again.changed()
