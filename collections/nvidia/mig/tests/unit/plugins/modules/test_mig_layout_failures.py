# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""mig_layout killed or refused at every single NVML call."""

from __future__ import annotations

import pytest

# From -> to, on two GPUs: instances that stay, go and come; modes that change.
JOBS = {
    "instances": (
        "A100-SXM4-40GB",
        [{"gpus": "all", "profiles": {"3g.20gb": 1, "2g.10gb": 1, "1g.5gb": 1}}],
        [
            {"gpus": 0, "profiles": {"3g.20gb": 2}},
            {"gpus": 1, "profiles": {"1c.3g.20gb": 3, "1g.5gb+me": 1, "1g.5gb": 2}},
        ],
    ),
    "modes with a reset": (
        "A100-SXM4-40GB",
        [{"gpus": 0, "profiles": {"7g.40gb": 1}}, {"gpus": 1, "mig": False}],
        [{"gpus": 0, "mig": False}, {"gpus": 1, "profiles": {"3g.20gb": 2}}],
    ),
    "modes without a reset": (
        "H100-SXM5-80GB",
        [{"gpus": 0, "profiles": {"1g.20gb": 2}}, {"gpus": 1, "mig": False}],
        [{"gpus": 0, "mig": False}, {"gpus": 1, "profiles": {"3g.40gb": 1, "1g.10gb": 1}}],
    ),
}


class Job:
    """A node in its first layout, ready to go to the second again and again."""

    def __init__(self, host, before, wanted):
        self.host = host
        self.wanted = wanted
        host.layout(*before)
        self.start = host.save()
        self.old = host.gpus()
        host.reset_calls()
        host.layout(*wanted)
        self.calls = host.calls()
        self.changing = host.changing_calls()
        self.new = host.gpus()

    def attempt(self, function, **fault):
        """From the first layout on, with a fault."""
        self.host.restore(self.start)
        self.host.fault(function, **fault)
        return self.host.attempt("mig_layout", layout=self.wanted)


@pytest.fixture(params=JOBS)
def job(make_host, request):
    model, before, wanted = JOBS[request.param]
    return Job(make_host(model, 2), before, wanted)


@pytest.mark.parametrize("moment", ["before", "during", "after"])
def test_killed_at_any_change_it_goes_on(job, moment):
    """Killed in a changing call: the same command again comes to the same end."""
    between = set()
    for function, count in job.changing.items():
        for nth in range(1, count + 1):
            assert job.attempt(function, nth=nth, kill=moment).rc == -9
            job.host.clear_faults()
            between.add(str(job.host.gpus()))
            assert job.host.layout(*job.wanted).complete
            # Where it was killed decides what could stay, so placements may differ: what is there may not.
            assert not job.host.layout(*job.wanted).changed
            assert [gpu["mode"] for gpu in job.host.gpus()] == [gpu["mode"] for gpu in job.new]
            assert names(job.host.gpus()) == names(job.new)
    assert len(between) > 1


def test_killed_at_any_other_call_it_goes_on(job):
    """The first and the last call of every function that it calls."""
    for function, count in job.calls.items():
        for nth in sorted({1, count}):
            assert job.attempt(function, nth=nth, kill="before").rc == -9, (function, nth)
            job.host.clear_faults()
            job.host.layout(*job.wanted)
            assert names(job.host.gpus()) == names(job.new)


@pytest.mark.parametrize("code", [19, 23, 999])
def test_refused_at_any_change_it_puts_everything_back(job, code):
    for function, count in job.changing.items():
        for nth in range(1, count + 1):
            result = job.attempt(function, nth=nth, code=code)
            assert result.rc == 1
            assert job.host.gpus() == job.old, (function, nth)
            assert f"NVML error {code}" in result.msg
            assert "the GPUs are as they were" in result.msg
            assert result.changed is False
            assert result.before == result.after
            assert result.not_restored == []
            job.host.clear_faults()


def test_a_read_that_fails_between_changes_puts_everything_back(job):
    reads = {name: count for name, count in job.calls.items() if name not in job.changing}
    failed = 0
    for function, count in reads.items():
        if function in ("nvmlInitWithFlags", "nvmlShutdown", "nvmlErrorString"):
            continue
        for nth in sorted({1, (count + 1) // 2, count}):
            result = job.attempt(function, nth=nth, code=999)
            job.host.clear_faults()
            if result.rc:
                failed += 1
                # All or nothing; only the last look at a finished job may fail without taking it back.
                assert job.host.gpus() == job.old or names(job.host.gpus()) == names(job.new), (function, nth)
                if job.host.gpus() != job.old:
                    assert not job.host.layout(*job.wanted).changed
    assert failed > 5


@pytest.fixture
def halves(make_host):
    """One GPU with two 3g.20gb, to be made into one of them and two 1g.5gb."""
    host = make_host("A100-SXM4-40GB", 1)
    host.layout({"gpus": 0, "profiles": {"3g.20gb": 2}})
    return host


def split(host):
    return host.layout({"gpus": 0, "profiles": {"3g.20gb": 1, "1g.5gb": 2}}, fails=True)


def test_what_was_put_back_is_said(halves):
    halves.fault("nvmlGpuInstanceCreateComputeInstance", nth=2, code=999)
    result = split(halves)
    assert result.restored == [
        "GPU 0: destroy 1g.5gb at 0:1",
        "GPU 0: destroy 1g.5gb at 1:1",
        "GPU 0: create 3g.20gb at 0:4",
    ]
    assert result.msg == (
        "GPU 0: cannot create the compute instance of 1g.5gb at 1:1: nvmlGpuInstanceCreateComputeInstance "
        f"failed: Unknown Error (NVML error 999). Rolled back ({'; '.join(result.restored)}): the GPUs are "
        "as they were (run it again: it plans from what is there now)"
    )


def test_what_cannot_be_put_back_is_said(halves):
    halves.fault("nvmlDeviceCreateGpuInstanceWithPlacement", code=23, times=0)
    result = split(halves)
    refusal = "nvmlDeviceCreateGpuInstanceWithPlacement failed: Insufficient Resources (NVML error 23)"
    assert result.msg == (
        f"GPU 0: cannot create 1g.5gb at 0:1: {refusal}. Nothing could be rolled back; now GPU 0 has "
        f"3g.20gb 4:4. Could not be put back: GPU 0: cannot create 3g.20gb at 0:4: {refusal} "
        "(run it again: it plans from what is there now)"
    )
    assert (result.changed, result.restored, len(result.not_restored)) == (True, [], 1)
    assert result.before == {"GPU 0": {"mig": True, "instances": ["3g.20gb 0:4", "3g.20gb 4:4"]}}
    assert result.after == {"GPU 0": {"mig": True, "instances": ["3g.20gb 4:4"]}}
    halves.clear_faults()
    again = halves.layout({"gpus": 0, "profiles": {"3g.20gb": 2}})
    assert again.actions == ["GPU 0: create 3g.20gb at 0:4"]


def test_a_node_that_cannot_be_read_any_more(halves):
    halves.fault("nvmlGpuInstanceDestroy", code=15)
    halves.fault("nvmlDeviceGetMigMode", nth=2, code=15, times=0)
    result = split(halves)
    assert "What is there now cannot be read; carried out was: no whole step" in result.msg
    assert (result.changed, result.actions) == (True, [])
    halves.clear_faults()
    halves.layout({"gpus": 0, "profiles": {"3g.20gb": 2}})
    halves.fault("nvmlDeviceGetHandleByIndex_v2", nth=4, code=15, times=0)
    result = split(halves)
    assert "carried out was: GPU 0: destroy 3g.20gb at 0:4. Could not be put back" in result.msg
    assert (result.changed, result.actions) == (True, ["GPU 0: destroy 3g.20gb at 0:4"])
    assert result.before == {"GPU 0": {"mig": True, "instances": ["3g.20gb 0:4", "3g.20gb 4:4"]}}
    halves.clear_faults()
    halves.layout({"gpus": 0, "profiles": {"3g.20gb": 2}})
    halves.fault("nvmlDeviceGetMigMode", nth=2, code=15)
    result = split(halves)
    assert "Every step was carried out" in result.msg
    assert result.changed is True


def test_a_gpu_that_changes_behind_its_back_is_not_touched_blindly(make_host):
    """Between plan and step another tool replaced the instance: it is not the planned one any more."""
    host = make_host("A100-SXM4-40GB", 1)
    host.layout({"gpus": 0, "profiles": {"2g.10gb": 3}})
    host.fault("nvmlDeviceGetGpuInstanceById", code=6)
    before = host.gpus()
    result = host.layout({"gpus": 0, "profiles": {"7g.40gb": 1}}, fails=True)
    assert "something else changed" in result.msg
    assert host.gpus() == before


def names(gpus):
    """Profiles without their placements."""
    return [sorted((i[0], tuple(c[0] for c in i[2])) for i in gpu["instances"]) for gpu in gpus]
