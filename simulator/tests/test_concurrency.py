"""One node, many processes, any of which may die at any instant."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time

import pynvml
import pytest
from miglab import control
from miglab.testing_nvml import create, gpu

# Fills GPU 0 with small instances and clears it again, for ever. Says when it is at work.
CHURN = """
import random, sys, pynvml
pynvml.nvmlInit()
device = pynvml.nvmlDeviceGetHandleByIndex(0)
print("ready", flush=True)
while True:
    held = []
    for profile in (19, 14, 9):
        try:
            instance = pynvml.nvmlDeviceCreateGpuInstance(device, profile)
            held.append((instance, pynvml.nvmlGpuInstanceCreateComputeInstance(instance, 0)))
        except pynvml.NVMLError_InsufficientResources:
            pass
    for instance, compute in held:
        try:
            pynvml.nvmlComputeInstanceDestroy(compute)
            pynvml.nvmlGpuInstanceDestroy(instance)
        except (pynvml.NVMLError_InvalidArgument, pynvml.NVMLError_InUse):
            pass
"""


def start(node, code):
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        env=node.environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "ready\n"
    return process


def check(content):
    """What must hold at every instant: no overlap, distinct ids, profiles that somebody asked for."""
    for item in content["gpus"]:
        taken = [
            unit
            for instance in item["instances"]
            for unit in range(
                instance["placement"]["start"], instance["placement"]["start"] + instance["placement"]["size"]
            )
        ]
        assert len(taken) == len(set(taken))
        assert len({instance["id"] for instance in item["instances"]}) == len(item["instances"])
        for instance in item["instances"]:
            assert instance["profile"] in {"1g.5gb", "2g.10gb", "3g.20gb"}
            assert len(instance["compute_instances"]) <= 1


@pytest.fixture
def a100(sim_node):
    return sim_node("A100-SXM4-40GB", 2, initial=[{"gpus": "all"}])


def test_processes_killed_at_random_leave_a_whole_state(a100):
    seed = random.SystemRandom().randrange(1 << 32)
    print("seed", seed)
    chance = random.Random(seed)
    others = [start(a100, CHURN) for _ in range(2)]
    try:
        for _ in range(10):
            victim = start(a100, CHURN)
            time.sleep(chance.uniform(0, 0.02))
            victim.kill()
            assert victim.wait(timeout=10) == -signal.SIGKILL
            check(a100.read())
            assert all(process.poll() is None for process in others)
    finally:
        for process in others:
            process.kill()
            process.wait()
    calls = control.calls(a100.state)["nvmlDeviceCreateGpuInstance"]
    time.sleep(0.05)
    assert control.calls(a100.state)["nvmlDeviceCreateGpuInstance"] == calls > 100
    with a100.inside():  # and the node still works
        pynvml.nvmlInit()
        create(gpu(1), 0)


def test_concurrent_creators_share_the_room_exactly(a100):
    code = """
import sys, pynvml
pynvml.nvmlInit()
device = pynvml.nvmlDeviceGetHandleByIndex(0)
print("ready", flush=True)
sys.stdin.readline()
made = 0
for _ in range(7):
    try:
        pynvml.nvmlDeviceCreateGpuInstance(device, 19)
        made += 1
    except pynvml.NVMLError_InsufficientResources:
        pass
print(made)
"""
    processes = [start(a100, code) for _ in range(4)]
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    made = [int(process.stdout.read()) for process in processes]
    assert [process.wait(timeout=30) for process in processes] == [0, 0, 0, 0]
    assert sum(made) == 7
    check(a100.read())
    assert len(a100.read()["gpus"][0]["instances"]) == 7


def test_threads_of_one_process(a100):
    def fill(index, done):
        for _ in range(200):
            instance = pynvml.nvmlDeviceCreateGpuInstance(gpu(index), 19)
            pynvml.nvmlGpuInstanceDestroy(instance)
        done.append(index)

    done: list[int] = []
    with a100.inside():
        pynvml.nvmlInit()
        threads = [threading.Thread(target=fill, args=(index % 2, done)) for index in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(done) == [0, 0, 1, 1]
    assert [item["instances"] for item in a100.read()["gpus"]] == [[], []]


def test_a_forked_child_has_a_lock_of_its_own(a100):
    """Parent and child of a fork share a file description, and with it would share one lock."""
    with a100.inside():
        pynvml.nvmlInit()
        children = []
        for _ in range(3):
            child = os.fork()
            if child == 0:
                code = 1
                try:
                    for _ in range(200):
                        pynvml.nvmlGpuInstanceDestroy(pynvml.nvmlDeviceCreateGpuInstance(gpu(0), 19))
                    code = 0
                finally:
                    os._exit(code)
            children.append(child)
        for _ in range(200):
            pynvml.nvmlGpuInstanceDestroy(pynvml.nvmlDeviceCreateGpuInstance(gpu(0), 19))
        assert [os.waitpid(child, 0)[1] for child in children] == [0, 0, 0]
    assert a100.read()["gpus"][0]["instances"] == []
