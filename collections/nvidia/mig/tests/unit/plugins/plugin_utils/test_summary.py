"""The summary at the end of a run, from the modules' results."""

from __future__ import annotations

from typing import Any, Dict, List

import pytest
from ansible_collections.nvidia.mig.plugins.plugin_utils.summary import HostSummary, describe_layout, render

WHOLE = {"GPU 0": {"mig": False, "instances": []}, "GPU 1": {"mig": False, "instances": []}}
CUT = {
    "GPU 0": {"mig": False, "instances": []},
    "GPU 1": {"mig": True, "instances": ["3g.20gb 0:4", "1g.5gb 4:1", "1g.5gb 5:1"]},
}
GPUS = [{"index": index, "product": "NVIDIA A100-SXM4-40GB"} for index in (0, 1)]
RESETS = [{"step": "set_mode", "resets": True}]
LAYOUT = "nvidia.mig.mig_layout"


def layout_result(before: Dict[str, Any], after: Dict[str, Any], **more: Any) -> Dict[str, Any]:
    return {"before": before, "after": after, "gpus": GPUS, "plan": [], "changed": False, **more}


def test_equal_gpus_are_counted() -> None:
    assert describe_layout(CUT) == "1x whole GPU, 1x (3g.20gb, 2x 1g.5gb)"
    assert describe_layout(WHOLE) == "2x whole GPU"
    assert describe_layout({"GPU 0": {"mig": True, "instances": []}}) == "1x (MIG on, no instances)"
    assert describe_layout({}) == "no GPUs"


def test_runs_about_some_gpus_each_are_one_host() -> None:
    host = HostSummary()
    for gpu in WHOLE:
        before, after = {gpu: WHOLE[gpu]}, {gpu: CUT[gpu]}
        host.note(LAYOUT, layout_result(before, after, changed=True), {}, check_mode=False)
    assert (host.before, host.after) == (WHOLE, CUT)
    assert "1 host: 1 changed" in render({"dgx01": host})


NOTES: Dict[str, Any] = {
    "nothing": ([(LAYOUT, layout_result(CUT, CUT), {"state": "planned"})], "nothing"),
    "changed": (
        [
            (LAYOUT, layout_result(WHOLE, CUT), {"state": "planned"}),
            (LAYOUT, layout_result(WHOLE, CUT, changed=True), {}),
        ],
        "changed",
    ),
    "reset by the driver": (
        [(LAYOUT, layout_result(WHOLE, CUT, changed=True, complete=True, plan=RESETS), {})],
        "changed + reset",
    ),
    "reset by us": (
        [
            (LAYOUT, layout_result(WHOLE, WHOLE, changed=True), {}),
            ("nvidia.mig.gpu_reset", {"changed": True, "reboot_required": False}, {}),
        ],
        "changed + reset",
    ),
    "rebooted": (
        [
            (LAYOUT, layout_result(WHOLE, WHOLE, changed=True, complete=False, plan=RESETS), {}),
            ("nvidia.mig.gpu_reset", {"changed": False, "reboot_required": True}, {}),
            ("ansible.builtin.reboot", {"changed": True}, {}),
        ],
        "changed + rebooted",
    ),
    "a reboot that is not allowed": (
        [
            (LAYOUT, layout_result(WHOLE, WHOLE, changed=True), {}),
            ("nvidia.mig.gpu_reset", {"changed": False, "reboot_required": True}, {}),
        ],
        "changed + REBOOT REQUIRED",
    ),
    "another configuration by label": (
        [
            (LAYOUT, layout_result(CUT, CUT), {}),
            ("kubernetes.core.k8s", {"changed": True, "result": {"kind": "Node"}}, {}),
        ],
        "changed",
    ),
    "something else in the cluster": (
        [
            (LAYOUT, layout_result(CUT, CUT), {}),
            ("kubernetes.core.k8s", {"changed": True, "result": {"kind": "RuntimeClass"}}, {}),
        ],
        "nothing",
    ),
}


@pytest.mark.parametrize("name", NOTES)
def test_what_was_done(name: str) -> None:
    notes, done = NOTES[name]
    host = HostSummary()
    for action, result, args in notes:
        host.note(action, result, args, False)
    assert host.done == done


def test_a_plan_is_not_an_outcome() -> None:
    host = HostSummary()
    host.note(LAYOUT, layout_result(WHOLE, CUT), {"state": "planned"}, False)
    assert host.after == WHOLE


def test_check_mode_predicts() -> None:
    host = HostSummary()
    host.note(LAYOUT, layout_result(WHOLE, CUT, changed=True), {}, True)
    assert host.done == "would change"
    assert host.after == CUT


def test_a_failure_comes_before_everything() -> None:
    host = HostSummary()
    host.note(LAYOUT, layout_result(WHOLE, CUT, changed=True), {}, False)
    host.note_failure("GPU 1 is in use")
    host.note_failure("and so on")
    lines = render({"dgx01": host})
    assert host.done == "FAILED"
    assert any("GPU 1 is in use" in line for line in lines)
    assert not any("and so on" in line for line in lines)


def test_the_summary_fits_80_columns() -> None:
    host = HostSummary()
    host.note(LAYOUT, layout_result(WHOLE, CUT, changed=True), {}, False)
    resources = {f"nvidia.com/mig-{size}g.20gb": size for size in range(1, 8)}
    host.note("nvidia.mig.mig_verify", {"actual": {"resources": resources}, "verdict": True}, {}, False)
    lines: List[str] = render({"dgx01": host})
    assert max(map(len, lines)) <= 80
    text = " ".join(" ".join(lines).split())
    assert "2x NVIDIA A100-SXM4-40GB, MIG on 1" in text
    assert "layout 2x whole GPU -> 1x whole GPU, 1x (3g.20gb, 2x 1g.5gb)" in text
    assert "nvidia.com/mig-7g.20gb 7 (verified)" in text


def test_nothing_to_tell() -> None:
    other = HostSummary()
    other.note("ansible.builtin.debug", {"msg": "hello"}, {}, False)
    assert render({"localhost": other}) == []
