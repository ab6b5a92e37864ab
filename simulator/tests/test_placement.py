"""Which instances fit, where the driver puts them, and what ids they get."""

from __future__ import annotations

import itertools
from collections import Counter

import pynvml
import pytest
from miglab.testing_nvml import MODELS_WITH_MIG, create, gpu, info, placements, profiles, start_of

# Valid maximal configurations (placements, multisets), counted from NVIDIA's documented tables:
# of plain profiles, and with the double-memory 1g profile as well.
SEVEN_SLICES = ((19, 14), (78, 38))
FOUR_SLICES = ((5, 4), (5, 4))

# The 14 multisets of a 7-slice GPU, as (number, slices).
SEVEN_SLICE_MULTISETS = {
    frozenset({(7, 1)}),
    frozenset({(4, 1), (3, 1)}),
    frozenset({(4, 1), (2, 1), (1, 1)}),
    frozenset({(4, 1), (1, 3)}),
    frozenset({(3, 2)}),
    frozenset({(3, 1), (2, 1), (1, 1)}),
    frozenset({(3, 1), (1, 3)}),
    frozenset({(2, 2), (3, 1)}),
    frozenset({(2, 1), (1, 2), (3, 1)}),
    frozenset({(1, 4), (3, 1)}),
    frozenset({(2, 3), (1, 1)}),
    frozenset({(2, 2), (1, 3)}),
    frozenset({(2, 1), (1, 5)}),
    frozenset({(1, 7)}),
}
FOUR_SLICE_MULTISETS = {
    frozenset({(4, 1)}),
    frozenset({(2, 2)}),
    frozenset({(2, 1), (1, 2)}),
    frozenset({(1, 4)}),
}


def maximal_configurations(device, names):
    """Every set of placements to which the library lets nothing be added, found by trying them all."""
    offered = profiles(device)
    candidates = [(name, start) for name in names for start, _ in placements(device, offered[name].id)]
    found = set()

    def extend(first, chosen):
        if not any(pynvml.nvmlDeviceGetGpuInstanceRemainingCapacity(device, offered[n].id) for n in names):
            found.add(frozenset(chosen))
            return
        for number in range(first, len(candidates)):
            name, start = candidates[number]
            try:
                instance = create(device, offered[name].id, start)
            except pynvml.NVMLError_InsufficientResources:
                continue
            extend(number + 1, [*chosen, candidates[number]])
            pynvml.nvmlGpuInstanceDestroy(instance)

    extend(0, [])
    return found


def multisets(configurations):
    return {frozenset(Counter(name for name, _ in chosen).items()) for chosen in configurations}


@pytest.mark.parametrize("model", MODELS_WITH_MIG)
def test_the_maximal_configurations_are_the_documented_ones(sim_node, model):
    node = sim_node(model, initial=[{"gpus": "all"}])
    with node.inside():
        pynvml.nvmlInit()
        device = gpu()
        offered = profiles(device)
        whole = max(profile.sliceCount for profile in offered.values())
        plain = [name for name in offered if "+" not in name and not name.endswith("-me")]
        double = {name for name in plain if whole == 7 and offered[name].id == 15}
        base = maximal_configurations(device, [name for name in plain if name not in double])
        everything = maximal_configurations(device, plain)

    expected = SEVEN_SLICES if whole == 7 else FOUR_SLICES
    assert (len(base), len(multisets(base))) == expected[0]
    assert (len(everything), len(multisets(everything))) == expected[1]
    slices = {
        frozenset((offered[name].sliceCount, number) for name, number in multiset)
        for multiset in multisets(base)
    }
    assert slices == (SEVEN_SLICE_MULTISETS if whole == 7 else FOUR_SLICE_MULTISETS)


@pytest.mark.parametrize("model", MODELS_WITH_MIG)
def test_profile_names_follow_from_the_memory(sim_node, model):
    """go-nvlib computes a profile's name from its memory; mig-parted fails if it differs from the name."""
    with sim_node(model).inside():
        pynvml.nvmlInit()
        total = pynvml.nvmlDeviceGetMemoryInfo(gpu()).total >> 20
        for name, profile in profiles(gpu()).items():
            eighths = -(-profile.memorySizeMB * 8 // total)
            gigabytes = int(eighths / 8 * -(-total // 1024) + 0.5)
            assert name.split("+")[0].removesuffix("-me") == f"{profile.sliceCount}g.{gigabytes}gb"


# What real GPUs were seen to do: model, profile ids in the order of creation, starts; None: no room.
OBSERVED = [
    ("A100-SXM4-40GB", [19, 14, 5], [6, 4, 0]),
    ("A100-SXM4-40GB", [9, 19, 14, 19], [4, 0, 2, 1]),
    ("A100-SXM4-40GB", [14, 19, 19, 19, 19, 19], [4, 6, 0, 1, 2, 3]),
    ("A100-SXM4-40GB", [19] * 7, [6, 4, 5, 0, 1, 2, 3]),
    ("A100-SXM4-80GB", [19] * 7, [6, 4, 5, 0, 1, 2, 3]),
    ("H100-PCIE-80GB", [19] * 7, [6, 4, 5, 0, 1, 2, 3]),
    ("H100-NVL-94GB", [19] * 7, [6, 4, 5, 0, 1, 2, 3]),
    ("A100-SXM4-80GB", [9, 5], [4, 0]),
    ("A100-SXM4-80GB", [14, 14, 19], [4, 0, 6]),
    ("H100-NVL-94GB", [9, 15, 19], [4, 0, 2]),
    ("H100-NVL-94GB", [20, 15, 15, 15], [6, 4, 0, 2]),
    ("RTX-PRO-6000-BLACKWELL-SERVER", [14] * 4, [0, 3, 6, 9]),
    ("RTX-PRO-6000-BLACKWELL-SERVER", [5, 14, 14], [0, 6, 9]),
    ("A100-SXM4-40GB", [19, 19, 14, 9], [6, 4, 0, None]),
]


@pytest.mark.parametrize(("model", "order", "starts"), OBSERVED)
def test_the_driver_places_as_seen_on_real_gpus(sim_node, model, order, starts):
    with sim_node(model, initial=[{}]).inside():
        pynvml.nvmlInit()
        placed = []
        for profile_id in order:
            try:
                placed.append(start_of(create(gpu(), profile_id)))
            except pynvml.NVMLError_InsufficientResources:
                placed.append(None)
        assert placed == starts


def test_some_orders_of_a_valid_layout_fail_without_placements(sim_node):
    """2x 1g + 2g + 3g: the driver's own choice works in 3 of the 12 orders, placements in all."""
    worked = 0
    orders = sorted(set(itertools.permutations([19, 19, 14, 9])))
    for order in orders:
        with sim_node("A100-SXM4-40GB", initial=[{}]).inside():
            pynvml.nvmlInit()
            try:
                for profile_id in order:
                    create(gpu(), profile_id)
                worked += 1
            except pynvml.NVMLError_InsufficientResources:
                pass
        with sim_node("A100-SXM4-40GB", initial=[{}]).inside():
            pynvml.nvmlInit()
            starts = {19: [2, 3], 14: [0], 9: [4]}
            for profile_id in order:
                create(gpu(), profile_id, starts[profile_id].pop())
    assert (worked, len(orders)) == (3, 12)


@pytest.mark.parametrize(
    ("flipped", "ids"),
    [
        ([], {(9, 0): 1, (9, 4): 2, (14, 0): 3, (14, 2): 4, (14, 4): 5, (19, 0): 7, (19, 6): 13, (0, 0): 0}),
        (
            [0],
            {
                (9, 4): 1,
                (9, 0): 2,
                (14, 4): 3,
                (14, 0): 5,
                (14, 2): 6,
                (19, 4): 7,
                (19, 6): 9,
                (19, 0): 11,
                (0, 0): 0,
            },
        ),
    ],
)
def test_instance_ids_go_by_size_and_place(sim_node, flipped, ids):
    for (profile_id, start), number in ids.items():
        with sim_node("A100-SXM4-40GB", initial=[{}], flipped=flipped).inside():
            pynvml.nvmlInit()
            assert info(create(gpu(), profile_id, start)).id == number


@pytest.mark.parametrize(
    ("model", "ids"),
    [
        ("A30-24GB", {(0, 0): 0, (5, 2): 2, (14, 3): 6, (6, 0): 1}),
        ("RTX-PRO-6000-BLACKWELL-SERVER", {(0, 0): 0, (5, 6): 2, (14, 9): 6, (14, 0): 3}),
    ],
)
def test_instance_ids_of_four_slice_gpus(sim_node, model, ids):
    for (profile_id, start), number in ids.items():
        with sim_node(model, initial=[{}]).inside():
            pynvml.nvmlInit()
            assert info(create(gpu(), profile_id, start)).id == number


def test_only_one_instance_has_the_media_extensions(sim_node):
    with sim_node("A30-24GB", initial=[{}]).inside():
        pynvml.nvmlInit()
        create(gpu(), 21)  # 1g.6gb+me
        assert pynvml.nvmlDeviceGetGpuInstanceRemainingCapacity(gpu(), 6) == 0
        with pytest.raises(pynvml.NVMLError_InsufficientResources):
            create(gpu(), 6)  # 2g.12gb+me
        create(gpu(), 5)  # 2g.12gb


def test_an_instance_with_all_media_engines_leaves_room_only_for_those_without(sim_node):
    one_gpu = {"initial": [{}]}
    with sim_node("RTX-PRO-6000-BLACKWELL-SERVER", **one_gpu).inside():
        pynvml.nvmlInit()
        create(gpu(), 65)  # 1g.24gb+me.all
        for other in (14, 21, 47, 5, 64):
            with pytest.raises(pynvml.NVMLError_InsufficientResources):
                create(gpu(), other)
        for _ in range(3):
            create(gpu(), 67)  # 1g.24gb-me
    with sim_node("RTX-PRO-6000-BLACKWELL-SERVER", **one_gpu).inside():
        pynvml.nvmlInit()
        create(gpu(), 14)
        with pytest.raises(pynvml.NVMLError_InsufficientResources):
            create(gpu(), 65)


def test_a_bad_placement_is_an_invalid_argument_and_an_overlap_is_no_room(sim_node):
    with sim_node("A100-SXM4-40GB", initial=[{}]).inside():
        pynvml.nvmlInit()
        create(gpu(), 9, 4)
        for start in (1, 7):
            with pytest.raises(pynvml.NVMLError_InvalidArgument):
                create(gpu(), 14, start)
        with pytest.raises(pynvml.NVMLError_InsufficientResources):
            create(gpu(), 14, 4)
        with pytest.raises(pynvml.NVMLError_InsufficientResources):
            create(gpu(), 9, 4)


def test_the_driver_version_decides_which_profiles_there_are(sim_node):
    expected = {
        "460.32.03": set(),
        "470.57.02": {"1g.5gb+me"},
        "525.60.13": {"1g.5gb+me", "1g.10gb"},
    }
    plain = {"1g.5gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb"}
    for driver, more in expected.items():
        with sim_node("A100-SXM4-40GB", driver=driver).inside():
            pynvml.nvmlInit()
            found = {
                pynvml.nvmlDeviceGetGpuInstanceProfileInfo(gpu(), number, version=1).id
                for number in range(6 if driver.startswith("460") else 8 if driver.startswith("470") else 10)
                if number not in (5, 6, 8) and (number != 7 or more)
            }
            assert set(profiles(gpu())) == plain | more
            assert len(found) == len(plain | more)
    with sim_node("H100-SXM5-80GB", driver="470.57.02").inside():
        pynvml.nvmlInit()
        with pytest.raises(pynvml.NVMLError_NotSupported):
            pynvml.nvmlDeviceGetMigMode(gpu())
