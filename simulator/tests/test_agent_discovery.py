"""The agent's GPU feature discovery writes the labels that NVIDIA's own was seen to write."""

from __future__ import annotations

import pytest
from miglab.agent.discovery import labels
from miglab.agent.settings import RefusedError, Settings, Shared
from miglab.agent.testing import a100s

SEVEN = "7x1g.5gb"
MIXED_NODE = ["off"] * 5 + ["1x3g.20gb 1x2g.10gb 1x1g.5gb"] * 2 + ["2x2g.10gb"]


def short(hardware, **settings):
    """Labels without their prefix."""
    return {
        name.removeprefix("nvidia.com/"): value
        for name, value in labels(hardware, Settings(**settings)).items()
    }


def test_the_labels_of_a_node_without_mig():
    assert short(a100s("off", "off")) == {
        "cuda.driver.major": "580",
        "cuda.driver.minor": "95",
        "cuda.driver.rev": "05",
        "cuda.runtime.major": "13",
        "cuda.runtime.minor": "0",
        "cuda.driver-version.major": "580",
        "cuda.driver-version.minor": "95",
        "cuda.driver-version.revision": "05",
        "cuda.driver-version.full": "580.95.05",
        "cuda.runtime-version.major": "13",
        "cuda.runtime-version.minor": "0",
        "cuda.runtime-version.full": "13.0",
        "gpu.machine": "unknown",
        "gpu.count": "2",
        "gpu.replicas": "1",
        "gpu.sharing-strategy": "none",
        "gpu.product": "NVIDIA-A100-SXM4-40GB",
        "gpu.memory": "40960",
        "gpu.family": "ampere",
        "gpu.compute.major": "8",
        "gpu.compute.minor": "0",
        "gpu.mode": "compute",
        "mig.capable": "true",
        "mps.capable": "false",
        "vgpu.present": "false",
    }


def test_none_with_mig_on_has_no_replicas_and_no_strategy():
    found = short(a100s(SEVEN, SEVEN))
    assert (found["gpu.count"], found["gpu.replicas"], found["gpu.product"]) == (
        "2",
        "0",
        "NVIDIA-A100-SXM4-40GB",
    )
    assert "mig.strategy" not in found


def test_single_puts_the_mig_devices_in_the_place_of_the_gpus():
    # A driver before 470 names the product without NVIDIA, as in the walk-through: 8 GPUs, two 3g.20gb each.
    found = short(a100s(*["2x3g.20gb"] * 8, name="A100-SXM4-40GB"), strategy="single")
    assert {name: value for name, value in found.items() if name.startswith(("gpu.", "mig."))} == {
        "gpu.machine": "unknown",
        "gpu.mode": "compute",
        "gpu.family": "ampere",
        "gpu.compute.major": "8",
        "gpu.compute.minor": "0",
        "gpu.product": "A100-SXM4-40GB-MIG-3g.20gb",
        "gpu.count": "16",
        "gpu.replicas": "1",
        "gpu.sharing-strategy": "none",
        "gpu.memory": "19968",
        "gpu.multiprocessors": "42",
        "gpu.slices.gi": "3",
        "gpu.slices.ci": "3",
        "gpu.engines.copy": "3",
        "gpu.engines.decoder": "2",
        "gpu.engines.encoder": "0",
        "gpu.engines.jpeg": "0",
        "gpu.engines.ofa": "0",
        "mig.capable": "true",
        "mig.strategy": "single",
    }


@pytest.mark.parametrize(
    "gpus", [["1x3g.20gb 1x2g.10gb", SEVEN], ["off", SEVEN], ["empty", SEVEN], ["6x1g.5gb 1x1g.5gb+me"]]
)
def test_single_marks_a_layout_that_it_cannot_show(gpus):
    found = short(a100s(*gpus), strategy="single")
    assert found["gpu.product"] == "NVIDIA-A100-SXM4-40GB-MIG-INVALID"
    assert [found[f"gpu.{name}"] for name in ("count", "replicas", "memory", "sharing-strategy")] == [
        "0",
        "0",
        "0",
        "",
    ]
    assert "gpu.slices.gi" not in found
    assert found["mig.strategy"] == "single"


def test_mixed_labels_every_profile_and_counts_all_gpus():
    found = short(a100s(*MIXED_NODE), strategy="mixed")
    assert (found["gpu.count"], found["gpu.replicas"], found["gpu.product"]) == (
        "8",
        "1",
        "NVIDIA-A100-SXM4-40GB",
    )
    assert {name: value for name, value in found.items() if name.endswith(".count")} == {
        "gpu.count": "8",
        "mig-1g.5gb.count": "2",
        "mig-2g.10gb.count": "4",
        "mig-3g.20gb.count": "2",
    }
    assert found["mig-2g.10gb.product"] == "NVIDIA-A100-SXM4-40GB-MIG-2g.10gb"
    assert found["mig-3g.20gb.multiprocessors"] == "42"
    assert found["mig.strategy"] == "mixed"


def test_mixed_without_a_whole_gpu_has_no_replicas():
    assert short(a100s(SEVEN, "empty"), strategy="mixed")["gpu.replicas"] == "0"


def test_variants_of_a_profile_have_labels_of_their_own():
    found = short(a100s("6x1g.5gb 1x1g.5gb+me", "1x1c.2g.10gb"), strategy="mixed")
    assert (found["mig-1g.5gb.count"], found["mig-1g.5gb.me.count"]) == ("6", "1")
    assert (found["mig-1c.2g.10gb.slices.ci"], found["mig-1c.2g.10gb.slices.gi"]) == ("1", "2")


def test_time_slicing_shows_in_product_and_replicas_but_not_in_count():
    shared = {"sharing": "time-slicing", "shared": (Shared("nvidia.com/gpu", 4),)}
    found = short(a100s("off", "off"), **shared)
    assert [found[f"gpu.{name}"] for name in ("product", "count", "replicas", "sharing-strategy")] == [
        "NVIDIA-A100-SXM4-40GB-SHARED",
        "2",
        "4",
        "time-slicing",
    ]
    assert short(a100s("off"), **shared, rename_by_default=True)["gpu.product"] == "NVIDIA-A100-SXM4-40GB"


def test_mps_and_mig_do_not_go_together():
    with pytest.raises(RefusedError, match="MPS"):
        labels(a100s("off", SEVEN), Settings(sharing="mps", shared=(Shared("nvidia.com/gpu", 2),)))


def test_older_versions_know_fewer_labels():
    assert {"gpu.mode", "vgpu.present"} & set(short(a100s("off"), version=(0, 15, 1))) == set()
    assert "mps.capable" not in short(a100s("off"), version=(0, 14, 5))


def test_product_names_become_label_values():
    hardware = a100s("off", name="NVIDIA RTX PRO 6000 (Blackwell)  Server")
    assert short(hardware)["gpu.product"] == "NVIDIA-RTX-PRO-6000-Blackwell-Server"
    assert short(hardware, version=(0, 15, 0))["gpu.product"] == "NVIDIA-RTX-PRO-6000-(Blackwell)-Server"
