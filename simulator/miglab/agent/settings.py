"""What a deployed DaemonSet of the device plugin or of GPU feature discovery is told to do on one node.

Read from the objects in the API server as the pods would see them: container environment, and the named
configuration that ``config-manager`` picks from the ConfigMap by the node's label.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

Object = Mapping[str, Any]

STRATEGIES = ("none", "single", "mixed")
#: What the lab's own charts are; taken where an image's tag is no version.
_DEFAULT_VERSION = (0, 17, 4)
_COMPONENTS = ("nvidia-device-plugin", "gpu-feature-discovery")


class RefusedError(Exception):
    """The pod exits, with this as its last words."""


class WaitingError(Exception):
    """The pod does not start: what it mounts is not there."""


@dataclass(frozen=True)
class Shared:
    """One entry of ``sharing.*.resources``."""

    resource: str
    replicas: int


@dataclass(frozen=True)
class Settings:
    """One pod's settings. ``sharing`` is none, time-slicing or mps."""

    strategy: str = "none"
    version: tuple[int, int, int] = _DEFAULT_VERSION
    sharing: str = "none"
    shared: tuple[Shared, ...] = ()
    rename_by_default: bool = False
    timestamp: bool = True
    config: str = field(default="", compare=False)  # the named configuration, for people

    def replicas(self, resource: str) -> int:
        """How often each device of the resource is offered."""
        return next((each.replicas for each in self.shared if each.resource == resource), 1)


def component(workload: Object) -> str | None:
    """``nvidia-device-plugin``, ``gpu-feature-discovery``, or None for any other DaemonSet."""
    for name in _COMPONENTS:
        if _container(workload, name) is not None:
            return name
    return None


def read_settings(workload: Object, node: Object, config_maps: Mapping[tuple[str, str], Object]) -> Settings:
    """Settings of a plugin's or a GFD's pod on ``node``.

    Args:
        workload: the DaemonSet.
        node: the Node.
        config_maps: every ConfigMap by (namespace, name).

    Raises:
        RefusedError: the pod would exit.
        WaitingError: the pod would not start.
    """
    name = component(workload)
    container = _container(workload, name) if name else None
    if container is None:
        raise ValueError("neither a device plugin nor GPU feature discovery")
    environment = _environment(container)
    config_name = ""
    config: dict[str, Any] = {}
    if "CONFIG_FILE" in environment:
        config_name, config = _named_config(workload, node, config_maps)
    flags = config.get("flags") or {}
    strategy = (
        environment.get("MIG_STRATEGY")
        or environment.get("GFD_MIG_STRATEGY")  # GFD's own chart up to 0.5
        or _argument(container, "mig-strategy")
        or flags.get("migStrategy")
    )
    if strategy is None:
        strategy = "none"
    if strategy not in STRATEGIES:
        raise RefusedError(f"unknown MIG strategy: {strategy}")
    version = _version(str(container.get("image", "")))
    sharing, shared, rename = _sharing(config, version)
    timestamp = environment.get("GFD_NO_TIMESTAMP") or (flags.get("gfd") or {}).get("noTimestamp")
    return Settings(
        strategy=strategy,
        version=version,
        sharing=sharing,
        shared=shared,
        rename_by_default=rename,
        timestamp=str(timestamp).lower() != "true",
        config=config_name,
    )


def _named_config(
    workload: Object, node: Object, config_maps: Mapping[tuple[str, str], Object]
) -> tuple[str, dict[str, Any]]:
    """Pick as config-manager does: the node's label, else the default, else the fallbacks in turn."""
    spec = workload["spec"]["template"]["spec"]
    manager = next((each for each in spec.get("initContainers") or [] if _runs(each, "config-manager")), None)
    volume = next((each for each in spec.get("volumes") or [] if each["name"] == "available-configs"), None)
    if manager is None or volume is None or "configMap" not in volume:
        raise RefusedError("CONFIG_FILE is set, but no config-manager provides it")
    key = (workload["metadata"]["namespace"], volume["configMap"]["name"])
    if key not in config_maps:
        raise WaitingError(f'configmap "{key[1]}" not found')
    available: Mapping[str, str] = config_maps[key].get("data") or {}
    environment = _environment(manager)
    label = environment.get("NODE_LABEL") or "nvidia.com/device-plugin.config"
    chosen = (node["metadata"].get("labels") or {}).get(label) or environment.get("DEFAULT_CONFIG") or ""
    if not available:
        raise RefusedError("no configuration files available")
    if not chosen:
        fallbacks = [each for each in (environment.get("FALLBACK_STRATEGIES") or "").split(",") if each]
        return _fallback(available, fallbacks)
    if chosen not in available:
        raise RefusedError(f"specified config {chosen} does not exist")
    return chosen, _parse(chosen, available[chosen])


def _fallback(available: Mapping[str, str], fallbacks: list[str]) -> tuple[str, dict[str, Any]]:
    for fallback in fallbacks:
        if fallback == "named" and "default" in available:
            return "default", _parse("default", available["default"])
        if fallback == "single" and len(available) == 1:
            ((name, text),) = available.items()
            return name, _parse(name, text)
        if fallback == "empty":
            return "", {}
        if fallback not in ("named", "single", "empty"):
            raise RefusedError(f"unknown fallback strategy: {fallback}")
    raise RefusedError("no config was set, no default was provided, and all fallbacks failed")


def _parse(name: str, text: str) -> dict[str, Any]:
    try:
        config = yaml.safe_load(text) or {}
    except yaml.YAMLError as error:
        raise RefusedError(f"config {name} is not YAML: {error}") from error
    if not isinstance(config, dict):
        raise RefusedError(f"config {name} is not a mapping")
    if config.get("version") != "v1":
        raise RefusedError(f"config {name}: unknown version: {config.get('version')}")
    return config


def _sharing(
    config: Mapping[str, Any], version: tuple[int, int, int]
) -> tuple[str, tuple[Shared, ...], bool]:
    sharing = config.get("sharing") or {}
    for key, name in (("timeSlicing", "time-slicing"), ("mps", "mps")):
        section = sharing.get(key)
        if not section or not section.get("resources"):
            continue
        if key == "mps" and version < (0, 15, 0):
            continue  # unknown keys are passed over
        shared = []
        for entry in section["resources"]:
            replicas = entry.get("replicas")
            if not isinstance(replicas, int) or replicas < 2:
                raise RefusedError(f"number of replicas must be >= 2, is {replicas}")
            resource = str(entry["name"])
            shared.append(Shared(resource if "/" in resource else f"nvidia.com/{resource}", replicas))
        return name, tuple(shared), bool(section.get("renameByDefault"))
    return "none", (), False


def _container(workload: Object, name: str) -> Object | None:
    containers = workload["spec"]["template"]["spec"].get("containers") or []
    for container in containers:
        if container["name"] in (name, f"{name}-ctr") or _runs(container, name):
            return container  # type: ignore[no-any-return]
    return None


def _runs(container: Object, program: str) -> bool:
    return list(container.get("command") or [])[:1] == [program]


def _environment(container: Object) -> dict[str, str]:
    return {each["name"]: each["value"] for each in container.get("env") or [] if each.get("value")}


def _argument(container: Object, name: str) -> str | None:
    """Charts before 0.12 pass arguments, not environment."""
    for argument in container.get("args") or []:
        key, _, value = str(argument).partition("=")
        if key == f"--{name}":
            return value
    return None


def _version(image: str) -> tuple[int, int, int]:
    match = re.search(r":v?(\d+)\.(\d+)\.(\d+)", image)
    return (int(match[1]), int(match[2]), int(match[3])) if match else _DEFAULT_VERSION
