"""The summary at the end of a run, from the modules' results."""

from __future__ import annotations

import json
from typing import Any, Dict, List

import pytest
from ansible_collections.nvidia.mig.plugins.plugin_utils.summary import HostSummary, RunSummary
from ansible_collections.nvidia.mig.plugins.plugin_utils.summary_text import describe_layout, render

WHOLE = {"GPU 0": {"mig": False, "instances": []}, "GPU 1": {"mig": False, "instances": []}}
CUT = {
    "GPU 0": {"mig": False, "instances": []},
    "GPU 1": {"mig": True, "instances": ["3g.20gb 0:4", "1g.5gb 4:1", "1g.5gb 5:1"]},
}
GPUS = [{"index": index, "product": "NVIDIA A100-SXM4-40GB"} for index in (0, 1)]
RESETS = [{"step": "set_mode", "resets": True}]
LAYOUT = "nvidia.mig.mig_layout"
PLUGIN = "nvidia.mig.device_plugin_release"


def run_of(check_mode: bool = False, **hosts: HostSummary) -> RunSummary:
    return RunSummary(hosts, check_mode=check_mode)


def touched(index: int, resets: bool = False, **held: List[str]) -> Dict[str, Any]:
    return {
        "gpu": index,
        "memory_slices": 8,
        "resets": resets,
        "held": {"": held.get("by", [])} if held else {},
    }


def told(run: RunSummary, **more: Any) -> str:
    """The summary without what lies between its words."""
    return " ".join(" ".join(render(run, **more)).split())


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
    assert "1 host: 1 changed" in render(run_of(dgx01=host))


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


def test_check_mode_predicts_resets_and_reboots() -> None:
    host = HostSummary()
    host.note(LAYOUT, layout_result(WHOLE, CUT, changed=True, complete=True, plan=RESETS), {}, True)
    assert host.done == "would change + reset"
    host.note("ansible.builtin.reboot", {"changed": True}, {}, True)
    assert host.done == "would change + reboot"


def test_check_mode_predicts_a_reboot_that_is_not_allowed() -> None:
    host = HostSummary()
    host.note(LAYOUT, layout_result(WHOLE, CUT, changed=True, complete=True, plan=RESETS), {}, True)
    host.note("ansible.builtin.set_fact", {"ansible_facts": {"mig_reboot_required": True}}, {}, True)
    assert host.done == "would change + reset + REBOOT REQUIRED"
    assert "mig_reboot_ok: true: ansible-playbook -l dgx01" in told(run_of(True, dgx01=host))


def test_check_mode_draws_what_would_change_and_who_is_in_the_way() -> None:
    host = HostSummary()
    pods = [{"namespace": "team-a", "name": "train", "uid": "u1"}]
    own = [touched(1, True, by=["pod team-a/train"])]
    result = layout_result(WHOLE, CUT, changed=True, touched=own, pods=pods)
    host.note(LAYOUT, result, {"state": "planned"}, True)
    host.note("kubernetes.core.k8s_drain", {"changed": False}, {}, True)
    host.note(LAYOUT, result, {}, True)
    run = run_of(True, dgx01=host, dgx02=host)
    lines = render(run, "ansible-playbook site.yml", "dgx")
    assert lines[2:5] == [
        "2 hosts: 2 would change",
        "4 GPUs: 2 would be cut anew, 2 with a reset",
        "2 pods would be drained",
    ]
    at = lines.index("           GPU 1   whole GPU")
    assert lines[at + 1 : at + 4] == [
        "                   in use by pod team-a/train",
        "               ->  |3g.20gb                    |1g.5gb|1g.5gb|.............|",
        "           drains team-a/train",
    ]
    assert lines[-2:] == ["To do it:", "  ansible-playbook site.yml -l dgx"]
    assert max(map(len, lines)) <= 80
    run.check_mode = False
    assert not any("GPU 1 " in line for line in render(run))


def test_hosts_that_are_alike_are_told_of_once_and_those_that_failed_first() -> None:
    hosts = {}
    for number in range(1000):
        host = hosts[f"node{number:04}"] = HostSummary()
        changed = number % 2 == 0
        host.note(LAYOUT, layout_result(WHOLE if changed else CUT, CUT, changed=changed), {}, False)
        if number == 500:
            host.note_failure("GPU 1 is in use")
    lines = render(RunSummary(hosts))
    assert lines[2] == "1000 hosts: 1 FAILED; 499 changed; 500 nothing"
    assert lines[4].startswith("node0500 ")
    assert len(lines) < 40
    text = " ".join(" ".join(lines).split())
    assert "node0000, node0002, " in text and "and 487 more" in text
    assert text.endswith("hosts that failed: ansible-playbook -l node0500 --check --diff")


def test_many_kinds_of_hosts_to_which_nothing_was_done_are_only_counted() -> None:
    hosts = {}
    for number in range(11):
        host = hosts[f"node{number}"] = HostSummary()
        host.note(LAYOUT, layout_result(CUT, CUT), {}, False)
        host.note(
            "nvidia.mig.mig_verify", {"actual": {"resources": {"x": number}}, "verdict": "ok"}, {}, False
        )
    text = told(RunSummary(hosts))
    assert "11 hosts: 11 nothing" in text and "node3" not in text
    del hosts["node10"]
    assert "node3" in told(RunSummary(hosts))


def release(before: Any, after: Any, *actions: str) -> Dict[str, Any]:
    own = {"name": "nvidia-device-plugin", "previous_values": before, "user_values": after}
    return {"changed": True, "actions": list(actions), "release": own}


def test_releases_tell_which_values_change() -> None:
    run = RunSummary()
    run.note("dgx01", LAYOUT, layout_result(CUT, CUT), {}, False)
    before = {"migStrategy": "none", "gfd": {"enabled": True}, "config": {"map": {"a": "x\ny"}}, "old": 1}
    after = {"migStrategy": "mixed", "gfd": {"enabled": True}, "config": {"map": {"a": "x\nz"}}, "new": {}}
    result = release(before, after, "upgrade release nvidia-device-plugin: values")
    for _again in range(2):
        run.note("dgx01", PLUGIN, result, {}, False)
    run.note("dgx01", PLUGIN, {**result, "changed": False, "actions": ["other"]}, {}, False)
    assert run.releases == {
        "nvidia-device-plugin": [
            "upgrade release nvidia-device-plugin: values",
            "config.map.a: changed",
            "migStrategy: none -> mixed",
            "new: {}",
            "old: removed",
        ]
    }
    assert "migStrategy: none -> mixed" in told(run)


def test_a_new_release_does_not_tell_all_its_values() -> None:
    run = RunSummary()
    run.note("dgx01", PLUGIN, release(None, {"migStrategy": "none"}, "install it"), {}, False)
    assert run.releases == {"nvidia-device-plugin": ["install it"]}


def test_the_same_as_plain_data() -> None:
    run = RunSummary()
    result = layout_result(WHOLE, CUT, changed=True, touched=[touched(1)])
    run.note("dgx01", LAYOUT, result, {}, True)
    data = json.loads(json.dumps(run.as_dict()))
    assert data["check_mode"] is True
    assert data["totals"] == {
        "hosts": 1,
        "done": {"would change": 1},
        "gpus": 2,
        "gpus_changed": 1,
        "gpus_reset": 0,
        "pods_drained": 0,
    }
    own = {"before": WHOLE["GPU 1"], "after": CUT["GPU 1"], **touched(1)}
    assert data["hosts"]["dgx01"]["gpus"] == {"GPU 1": own}


def test_a_failure_comes_before_everything_and_the_last_one_tells_it_best() -> None:
    host = HostSummary()
    host.note(LAYOUT, layout_result(WHOLE, CUT, changed=True), {}, False)
    host.note_failure("no answer")
    host.note_failure("no answer. The GPUs are as they were")
    assert host.done == "FAILED"
    text = told(run_of(dgx01=host))
    assert "failed no answer. The GPUs are as they were" in text
    host.note_failure(None)
    assert host.done == "changed"


def test_pods_are_drained_when_they_were() -> None:
    host = HostSummary()
    pods = [{"namespace": "team-a", "name": "train", "uid": "u1"}]
    host.note(LAYOUT, layout_result(WHOLE, CUT, pods=pods), {"state": "planned"}, False)
    assert "drained" not in told(run_of(dgx01=host))
    host.note("kubernetes.core.k8s_drain", {"changed": True}, {}, False)
    text = told(run_of(dgx01=host))
    assert "1 pod drained" in text and "drains team-a/train" in text


def test_what_was_restored_is_in_the_order_of_the_gpus() -> None:
    host = HostSummary()
    host.note(LAYOUT, layout_result(CUT, CUT), {}, False)
    back = {"GPU 1": CUT["GPU 1"]}
    host.note(LAYOUT, layout_result(back, back), {}, False)
    assert list(host.before or ()) == list(host.after or ()) == ["GPU 0", "GPU 1"]


def test_the_summary_fits_80_columns() -> None:
    host = HostSummary()
    host.note(LAYOUT, layout_result(WHOLE, CUT, changed=True), {}, False)
    resources = {f"nvidia.com/mig-{size}g.20gb": size for size in range(1, 8)}
    host.note("nvidia.mig.mig_verify", {"actual": {"resources": resources}, "verdict": True}, {}, False)
    lines: List[str] = render(run_of(dgx01=host))
    assert max(map(len, lines)) <= 80
    text = " ".join(" ".join(lines).split())
    assert "2x NVIDIA A100-SXM4-40GB, MIG on 1" in text
    assert "layout 2x whole GPU -> 1x whole GPU, 1x (3g.20gb, 2x 1g.5gb)" in text
    assert "nvidia.com/mig-7g.20gb 7 (verified)" in text


def test_nothing_to_tell() -> None:
    other = HostSummary()
    other.note("ansible.builtin.debug", {"msg": "hello"}, {}, False)
    assert render(run_of(localhost=other)) == []
