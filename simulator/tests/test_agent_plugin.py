"""The agent's device plugin registers what NVIDIA's own binaries were seen to register."""

from __future__ import annotations

import pytest
from miglab.agent.plugin import resources
from miglab.agent.settings import RefusedError, Settings, Shared
from miglab.agent.testing import a100s

SEVEN = "7x1g.5gb"
OLD, USUAL, NEW = (0, 15, 1), (0, 17, 4), (0, 20, 0)
GPU, MIG = "nvidia.com/gpu", "nvidia.com/mig-"


@pytest.mark.parametrize("version", [OLD, USUAL, NEW])
@pytest.mark.parametrize(
    ("strategy", "gpus", "expected"),
    [
        ("none", ["off", "off"], {GPU: 2}),
        ("none", [SEVEN, SEVEN], {GPU: 2}),
        ("single", ["off", "off"], {GPU: 2}),
        ("single", [SEVEN, SEVEN], {GPU: 14}),
        ("single", [SEVEN, "3x1g.5gb"], {GPU: 10}),
        ("single", ["2x3g.20gb"] * 8, {GPU: 16}),
        ("single", ["3x1c.2g.10gb", "5x1c.2g.10gb"], {GPU: 8}),
        ("mixed", ["off", "off"], {GPU: 2}),
        ("mixed", [SEVEN, SEVEN], {f"{MIG}1g.5gb": 14}),
        (
            "mixed",
            ["1x3g.20gb 1x2g.10gb 1x1g.5gb", SEVEN],
            {f"{MIG}1g.5gb": 8, f"{MIG}2g.10gb": 1, f"{MIG}3g.20gb": 1},
        ),
        ("mixed", ["off", SEVEN], {GPU: 1, f"{MIG}1g.5gb": 7}),
        (
            "mixed",
            ["off"] * 5 + ["1x3g.20gb 1x2g.10gb 1x1g.5gb"] * 2 + ["2x2g.10gb"],
            {GPU: 5, f"{MIG}1g.5gb": 2, f"{MIG}2g.10gb": 4, f"{MIG}3g.20gb": 2},
        ),
    ],
)
def test_every_version_offers(version, strategy, gpus, expected):
    assert resources(a100s(*gpus), Settings(strategy=strategy, version=version)) == expected


@pytest.mark.parametrize("version", [OLD, USUAL, NEW])
@pytest.mark.parametrize(
    ("gpus", "words"),
    [
        (["1x3g.20gb 1x2g.10gb", SEVEN], "more than one MIG device type present on node"),
        (["6x1g.5gb 1x1g.5gb+me", SEVEN], "more than one MIG device type present on node"),
        (["off", SEVEN], "configured with the same migEnabled value"),
        (["empty", SEVEN], "device 0 has no MIG devices configured"),
        (["empty", "empty"], "device 0 has no MIG devices configured"),
    ],
)
def test_single_refuses(version, gpus, words):
    with pytest.raises(RefusedError, match=words):
        resources(a100s(*gpus), Settings(strategy="single", version=version))


def test_mixed_and_a_gpu_without_instances_by_version():
    hardware = a100s("empty", SEVEN)
    with pytest.raises(RefusedError, match="no MIG devices configured"):
        resources(hardware, Settings(strategy="mixed", version=OLD))
    assert resources(hardware, Settings(strategy="mixed", version=(0, 16, 0))) == {f"{MIG}1g.5gb": 7}
    assert resources(a100s("empty"), Settings(strategy="mixed", version=USUAL)) == {}


def test_media_extensions_have_a_resource_of_their_own_since_0_20():
    hardware = a100s(SEVEN, "6x1g.5gb 1x1g.5gb+me")
    assert resources(hardware, Settings(strategy="mixed", version=(0, 19, 3))) == {f"{MIG}1g.5gb": 14}
    assert resources(hardware, Settings(strategy="mixed", version=NEW)) == {
        f"{MIG}1g.5gb": 13,
        f"{MIG}1g.5gb.me": 1,
    }


def test_compute_instances_smaller_than_their_gpu_instance_by_version():
    hardware = a100s("3x1c.2g.10gb")
    assert resources(hardware, Settings(strategy="mixed", version=USUAL)) == {f"{MIG}2g.10gb": 3}
    with pytest.raises(RefusedError, match="'1c.2g.10gb' does not match any resource patterns"):
        resources(hardware, Settings(strategy="mixed", version=NEW))


def test_time_slicing_multiplies_only_what_it_names():
    settings = Settings(strategy="mixed", sharing="time-slicing", shared=(Shared(f"{MIG}1g.5gb", 4),))
    assert resources(a100s("off", SEVEN), settings) == {GPU: 1, f"{MIG}1g.5gb": 28}
    renamed = Settings(sharing="time-slicing", shared=(Shared(GPU, 3),), rename_by_default=True)
    assert resources(a100s("off", "off"), renamed) == {f"{GPU}.shared": 6}


def test_mps_is_not_for_mixed():
    with pytest.raises(RefusedError, match="MPS"):
        resources(a100s("off"), Settings(strategy="mixed", sharing="mps", shared=(Shared(GPU, 2),)))


def test_mps_is_not_for_mig_devices():
    settings = Settings(strategy="single", sharing="mps", shared=(Shared(GPU, 2),))
    with pytest.raises(RefusedError, match="MPS is not supported for MIG devices"):
        resources(a100s(SEVEN), settings)
    assert resources(a100s("off"), settings) == {GPU: 2}


def test_mps_serves_so_many_clients():
    def offer(replicas):
        return resources(a100s("off"), Settings(sharing="mps", shared=(Shared(GPU, replicas),)))

    assert offer(48) == {GPU: 48}
    with pytest.raises(RefusedError, match="49 > 48"):
        offer(49)
