# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""mig_partition_plan between mig_info, whose GPUs it takes, and mig_layout, which takes its layouts."""

from __future__ import annotations

import pytest
from ansible_collections.nvidia.mig.plugins.module_utils.demand import solver
from ansible_collections.nvidia.mig.tests.unit.plugins.modules.kubernetes_support import run_module
from ansible_collections.nvidia.mig.tests.unit.plugins.modules.node_support import documented
from ansible_collections.nvidia.mig.tests.unit.plugins.modules.test_mig_info import undocumented

FREE = {"cpu": "64", "memory": "512Gi", "pods": 100}


def pod(name, profile, **more):
    requests = {f"nvidia.com/mig-{profile}": "1", "cpu": "500m", "memory": "4Gi"}
    return {"namespace": "ml", "name": name, "requests": requests, **more}


@pytest.fixture
def plan(capsys):
    pytest.importorskip("highspy")

    def run(gpus, *pods, **options):
        nodes = [{"name": "dgx01", "free": FREE, "gpus": gpus}]
        result = run_module(capsys, "mig_partition_plan", nodes=nodes, pods=list(pods), **options)
        assert not result.failed, result.result
        told = dict(result.result)
        told.pop("invocation", None)
        known = documented("mig_partition_plan")
        assert not set(told) - set(known) - {"changed"}
        for name in ("nodes", "placed", "unplaced"):
            assert not undocumented(told[name], known[name]["contains"])
        return told

    return run


def test_two_waves_on_a_node(plan, make_host):
    host = make_host("A100-SXM4-80GB", 2)
    first = plan(host.run("mig_info").gpus, *(pod(f"a{number}", "1g.10gb") for number in range(5)))
    assert first["proven"]
    layout = first["nodes"][0]["layout"]
    assert [entry["profiles"] for entry in layout] == [{"1g.10gb": 5}]
    host.layout(*layout)
    assert not host.layout(*layout).changed
    second = plan(
        host.run("mig_info").gpus,
        *(pod(f"a{number}", "1g.10gb") for number in range(5)),
        pod("b", "2g.20gb"),
    )
    waits = {own["pod"]: own["needs_change"] for own in second["placed"]}
    assert waits == {**{f"ml/a{number}": False for number in range(5)}, "ml/b": True}
    host.layout(*second["nodes"][0]["layout"])
    offered = [own["profile"] for gpu in host.run("mig_info").gpus for own in gpu["mig_devices"]]
    assert sorted(offered) == ["1g.10gb"] * 5 + ["2g.20gb"]


def test_check_mode_is_the_same(plan, make_host):
    gpus = make_host("A100-SXM4-80GB", 1).run("mig_info").gpus
    assert plan(gpus, pod("a", "1g.10gb"), check=True) == plan(gpus, pod("a", "1g.10gb"))


def test_options_that_cannot_be(plan, capsys):
    result = run_module(capsys, "mig_partition_plan", nodes=[], pods=[], gap=-1)
    assert result.failed
    assert result.result["msg"] == "gap: -1.0 is below zero"


def test_without_the_solver(capsys, monkeypatch):
    from ansible_collections.nvidia.mig.plugins.modules import mig_partition_plan

    assert mig_partition_plan.HIGHSPY_ERROR == solver.HIGHSPY_ERROR
    monkeypatch.setattr(mig_partition_plan, "HIGHSPY_ERROR", "ImportError: No module named 'highspy'")
    result = run_module(capsys, "mig_partition_plan", nodes=[], pods=[])
    assert result.failed
    assert "highspy" in result.result["msg"]
