"""A fleet file becomes simulated nodes; nodes are read back as plain data.

The fleet file's schema is in simulator/README.md; it is checked before the first node is made. What only the
simulated hardware can refuse (a profile that it does not offer, no room) is an error that names the node.
"""

from __future__ import annotations

import contextlib
import difflib
import json
import shutil
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import yaml

from miglab import codegen, control, kubelet, paths
from miglab.console import LabError

DEFAULT_FLEET = paths.SIMULATOR / "fleets" / "lab.yml"
DEFAULT_DRIVER = "580.95.05"

# Bus numbers of the GPUs in a DGX A100; GPUs beyond the eighth follow on.
_BUSES = (0x07, 0x0F, 0x47, 0x4E, 0x87, 0x90, 0xB7, 0xBD)
# The CUDA version that a driver branch brings (NVIDIA's release notes).
_CUDA = {450: 11000, 460: 11020, 470: 11040, 510: 11060, 515: 11070, 525: 12000, 535: 12020, 545: 12030}
_CUDA |= {550: 12040, 560: 12060, 565: 12070, 570: 12080, 575: 12090, 580: 13000, 590: 13010}


class FleetError(LabError):
    """The fleet file is wrong; the text names the place in it."""


@dataclass(frozen=True)
class InitialGpu:
    """MIG on from the start; instances are (profile, start or None, compute slices: () is the full one)."""

    gpus: tuple[int, ...]
    instances: tuple[tuple[str, int | None, tuple[int, ...]], ...] = ()


@dataclass(frozen=True)
class Node:
    """One node of the fleet file."""

    name: str
    gpus: tuple[str, ...]  # a model's key for each GPU
    driver: str = DEFAULT_DRIVER
    mode_change: str = ""
    flipped: tuple[int, ...] = ()
    pci_bus_ids: tuple[str, ...] = ()
    initial: tuple[InitialGpu, ...] = ()
    workloads: tuple[Mapping[str, Any], ...] = field(default=())
    clients: tuple[Mapping[str, Any], ...] = field(default=())


def load(path: Path = DEFAULT_FLEET) -> list[Node]:
    """Read and check a fleet file. FleetError names the path of what is wrong."""
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise FleetError(f"cannot read the fleet {path}: {error}") from error
    if not isinstance(content, dict) or set(content) != {"nodes"} or not isinstance(content["nodes"], dict):
        raise FleetError(f"{path}: a fleet file has one key, 'nodes', with a mapping of node names")
    try:
        return [parse_node(str(name), spec) for name, spec in content["nodes"].items()]
    except FleetError as error:
        raise FleetError(f"{path}: {error}") from error


def parse_node(name: str, spec: Any) -> Node:
    """One node's entry of a fleet file."""
    where = f"nodes.{name}"
    try:
        paths.node_dir(name)
    except ValueError as error:
        raise FleetError(f"{where}: {error}") from error
    _known_keys(
        where, spec, {f for f in Node.__dataclass_fields__ if f not in ("name", "gpus")} | {"gpu", "count"}
    )
    gpus = _gpus(where, spec)
    mode_change = spec.get("mode_change", "")
    if mode_change not in ("", "driver", "reset", "reboot"):
        raise FleetError(f"{where}.mode_change: driver, reset or reboot, not {mode_change!r}")
    bus_ids = tuple(map(str, spec.get("pci_bus_ids", ())))
    if bus_ids and len(bus_ids) != len(gpus):
        raise FleetError(f"{where}.pci_bus_ids: {len(bus_ids)} for {len(gpus)} GPUs")
    return Node(
        name=name,
        gpus=gpus,
        driver=str(spec.get("driver", DEFAULT_DRIVER)),
        mode_change=mode_change,
        flipped=_indexes(f"{where}.flipped", spec.get("flipped", ()), len(gpus)),
        pci_bus_ids=bus_ids,
        initial=tuple(
            _initial(f"{where}.initial[{i}]", entry, len(gpus))
            for i, entry in enumerate(spec.get("initial", ()))
        ),
        workloads=tuple(
            _entries(f"{where}.workloads", spec, {"gpu", "instance", "compute", "process", "pod", "idle"})
        ),
        clients=tuple(_entries(f"{where}.clients", spec, {"gpu", "name", "kind"})),
    )


def create(nodes: list[Node], reset: bool = False) -> dict[str, str]:
    """Make the nodes that are not there yet; returns what was done: created, kept, changed or replaced.

    An existing node keeps its state unless ``reset``; one of an older simulator, which cannot be read any
    more, is replaced. ``changed``: kept, although its entry in the fleet file is not that it was made from.
    """
    done = {}
    for node in nodes:
        state = paths.node_state(node.name)
        definition = json.dumps(asdict(node), sort_keys=True)
        mark = paths.node_dir(node.name) / "definition.json"
        if state.exists() and not reset and control.usable(state):
            same = mark.exists() and mark.read_text(encoding="utf-8") == definition
            done[node.name] = "kept" if same else "changed"
            continue
        done[node.name] = "replaced" if state.exists() else "created"
        _make(node)
        mark.write_text(definition, encoding="utf-8")
    return done


def names() -> list[str]:
    """Nodes that exist in the lab, sorted."""
    return sorted(state.parent.name for state in paths.nodes_dir().glob("*/nvml.state"))


def read_node(name: str) -> dict[str, Any]:
    """The node as plain data: ``control.read()`` and name, boot_id and pods (kubelet's allocations)."""
    state = existing(name)
    return {
        "name": name,
        "boot_id": paths.boot_id(name).read_text(encoding="utf-8").strip(),
        **control.read(state),
        "pods": kubelet.allocations(paths.checkpoint(name), paths.pods_dir(name)),
    }


def existing(name: str) -> Path:
    """State file of a node that exists. LabError with the nearest name if it does not."""
    try:
        state = paths.node_state(name)
    except ValueError as error:
        raise LabError(str(error)) from error
    if state.exists():
        return state
    near = difflib.get_close_matches(name, names(), 1)
    hint = f"; did you mean {near[0]}?" if near else "; 'mig-lab fleet create' makes the lab's nodes"
    raise LabError(f"no node '{name}' in the lab{hint}")


def new_boot_id(name: str) -> None:
    """The mark that tells one boot from the next."""
    paths.boot_id(name).write_text(f"{uuid.uuid4()}\n", encoding="utf-8")


def build_state(node: Node, state: Path) -> None:
    """Write a node's state file; it appears under its name only when it is complete."""
    fresh = state.with_name(state.name + ".new")
    fresh.unlink(missing_ok=True)
    state.parent.mkdir(parents=True, exist_ok=True)
    try:
        _fill(node, fresh)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
    fresh.replace(state)


def _make(node: Node) -> None:
    directory = paths.node_dir(node.name)
    directory.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(paths.pods_dir(node.name))
    paths.pods_dir(node.name).mkdir()
    kubelet.clear(paths.checkpoint(node.name))
    try:
        build_state(node, paths.node_state(node.name))
    except control.SimulatorError as error:
        raise FleetError(f"nodes.{node.name}: {error}") from error
    new_boot_id(node.name)
    from miglab import workloads  # workloads stand on nodes; only here it is the other way round

    for entry in node.workloads:
        workloads.add(
            node.name,
            entry["gpu"],
            entry.get("instance"),
            entry.get("compute"),
            process=entry.get("process", "python"),
            pod=entry.get("pod", ""),
            idle=entry.get("idle", False),
        )
    for entry in node.clients:
        control.add_process(
            paths.node_state(node.name), entry["gpu"], name=entry["name"], kind=entry.get("kind", "compute")
        )


def _fill(node: Node, state: Path) -> None:
    major = int(node.driver.split(".")[0])
    cuda = max((version for branch, version in _CUDA.items() if branch <= major), default=11000)
    control.create(state, node.driver, f"{cuda // 1000}.{node.driver}", cuda)
    for index, model in enumerate(node.gpus):
        gpu_uuid = f"GPU-{uuid.uuid5(uuid.NAMESPACE_DNS, f'gpu{index}.{node.name}.mig-lab')}"
        pci = _parse_bus_id(node.pci_bus_ids[index]) if node.pci_bus_ids else (0, _bus(index), 0)
        control.add_gpu(state, model, gpu_uuid, pci, node.mode_change, index in node.flipped)
    for entry in node.initial:
        for gpu in entry.gpus:
            control.set_mode(state, gpu, True)
            for profile, start, slices in entry.instances:
                instance = control.add_instance(state, gpu, profile, start)
                for size in slices or (None,):
                    control.add_compute(state, gpu, instance, size)


def _bus(index: int) -> int:
    return _BUSES[index] if index < len(_BUSES) else 0xC0 + index


def _parse_bus_id(text: str) -> tuple[int, int, int]:
    try:
        domain, bus, device = text.split(".")[0].split(":")
        return int(domain, 16), int(bus, 16), int(device, 16)
    except ValueError as error:
        raise FleetError(f"pci_bus_ids: '{text}' is not like 0000:07:00.0") from error


def _gpus(where: str, spec: Mapping[str, Any]) -> tuple[str, ...]:
    gpu = spec.get("gpu")
    if isinstance(gpu, list):
        if "count" in spec:
            raise FleetError(f"{where}.count: leave it out when 'gpu' lists every GPU")
        models = tuple(map(str, gpu))
    else:
        count = spec.get("count", 1)
        if not isinstance(count, int) or isinstance(count, bool) or count < 1:
            raise FleetError(f"{where}.count: a positive number, not {count!r}")
        models = (str(gpu),) * count
    known = codegen.models()
    for model in models:
        if model not in known:
            near = difflib.get_close_matches(model, known, 1)
            hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(sorted(known))}"
            raise FleetError(f"{where}.gpu: no GPU model '{model}' in gpus.json; {hint}")
    return models


def _initial(where: str, entry: Any, count: int) -> InitialGpu:
    _known_keys(where, entry, {"gpus", "instances"})
    instances = []
    for number, wanted in enumerate(entry.get("instances", ())):
        if isinstance(wanted, str):
            profile, _, start = wanted.partition("@")
            instances.append((profile, int(start) if start else None, ()))
        else:
            _known_keys(f"{where}.instances[{number}]", wanted, {"profile", "start", "compute"})
            instances.append((str(wanted["profile"]), wanted.get("start"), tuple(wanted.get("compute", ()))))
    return InitialGpu(_indexes(f"{where}.gpus", entry.get("gpus", "all"), count), tuple(instances))


def _indexes(where: str, value: Any, count: int) -> tuple[int, ...]:
    if value == "all":
        return tuple(range(count))
    listed = tuple(value) if isinstance(value, (list, tuple)) else (value,)
    for index in listed:
        if not isinstance(index, int) or isinstance(index, bool) or not 0 <= index < count:
            raise FleetError(f"{where}: 'all' or GPU indexes 0 to {count - 1}, not {value!r}")
    return listed


def _entries(where: str, spec: Mapping[str, Any], keys: set[str]) -> list[Mapping[str, Any]]:
    entries = spec.get(where.rpartition(".")[2], [])
    for number, entry in enumerate(entries):
        _known_keys(f"{where}[{number}]", entry, keys)
        if "gpu" not in entry:
            raise FleetError(f"{where}[{number}]: 'gpu' is missing")
    return list(entries)


def _known_keys(where: str, value: Any, keys: set[str]) -> None:
    if not isinstance(value, Mapping):
        raise FleetError(f"{where}: a mapping, not {value!r}")
    for key in value:
        if key not in keys:
            raise FleetError(f"{where}: no key '{key}'; there are {', '.join(sorted(keys))}")
