#!/usr/bin/env python3
"""Writes inventories/group_vars.schema.json, by which editors check group_vars, from the roles' specs.

With --check it writes nothing, and fails if the schema is not what it would write.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import yaml
from role_readmes import description

ROOT = Path(__file__).resolve().parent.parent
ROLES = ROOT / "collections/nvidia/mig/roles"
MODELS = ROOT / "collections/nvidia/mig/plugins/plugin_utils/gpu_models.json"
SCHEMA = ROOT / "inventories/group_vars.schema.json"

TYPES = {"str": "string", "path": "string", "int": "integer", "float": "number", "bool": "boolean"}
TEMPLATE = {"type": "string", "pattern": "\\{\\{"}
SWITCHES = {
    "provision_driver": "Whether site.yml installs, or checks, the driver.",
    "provision_nvml_python": "Whether site.yml gives the node a Python that has nvidia-ml-py.",
    "provision_container_toolkit": "Whether site.yml installs the container toolkit.",
}
INDEX = {"type": ["integer", "string"], "description": "NVML's index, a UUID or a PCI bus id."}
PROFILE = r"^(\d+c\.)?\d+g\.\d+gb([+-].+)?$"
# What the specs of the roles leave to the code, as it is more than types.
DEFINITIONS: dict[str, Any] = {
    "layout": {
        "type": "array",
        "items": {
            "type": "object",
            "required": ["gpus"],
            "additionalProperties": False,
            "properties": {
                "gpus": {
                    "description": "all, or one or several GPUs.",
                    "anyOf": [{"const": "all"}, INDEX, {"type": "array", "items": INDEX, "minItems": 1}],
                },
                "profiles": {
                    "description": "How many MIG devices of which profile; none: MIG mode alone.",
                    "type": "object",
                    "propertyNames": {"pattern": PROFILE},
                    "additionalProperties": {"type": "integer", "minimum": 0},
                },
                "mig": {"description": "false: MIG mode off.", "type": "boolean"},
                "product": {"description": "Only GPUs of this name; * is anything.", "type": "string"},
                "device_id": {
                    "description": "Only GPUs with this PCI device id, as 0x20B010DE.",
                    "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}],
                },
            },
        },
    },
    "shared": {
        "type": "object",
        "required": ["resources"],
        "additionalProperties": False,
        "properties": {
            "renameByDefault": {"type": "boolean"},
            "failRequestsGreaterThanOne": {"type": "boolean"},
            "resources": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["name", "replicas"],
                    "properties": {"name": {"type": "string"}, "replicas": {"type": "integer", "minimum": 2}},
                },
            },
        },
    },
    "sharing": {
        "type": "object",
        "maxProperties": 1,
        "additionalProperties": False,
        "properties": {kind: {"$ref": "#/definitions/shared"} for kind in ("timeSlicing", "mps")},
    },
}
LAYOUT, SHARING = {"$ref": "#/definitions/layout"}, {"$ref": "#/definitions/sharing"}


def main() -> None:
    """Write, or check, the schema."""
    text = json.dumps(schema(), indent=2) + "\n"
    if SCHEMA.exists() and SCHEMA.read_text(encoding="utf-8") == text:
        return
    if "--check" in sys.argv:
        sys.exit(f"not as the roles say, run tools/vars_schema.py: {SCHEMA.relative_to(ROOT)}")
    SCHEMA.write_text(text, encoding="utf-8")


def schema() -> dict[str, Any]:
    """Of the variables of all roles, and of site.yml's own. Others may stand beside them."""
    properties = {
        name: {"description": told, "anyOf": [{"type": "boolean"}, TEMPLATE]}
        for name, told in SWITCHES.items()
    }
    for path in sorted(ROLES.glob("*/meta/argument_specs.yml")):
        entries = yaml.safe_load(path.read_text(encoding="utf-8"))["argument_specs"].values()
        for name, option in (item for entry in entries for item in (entry.get("options") or {}).items()):
            values = known().get(name) or value(option)
            properties[name] = {"description": description(option), "anyOf": [values, TEMPLATE]}
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Variables of GPU nodes",
        "type": "object",
        "properties": dict(sorted(properties.items())),
        "definitions": DEFINITIONS,
    }


def known() -> dict[str, Any]:
    """What is more than a type."""
    models = json.loads(MODELS.read_text(encoding="utf-8"))
    count = {"type": "integer", "minimum": 1, "maximum": 16}
    strategies = ("none", "single", "mixed")
    return {
        "mig_layout": LAYOUT,
        "mig_layouts": {
            "type": "object",
            "additionalProperties": False,
            "properties": {strategy: {"anyOf": [LAYOUT, TEMPLATE]} for strategy in strategies},
        },
        "mig_sharing": SHARING,
        "mig_sharing_choices": {"type": "array", "items": SHARING},
        "mig_gpus": {
            "type": "object",
            "additionalProperties": False,
            "properties": dict.fromkeys(models, count),
        },
    }


def value(option: dict[str, Any]) -> dict[str, Any]:
    """An option's type and choices."""
    kind = option.get("type", "str")
    if kind == "list":
        return {"type": "array", "items": value({**option, "type": option.get("elements", "raw")})}
    if "choices" in option:
        return {"enum": option["choices"]}
    if kind == "dict":
        return {"type": "object"}
    # YAML reads a version such as 580 as a number, and Ansible takes it for a text.
    return {"type": ["string", "number"] if kind == "str" else TYPES[kind]} if kind in TYPES else {}


if __name__ == "__main__":
    main()
