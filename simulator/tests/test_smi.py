"""The small nvidia-smi."""

from __future__ import annotations

import pynvml
import pytest
from miglab import control


@pytest.fixture
def a100(sim_node):
    layout = ["3g.20gb@4", {"profile": "4g.20gb", "compute": [2, 1]}]
    return sim_node("A100-SXM4-40GB", 2, mode_change="reset", initial=[{"gpus": 0, "instances": layout}])


def test_list(a100):
    lines = a100.run(["nvidia-smi", "-L"], euid=1000).stdout.splitlines()
    assert lines[0].startswith("GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-")
    assert [line.split()[1] for line in lines[1:4]] == ["2c.4g.20gb", "1c.4g.20gb", "3g.20gb"]
    assert lines[3].startswith("  MIG 3g.20gb         Device  2: (UUID: MIG-")
    assert lines[4].startswith("GPU 1:")


def rows(node, table):
    """The words of each row of `nvidia-smi mig`."""
    lines = node.run(["nvidia-smi", "mig", table]).stdout.splitlines()
    return [line.split() for line in lines if "MIG" in line]


def test_instances(a100):
    assert [row[1:7] for row in rows(a100, "-lgi")] == [
        ["0", "MIG", "3g.20gb", "9", "2", "4:4"],
        ["0", "MIG", "4g.20gb", "5", "1", "0:4"],
    ]
    assert [row[1:8] for row in rows(a100, "-lci")] == [
        ["0", "2", "MIG", "3g.20gb", "2", "0", "0:3"],
        ["0", "1", "MIG", "1c.4g.20gb", "0", "1", "2:1"],
        ["0", "1", "MIG", "2c.4g.20gb", "1", "0", "0:2"],
    ]


def test_profiles_and_placements(sim_node):
    node = sim_node("A100-SXM4-40GB", initial=[{"instances": ["3g.20gb"]}])
    row = next(row for row in rows(node, "-lgip") if "3g.20gb" in row)
    assert row[1:-1] == ["0", "MIG", "3g.20gb", "9", "1/2", "19.50", "No", "42", "2", "0"]
    assert node.run(["nvidia-smi", "mig", "-lgipp"]).stdout.splitlines()[:4] == [
        "GPU  0 Profile ID 19 Placements: {0,1,2,3,4,5,6}:1",
        "GPU  0 Profile ID 14 Placements: {0,2,4}:2",
        "GPU  0 Profile ID  9 Placements: {0,4}:4",
        "GPU  0 Profile ID  5 Placement : {0}:4",
    ]


def test_the_tables_are_straight(a100):
    for arguments in (["-lgi"], ["-lci"], ["-lgip"]):
        lines = a100.run(["nvidia-smi", "mig", *arguments]).stdout.splitlines()
        assert len(lines) > 4
        assert len({len(line) for line in lines}) == 1


def test_reset_takes_every_form_of_id(a100):
    uuid = a100.read()["gpus"][1]["uuid"]
    for identity in ("1", uuid, "0000:0F:00.0", "00000000:0f:00.0"):
        with a100.inside():
            pynvml.nvmlInit()
            pynvml.nvmlDeviceSetMigMode(pynvml.nvmlDeviceGetHandleByIndex(1), 1)
        output = a100.run(["nvidia-smi", "--gpu-reset", "-i", identity]).stdout
        assert output == "GPU 00000000:0F:00.0 was successfully reset.\nAll done.\n"
        assert [item["mig"]["current"] for item in a100.read()["gpus"]] == [True, True]
        with a100.inside():
            pynvml.nvmlInit()
            pynvml.nvmlDeviceSetMigMode(pynvml.nvmlDeviceGetHandleByIndex(1), 0)
        a100.run(["nvidia-smi", "-r", f"--id={identity}"])
    assert len(a100.read()["gpus"][0]["instances"]) == 2  # GPU 0 was left alone


def test_reset_is_refused_while_the_gpu_is_used_and_says_by_whom(a100):
    control.add_process(a100.state, 0, 2, 0, name="train")
    control.add_process(a100.state, 0, name="nvidia-persistenced", kind="open")
    done = a100.run(["nvidia-smi", "--gpu-reset"], check=False)
    assert done.returncode == pynvml.NVML_ERROR_IN_USE
    assert "GPU 00000000:07:00.0 could not be reset: In use by another client" in done.stdout
    assert "(train)" in done.stdout and "(nvidia-persistenced)" in done.stdout
    assert "GPU 00000000:0F:00.0 was successfully reset." in done.stdout
    assert len(a100.read()["gpus"][0]["instances"]) == 2


def test_only_root_resets(a100):
    done = a100.run(["nvidia-smi", "--gpu-reset"], euid=1000, check=False)
    assert (done.returncode, "Only root" in done.stdout) == (pynvml.NVML_ERROR_NO_PERMISSION, True)
    assert len(a100.read()["gpus"][0]["instances"]) == 2


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--no-such"], 2),
        (["mig"], 2),
        (["mig", "-L"], 2),
        (["-L", "-i"], 2),
        (["-L", "-i", "7"], 6),
        (["-L", "-i", "GPU-none"], 6),
        (["mig", "-lgi", "-i", "1"], 6),  # not in MIG mode
        (["-h"], 0),
        ([], 0),
    ],
)
def test_exit_codes(a100, arguments, code):
    assert a100.run(["nvidia-smi", *arguments], check=False).returncode == code


def test_listing_instances_needs_root(a100):
    assert a100.run(["nvidia-smi", "mig", "-lgi"], euid=1000, check=False).returncode == 4


def test_without_a_driver(a100, tmp_path):
    a100.state.rename(tmp_path / "away")
    done = a100.run(["nvidia-smi"], check=False)
    assert (done.returncode, done.stdout) == (9, "Failed to initialize NVML: Driver Not Loaded\n")


def test_version(a100):
    output = a100.run(["nvidia-smi", "--version"]).stdout
    assert "DRIVER version      : 580.95.05\nCUDA Version        : 13.0\n" in output
