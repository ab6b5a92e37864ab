"""The inventory that an operator begins with: every name in it is a variable, and the job runs on it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator
from lab_runs import BIN, ROOT, Lab, Run, need_cluster

EXAMPLE = ROOT / "inventories/example"
ROLES = ROOT / "collections/nvidia/mig/roles"
SWITCHES = {"provision_driver", "provision_nvml_python", "provision_container_toolkit"}
# The machines of the example, as they are in the lab.
NODES = {"dgx01.example.com": "dgx01", "dgx02.example.com": "dgx02", "hgx01.example.com": "hgx01"}


def read(*sources: Path) -> dict[str, Any]:
    given = [word for source in sources for word in ("-i", str(source))]
    argv = [str(BIN / "ansible-inventory"), *given, "--list"]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A copy of the example, as an operator begins."""
    return Path(shutil.copytree(EXAMPLE, tmp_path / "example"))


def options() -> set[str]:
    """Every option of every role."""
    return {
        name
        for path in ROLES.glob("*/meta/argument_specs.yml")
        for entry in yaml.safe_load(path.read_text())["argument_specs"].values()
        for name in entry.get("options") or {}
    }


def test_every_variable_is_one_also_those_in_comments() -> None:
    known = options() | SWITCHES
    for path in EXAMPLE.glob("group_vars/*.yml"):
        own = re.findall(
            r"^(?:# )?(?:.*: )?((?:mig|gpu|nvidia|container|provision|nvml)_\w+): ", path.read_text(), re.M
        )
        assert own, path
        assert set(own) <= known, path


def test_no_variable_is_set_for_groups_of_both_sorts() -> None:
    read_vars = {
        path.stem: set(yaml.safe_load(path.read_text())) for path in EXAMPLE.glob("group_vars/*.yml")
    }
    for machine in ("dgx", "hgx"):
        for purpose in ("training", "inference"):
            assert not read_vars[machine] & read_vars[purpose]


def test_a_default_that_is_told_is_the_default() -> None:
    defaults = {
        name: value
        for path in ROLES.glob("*/defaults/main.yml")
        for name, value in (yaml.safe_load(path.read_text()) or {}).items()
    }
    path = EXAMPLE / "group_vars/gpu_nodes.yml"
    lines = {line.partition(":")[0]: line for line in path.read_text().splitlines()}
    for name, value in yaml.safe_load(path.read_text()).items():
        if name in defaults and "{{" not in str(value) and "# default:" not in lines[name]:
            assert value == defaults[name], name


def test_hosts_of_another_inventory_are_the_same_hosts(tmp_path: Path) -> None:
    """In the groups of kubespray, and in DeepOps' that are written with dashes."""
    for name, groups in {
        "kubespray": ("kube_control_plane", "kube_node", "k8s_cluster"),
        "deepops": ("kube-master", "kube-node", "k8s-cluster"),
    }.items():
        master, node, cluster = groups
        file = tmp_path / f"{name}.ini"
        file.write_text(
            f"""[all]
mgmt01 ansible_host=192.0.2.1
dgx01.example.com ansible_host=192.0.2.11
dgx02.example.com ansible_host=192.0.2.12
[{master}]
mgmt01
[{node}]
dgx01.example.com
dgx02.example.com
[{cluster}:children]
{master}
{node}
"""
        )
        found = read(file, EXAMPLE)
        hosts = found["_meta"]["hostvars"]
        assert hosts["dgx01.example.com"]["ansible_host"] == "192.0.2.11"
        assert hosts["dgx01.example.com"]["mig_strategy"] == "single"
        assert hosts["dgx02.example.com"]["mig_strategy"] == "mixed"
        assert "mig_strategy" not in hosts["mgmt01"]
        assert set(found["gpu_nodes"]["children"]) == {"dgx", "hgx", "training", "inference"}


def test_the_job_runs_on_it(lab: Lab, own: Path) -> None:
    """On the lab's machines, which have their driver and whatever else is provisioned already."""
    need_cluster(lab)
    hosts = (own / "hosts.yml").read_text()
    for name, node in NODES.items():
        hosts = hosts.replace(name, node)
    (own / "hosts.yml").write_text(hosts)
    (own / "group_vars/gpu_nodes").mkdir()
    (own / "group_vars/gpu_nodes.yml").rename(own / "group_vars/gpu_nodes/a.yml")
    for path in (ROOT / "inventories/lab/group_vars/gpu_nodes").iterdir():
        text = path.read_text().replace("{{ inventory_dir }}/../..", str(ROOT))
        (own / "group_vars/gpu_nodes" / f"b_{path.name}").write_text(text)
    there = {**dict.fromkeys(sorted(SWITCHES), False), "mig_restore_at_boot": False, "mig_refresh_cdi": False}
    run = lab.play("site.yml", "-i", str(own), "--check", "-e", json.dumps(there))
    assert run.rc == 0, run.messages()
    assert "dgx01      8x NVIDIA A100-SXM4-40GB, MIG on 8" in run.text
    assert "-> 8x (2x 3g.20gb)" in run.text and "-> 8x (2x 3g.40gb)" in run.text
    assert "-> 5x whole GPU, 2x (3g.20gb, 2g.10gb, 1g.5gb), 1x (2x 2g.10gb)" in run.text


def lint(lab: Lab, inventory: Path, **more: Any) -> Run:
    return lab.play("playbooks/lint.yml", "-i", str(inventory), "-e", json.dumps(more))


def test_there_is_nothing_to_say_of_our_own(lab: Lab) -> None:
    for inventory in (EXAMPLE, ROOT / "inventories/lab"):
        run = lint(lab, inventory)
        assert run.rc == 0, run.messages()
        [result] = [result for name, _host, result in run.tasks if "notes" in result]
        assert (result["problems"], result["notes"]) == ([], [])


def test_the_lab_says_which_gpus_its_nodes_have() -> None:
    fleet = yaml.safe_load((ROOT / "simulator/fleets/lab.yml").read_text())["nodes"]
    hosts = read(ROOT / "inventories/lab")["_meta"]["hostvars"]
    for name, node in fleet.items():
        assert hosts[name]["mig_gpus"] == {node["gpu"]: node["count"]}


def test_slips_are_told_with_host_variable_and_what_is_allowed(lab: Lab, own: Path) -> None:
    slips = {
        "dgx": "mig_stategy: mixed\nmig_layouts: {none: [], mixed: [], single: []}\n",
        "hgx": "mig_strategy: none\n",
        "inference": "mig_drain_timeout: soon\n",
    }
    for name, text in slips.items():
        with (own / f"group_vars/{name}.yml").open("a") as file:
            file.write(text)
    run = lint(lab, own)
    assert run.rc != 0
    told = run.messages()
    assert (
        "dgx01.example.com, dgx02.example.com: mig_stategy is no variable of this toolkit; did you mean"
        in told
    )
    assert "dgx02.example.com: argument 'mig_drain_timeout'" in told and "converted to an int" in told
    [result] = [result for _name, _host, result in run.tasks if "notes" in result]
    notes = "\n".join(result["notes"])
    assert (
        "hgx01.example.com: mig_strategy is set by the groups hgx, training, none of which is inside" in notes
    )
    assert "dgx01.example.com: mig_layouts is set by the groups dgx, training" in notes


def test_a_layout_that_does_not_fit_is_told_before_there_is_a_node(lab: Lab, own: Path) -> None:
    file = own / "group_vars/inference.yml"
    text = file.read_text().replace("{1g.5gb: 7}", "{1g.10gb: 7}").replace("{2g.10gb: 2}", "{3g.40gb: 2}")
    file.write_text(text)
    run = lint(lab, own)
    assert run.rc != 0
    assert (
        "dgx02.example.com: layout[2].profiles.3g.40gb: GPU 7: A100-SXM4-40GB does not offer 3g.40gb"
        in run.messages()
    )
    file.write_text(text.replace("{3g.40gb: 2}", "{2g.10gb: 2}"))
    run = lint(lab, own)
    assert run.rc == 0, run.messages()
    [result] = [result for _name, _host, result in run.tasks if "notes" in result]
    assert any("mig_layouts.single, after a switch to it: " in line for line in result["notes"]), result[
        "notes"
    ]


def test_editors_get_a_schema_that_the_example_keeps() -> None:
    schema = json.loads((ROOT / "inventories/group_vars.schema.json").read_text())
    check = Draft7Validator(schema)
    Draft7Validator.check_schema(schema)
    for path in [*EXAMPLE.glob("group_vars/*.yml"), *(ROOT / "inventories/lab/group_vars").rglob("*.yml")]:
        assert not list(check.iter_errors(yaml.safe_load(path.read_text()))), path
    assert set(schema["properties"]) >= options() | SWITCHES
    for path in EXAMPLE.glob("group_vars/*.yml"):
        assert path.read_text().startswith(
            "---\n# yaml-language-server: $schema=../../group_vars.schema.json\n"
        )


@pytest.mark.parametrize(
    "wrong",
    [
        {"mig_strategy": "singel"},
        {"mig_drain": "soon"},
        {"mig_drain_timeout": "soon"},
        {"mig_layout": [{"gpu": "all"}]},
        {"mig_layout": [{"gpus": "all", "profiles": {"3g20gb": 1}}]},
        {"mig_layouts": {"singel": []}},
        {"mig_sharing": {"timeslicing": {"resources": []}}},
        {"mig_sharing": {"mps": {"resources": [{"name": "nvidia.com/gpu", "replicas": 1}]}}},
        {"mig_gpus": {"A100": 8}},
        {"mig_host_services": "nvsm"},
    ],
    ids=str,
)
def test_the_schema_refuses(wrong: dict[str, Any]) -> None:
    schema = json.loads((ROOT / "inventories/group_vars.schema.json").read_text())
    assert not Draft7Validator(schema).is_valid(wrong)
    assert Draft7Validator(schema).is_valid({next(iter(wrong)): "{{ another }}"})
