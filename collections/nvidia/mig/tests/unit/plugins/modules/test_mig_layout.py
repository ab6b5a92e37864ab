# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""mig_layout on simulated nodes: what it does, what it says, and that both are the same."""

from __future__ import annotations

import pytest

TWO_HALVES = {"gpus": "all", "profiles": {"3g.20gb": 2}}
BALANCED = {"gpus": "all", "profiles": {"3g.20gb": 1, "2g.10gb": 1, "1g.5gb": 2}}
SEVEN = {"gpus": "all", "profiles": {"1g.5gb": 7}}
EMPTY = {"gpus": "all", "profiles": {}}
OFF = {"gpus": "all", "mig": False}

# On every model: two layouts to go between.
LAYOUTS = {
    "A30-24GB": ({"4g.24gb": 1}, {"2g.12gb": 1, "1g.6gb": 2}),
    "A100-SXM4-40GB": ({"3g.20gb": 2}, {"3g.20gb": 1, "2g.10gb": 1, "1g.5gb": 1, "1g.5gb+me": 1}),
    "A100-PCIE-40GB": ({"7g.40gb": 1}, {"1g.10gb": 4}),
    "A100-SXM4-80GB": ({"4g.40gb": 1, "3g.40gb": 1}, {"1c.3g.40gb": 3, "1g.10gb": 3}),
    "A100-PCIE-80GB": ({"1g.10gb": 7}, {"2g.20gb": 3}),
    "H100-SXM5-80GB": ({"1g.20gb": 4}, {"1g.10gb": 7}),
    "H100-PCIE-80GB": ({"3g.40gb": 2}, {"2c.4g.40gb": 2}),
    "H100-NVL-94GB": ({"3g.47gb": 2}, {"1g.12gb": 7}),
    "H200-141GB": ({"3g.71gb": 2}, {"1g.18gb": 7}),
    "B200-180GB": ({"3g.90gb": 2}, {"1g.45gb": 4}),
    "RTX-PRO-6000-BLACKWELL-SERVER": ({"2g.48gb": 2}, {"1g.24gb": 4}),
}


def entry(profiles, gpus="all"):
    return {"gpus": gpus, "profiles": profiles}


@pytest.mark.parametrize("model", LAYOUTS)
def test_check_mode_predicts_what_the_run_does(make_host, model):
    host = make_host(model, 2)
    for profiles in (*LAYOUTS[model], LAYOUTS[model][0]):
        before = host.gpus()
        planned = host.layout(entry(profiles), state="planned")
        predicted = host.layout(entry(profiles), check=True, diff=True)
        assert host.gpus() == before
        real = host.layout(entry(profiles), diff=True)
        assert (planned.changed, predicted.changed, real.changed) == (False, True, True)
        for key in ("actions", "plan", "before", "after", "gpus", "complete", "reset_required", "touched"):
            assert planned.data[key] == predicted.data[key] == real.data[key], key
        assert predicted.diff == real.diff
        assert real.diff["before"] == real.before
        assert real.diff["after"] == real.after
        wanted = sorted(name for name, count in profiles.items() for dummy in range(count))
        assert all(sorted(gpu["profiles"]) == wanted for gpu in real.gpus)


@pytest.mark.parametrize("model", LAYOUTS)
def test_the_second_run_makes_no_changing_call(make_host, model):
    host = make_host(model, 2)
    for profiles in LAYOUTS[model]:
        host.layout(entry(profiles))
        host.reset_calls()
        again = host.layout(entry(profiles), diff=True)
        assert not again.changed
        assert again.actions == again.plan == []
        assert again.before == again.after
        assert not host.changing_calls()


@pytest.mark.parametrize("model", LAYOUTS)
def test_a_full_compute_instance_has_all_multiprocessors(make_host, model):
    """On Hopper and newer two compute instance profiles have one slice; only one takes all of a 1g double."""
    host = make_host(model, 1)
    host.layout(entry(LAYOUTS[model][0]))
    [gpu] = host.node.read()["gpus"]
    code = (
        "import pynvml; pynvml.nvmlInit(); gpu = pynvml.nvmlDeviceGetHandleByIndex(0)\n"
        "for i in range(7):\n"
        "    try: mig = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, i)\n"
        "    except pynvml.NVMLError: continue\n"
        "    print(pynvml.nvmlDeviceGetAttributes_v2(mig).multiprocessorCount)\n"
    )
    info = host.run("mig_info").gpus[0]
    sizes = {profile["name"]: profile["multiprocessors"] for profile in info["profiles"]}
    measured = sorted(int(line) for line in host.node.python(code).stdout.split())
    assert measured == sorted(sizes[instance["profile"]] for instance in gpu["instances"])


def test_few_calls_on_a_no_op(make_host):
    host = make_host("A100-SXM4-40GB", 8)
    host.layout(BALANCED)
    host.reset_calls()
    host.layout(BALANCED)
    calls = host.calls()
    # What eight equal GPUs have in common is read once.
    assert calls["nvmlDeviceGetGpuInstanceProfileInfoV"] < 20
    assert calls["nvmlDeviceGetGpuInstancePossiblePlacements_v2"] == 14
    # No pod holds a MIG device, so nobody asks for their UUIDs.
    assert "nvmlDeviceGetMigDeviceHandleByIndex" not in calls
    assert calls["nvmlInitWithFlags"] == 1
    assert sum(calls.values()) < 500


def test_only_what_differs_is_touched(make_host):
    host = make_host("A100-SXM4-40GB", 3)
    host.layout({"gpus": [0, 1], "profiles": {"3g.20gb": 2}})
    kept = host.node.read()["gpus"]
    result = host.layout({"gpus": 0, "profiles": {"3g.20gb": 1, "2g.10gb": 1}}, TWO_HALVES | {"gpus": [1]})
    assert result.actions == ["GPU 0: destroy 3g.20gb at 0:4", "GPU 0: create 2g.10gb at 0:2"]
    now = host.node.read()["gpus"]
    assert now[1:] == kept[1:]
    uuid = {i["placement"]["start"]: i["compute_instances"][0]["uuid"] for i in kept[0]["instances"]}
    assert {i["placement"]["start"]: i["compute_instances"][0]["uuid"] for i in now[0]["instances"]}[
        4
    ] == uuid[4]


def test_gpus_that_no_entry_selects_stay(make_host):
    host = make_host("A100-SXM4-40GB", 2)
    host.layout(TWO_HALVES)
    before = host.gpus()
    result = host.layout({"gpus": 1, "mig": False})
    assert host.gpus()[0] == before[0]
    assert [gpu["gpu"] for gpu in result.touched] == [1]
    assert set(result.before) == set(result.after) == {"GPU 1"}
    assert [gpu["mig"] for gpu in result.gpus] == [True, False]
    assert not host.layout().changed


def test_selectors_and_filters(make_host):
    host = make_host(["A100-SXM4-40GB", "A30-24GB", "T4-16GB"])
    gpus = host.run("mig_info").gpus
    result = host.layout(
        {"gpus": gpus[0]["uuid"], "profiles": {"7g.40gb": 1}},
        {"gpus": [gpus[1]["pci_bus_id"]], "profiles": {"4g.24gb": 1}},
    )
    assert [gpu["profiles"] for gpu in result.gpus] == [["7g.40gb"], ["4g.24gb"], []]
    result = host.layout(
        {"gpus": "all", "product": "A100*", "profiles": {"1g.5gb": 7}},
        {"gpus": "all", "device_id": gpus[1]["pci_device_id"], "profiles": {"1g.6gb": 4}},
        {"gpus": "all", "product": "H100*", "profiles": {"1g.10gb": 7}},
        {"gpus": 2, "mig": False},
    )
    assert [len(gpu["profiles"]) for gpu in result.gpus] == [7, 4, 0]
    assert [gpu["mig_capable"] for gpu in result.gpus] == [True, True, False]


def test_a_mig_parted_file(make_host):
    host = make_host("A100-SXM4-40GB", 2)
    config = {
        "version": "v1",
        "mig-configs": {
            "all-disabled": [{"devices": "all", "mig-enabled": False}],
            "custom": [
                {"devices": [0], "mig-enabled": True, "mig-devices": {"1g.5gb": 7}},
                {
                    "device-filter": "0x20B010DE",
                    "devices": [1],
                    "mig-enabled": True,
                    "mig-devices": {"1c.3g.20gb": 3, "3g.20gb": 1, "2g.10gb": 0},
                },
            ],
        },
    }
    result = host.run("mig_layout", config=config, config_name="custom", strategy="mixed")
    assert [len(gpu["profiles"]) for gpu in result.gpus] == [7, 4]
    assert not host.run("mig_layout", config=config, config_name="custom").changed
    assert host.run("mig_layout", config=config, config_name="all-disabled").changed
    assert [gpu["mig"] for gpu in host.run("mig_layout", config=config, config_name="all-disabled").gpus] == [
        False,
        False,
    ]


def test_a_mode_that_needs_a_reset_comes_first_and_alone(make_host):
    host = make_host("A100-SXM4-40GB", 2, mode_change="reset")
    predicted = host.layout(TWO_HALVES, check=True)
    assert [gpu["resets"] for gpu in predicted.touched] == [True, True]
    assert not predicted.reboot_expected
    first = host.layout(TWO_HALVES)
    assert (first.changed, first.complete, first.reset_required) == (True, False, [0, 1])
    assert all(not gpu["instances"] for gpu in host.gpus())
    waiting = host.layout(TWO_HALVES)
    assert (waiting.changed, waiting.complete, waiting.actions) == (False, False, [])
    assert host.run("gpu_reset").reset == [0, 1]
    last = host.layout(TWO_HALVES)
    assert (last.changed, last.complete, last.reset_required) == (True, True, [])
    assert first.actions + last.actions == predicted.actions
    assert not host.layout(TWO_HALVES).changed


def test_a_guest_is_expected_to_reboot_where_a_mode_needs_a_reset(make_host):
    host = make_host("A100-SXM4-40GB", 2, mode_change="reboot")
    assert host.layout(TWO_HALVES, check=True).reboot_expected
    assert not host.layout(OFF, check=True).reboot_expected
    host.layout(TWO_HALVES)
    assert host.run("gpu_reset").reboot_required


def test_one_gpu_that_waits_for_its_reset_lets_no_instance_change(make_host):
    host = make_host(
        "A100-SXM4-40GB", 2, mode_change="reset", initial=[{"gpus": [1], "instances": ["7g.40gb"]}]
    )
    before = host.gpus()[1]
    result = host.layout(TWO_HALVES)
    assert result.actions == ["GPU 0: enable MIG mode (GPU reset)"]
    assert result.reset_required == [0]
    assert host.gpus()[1] == before


def test_a_pending_mode_is_tried_again_once_the_client_is_gone(make_host):
    host = make_host("A100-SXM4-40GB", 1)
    host.process(0, kind="open", name="nvidia-persistenced")
    assert host.layout(TWO_HALVES).reset_required == [0]
    host.end_processes()
    result = host.layout(TWO_HALVES)
    assert result.complete
    assert result.actions[0] == "GPU 0: reset the GPU to enable MIG mode (pending)"


def test_a_pending_mode_that_is_not_wanted_is_taken_back(make_host):
    host = make_host("A100-SXM4-40GB", 1, mode_change="reset")
    host.layout(TWO_HALVES)
    result = host.layout(OFF)
    assert result.actions == ["GPU 0: keep MIG mode disabled (cancel the pending change)"]
    assert host.gpus()[0]["mode"]["pending"] == host.gpus()[0]["mode"]["current"]


def test_disabling_destroys_and_enabling_empty_creates_nothing(make_host):
    for model in ("A100-SXM4-40GB", "H100-SXM5-80GB"):
        host = make_host(model, 1)
        profile = "3g.20gb" if model.startswith("A") else "3g.40gb"
        host.layout({"gpus": 0, "profiles": {profile: 2}})
        off = host.layout(OFF)
        assert off.gpus[0]["mig"] is False
        assert len(off.actions) == 3
        empty = host.layout(EMPTY)
        assert (empty.gpus[0]["mig"], empty.gpus[0]["profiles"]) == (True, [])
        assert not host.layout(EMPTY).changed


def test_a_gpu_instance_without_its_compute_instance_is_completed(make_host):
    host = make_host("A100-SXM4-40GB", 1)
    host.layout(TWO_HALVES)
    host.fault("nvmlGpuInstanceDestroy", kill="before")
    assert host.attempt("mig_layout", layout=[EMPTY]).rc == -9
    result = host.layout(TWO_HALVES)
    assert result.actions and all("compute instance" in line for line in result.actions)
    assert not host.layout(TWO_HALVES).changed


def test_flipped_gpus(make_host):
    host = make_host("A100-SXM4-40GB", 2, flipped=[0])
    for wanted in (TWO_HALVES, BALANCED, SEVEN, BALANCED):
        assert host.layout(wanted).changed
        assert not host.layout(wanted).changed


@pytest.mark.parametrize(
    "missing",
    [
        ("nvmlDeviceGetGpuInstanceProfileInfoV", "nvmlGpuInstanceGetComputeInstanceProfileInfoV"),
        ("nvmlDeviceGetGpuInstancePossiblePlacements_v2",),
        ("nvmlDeviceCreateGpuInstanceWithPlacement", "nvmlGpuInstanceCreateComputeInstanceWithPlacement"),
        ("nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v3"),
        ("nvmlDeviceGetFieldValues", "nvmlDeviceGetMPSComputeRunningProcesses_v3"),
    ],
)
def test_older_drivers_lack_functions(make_host, missing):
    host = make_host("A100-SXM4-40GB", 1, driver="460.106.00")
    for function in missing:
        host.fault(function, code=13, times=0)
    wanted = entry({"3g.20gb": 1, "1c.2g.10gb": 2, "1g.5gb": 2})
    result = host.layout(wanted)
    assert result.complete
    assert sorted(result.gpus[0]["profiles"]) == ["1c.2g.10gb", "1c.2g.10gb", "1g.5gb", "1g.5gb", "3g.20gb"]
    assert not host.layout(wanted).changed


def test_reset_of_hopper_is_never_asked_for(make_host):
    host = make_host("H100-SXM5-80GB", 2)
    result = host.layout({"gpus": "all", "profiles": {"1g.10gb": 7}})
    assert result.complete
    assert result.actions[0] == "GPU 0: enable MIG mode"
