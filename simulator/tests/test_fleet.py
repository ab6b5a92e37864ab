"""Fleet files, the nodes they make, and the commands around them."""

from __future__ import annotations

import json
import re

import pytest
import yaml
from miglab import build, cli, codegen, control, fleet, paths
from miglab.console import LabError


def write(path, nodes):
    path.write_text(yaml.safe_dump({"nodes": nodes}), encoding="utf-8")
    return path


@pytest.fixture
def mig_lab(sim_lab, capsys):
    """Runs mig-lab in a lab of its own; returns what it printed."""

    def run(*arguments, code=0):
        capsys.readouterr()
        assert cli.main([str(argument) for argument in arguments]) == code
        captured = capsys.readouterr()
        return captured.err if code else captured.out

    return run


def test_the_lab_s_fleet_is_good():
    nodes = {node.name: node for node in fleet.load()}
    assert nodes["dgx01"].gpus == ("A100-SXM4-40GB",) * 8
    assert [nodes[f"dgx0{i}"].mode_change for i in (1, 2, 3, 4)] == ["driver", "driver", "reset", "reboot"]
    assert {model for node in nodes.values() for model in node.gpus} <= set(codegen.models())


def test_all_nodes_of_the_lab_start_with_mig_off(mig_lab):
    assert mig_lab("fleet", "create").count("created") == len(fleet.load())
    for name in fleet.names():
        node = fleet.read_node(name)
        assert len(node["gpus"]) == len({gpu["uuid"] for gpu in node["gpus"]})
        assert not any(gpu["mig"]["current"] or gpu["mig"]["pending"] for gpu in node["gpus"])
        assert not node["processes"]
    capable = {name: fleet.read_node(name)["gpus"][0]["mig_capable"] for name in fleet.names()}
    assert [name for name, mig in capable.items() if not mig] == ["t4-01"]


def test_creating_again_keeps_the_nodes(mig_lab, tmp_path):
    file = write(tmp_path / "fleet.yml", {"n1": {"gpu": "A30-24GB"}, "n2": {"gpu": "A30-24GB"}})
    mig_lab("fleet", "create", "--fleet", file)
    control.set_mode(paths.node_state("n1"), 0, True)
    uuid = fleet.read_node("n1")["gpus"][0]["uuid"]
    assert "n1: kept\n" in mig_lab("fleet", "create", "--fleet", file)
    assert fleet.read_node("n1")["gpus"][0]["mig"]["current"]

    write(file, {"n1": {"gpu": "A30-24GB", "count": 2}})
    assert "n1: kept, but" in mig_lab("fleet", "create", "--fleet", file)
    assert len(fleet.read_node("n1")["gpus"]) == 1
    assert "n1: replaced\n" in mig_lab("fleet", "create", "--fleet", file, "--reset")
    assert [gpu["mig"]["current"] for gpu in fleet.read_node("n1")["gpus"]] == [False, False]
    assert fleet.read_node("n1")["gpus"][0]["uuid"] == uuid  # the same hardware
    assert fleet.names() == ["n1", "n2"]


def test_a_node_of_another_simulator_is_made_anew(mig_lab, tmp_path):
    file = write(tmp_path / "fleet.yml", {"n1": {"gpu": "A30-24GB"}})
    mig_lab("fleet", "create", "--fleet", file)
    state = bytearray(paths.node_state("n1").read_bytes())
    state[8] ^= 1  # the layout's number
    paths.node_state("n1").write_bytes(state)
    assert "made by another version" in mig_lab("fleet", "show", "n1", code=1)
    assert "another version" in mig_lab("fleet", "create", "--fleet", file)
    assert len(fleet.read_node("n1")["gpus"]) == 1


def test_an_initial_state(mig_lab, tmp_path):
    spec = {
        "gpu": ["A100-SXM4-40GB", "A100-SXM4-40GB", "T4-16GB"],
        "driver": "550.90.07",
        "pci_bus_ids": ["0000:01:00.0", "0001:02:00.0", "0000:03:00.0"],
        "flipped": [1],
        "initial": [
            {"gpus": [0, 1], "instances": ["3g.20gb@4", "2g.10gb", {"profile": "1g.5gb", "start": 3}]},
        ],
        "workloads": [{"gpu": 0, "instance": 2, "pod": "default/train"}, {"gpu": 2, "process": "python"}],
        "clients": [{"gpu": 2, "name": "Xorg", "kind": "graphics"}],
    }
    mig_lab("fleet", "create", "--fleet", write(tmp_path / "fleet.yml", {"n1": spec}))
    node = fleet.read_node("n1")
    assert [gpu["pci_bus_id"] for gpu in node["gpus"]] == [
        "00000000:01:00.0",
        "00000001:02:00.0",
        "00000000:03:00.0",
    ]
    placed = [
        [(i["id"], i["profile"], i["placement"]["start"]) for i in g["instances"]] for g in node["gpus"]
    ]
    assert placed[0] == [(2, "3g.20gb", 4), (3, "2g.10gb", 0), (10, "1g.5gb", 3)]
    assert placed[1] == [(1, "3g.20gb", 4), (5, "2g.10gb", 0), (14, "1g.5gb", 3)]
    assert [process["name"] for process in node["processes"]] == ["python", "python", "Xorg"]
    assert node["pods"][0]["pod"] == "default/train"
    shown = mig_lab("fleet", "show")
    assert re.search(r"0 +NVIDIA A100-SXM4-40GB +MIG +3g.20gb @4 \(id 2\), 2g.10gb @0", shown)
    assert "GPU 0 instance 2/0: process 5000000 python (pod default/train), compute" in shown
    assert json.loads(mig_lab("fleet", "show", "n1", "--json")) == [node]


def test_the_example_in_the_readme_works(mig_lab, tmp_path):
    readme = (paths.SIMULATOR / "README.md").read_text(encoding="utf-8")
    file = tmp_path / "fleet.yml"
    file.write_text(re.search(r"```yaml\n(nodes:\n.*?)```", readme, re.DOTALL).group(1), encoding="utf-8")
    assert mig_lab("fleet", "create", "--fleet", file).endswith("dgx01: created\n")
    example = file.read_text(encoding="utf-8")
    assert all(
        f"    {key}:" in example for key in fleet.Node.__dataclass_fields__ if key not in ("name", "gpus")
    )


WRONG = [
    (
        {"gpu": "A100-SXM-40GB"},
        r"nodes.n.gpu: no GPU model 'A100-SXM-40GB' in gpus.json; did you mean A100-SXM4-40GB",
    ),
    ({"gpu": "Voodoo2"}, "known are A100-"),
    ({"gpu": "A30-24GB", "count": 0}, r"nodes.n.count: a positive number, not 0"),
    ({"gpu": ["A30-24GB"], "count": 2}, r"nodes.n.count: leave it out"),
    ({"gpu": "A30-24GB", "counts": 2}, r"nodes.n: no key 'counts'; there are .*count"),
    (
        {"gpu": "A30-24GB", "mode_change": "magic"},
        r"nodes.n.mode_change: driver, reset or reboot, not 'magic'",
    ),
    ({"gpu": "H100-SXM5-80GB", "mode_change": "reset"}, "mode_change does not apply"),
    ({"gpu": "A30-24GB", "initial": [{"gpus": 1}]}, r"nodes.n.initial\[0\].gpus: .*indexes 0 to 0"),
    ({"gpu": "A30-24GB", "initial": [{"profiles": {}}]}, r"nodes.n.initial\[0\]: no key 'profiles'"),
    ({"gpu": "A30-24GB", "initial": [{"instances": ["3g.20gb"]}]}, "A30-24GB does not offer 3g.20gb"),
    ({"gpu": "A30-24GB", "initial": [{"instances": ["4g.24gb", "1g.6gb"]}]}, "no room for 1g.6gb on GPU 0"),
    ({"gpu": "A30-24GB", "initial": [{"instances": ["2g.12gb@1"]}]}, "cannot start at 1"),
    ({"gpu": "T4-16GB", "initial": [{}]}, "T4-16GB has no MIG"),
    ({"gpu": "A30-24GB", "pci_bus_ids": ["0000:01:00.0", "0000:02:00.0"]}, r"pci_bus_ids: 2 for 1 GPUs"),
    ({"gpu": "A30-24GB", "pci_bus_ids": ["first"]}, "'first' is not like 0000:07:00.0"),
    ({"gpu": "A30-24GB", "clients": [{"name": "Xorg"}]}, r"nodes.n.clients\[0\]: 'gpu' is missing"),
    ({"gpu": "A30-24GB", "count": 17}, "at most 16 GPUs"),
    ([], "nodes.n: a mapping, not"),
]


@pytest.mark.parametrize(("spec", "text"), WRONG)
def test_a_wrong_fleet_file_says_what_and_where(mig_lab, tmp_path, spec, text):
    assert re.search(
        text, mig_lab("fleet", "create", "--fleet", write(tmp_path / "fleet.yml", {"n": spec}), code=1)
    )
    assert fleet.names() == []


@pytest.mark.parametrize("content", ["", "nodes: []", "hosts: {}", "nodes: {../x: {gpu: T4-16GB}}", "{"])
def test_a_file_that_is_no_fleet(mig_lab, tmp_path, content):
    file = tmp_path / "fleet.yml"
    file.write_text(content, encoding="utf-8")
    assert str(file) in mig_lab("fleet", "create", "--fleet", file, code=1)
    assert "cannot read" in mig_lab("fleet", "create", "--fleet", tmp_path / "none.yml", code=1)


def test_a_node_that_is_not_there(mig_lab, tmp_path):
    assert "'mig-lab fleet create' makes" in mig_lab("reboot", "dgx01", code=1)
    mig_lab("fleet", "create", "--fleet", write(tmp_path / "fleet.yml", {"dgx01": {"gpu": "T4-16GB"}}))
    assert "did you mean dgx01?" in mig_lab("reboot", "dgx1", code=1)
    assert "not a node name" in mig_lab("reboot", "../dgx01", code=1)


def test_a_reboot_has_a_new_boot_id_and_keeps_what_kubelet_wrote(mig_lab, tmp_path):
    spec = {"gpu": "A100-SXM4-40GB", "initial": [{"instances": ["3g.20gb"]}]}
    mig_lab("fleet", "create", "--fleet", write(tmp_path / "fleet.yml", {"n1": spec}))
    mig_lab("workload", "add", "n1", "--gpu", 0, "--instance", 2, "--pod", "ml/train")
    before = fleet.read_node("n1")
    mig_lab("reboot", "n1")
    after = fleet.read_node("n1")
    assert after["boot_id"] != before["boot_id"]
    assert (after["boots"], after["processes"], after["gpus"][0]["instances"]) == (1, [], [])
    assert after["pods"] == before["pods"]
    mig_lab("workload", "remove", "n1")
    assert fleet.read_node("n1")["pods"] == []


def test_commands_for_workloads_clients_faults_and_calls(mig_lab, tmp_path):
    spec = {"gpu": "A100-SXM4-40GB", "count": 2, "initial": [{"gpus": 0, "instances": ["3g.20gb"]}]}
    mig_lab("fleet", "create", "--fleet", write(tmp_path / "fleet.yml", {"n1": spec}))
    mig_lab("workload", "add", "n1", "--gpu", 0, "--instance", 2, "--process", "train")
    mig_lab("client", "add", "n1", "--gpu", 1, "--name", "nvidia-persistenced", "--kind", "open")
    assert [p["name"] for p in fleet.read_node("n1")["processes"]] == ["train", "nvidia-persistenced"]
    mig_lab("client", "remove", "n1", "--gpu", 1, "--name", "nvidia-persistenced")
    assert "has no client" in mig_lab("client", "remove", "n1", "--gpu", 1, "--name", "Xorg", code=1)
    assert "1 process" in mig_lab("workload", "remove", "n1", "--gpu", 0)

    add = ("fault", "add", "n1", "--function")
    mig_lab(*add, "nvmlDeviceSetMigMode", "--nth", 2, "--code", "IN_USE")
    mig_lab(*add, "nvmlDeviceGetName", "--code", "nvml_error_gpu_is_lost", "--times", 0, "--latency-ms", 5)
    mig_lab(*add, "nvmlInitWithFlags", "--kill")
    faults = fleet.read_node("n1")["faults"]
    assert [(f["nth"], f["code"], f["kill"]) for f in faults] == [(2, 19, ""), (1, 15, ""), (1, 0, "before")]
    assert "3 fault(s)" in mig_lab("fault", "clear", "n1")
    assert "near are nvmlDeviceSetMigMode" in mig_lab(*add, "nvmlDeviceSetMIGMode", "--code", 3, code=1)
    assert "is no NVML error" in mig_lab(*add, "nvmlDeviceGetName", "--code", "OOPS", code=1)
    assert "needs --code" in mig_lab(*add, "nvmlDeviceGetName", code=1)
    assert json.loads(mig_lab("calls", "n1", "--json")) == {}


def test_the_library_is_built_once(sim_lab, capsys):
    before = build.library().stat().st_mtime_ns
    assert cli.main(["build"]) == 0
    assert "up to date" in capsys.readouterr().out
    assert build.library().stat().st_mtime_ns == before


def test_a_build_that_fails_says_what_the_compiler_said(tmp_path, monkeypatch):
    monkeypatch.setenv("MIG_LAB_DIR", str(tmp_path / "lab"))
    compiler = tmp_path / "cc"
    compiler.write_text("#!/bin/sh\necho 'out of ink' >&2\nexit 1\n", encoding="utf-8")
    compiler.chmod(0o755)
    monkeypatch.setenv("CC", str(compiler))
    with pytest.raises(LabError, match="out of ink"):
        build.ensure_built(quiet=True)
    assert not build.library().exists()
    assert not list((tmp_path / "lab").glob("build-*"))


def test_every_assumption_is_marked():
    for key, model in codegen.models().items():
        assert model["assumed"], key
        assert all(isinstance(reason, str) for reason in model["assumed"])
