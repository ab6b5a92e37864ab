# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from dataclasses import replace

import pytest
from ansible_collections.nvidia.mig.plugins.module_utils.errors import InfeasibleError, InputError, InUseError
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.entries import GpuLayout
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.profile import canonical
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.state import GpuState
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.steps import Plan
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.transition import (
    plan_gpu,
    plan_host,
    plan_restore,
)
from ansible_collections.nvidia.mig.tests.unit.plugins.module_utils.geometry.support import (
    A100,
    H100,
    T4,
    execute,
    instance,
    profiles,
    state,
)

OFF = GpuLayout(False, (), "layout[0]")
POD = ("process 4711 (python)", "pod ml/train-0")


def want(text: str) -> GpuLayout:
    return GpuLayout(True, canonical(profiles(text)), "layout[0].profiles")


def lines(gpu: GpuState, wanted: GpuLayout, destroy_in_use: bool = False) -> list[str]:
    """The plan's actions, after checking that a strict driver carries it out and nothing is left to do."""
    plan = plan_host([gpu], {0: wanted}, destroy_in_use)
    after = execute(gpu, plan.steps)
    assert after.mig_current == wanted.mig
    assert after.devices == wanted.profiles
    assert plan_gpu(after, wanted) == ()
    assert plan.after == {"GPU 0": after.summary()}
    assert plan.changed == bool(plan.steps)
    return [line.removeprefix("GPU 0: ") for line in plan.actions]


FULL = tuple(instance(f"1g.5gb@{n}:1") for n in range(7))


@pytest.mark.parametrize(
    ("gpu", "wanted", "expected"),
    [
        # Nothing to do.
        (state(A100, mig=False), OFF, []),
        (state(A100), want(""), []),
        (state(A100, *FULL), want("1g.5gb*7"), []),
        (state(A100, instance("3g.20gb@0:4", compute="1@0 1@2 1@1")), want("1c.3g.20gb*3"), []),
        # The mode.
        (state(A100, mig=False), want(""), ["enable MIG mode (GPU reset)"]),
        (state(H100, mig=False), want(""), ["enable MIG mode"]),
        (state(H100), OFF, ["disable MIG mode"]),
        (state(A100, mig=False), want("7g.40gb"), ["enable MIG mode (GPU reset)", "create 7g.40gb at 0:8"]),
        (
            state(A100, FULL[0], instance("3g.20gb@4:4")),
            OFF,
            ["destroy 1g.5gb at 0:1", "destroy 3g.20gb at 4:4", "disable MIG mode (GPU reset)"],
        ),
        # A pending mode: as wished, against the wish.
        (state(A100, mig=False, pending=True), want(""), ["reset the GPU to enable MIG mode (pending)"]),
        (
            state(A100, FULL[0], pending=False),
            OFF,
            ["destroy 1g.5gb at 0:1", "reset the GPU to disable MIG mode (pending)"],
        ),
        (state(A100, mig=False, pending=True), OFF, ["keep MIG mode disabled (cancel the pending change)"]),
        (
            state(A100, FULL[0], pending=False),
            want("1g.5gb"),
            ["keep MIG mode enabled (cancel the pending change)"],
        ),
        # Without need of a reset a pending mode is set again.
        (state(H100, mig=False, pending=True), want(""), ["enable MIG mode"]),
        # Instances: only what differs.
        (state(A100), want("1g.5gb 3g.20gb"), ["create 3g.20gb at 4:4", "create 1g.5gb at 0:1"]),
        (
            state(A100, *FULL),
            want("3g.20gb 1g.5gb*4"),
            [
                "destroy 1g.5gb at 4:1",
                "destroy 1g.5gb at 5:1",
                "destroy 1g.5gb at 6:1",
                "create 3g.20gb at 4:4",
            ],
        ),
        # Of seven equal ones those survive that leave the most room.
        (state(A100, *FULL), want("1g.5gb*3"), [f"destroy 1g.5gb at {n}:1" for n in range(4)]),
        # The survivor blocks the lower half, so the new one takes the other.
        (
            state(A100, instance("3g.20gb@0:4"), instance("1g.5gb@5:1")),
            want("3g.20gb*2"),
            ["destroy 1g.5gb at 5:1", "create 3g.20gb at 4:4"],
        ),
        # 3g at 0:4 fits beside 2g and 1g, but not beside 2g and two 1g: it has to move.
        (
            state(A100, instance("3g.20gb@0:4"), instance("2g.10gb@4:2")),
            want("3g.20gb 2g.10gb 1g.5gb"),
            ["create 1g.5gb at 6:1"],
        ),
        (
            state(A100, instance("3g.20gb@0:4")),
            want("3g.20gb 2g.10gb 1g.5gb*2"),
            [
                "destroy 3g.20gb at 0:4",
                "create 3g.20gb at 4:4",
                "create 2g.10gb at 0:2",
                "create 1g.5gb at 2:1",
                "create 1g.5gb at 3:1",
            ],
        ),
        # A GPU instance that lost its compute instance is completed.
        (
            state(A100, instance("3g.20gb@0:4", compute=""), FULL[6]),
            want("3g.20gb 1g.5gb"),
            ["create the compute instance of 3g.20gb at 0:4"],
        ),
        (state(A100, instance("3g.20gb@0:4", compute="")), want(""), ["destroy 3g.20gb at 0:4"]),
        # Compute instances smaller than their GPU instance.
        (
            state(A100, instance("3g.20gb@0:4")),
            want("2c.3g.20gb 1c.3g.20gb"),
            [
                "destroy the compute instance of 3g.20gb at 0:4",
                "create 2c.3g.20gb at slice 0 of 3g.20gb at 0:4",
                "create 1c.3g.20gb at slice 2 of 3g.20gb at 0:4",
            ],
        ),
        (
            state(A100, instance("3g.20gb@0:4", compute="1@0 1@1 1@2")),
            want("2c.3g.20gb 1c.3g.20gb"),
            [
                "destroy 1c.3g.20gb at slice 0 of 3g.20gb at 0:4",
                "destroy 1c.3g.20gb at slice 1 of 3g.20gb at 0:4",
                "create 2c.3g.20gb at slice 0 of 3g.20gb at 0:4",
            ],
        ),
        (
            state(A100),
            want("1c.3g.20gb*2 2c.3g.20gb"),
            [
                "create 3g.20gb at 0:4",
                "create 3g.20gb at 4:4",
                "create 2c.3g.20gb at slice 0 of 3g.20gb at 0:4",
                "create 1c.3g.20gb at slice 2 of 3g.20gb at 0:4",
                "create 1c.3g.20gb at slice 0 of 3g.20gb at 4:4",
            ],
        ),
        # A GPU that cannot do MIG has it off.
        (state(T4, mig=False), OFF, []),
    ],
)
def test_plans(gpu: GpuState, wanted: GpuLayout, expected: list[str]) -> None:
    assert lines(gpu, wanted) == expected


HELD = instance("1g.5gb@4:1", *POD)


def test_keeps_what_is_in_use_although_more_is_destroyed() -> None:
    # Any of the three could go; the one in use is not the one.
    gpu = state(A100, FULL[0], HELD, FULL[6])
    assert lines(gpu, want("1g.5gb")) == ["destroy 1g.5gb at 0:1", "destroy 1g.5gb at 6:1"]
    # The one at 4 could go alone, for 3g at 4:4; but it is in use, so the two at 0 and 1 go.
    gpu = state(A100, FULL[0], FULL[1], HELD)
    assert lines(gpu, want("3g.20gb 1g.5gb")) == [
        "destroy 1g.5gb at 0:1",
        "destroy 1g.5gb at 1:1",
        "create 3g.20gb at 0:4",
    ]


def test_a_new_gpu_instance_rather_than_destroying_a_held_compute_instance() -> None:
    held = instance("3g.20gb@0:4", *POD, compute="1@0")
    assert lines(state(A100, held), want("1c.3g.20gb 2c.3g.20gb")) == [
        "create 3g.20gb at 4:4",
        "create 2c.3g.20gb at slice 0 of 3g.20gb at 4:4",
    ]


def test_refuses_to_destroy_what_is_in_use() -> None:
    gpu = state(A100, FULL[0], HELD)
    with pytest.raises(InUseError) as error:
        plan_gpu(gpu, want("7g.40gb"))
    assert str(error.value) == (
        "GPU 0: 1g.5gb at 4:1 is held by process 4711 (python), pod ml/train-0 (drain its pods, as the "
        "role does with mig_drain: true, or end the processes; or set destroy_in_use to true to destroy it "
        "all the same)"
    )
    assert error.value.details == {
        "in_use": [
            {
                "gpu": 0,
                "profile": "1g.5gb",
                "placement": {"start": 4, "size": 1},
                "holders": ["process 4711 (python)", "pod ml/train-0"],
            }
        ]
    }
    assert lines(gpu, want("7g.40gb"), destroy_in_use=True) == [
        "destroy 1g.5gb at 0:1",
        "destroy 1g.5gb at 4:1",
        "create 7g.40gb at 0:8",
    ]


def test_what_a_process_is_in_stays_rather_than_what_pods_hold():
    """With leave, pods may lose theirs; NVML never destroys what a process is in."""
    held = {1: ("pod ml/a",), 2: ("process 7 (python)",), 4: ("pod ml/b",), 5: ("pod ml/c",)}
    gpu = state(A100, *(instance(f"1g.5gb@{n}:1", *held.get(n, ())) for n in range(7)))
    assert lines(gpu, want("1g.5gb 3g.20gb"), destroy_in_use=True)[-1] == "create 3g.20gb at 4:4"
    gone = lines(gpu, want("1g.5gb 1g.10gb"), destroy_in_use=True)
    assert "destroy 1g.5gb at 2:1" not in gone and len(gone) == 7


def test_an_instance_held_outside_its_compute_instances_is_in_use_too() -> None:
    gpu = state(A100, replace(instance("3g.20gb@0:4", compute=""), holders=("process 7 (nvidia-cuda-mps)",)))
    with pytest.raises(InUseError, match=r"3g\.20gb at 0:4 is held by process 7 \(nvidia-cuda-mps\)"):
        plan_gpu(gpu, want(""))


def test_mode_change_names_instances_and_clients_in_use() -> None:
    gpu = state(A100, HELD, clients=("process 12 (dcgm-exporter)",))
    with pytest.raises(InUseError) as error:
        plan_gpu(gpu, OFF)
    assert error.value.message == (
        "GPU 0: 1g.5gb at 4:1 is held by process 4711 (python), pod ml/train-0; it would be lost as MIG "
        "mode is to be disabled; GPU 0 itself is used by process 12 (dcgm-exporter)"
    )
    plan = plan_host([gpu], {0: OFF}, destroy_in_use=True)
    assert [str(device) for device in plan.in_use] == [
        "GPU 0: 1g.5gb at 4:1 is held by process 4711 (python), pod ml/train-0"
    ]
    assert plan.clients == {0: ("process 12 (dcgm-exporter)",)}


def test_clients_alone_do_not_stop_a_plan() -> None:
    gpu = state(A100, mig=False, clients=("process 12 (dcgm-exporter)",))
    plan = plan_host([gpu], {0: want("7g.40gb")})
    assert plan.clients == {0: ("process 12 (dcgm-exporter)",)}
    assert plan_host([state(A100, clients=("process 1 (x)",))], {0: want("7g.40gb")}).clients == {}


def test_errors_say_where_the_layout_stands() -> None:
    with pytest.raises(InfeasibleError) as infeasible:
        plan_gpu(state(A100), want("3g.20gb*2 1g.5gb"))
    assert infeasible.value.path == "layout[0].profiles"
    with pytest.raises(InputError) as unknown:
        plan_gpu(state(A100), want("2g.20gb"))
    assert unknown.value.path == "layout[0].profiles"
    with pytest.raises(InputError, match="Tesla T4 cannot do MIG"):
        plan_gpu(state(T4), want(""))


def host(*gpus: GpuState) -> list[GpuState]:
    return [replace(gpu, identity=replace(gpu.identity, index=n)) for n, gpu in enumerate(gpus)]


def test_a_host_is_refused_as_a_whole_and_all_errors_are_named() -> None:
    gpus = host(state(A100), state(A100), state(H100, HELD), state(A100), state(T4))
    bad = want("3g.20gb*2 1g.5gb")
    wanted = {0: bad, 1: bad, 3: want("7g.40gb"), 4: want(""), 9: OFF}
    with pytest.raises(InputError) as error:
        plan_host(gpus, wanted)
    assert str(error.value).splitlines() == [
        "3 problems:",
        "- layout[0].profiles: GPUs 0-1: 3g.20gb x2 + 1g.5gb: no free placement for 1g.5gb on A100-SXM4-40GB:"
        " both 4-slice spans are taken",
        "- layout[0].profiles: GPU 4: Tesla T4 cannot do MIG",
        "- layout[0]: GPU 9: it is not there",
    ]
    assert len(error.value.details["errors"]) == 3


def test_all_that_is_in_use_on_a_host_is_named() -> None:
    gpus = host(state(A100, HELD), state(A100, HELD), state(A100, FULL[0]))
    with pytest.raises(InUseError) as error:
        plan_host(gpus, dict.fromkeys(range(3), want("7g.40gb")))
    assert "- GPU 0: 1g.5gb at 4:1 is held by" in error.value.message
    assert "- GPU 1: 1g.5gb at 4:1 is held by" in error.value.message
    assert [device["gpu"] for device in error.value.details["in_use"]] == [0, 1]


@pytest.mark.parametrize(
    ("gpu", "wanted", "expected"),
    [
        (state(A100, mig=False), want(""), True),
        (state(H100, mig=False), want(""), True),
        (state(A100, mig=False, pending=True), want(""), True),
        (state(A100, mig=False, pending=True), OFF, False),
        # The first instance: only where the mode took no reset does it need the GPU for itself.
        (state(A100), want("7g.40gb"), False),
        (state(H100), want("7g.80gb"), True),
        (state(H100), want(""), False),
        (state(H100, instance("1g.10gb@0:1")), want("1g.10gb*2"), False),
        (state(H100, instance("1g.10gb@0:1")), want("7g.80gb"), True),
        (state(H100, instance("1g.10gb@0:1")), want(""), False),
    ],
)
def test_who_must_be_free(gpu: GpuState, wanted: GpuLayout, expected: bool) -> None:
    used = replace(gpu, clients=("process 4711 (Xorg)",))
    plan = plan_host([used], {0: wanted})
    assert plan.must_be_free == ((0,) if expected else ())
    assert plan.clients == ({0: used.clients} if expected else {})


def test_order_of_a_hosts_steps() -> None:
    gpus = host(
        state(A100, FULL[0]),
        state(A100, mig=False),
        state(A100, mig=False, pending=True),
        state(A100, FULL[0]),
        state(A100, *FULL),
    )
    plan = plan_host(gpus, {0: want("7g.40gb"), 1: want("7g.40gb"), 2: want("7g.40gb"), 3: OFF})
    assert plan.actions == [
        "GPU 3: destroy 1g.5gb at 0:1",
        "GPU 1: enable MIG mode (GPU reset)",
        "GPU 3: disable MIG mode (GPU reset)",
        "GPU 2: reset the GPU to enable MIG mode (pending)",
        "GPU 0: destroy 1g.5gb at 0:1",
        "GPU 0: create 7g.40gb at 0:8",
        "GPU 1: create 7g.40gb at 0:8",
        "GPU 2: create 7g.40gb at 0:8",
    ]
    assert plan.gpus == (0, 1, 2, 3)
    assert plan.resets == (1, 3, 2)
    assert [step.gpu for step in plan.mode_steps] == [1, 3, 2]
    assert plan.before == {
        "GPU 0": {"mig": True, "instances": ["1g.5gb 0:1"]},
        "GPU 1": {"mig": False, "instances": []},
        "GPU 2": {"mig": False, "mig_pending": True, "instances": []},
        "GPU 3": {"mig": True, "instances": ["1g.5gb 0:1"]},
    }
    assert plan.after == {
        "GPU 0": {"mig": True, "instances": ["7g.40gb 0:8"]},
        "GPU 1": {"mig": True, "instances": ["7g.40gb 0:8"]},
        "GPU 2": {"mig": True, "instances": ["7g.40gb 0:8"]},
        "GPU 3": {"mig": False, "instances": []},
    }


def test_nothing_to_do_is_an_empty_plan() -> None:
    plan = plan_host(host(state(A100, *FULL), state(A100)), {0: want("1g.5gb*7")})
    assert (plan.steps, plan.changed, plan.actions, plan.gpus, plan.resets) == ((), False, [], (), ())
    assert plan.before == plan.after
    assert plan_host([], {}) == Plan()


def test_steps_as_data() -> None:
    gpus = host(state(A100, FULL[0]), state(A100, mig=False), state(A100, mig=False, pending=True))
    plan = plan_host(gpus, {0: want("3g.20gb"), 1: want(""), 2: want("")})
    inside = {"slices": 3, "slice_start": 0}
    where = {"gpu": 0, "profile": "3g.20gb", "placement": {"start": 4, "size": 4}}
    old = {"gpu": 0, "profile": "1g.5gb", "placement": {"start": 0, "size": 1}}
    assert plan.as_dicts() == [
        {"step": "set_mode", "gpu": 1, "enabled": True, "resets": True, "cancels": False},
        {"step": "reset_gpu", "gpu": 2, "enabled": True},
        {"step": "destroy_compute_instance", **old, "slices": 1, "slice_start": 0},
        {"step": "destroy_gpu_instance", **old},
        {"step": "create_gpu_instance", **where},
        {"step": "create_compute_instance", **where, **inside},
    ]


def test_diff_shows_contents_of_shared_instances() -> None:
    gpu = state(A100, instance("3g.20gb@4:4", compute="2@0 1@2"), instance("1g.5gb@0:1", compute=""))
    assert gpu.summary() == {
        "mig": True,
        "instances": ["1g.5gb 0:1 [no compute instance]", "3g.20gb 4:4 [2c 1c]"],
    }


def test_restore_brings_back_what_was_there() -> None:
    before = state(A100, instance("3g.20gb@0:4", compute="2@0 1@2"), FULL[4], FULL[6])
    now = state(A100, instance("3g.20gb@0:4", compute="1@0 1@2"), instance("2g.10gb@4:2"), FULL[6])
    steps = plan_restore(before, now)
    assert [step.describe() for step in steps] == [
        "GPU 0: destroy 1c.3g.20gb at slice 0 of 3g.20gb at 0:4",
        "GPU 0: destroy the compute instance of 2g.10gb at 4:2",
        "GPU 0: destroy 2g.10gb at 4:2",
        "GPU 0: create 2c.3g.20gb at slice 0 of 3g.20gb at 0:4",
        "GPU 0: create 1g.5gb at 4:1",
        "GPU 0: create the compute instance of 1g.5gb at 4:1",
    ]
    assert execute(now, steps).summary() == before.summary()
    assert plan_restore(before, before) == ()
