# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the role nvidia_driver derives from a distribution and the inventory, without a node."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar
from ansible_collections.nvidia.mig.plugins.module_utils.node.openpgp import parse_fingerprint

ROLE = Path(__file__).parents[3] / "roles/nvidia_driver"
BASE = "https://developer.download.nvidia.com/compute/cuda/repos"
CUDATOOLS = "EB693B3035CD5710E231E123A4B469963BF863CC"
RHEL = "610C7B14E068A878070DA4E99CD0A493D42D0685"


def variables(distribution="Debian 12.5", architecture="x86_64", present="", nvswitches=(), **inventory):
    """The role's variables on such a node; index one to have it templated."""
    loader = DataLoader()
    merged = {}
    for name in ("defaults", "vars"):
        merged |= loader.load_from_file(str(ROLE / name / "main.yml"), trusted_as_template=True)
    name, _blank, version = distribution.partition(" ")
    merged["ansible_facts"] = {
        "distribution": name,
        "distribution_version": version,
        "distribution_major_version": version.split(".")[0],
        "architecture": architecture,
        "kernel": "6.1.0",
    }
    merged["__nvidia_driver_before"] = {"driver": present or None, "nvswitches": list(nvswitches)}
    merged["__nvidia_driver_after"] = {"driver": present or None}
    merged |= inventory

    class Variables:
        def __getitem__(self, key):
            return Templar(loader=loader, variables=merged).template(merged[f"__nvidia_driver_{key}"])

    return Variables()


@pytest.mark.parametrize(
    ("distribution", "architecture", "address", "key", "fingerprints"),
    [
        ("Debian 12.5", "x86_64", "debian12/x86_64", "3bf863cc.pub", [CUDATOOLS]),
        ("Ubuntu 22.04", "x86_64", "ubuntu2204/x86_64", "3bf863cc.pub", [CUDATOOLS]),
        ("Ubuntu 24.04", "aarch64", "ubuntu2404/sbsa", "3bf863cc.pub", [CUDATOOLS]),
        ("Rocky 9.6", "x86_64", "rhel9/x86_64", "D42D0685.pub", [RHEL]),
        ("RedHat 8.10", "aarch64", "rhel8/sbsa", "D42D0685.pub", [RHEL]),
        ("AlmaLinux 10.1", "x86_64", "rhel10/x86_64", "CDF6BA43.pub", []),
    ],
)
def test_nvidia_s_repositories(distribution, architecture, address, key, fingerprints):
    node = variables(distribution, architecture)
    assert node["uri"] == f"{BASE}/{address}/"
    assert node["key_url"] == f"{BASE}/{address}/{key}"
    assert node["fingerprints"] == fingerprints


def test_a_mirror_has_nvidia_s_key_unless_it_has_its_own():
    mirror = variables(nvidia_driver_repository_uri="http://mirror/cuda/debian12")
    assert mirror["key_url"] == "http://mirror/cuda/debian12/3bf863cc.pub"
    assert mirror["fingerprints"] == [CUDATOOLS]
    own = variables(nvidia_driver_repository_key="text", nvidia_driver_repository_key_fingerprints=["A" * 40])
    assert own["key_url"] == ""
    assert own["fingerprints"] == ["A" * 40]


def test_pinned_fingerprints_are_fingerprints():
    for repository in variables()["repositories"].values():
        if repository["fingerprint"]:
            assert parse_fingerprint(repository["fingerprint"]) == repository["fingerprint"]
            assert repository["fingerprint"].endswith(repository["key"].removesuffix(".pub").upper())


@pytest.mark.parametrize(
    ("distribution", "options", "names"),
    [
        ("Debian 12.5", {}, ["nvidia-open"]),
        ("Rocky 9.6", {"kernel_modules": "proprietary"}, ["cuda-drivers"]),
        ("Ubuntu 24.04", {"source": "distribution", "version": "580"}, ["nvidia-driver-580-server-open"]),
        (
            "Ubuntu 24.04",
            {"source": "distribution", "version": "580.95.05", "kernel_modules": "proprietary"},
            ["nvidia-driver-580-server"],
        ),
        ("Rocky 9.6", {"source": "distribution"}, []),
        ("Fedora 44", {}, []),
        ("Debian 12.5", {"packages": ["nvidia-driver-cuda"]}, ["nvidia-driver-cuda"]),
    ],
)
def test_packages(distribution, options, names):
    inventory = {f"nvidia_driver_{name}": value for name, value in options.items()}
    assert variables(distribution, **inventory)["names"] == names


@pytest.mark.parametrize(
    ("present", "version", "agrees"),
    [
        ("", "", False),
        ("", "580", False),
        ("580.95.05", "", True),
        ("580.95.05", "580", True),
        ("580.95.05", "580.95", True),
        ("580.95.05", "580.95.05", True),
        ("580.95.05", "580.9", False),
        ("580.95.05", "570", False),
    ],
)
def test_a_driver_that_agrees_stays(present, version, agrees):
    node = variables(present=present, nvidia_driver_version=version)
    assert node["agrees"] is agrees
    assert node["version_mark"] == ("" if agrees or not version else node["version_marks"]["apt"])


@pytest.mark.parametrize(
    ("distribution", "version", "wanted"),
    [
        ("Debian 12.5", "580", "nvidia-open=580.*"),
        ("Debian 12.5", "580.95.05", "nvidia-open=580.95.05-*"),
        ("Rocky 9.6", "580", "nvidia-open-580.*"),
        ("Rocky 9.6", "580.95.05", "nvidia-open-580.95.05"),
    ],
)
def test_what_the_package_manager_is_asked_for(distribution, version, wanted):
    assert variables(distribution, nvidia_driver_version=version)["wanted"][0] == wanted


@pytest.mark.parametrize(
    "lines",
    [
        [
            "nvidia-open | 580.95.05-1 | https://a  Packages",
            "nvidia-open | 3:570.195.03-1~deb12u1 | https://b  Packages",
        ],
        ["nvidia-open | 580.95.05 |", "", "nvidia-open | 580.95.05 |", "nvidia-open | 570.195.03 |"],
    ],
    ids=["apt", "dnf"],
)
def test_versions_that_the_repositories_offer(lines):
    assert variables(__nvidia_driver_offers={"stdout_lines": lines})["offered"] == ["580.95.05", "570.195.03"]


@pytest.mark.parametrize(
    ("distribution", "version", "modules", "stream", "locked"),
    [
        ("Rocky 9.6", "", "open", "open-dkms", False),
        ("Rocky 9.6", "580", "open", "580-open", False),
        ("Rocky 9.6", "580", "proprietary", "580-dkms", False),
        ("Rocky 9.6", "580.95.05", "open", "580-open", True),
        ("Rocky 10.0", "580", "open", None, True),
    ],
)
def test_module_streams_and_locks(distribution, version, modules, stream, locked):
    inventory = {"nvidia_driver_version": version, "nvidia_driver_kernel_modules": modules}
    node = variables(distribution, **inventory)
    assert node["modular"] is (stream is not None)
    assert stream is None or node["streams"][modules] == stream
    assert node["locked"] is locked


@pytest.mark.parametrize(
    ("distribution", "present", "wanted"),
    [
        ("Debian 12.5", "580.95.05", "nvidia-fabricmanager=580.95.05-*"),
        ("Ubuntu 24.04", "570.195.03", "nvidia-fabricmanager-570=570.195.03-*"),
        ("Rocky 9.6", "580.95.05", "nvidia-fabricmanager-580.95.05"),
        ("Rocky 9.6", "570.195.03", "nvidia-fabric-manager-570.195.03"),
    ],
)
def test_the_fabric_manager_is_the_driver_s(distribution, present, wanted):
    assert variables(distribution, present=present)["fabric_manager_wanted"] == wanted


@pytest.mark.parametrize(
    ("choice", "nvswitches", "expected"),
    [
        ("auto", [], False),
        ("auto", ["0000:c4:00.0"], True),
        ("present", [], True),
        ("absent", ["0000:c4:00.0"], False),
    ],
)
def test_the_fabric_manager_is_for_nvswitches(choice, nvswitches, expected):
    node = variables(nvswitches=nvswitches, nvidia_driver_fabric_manager=choice)
    assert node["with_fabric_manager"] is expected
