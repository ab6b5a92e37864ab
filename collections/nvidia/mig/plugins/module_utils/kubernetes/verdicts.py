# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is to be said of a sample workload, while it runs or at its end. Pure.

All of it is in the objects of the Kubernetes API. Kubelet puts there what a pod writes to its termination
log: the samples write which devices they saw. Of a pod that failed, kubelet puts the end of its log there.
"""

from __future__ import annotations

import re
from typing import Any, Dict, List, Mapping, Sequence, Tuple

# Kubelet does not try these again.
_HOPELESS = ("CreateContainerConfigError", "ErrImageNeverPull", "InvalidImageName")
_UUID = re.compile(r"UUID:\s*([^)\s]+)")


def verdict(sample: Mapping[str, Any], objects: Sequence[Mapping[str, Any]]) -> Dict[str, Any]:
    """What is to be said of a sample, while it runs or at its end.

    Args:
        sample: an entry of ``workloads``' samples.
        objects: its pods, or for the sample argo its workflow, as the API returns them.

    Returns:
        ``done``: waiting changes nothing any more; ``problems``: a sentence for each, none if all is well;
        ``devices``: the UUIDs that its pods saw; ``told``: what else they wrote to their termination logs;
        ``text``: all of it in a sentence.
    """
    found = _workflow(objects) if sample["sample"] == "argo" else _pods(sample, objects)
    return {**found, "text": _text(sample, found)}


def _text(sample: Mapping[str, Any], found: Mapping[str, Any]) -> str:
    if found["problems"]:
        return f"{sample['sample']}: FAILED: {'; '.join(found['problems'])}"
    text = str(sample["text"])
    if sample["sample"] == "concurrent" and found["devices"]:
        text += f", all at once on {len(found['devices'])} devices"
    return f"{sample['sample']}: passed on {text}" + "".join(f"; {line}" for line in found["told"])


def _pods(sample: Mapping[str, Any], objects: Sequence[Mapping[str, Any]]) -> Dict[str, Any]:
    by_name = {pod["metadata"]["name"]: pod for pod in objects}
    pods = [(wanted["name"], by_name.get(wanted["name"])) for wanted in sample["pods"]]
    problems = _problems(sample, by_name)
    done = not problems or any(_is_lost(pod) for _name, pod in pods)
    devices = [device for _name, pod in pods for device in _devices(pod or {})]
    if not problems and sample["sample"] == "concurrent":
        problems = _one_after_another(objects) + _one_for_several(sample, pods)
    told = [line for _name, pod in pods for line in _lines(pod or {}) if "UUID:" not in line]
    return {"done": done, "problems": problems, "devices": sorted(set(devices)), "told": told}


def _problems(sample: Mapping[str, Any], pods: Mapping[str, Any]) -> List[str]:
    """Why pods have not succeeded, those with the same reason in one sentence."""
    reasons: Dict[str, List[Mapping[str, Any]]] = {}
    for wanted in sample["pods"]:
        reason = _problem(pods.get(wanted["name"]))
        if reason:
            reasons.setdefault(reason, []).append(wanted)
    return [f"{_names(wanted)}: {reason}" for reason, wanted in reasons.items()]


def _names(wanted: Sequence[Mapping[str, Any]]) -> str:
    names = [pod["name"] for pod in wanted]
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"{', '.join(names[:3])}{more} ({', '.join(sorted({pod['resource'] for pod in wanted}))})"


def _is_lost(pod: Any) -> bool:
    """True if the pod will not succeed any more."""
    if pod is None:
        return True
    if (pod.get("status") or {}).get("phase") == "Failed":
        return True
    return _waiting(pod).get("reason") in _HOPELESS


def _problem(pod: Any) -> str:
    """Why a pod has not succeeded; empty if it has."""
    if pod is None:
        return "gone: somebody else deleted it"
    status = pod.get("status") or {}
    phase = status.get("phase")
    if phase == "Succeeded":
        return ""
    ended = _ended(pod)
    if phase == "Failed":
        reason = status.get("reason") or ended.get("reason") or "Failed"
        code = f" with exit code {ended['exitCode']}" if "exitCode" in ended else ""
        return f"failed{code} ({reason}){_told(status.get('message') or ended.get('message'))}"
    waiting = _waiting(pod)
    if waiting.get("reason"):
        return f"waiting ({waiting['reason']}){_told(waiting.get('message'))}"
    if phase == "Running":
        return "still running"
    for condition in status.get("conditions") or []:
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return f"not scheduled ({condition.get('reason')}){_told(condition.get('message'))}"
    if not pod["spec"].get("nodeName"):
        return "not scheduled: no scheduler has looked at it"
    return "not started by kubelet"


def _told(message: Any) -> str:
    """The last line of a message: what came before led to it."""
    lines = str(message or "").strip().splitlines()
    return f": {lines[-1].strip()}" if lines else ""


def _statuses(pod: Mapping[str, Any]) -> List[Mapping[str, Any]]:
    return list((pod.get("status") or {}).get("containerStatuses") or [])


def _waiting(pod: Mapping[str, Any]) -> Mapping[str, Any]:
    found = [(status.get("state") or {}).get("waiting") for status in _statuses(pod)]
    return next(filter(None, found), {})


def _ended(pod: Mapping[str, Any]) -> Mapping[str, Any]:
    found = [(status.get("state") or {}).get("terminated") for status in _statuses(pod)]
    return next(filter(None, found), {})


def _lines(pod: Mapping[str, Any]) -> List[str]:
    """What the pod wrote to its termination log."""
    lines = str(_ended(pod).get("message") or "").splitlines()
    return [line.strip() for line in lines if line.strip()]


def _devices(pod: Mapping[str, Any]) -> List[str]:
    """The UUIDs in what ``nvidia-smi -L`` told: a MIG device's, or where there is none the GPU's."""
    found = _UUID.findall("\n".join(_lines(pod)))
    return [uuid for uuid in found if uuid.startswith("MIG-")] or found


def _one_after_another(pods: Sequence[Mapping[str, Any]]) -> List[str]:
    times = [_ended(pod) for pod in pods]
    if not all(time.get("startedAt") and time.get("finishedAt") for time in times):
        return ["kubelet does not tell when its pods ran, so it is unknown whether they ran at once"]
    last = max(str(time["startedAt"]) for time in times)
    first = min(str(time["finishedAt"]) for time in times)
    if last <= first:
        return []
    return [f"its pods did not all run at once: one ended at {first}, before another began at {last}"]


def _one_for_several(sample: Mapping[str, Any], pods: Sequence[Tuple[str, Any]]) -> List[str]:
    """A device that two pods saw though their resource is not shared, or a pod that saw none, or several."""
    shared = {request["resource"] for request in sample["requests"] if request["shared"]}
    alone = {wanted["name"] for wanted in sample["pods"] if wanted["resource"] not in shared}
    problems: List[str] = []
    seen: Dict[str, str] = {}
    for name, pod in pods:
        devices = _devices(pod)
        if len(devices) != 1:
            problems.append(f"{name} saw {len(devices)} devices instead of one")
        for device in devices if name in alone else ():
            if device in seen:
                problems.append(f"{name} and {seen[device]} saw the same device {device}")
            seen[device] = name
    return problems


def _workflow(workflows: Sequence[Mapping[str, Any]]) -> Dict[str, Any]:
    done, problems = _workflow_end(workflows)
    return {"done": done, "problems": problems, "devices": [], "told": []}


def _workflow_end(workflows: Sequence[Mapping[str, Any]]) -> Tuple[bool, List[str]]:
    if not workflows:
        return True, ["the workflow is gone: somebody else deleted it"]
    status = workflows[0].get("status") or {}
    phase = status.get("phase")
    if not phase:
        return False, [
            "no controller has taken the workflow: "
            "Argo's workflow-controller does not run, or does not watch this namespace"
        ]
    if phase == "Succeeded":
        return True, []
    problems = [f"the workflow is {phase}{_told(status.get('message'))}"]
    problems += [
        f"{node.get('displayName')} is {node['phase']}{_told(node.get('message'))}"
        for node in (status.get("nodes") or {}).values()
        if node.get("type") == "Pod" and node.get("phase") in ("Failed", "Error")
    ]
    return phase in ("Failed", "Error"), problems
