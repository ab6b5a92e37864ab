# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Instances of a profile whose name nobody can read yet: they are there, though nobody can ask for them."""

from __future__ import annotations

import pytest
from ansible_collections.nvidia.mig.tests.unit.plugins.modules.node_support import Host, running_server
from miglab import control
from miglab.testing import make_node

# What a driver of the future would say: 2g.10gb has a name outside the grammar.
FUTURE = """
import pynvml
_real = pynvml.nvmlDeviceGetGpuInstanceProfileInfo
def _renamed(*args, **kwargs):
    info = _real(*args, **kwargs)
    if info.id == 14:
        info.name = "MIG 2x.10gb"
    return info
pynvml.nvmlDeviceGetGpuInstanceProfileInfo = _renamed
"""
THERE = "MIG 2x.10gb 2:2"
UNKNOWN = f"GPU 0: it has GPU instances of unknown profiles: {THERE}"
OFF = {"mig": False}
SOME = {"profiles": {"1g.5gb": 7}}


@pytest.fixture(scope="module")
def future_server():
    with running_server(FUTURE) as server:
        yield server


@pytest.fixture
def future_host(tmp_path, future_server):
    """Two GPUs; the first has an instance of the unknown profile and a known one."""
    node = make_node(tmp_path / "node", "A100-SXM4-40GB", 2, mode_change="reset")
    for gpu, places in ((0, (("2g.10gb", 2), ("1g.5gb", 0))), (1, ())):
        control.set_mode(node.state, gpu, True)
        for profile, start in places:
            instance = control.add_instance(node.state, gpu, profile, start)
            control.add_compute(node.state, gpu, instance)
    return Host(node, future_server)


@pytest.mark.parametrize("wanted", [SOME, OFF, {"profiles": {}}, {"profiles": {"1g.5gb": 1}}])
def test_the_gpu_is_refused_before_anything_is_changed(future_host, wanted):
    host = future_host
    host.reset_calls()
    for options in ({}, {"check": True}, {"state": "planned", "destroy_in_use": True}):
        msg = host.layout({"gpus": "all", **wanted}, fails=True, **options).msg
        assert UNKNOWN in msg
        assert "leave the GPU out of the layout, or destroy them with nvidia-smi mig" in msg
    assert not host.changing_calls()


def test_other_gpus_are_not_held_up(future_host):
    assert future_host.layout({"gpus": 1, "profiles": {"1g.5gb": 7}}).complete


def test_a_mode_change_or_a_reset_would_destroy_it(future_host):
    host = future_host
    assert THERE in host.run("mig_mode", enabled=False, fails=True).msg
    assert not host.run("mig_mode", enabled=True).changed
    control.remove_processes(host.node.state)
    assert THERE in host.run("gpu_reset", gpus=0, fails=True).msg
