"""A simulated node on which a case runs: its start state, who holds what, and the modules."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.nvidia.mig.tests.unit.plugins.modules.node_support import Host, Result, Server
from miglab import control
from miglab.testing import make_node

from campaign.layouts import Layout, Place, arranged


@dataclass(frozen=True)
class Held:
    """A compute instance that somebody holds, told by serials, which no other instance ever gets."""

    gpu: int
    instance: int
    compute: int
    by_process: bool
    alone: bool  # it is the whole GPU instance


@dataclass(frozen=True)
class Picture:
    """The node as the simulator has it."""

    gpus: list[dict[str, Any]]

    @property
    def shape(self) -> list[Any]:
        """What makes two states equal: modes, profiles, placements."""
        return [
            (
                gpu["mig"],
                [
                    (
                        i["profile"],
                        i["placement"],
                        sorted((c["placement"]["start"], c["profile"]) for c in i["compute_instances"]),
                    )
                    for i in _by_start(gpu)
                ],
            )
            for gpu in self.gpus
        ]

    @property
    def serials(self) -> set[tuple[int, int, int]]:
        """(GPU, GPU instance, compute instance) of every compute instance."""
        return {
            (gpu["index"], i["serial"], c["serial"])
            for gpu in self.gpus
            for i in gpu["instances"]
            for c in i["compute_instances"]
        }

    @property
    def pending(self) -> list[int]:
        """The GPUs whose mode waits for a reset."""
        return [gpu["index"] for gpu in self.gpus if gpu["mig"]["pending"] != gpu["mig"]["current"]]

    def texts(self, gpu: int) -> list[str]:
        """The GPU's instances in the words of the modules' messages."""
        return [_text(instance) for instance in _by_start(self.gpus[gpu])]

    def summary(self, gpu: int) -> dict[str, Any]:
        """The GPU as mig_layout's ``before`` and ``after`` give it."""
        mode = self.gpus[gpu]["mig"]
        found: dict[str, Any] = {"mig": mode["current"], "instances": self.texts(gpu)}
        return found if gpu not in self.pending else {**found, "mig_pending": mode["pending"]}

    def devices(self, gpu: int) -> list[str]:
        """The names of the MIG devices."""
        return [
            i["profile"] if c["slices"] == i["slices"] else f"{c['slices']}c.{i['profile']}"
            for i in self.gpus[gpu]["instances"]
            for c in i["compute_instances"]
        ]


@dataclass
class Bench:
    """One node of a task.

    Args:
        held: MIG devices that somebody holds.
        options: further ones for the module.
        recovered: the shapes from which it was seen that the command comes to its end.
    """

    host: Host
    held: list[Held] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)
    recovered: set[str] = field(default_factory=set)

    def look(self) -> Picture:
        return Picture(self.host.node.read()["gpus"])

    def run(self, module: str, **args: Any) -> Result:
        return self.host.attempt(module, **args)

    def put(self, gpu: int, places: Sequence[Place]) -> None:
        """MIG mode with these instances, as they were before anybody runs."""
        state = self.host.node.state
        control.set_mode(state, gpu, True)
        for place in places:
            instance = control.add_instance(state, gpu, str(place.profile), place.start)
            for slices in place.computes:
                control.add_compute(state, gpu, instance, slices)

    def devices(self) -> list[tuple[int, dict[str, Any], dict[str, Any]]]:
        """GPU, GPU instance and compute instance of every MIG device."""
        return [
            (gpu["index"], instance, compute)
            for gpu in self.look().gpus
            for instance in gpu["instances"]
            for compute in instance["compute_instances"]
        ]

    def hold(self, gpu: int, instance: dict[str, Any], compute: dict[str, Any], by_process: bool) -> None:
        """A process, or a pod that runs nothing, gets the MIG device."""
        if by_process:
            self.host.process(gpu, instance["id"], compute["id"], name="python")
        else:
            resource = f"nvidia.com/mig-{instance['profile']}"
            self.host.pod(f"team/pod{len(self.held)}", compute["uuid"], resource)
        alone = compute["slices"] == instance["slices"]
        self.held.append(Held(gpu, instance["serial"], compute["serial"], by_process, alone))

    @property
    def sacred(self) -> list[Held]:
        """What nobody may destroy; pods' devices may be, if the operator says so."""
        permitted = self.options.get("destroy_in_use", False)
        return [held for held in self.held if held.by_process or not permitted]


@contextmanager
def new_bench(
    server: Server,
    model: str,
    starts: Sequence[Layout],
    rng: random.Random,
    mode_change: str | None = None,
) -> Iterator[Bench]:
    """A node with one GPU for each start layout."""
    with tempfile.TemporaryDirectory(prefix="campaign-", dir=_memory()) as name:
        flipped = [gpu for gpu in range(len(starts)) if rng.random() < 0.2]
        options = {"mode_change": mode_change} if mode_change else {}
        node = make_node(Path(name), model, len(starts), flipped=flipped, **options)
        bench = Bench(Host(node, server))
        for gpu, start in enumerate(starts):
            if start.devices is not None:
                bench.put(gpu, arranged(model, start, rng))
        yield bench


def _memory() -> str | None:
    """A directory in memory, where there is one: a case writes little, but often."""
    shared = Path("/dev/shm")
    return str(shared) if shared.is_dir() else None


def _by_start(gpu: dict[str, Any]) -> list[dict[str, Any]]:
    return sorted(gpu["instances"], key=lambda instance: instance["placement"]["start"])


def _text(instance: dict[str, Any]) -> str:
    place = instance["placement"]
    text = f"{instance['profile']} {place['start']}:{place['size']}"
    slices = sorted((c["slices"] for c in instance["compute_instances"]), reverse=True)
    if slices == [instance["slices"]]:
        return text
    return f"{text} [{' '.join(f'{n}c' for n in slices) or 'no compute instance'}]"
