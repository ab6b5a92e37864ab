# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""mig_info tells what the simulator knows."""

from __future__ import annotations

import json

import pytest
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.node_gpu import gpus_from_info
from ansible_collections.nvidia.mig.tests.unit.plugins.modules.node_support import documented
from miglab import paths

MODELS = json.loads((paths.SIMULATOR / "gpus.json").read_text(encoding="utf-8"))["gpus"]


def undocumented(value, contains):
    """Keys anywhere in a returned value that RETURN does not tell."""
    if isinstance(value, list):
        return {key for item in value for key in undocumented(item, contains)}
    if not isinstance(value, dict) or contains is None:
        return set()
    found = set(value) - set(contains)
    for key, item in value.items():
        if key in contains:
            found |= {f"{key}.{name}" for name in undocumented(item, contains[key].get("contains"))}
    return found


@pytest.mark.parametrize("model", MODELS)
def test_every_model(make_host, model):
    host = make_host(model, 2)
    info = host.run("mig_info")
    assert not info.changed
    assert len(info.gpus) == 2
    gpu, simulated = info.gpus[1], host.node.read()["gpus"][1]
    for key in ("index", "uuid", "pci_bus_id", "pci_device_id", "memory_mib", "mig_capable"):
        assert gpu[key] == simulated[key], key
    assert gpu["product"] == simulated["name"]
    assert gpu["architecture"] == MODELS[model]["architecture"]
    told = {
        p["name"]: (p["id"], p["max_instances"], p["memory_mib"], p["multiprocessors"])
        for p in gpu["profiles"]
    }
    mig = MODELS[model].get("mig")
    assert told == {
        p["name"]: (p["id"], p["max"], p["memory_mib"], p["sm"])
        for p in (mig or {"profiles": []})["profiles"]
    }
    if mig:
        placements = {p["name"]: [(x["start"], x["size"]) for x in p["placements"]] for p in gpu["profiles"]}
        assert placements == {p["name"]: [tuple(x) for x in p["placements"]] for p in mig["profiles"]}
        ampere = MODELS[model]["architecture"] == "ampere"
        assert gpu["mig_mode"] == {"current": "disabled", "pending": "disabled", "needs_reset": ampere}
        assert all(profile["remaining"] is None for profile in gpu["profiles"])
    else:
        assert gpu["mig_mode"] == {"current": None, "pending": None, "needs_reset": False}
    assert not undocumented(info.gpus, documented("mig_info")["gpus"]["contains"])


def test_a_node_at_work(make_host):
    host = make_host("A100-SXM4-40GB", 2)
    host.layout({"gpus": 0, "profiles": {"3g.20gb": 1, "1c.3g.20gb": 2}})
    simulated = host.node.read()["gpus"][0]
    shared = next(i for i in simulated["instances"] if len(i["compute_instances"]) == 2)
    device = shared["compute_instances"][1]
    pid = host.process(0, shared["id"], device["id"], name="/usr/bin/python3", memory_mib=2048)
    other = host.process(1, name="Xorg", kind="graphics")
    uid = host.pod("team-a/train", device["uuid"], "nvidia.com/mig-1c.3g.20gb")
    host.pod("team-b/infer", host.node.read()["gpus"][1]["uuid"])
    info = host.run("mig_info")
    gpu = info.gpus[0]
    process = {
        "pid": pid,
        "name": "/usr/bin/python3",
        "memory_mib": 2048,
        "gpu_instance_id": shared["id"],
        "compute_instance_id": device["id"],
    }
    pod = {
        "namespace": "team-a",
        "name": "train",
        "uid": uid,
        "container": "main",
        "resource": "nvidia.com/mig-1c.3g.20gb",
    }
    assert gpu["processes"] == [process]
    assert {d["uuid"]: (d["processes"], d["pods"]) for d in gpu["mig_devices"]}[device["uuid"]] == (
        [process],
        [pod],
    )
    told = next(i for i in gpu["instances"] if i["id"] == shared["id"])
    assert (told["processes"], told["pods"]) == ([process], [pod])
    assert [c["profile"] for c in told["compute_instances"]] == ["1c.3g.20gb", "1c.3g.20gb"]
    assert {d["uuid"] for d in gpu["mig_devices"]} == {
        c["uuid"] for i in simulated["instances"] for c in i["compute_instances"]
    }
    assert {p["name"]: p["remaining"] for p in gpu["profiles"]}["1g.5gb"] == 0
    assert info.gpus[1]["processes"][0]["pid"] == other
    assert info.gpus[1]["pods"][0]["name"] == "infer"
    assert not undocumented(info.gpus, documented("mig_info")["gpus"]["contains"])
    # What the verification takes from it.
    assert [sorted(gpu.instances) for gpu in gpus_from_info(info.gpus)] == [
        ["1c.3g.20gb", "1c.3g.20gb", "3g.20gb"],
        [],
    ]


def test_a_pending_mode(make_host):
    host = make_host("A100-SXM4-40GB", 1, mode_change="reset")
    host.run("mig_mode", enabled=True)
    [gpu] = host.run("mig_info").gpus
    assert gpu["mig_mode"] == {"current": "disabled", "pending": "enabled", "needs_reset": True}
    assert gpu["reset_required"] is True


def test_check_mode_is_the_same(make_host):
    host = make_host("H100-SXM5-80GB", 1)
    assert host.run("mig_info", check=True).gpus == host.run("mig_info").gpus


def test_a_lost_gpu_is_named(make_host):
    host = make_host("A100-SXM4-40GB", 2)
    host.fault("nvmlDeviceGetHandleByIndex_v2", nth=2, code=15)
    msg = host.run("mig_info", fails=True).msg
    assert "GPU 1" in msg
    assert "Xid" in msg
