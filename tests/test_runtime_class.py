"""The RuntimeClass of the container toolkit, on a real Kubernetes API."""

from __future__ import annotations

from pathlib import Path

from lab_runs import Lab, need_cluster

PLAYBOOK = """
- name: Only the cluster's part of the role
  hosts: localhost
  gather_facts: false
  tasks:
    - name: RuntimeClass
      ansible.builtin.include_role:
        name: nvidia.mig.container_toolkit
        tasks_from: runtime_class
"""


def test_runtime_class(lab: Lab, tmp_path: Path) -> None:
    """Predicted, created with the handler that containerd has, and found again."""
    need_cluster(lab)
    playbook = tmp_path / "runtime-class.yml"
    playbook.write_text(PLAYBOOK)
    play = (str(playbook), "-e", f"container_toolkit_kubeconfig={lab.directory / 'kubeconfig'}")

    def classes() -> dict[str, str]:
        found = lab.kubectl("get", "runtimeclasses")["items"]
        return {item["metadata"]["name"]: item["handler"] for item in found}

    lab.kubectl("delete", "runtimeclass", "nvidia", "--ignore-not-found", json=False)
    predicted = lab.play(*play, "--check")
    assert predicted.rc == 0, predicted.messages()
    assert predicted.changed() == {"localhost": 1}
    assert classes() == {}

    first = lab.play(*play)
    assert first.rc == 0, first.messages()
    assert first.changed() == {"localhost": 1}
    assert classes() == {"nvidia": "nvidia"}

    again = lab.play(*play)
    assert again.rc == 0, again.messages()
    assert again.changed() == {"localhost": 0}
    lab.kubectl("delete", "runtimeclass", "nvidia", json=False)
