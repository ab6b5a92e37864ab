"""``mig-lab`` subcommands about simulated nodes: build, fleet, workload, client, reboot, fault, calls."""

from __future__ import annotations

import argparse
import difflib
import json
from pathlib import Path
from typing import Any

from miglab import build, control, fleet, paths, workloads
from miglab.console import LabError, say

RETURN_CODES = {
    "UNINITIALIZED": 1,
    "INVALID_ARGUMENT": 2,
    "NOT_SUPPORTED": 3,
    "NO_PERMISSION": 4,
    "NOT_FOUND": 6,
    "INSUFFICIENT_SIZE": 7,
    "INSUFFICIENT_POWER": 8,
    "DRIVER_NOT_LOADED": 9,
    "TIMEOUT": 10,
    "GPU_IS_LOST": 15,
    "RESET_REQUIRED": 16,
    "OPERATING_SYSTEM": 17,
    "LIB_RM_VERSION_MISMATCH": 18,
    "IN_USE": 19,
    "MEMORY": 20,
    "NO_DATA": 21,
    "INSUFFICIENT_RESOURCES": 23,
    "ARGUMENT_VERSION_MISMATCH": 25,
    "NOT_READY": 27,
    "GPU_NOT_FOUND": 28,
    "INVALID_STATE": 29,
    "UNKNOWN": 999,
}


def register(subparsers: Any) -> None:
    """Add the subcommands."""
    parser = subparsers.add_parser("build", help="build the simulated NVML and nvidia-smi")
    parser.set_defaults(run=build.run)
    _register_fleet(subparsers)
    _register_workload(subparsers)
    _register_client(subparsers)
    parser = subparsers.add_parser(
        "reboot", help="reboot a node: processes and instances end, pending modes apply"
    )
    parser.add_argument("node")
    parser.set_defaults(run=_reboot)
    parser = subparsers.add_parser("power", help="switch a node off and on: off, no connection reaches it")
    parser.add_argument("node")
    parser.add_argument("to", choices=["off", "on"])
    parser.set_defaults(run=_power)
    _register_fault(subparsers)
    parser = subparsers.add_parser("calls", help="how often each NVML function was called on a node")
    parser.add_argument("node")
    parser.add_argument("--reset", action="store_true", help="start again at zero, after showing them")
    parser.add_argument("--json", action="store_true")
    parser.set_defaults(run=_calls)


def _register_fleet(subparsers: Any) -> None:
    commands = subparsers.add_parser("fleet", help="the simulated nodes").add_subparsers(
        metavar="COMMAND", required=True
    )
    parser = commands.add_parser("create", help="make the nodes of a fleet file that are not there yet")
    parser.add_argument("--fleet", type=Path, default=fleet.DEFAULT_FLEET, help="default: %(default)s")
    parser.add_argument("--reset", action="store_true", help="make existing nodes anew")
    parser.set_defaults(run=_create)
    parser = commands.add_parser("show", help="GPUs, modes, instances and processes")
    parser.add_argument("nodes", metavar="NODE", nargs="*", help="default: all")
    parser.add_argument("--json", action="store_true")
    parser.set_defaults(run=_show)


def _register_workload(subparsers: Any) -> None:
    commands = subparsers.add_parser("workload", help="processes and pods on MIG devices").add_subparsers(
        metavar="COMMAND", required=True
    )
    parser = commands.add_parser("add", help="start a process, or a pod, on a MIG device or a whole GPU")
    parser.add_argument("node")
    parser.add_argument("--gpu", type=int, required=True, help="the GPU's index")
    parser.add_argument("--instance", type=int, help="GPU instance id (default: the whole GPU)")
    parser.add_argument("--ci", type=int, help="compute instance id (default: 0)")
    parser.add_argument(
        "--pod", default="", metavar="NS/NAME", help="kubelet's checkpoint then lists the device"
    )
    parser.add_argument("--process", default="python", metavar="NAME", help="default: %(default)s")
    parser.add_argument("--resource", default="", help="default: the mixed strategy's name of the device")
    parser.add_argument("--pid", type=int, default=0, help="default: a number that no real process has")
    parser.add_argument("--memory", type=int, default=1024, metavar="MIB", help="default: %(default)s")
    parser.add_argument("--idle", action="store_true", help="the pod holds the device, no process runs on it")
    parser.add_argument("--managed", action="store_true", help="the pod is a Job's in the lab's cluster")
    parser.set_defaults(run=_workload_add)
    parser = commands.add_parser("remove", help="end the processes and pods that fit; all without options")
    parser.add_argument("node")
    parser.add_argument("--gpu", type=int)
    parser.add_argument("--instance", type=int)
    parser.add_argument("--ci", type=int)
    parser.add_argument("--pod", default="", metavar="NS/NAME")
    parser.set_defaults(run=_workload_remove)


def _register_client(subparsers: Any) -> None:
    commands = subparsers.add_parser(
        "client", help="processes on a whole GPU that block mode changes and resets"
    ).add_subparsers(metavar="COMMAND", required=True)
    for name, run in (("add", _client_add), ("remove", _client_remove)):
        parser = commands.add_parser(name)
        parser.add_argument("node")
        parser.add_argument("--gpu", type=int, required=True, help="the GPU's index")
        parser.add_argument("--name", required=True, help="such as nvidia-persistenced")
        if name == "add":
            parser.add_argument(
                "--kind",
                choices=("compute", "graphics", "open"),
                default="compute",
                help="open: holds the device, but NVML does not list it (default: %(default)s)",
            )
        parser.set_defaults(run=run)


def _register_fault(subparsers: Any) -> None:
    commands = subparsers.add_parser("fault", help="make NVML calls fail, wait or kill").add_subparsers(
        metavar="COMMAND", required=True
    )
    parser = commands.add_parser("add", help="inject a fault")
    parser.add_argument("node")
    parser.add_argument("--function", required=True, help="an NVML symbol, e.g. nvmlDeviceCreateGpuInstance")
    parser.add_argument(
        "--nth", type=int, default=1, help="the first call that is hit, counted from now (default: 1)"
    )
    parser.add_argument(
        "--times", type=int, default=1, help="how many calls are hit; 0: all later ones (default: 1)"
    )
    parser.add_argument("--code", help="NVML return code, by number or name (IN_USE)")
    parser.add_argument("--latency-ms", type=int, default=0, help="wait before the call")
    parser.add_argument(
        "--kill",
        nargs="?",
        const="before",
        default="",
        choices=("before", "during", "after"),
        help="SIGKILL to the caller: before the call, with its change made but not committed, or after it",
    )
    parser.set_defaults(run=_fault_add)
    parser = commands.add_parser("clear", help="remove all faults of a node")
    parser.add_argument("node")
    parser.set_defaults(run=_fault_clear)


def _create(arguments: argparse.Namespace) -> int:
    build.ensure_built()
    for name, done in fleet.create(fleet.load(arguments.fleet), arguments.reset).items():
        if done == "changed":
            done = "kept, but the fleet file now describes it otherwise: --reset makes it anew"
        elif done == "replaced" and not arguments.reset:
            done = "replaced: it was made by another version of the simulator"
        say(f"{name}: {done}")
    return 0


def _show(arguments: argparse.Namespace) -> int:
    nodes = [fleet.read_node(name) for name in arguments.nodes or fleet.names()]
    if arguments.json:
        say(json.dumps(nodes, indent=2))
        return 0
    if not nodes:
        say("no nodes: 'mig-lab fleet create' makes the lab's")
    for node in nodes:
        _show_node(node)
    return 0


def _show_node(node: dict[str, Any]) -> None:
    say(f"{node['name']}  driver {node['driver_version']}  boots {node['boots']}")
    for gpu in node["gpus"]:
        layout = ", ".join(_describe_instance(instance) for instance in gpu["instances"])
        say(f"  {gpu['index']:>2}  {gpu['name']:<46} {_describe_mode(gpu):<16} {layout}".rstrip())
    for process in node["processes"]:
        place = f"GPU {process['gpu']}"
        if process["gpu_instance"] is not None:
            place += f" instance {process['gpu_instance']}/{process['compute_instance']}"
        pod = f" (pod {process['pod']})" if process["pod"] else ""
        say(f"      {place}: process {process['pid']} {process['name']}{pod}, {process['kind']}")
    for fault in node["faults"]:
        say(f"      fault: {fault}")


def _describe_mode(gpu: dict[str, Any]) -> str:
    if not gpu["mig_capable"]:
        return "no MIG"
    current, pending = gpu["mig"]["current"], gpu["mig"]["pending"]
    text = "MIG" if current else "-"
    return text if current == pending else f"{text}, pending {'on' if pending else 'off'}"


def _describe_instance(instance: dict[str, Any]) -> str:
    placement = instance["placement"]
    parts = [device["profile"] for device in instance["compute_instances"]]
    inside = "" if parts == [instance["profile"]] else f" [{', '.join(parts) or 'empty'}]"
    return f"{instance['profile']} @{placement['start']} (id {instance['id']}){inside}"


def _workload_add(arguments: argparse.Namespace) -> int:
    pid = workloads.add(
        arguments.node,
        arguments.gpu,
        arguments.instance,
        arguments.ci,
        process=arguments.process,
        pod=arguments.pod,
        resource=arguments.resource,
        pid=arguments.pid,
        memory_mib=arguments.memory,
        idle=arguments.idle,
        managed=arguments.managed,
    )
    what = f"process {pid} ({arguments.process}) runs" if pid else f"pod {arguments.pod} holds a device"
    say(f"{arguments.node}: {what} on GPU {arguments.gpu}")
    return 0


def _workload_remove(arguments: argparse.Namespace) -> int:
    removed = workloads.remove(
        arguments.node, arguments.gpu, arguments.instance, arguments.ci, pod=arguments.pod
    )
    say(f"{arguments.node}: {removed} process(es) ended")
    return 0


def _client_add(arguments: argparse.Namespace) -> int:
    state = fleet.existing(arguments.node)
    pid = control.add_process(state, arguments.gpu, name=arguments.name, kind=arguments.kind)
    say(f"{arguments.node}: {arguments.name} (pid {pid}) is a client of GPU {arguments.gpu}")
    return 0


def _client_remove(arguments: argparse.Namespace) -> int:
    state = fleet.existing(arguments.node)
    removed = control.remove_processes(state, arguments.gpu, name=arguments.name)
    if not removed:
        raise LabError(f"{arguments.node}: GPU {arguments.gpu} has no client {arguments.name}")
    say(f"{arguments.node}: {arguments.name} is gone from GPU {arguments.gpu}")
    return 0


def _reboot(arguments: argparse.Namespace) -> int:
    control.reboot(fleet.existing(arguments.node))
    fleet.new_boot_id(arguments.node)
    boot_id = paths.boot_id(arguments.node).read_text(encoding="utf-8").strip()
    say(f"{arguments.node}: rebooted, boot id {boot_id}")
    return 0


def _power(arguments: argparse.Namespace) -> int:
    fleet.existing(arguments.node)
    marker = paths.switched_off(arguments.node)
    if arguments.to == "off":
        marker.touch()
    elif marker.exists():
        marker.unlink()
        return _reboot(arguments)
    say(f"{arguments.node}: {arguments.to}")
    return 0


def return_code(text: str) -> int:
    """An NVML return code by number or name, with or without its NVML_ERROR_ prefix."""
    name = text.upper().removeprefix("NVML_ERROR_")
    if name in RETURN_CODES:
        return RETURN_CODES[name]
    if name.isdigit() and int(name) > 0:
        return int(name)
    raise LabError(f"'{text}' is no NVML error: a number above 0, or one of {', '.join(RETURN_CODES)}")


def _fault_add(arguments: argparse.Namespace) -> int:
    state = fleet.existing(arguments.node)
    known = control.functions()
    if arguments.function not in known:
        near = difflib.get_close_matches(arguments.function, known, 3)
        raise LabError(
            f"no function '{arguments.function}'" + (f"; near are {', '.join(near)}" if near else "")
        )
    if not (arguments.code or arguments.latency_ms or arguments.kill):
        raise LabError("a fault needs --code, --latency-ms or --kill")
    control.add_fault(
        state,
        arguments.function,
        arguments.nth,
        arguments.times,
        return_code(arguments.code) if arguments.code else 0,
        arguments.latency_ms,
        arguments.kill,
    )
    say(f"{arguments.node}: fault on {arguments.function}, from call {arguments.nth}")
    return 0


def _fault_clear(arguments: argparse.Namespace) -> int:
    say(f"{arguments.node}: {control.clear_faults(fleet.existing(arguments.node))} fault(s) removed")
    return 0


def _calls(arguments: argparse.Namespace) -> int:
    state = fleet.existing(arguments.node)
    counts = control.calls(state)
    if arguments.json:
        say(json.dumps(counts, indent=2))
    else:
        for name, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
            say(f"{count:>8}  {name}")
        say(f"{sum(counts.values()):>8}  total")
    if arguments.reset:
        control.reset_calls(state)
    return 0
