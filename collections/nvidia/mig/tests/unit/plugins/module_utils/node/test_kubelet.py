# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kubelet's device checkpoint in all the forms that kubelet writes."""

from __future__ import annotations

import json

import pytest
from ansible_collections.nvidia.mig.plugins.module_utils.errors import DeviceError
from ansible_collections.nvidia.mig.plugins.module_utils.node.kubelet import read_allocations

UID = "2f1d6ad5-8d0c-4a55-9f0f-0a52b2a4d4c1"
OTHER = "7e2a3f6c-11aa-4a55-9f0f-0a52b2a4d4c1"


@pytest.fixture
def node(tmp_path):
    """Writes a checkpoint and pod log directories; reads them."""
    logs = tmp_path / "pods"
    logs.mkdir()

    def read(entries, pods=(f"team-a_train_{UID}",), logs_there=True):
        checkpoint = tmp_path / "kubelet_internal_checkpoint"
        content = {"Data": {"PodDeviceEntries": entries, "RegisteredDevices": {}}, "Checksum": 4711}
        checkpoint.write_text(json.dumps(content))
        for name in pods:
            (logs / name).mkdir(exist_ok=True)
        return read_allocations(str(checkpoint), str(logs if logs_there else tmp_path / "missing"))

    return read


def entry(devices, uid=UID, container="main", resource="nvidia.com/mig-3g.20gb"):
    return {
        "PodUID": uid,
        "ContainerName": container,
        "ResourceName": resource,
        "DeviceIDs": devices,
        "AllocResp": "",
    }


@pytest.mark.parametrize(
    "devices",
    [
        ["MIG-1", "GPU-2"],
        {"-1": ["MIG-1", "GPU-2"]},
        {"0": ["MIG-1"], "1": ["GPU-2"]},
        {"0": ["MIG-1", "GPU-2"], "1": None},
        {"0": ["MIG-1::0", "GPU-2::7"]},
    ],
)
def test_every_form_of_device_ids(node, devices):
    found = node([entry(devices)])
    for uuid in ("MIG-1", "GPU-2"):
        [pod] = found.of(uuid)
        assert str(pod) == "pod team-a/train"
        assert pod.as_dict() == {
            "namespace": "team-a",
            "name": "train",
            "uid": UID,
            "container": "main",
            "resource": "nvidia.com/mig-3g.20gb",
        }
    assert found.of("MIG-3") == ()
    assert found.has_mig_devices


def test_several_pods_share_a_device(node):
    entries = [entry(["GPU-1::0"]), entry(["GPU-1::1"]), entry(["GPU-1::2"], uid=OTHER)]
    found = node(entries, pods=(f"team-a_train_{UID}", f"team-b_infer-0_{OTHER}"))
    assert [str(pod) for pod in found.of("GPU-1")] == ["pod team-a/train", "pod team-b/infer-0"]
    assert not found.has_mig_devices


@pytest.mark.parametrize("entries", [[], None])
def test_no_pods(node, entries):
    assert node(entries).pods == {}


def test_no_kubelet(tmp_path):
    assert read_allocations(str(tmp_path / "missing"), str(tmp_path)).pods == {}


def test_a_pod_whose_log_directory_is_gone_is_gone(node):
    found = node([entry(["GPU-1"]), entry(["GPU-1"], uid=OTHER)])
    assert [pod.uid for pod in found.of("GPU-1")] == [UID]


def test_without_log_directories_every_entry_counts(node):
    found = node([entry(["GPU-1"])], logs_there=False)
    assert [str(pod) for pod in found.of("GPU-1")] == [f"pod with uid {UID}"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "{}",
        '{"Data": null}',
        '{"Data": {}}',
        '{"Data": {"PodDeviceEntries": {"a": 1}}}',
        '{"Data": {"PodDeviceEntries": [{"PodUID": "1"}]}}',
        '{"Data": {"PodDeviceEntries": ["x"]}}',
    ],
)
def test_another_file_is_refused(tmp_path, text):
    path = tmp_path / "checkpoint"
    path.write_text(text)
    with pytest.raises(DeviceError, match="is not a device checkpoint") as caught:
        read_allocations(str(path), str(tmp_path / "missing"))
    assert caught.value.path == "kubelet_checkpoint"
    assert str(path) in str(caught.value)


def test_a_file_that_cannot_be_read(tmp_path):
    with pytest.raises(DeviceError, match="cannot read kubelet's device checkpoint"):
        read_allocations(str(tmp_path), str(tmp_path))
    checkpoint = tmp_path / "checkpoint"
    checkpoint.write_text(json.dumps({"Data": {"PodDeviceEntries": [entry(["GPU-1"])]}}))
    with pytest.raises(DeviceError, match="pod log directory"):
        read_allocations(str(checkpoint), str(checkpoint))
