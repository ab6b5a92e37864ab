# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""mig_layout's answer from the probe: the module's own where nothing is to be done, else none."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict

import pytest
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible_collections.nvidia.mig.plugins.module_utils.node.unchanged import unchanged
from ansible_collections.nvidia.mig.plugins.module_utils.node.wanted import layout_spec
from ansible_collections.nvidia.mig.plugins.module_utils.nvml.probe import __file__ as probe_file
from ansible_collections.nvidia.mig.tests.unit.plugins.modules.node_support import CHANGING, Host
from ansible_collections.nvidia.mig.tests.unit.plugins.modules.test_mig_layout import LAYOUTS, entry

OFF = {"gpus": "all", "mig": False}
HALVES = entry({"3g.20gb": 2})


def run_probe(host: Host, euid: int = 0) -> subprocess.CompletedProcess[str]:
    """The probe on the node, sent as the action does."""
    return subprocess.run(
        [sys.executable, "-"],
        input=Path(probe_file).read_text(encoding="utf-8"),
        env=host.node.environment(euid),
        capture_output=True,
        text=True,
        check=False,
    )


def probe(host: Host) -> Dict[str, Any]:
    """What the probe finds on the node."""
    done = run_probe(host)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def answer(host: Host, *entries: Dict[str, Any], **options: Any) -> Any:
    """What the probe's findings answer for such a task."""
    checked = ArgumentSpecValidator(**layout_spec()).validate({"layout": list(entries), **options})
    assert not checked.error_messages
    return unchanged(checked.validated_parameters, probe(host), with_diff=True)


def module(host: Host, *entries: Dict[str, Any], **options: Any) -> Dict[str, Any]:
    """What the module itself answers."""
    data = host.layout(*entries, diff=True, **options).data
    return {key: value for key, value in data.items() if key != "invocation"}


@pytest.mark.parametrize("model", LAYOUTS)
def test_the_same_answer_as_the_module(make_host, model):
    host = make_host(model, 2)
    first, second = (entry(profiles) for profiles in LAYOUTS[model])
    assert answer(host, OFF) == module(host, OFF)
    assert answer(host, first) is None
    host.layout(first)
    assert answer(host, first) == module(host, first)
    assert answer(host, first, strategy="mixed", state="planned") == module(host, first, state="planned")
    assert answer(host, first | {"gpus": 1}) == module(host, first | {"gpus": 1})
    assert answer(host) == module(host)
    for other in (second, OFF, entry({})):
        assert answer(host, other) is None


def test_unlike_gpus_in_one_host(make_host):
    host = make_host(["A100-SXM4-40GB", "A30-24GB", "T4-16GB", "A100-SXM4-40GB"])
    wanted = [
        entry({"3g.20gb": 1, "1c.2g.10gb": 2}) | {"product": "A100*"},
        entry({"2g.12gb": 2}, gpus=1),
        entry({"3g.40gb": 2}) | {"product": "H100*"},
    ]
    host.layout(*wanted)
    assert answer(host, *wanted) == module(host, *wanted)
    assert answer(host, *wanted, {"gpus": 2, "mig": False}) == module(
        host, *wanted, {"gpus": 2, "mig": False}
    )
    assert answer(host, *wanted[1:]) == module(host, *wanted[1:])


@pytest.mark.parametrize(
    ("entries", "options"),
    [
        ([entry({"9g.20gb": 1})], {}),
        ([entry({"3g.20gb": 2}, gpus=7)], {}),
        ([HALVES, entry({"3g.20gb": 2}, gpus=0)], {}),
        ([{"gpus": "all"}], {}),
        ([entry({"3g.20gb": 2}, gpus="all") | {"product": "H100*"}], {}),
        ([HALVES], {"strategy": "none"}),
        ([HALVES], {"minimum_driver": "999"}),
        ([HALVES], {"minimum_driver": "new"}),
    ],
)
def test_complaints_are_left_to_the_module(make_host, entries, options):
    host = make_host("A100-SXM4-40GB", 2)
    host.layout(HALVES)
    assert answer(host, HALVES) is not None
    assert answer(host, *entries, **options) is None
    assert host.attempt("mig_layout", layout=entries, **options).data["failed"]


def test_what_is_pending_or_incomplete_is_left_to_the_module(make_host):
    host = make_host("A100-SXM4-40GB", 1, mode_change="reset")
    host.run("mig_mode", gpus="all", enabled=True)
    assert answer(host, OFF) is None
    assert answer(host, entry({})) is None
    host.run("gpu_reset")
    host.layout(HALVES)
    assert answer(host, HALVES) is not None
    code = (
        "import pynvml as n; n.nvmlInit(); gpu = n.nvmlDeviceGetHandleByIndex(0)\n"
        "mig = n.nvmlDeviceGetMigDeviceHandleByIndex(gpu, 0)\n"
        "gi = n.nvmlDeviceGetGpuInstanceById(gpu, n.nvmlDeviceGetGpuInstanceId(mig))\n"
        "ci = n.nvmlGpuInstanceGetComputeInstanceById(gi, n.nvmlDeviceGetComputeInstanceId(mig))\n"
        "n.nvmlComputeInstanceDestroy(ci)\n"
    )
    host.node.python(code)
    assert answer(host, HALVES) is None
    assert host.layout(HALVES).changed
    assert answer(host, HALVES) is not None


def test_what_the_probe_does_not_understand(make_host):
    host = make_host("A100-SXM4-40GB", 1)
    host.layout(HALVES)
    params = ArgumentSpecValidator(**layout_spec()).validate({"layout": [HALVES]}).validated_parameters
    assert unchanged(params, probe(host)) is not None
    refused = run_probe(host, euid=1000)
    assert (refused.returncode, refused.stdout) == (1, "")
    unknown = probe(host)
    unknown["gpus"][0]["profiles"][0][0] = "MIG half of it"
    assert unchanged(params, unknown) is None


def test_the_probe_only_reads(make_host):
    host = make_host("A100-SXM4-40GB", 8)
    host.layout(HALVES)
    host.reset_calls()
    assert len(probe(host)["gpus"]) == 8
    calls = host.calls()
    assert not set(calls) & set(CHANGING)
    # What eight equal GPUs have in common is read once.
    assert calls["nvmlDeviceGetGpuInstanceProfileInfoV"] < 20
    assert sum(calls.values()) < 300
