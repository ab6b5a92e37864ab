#!/usr/bin/env python3
"""Writes the table of variables in each role's README from its meta/argument_specs.yml.

With --check it writes nothing, and fails if a table is not what it would write.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
START, END = "<!-- variables -->", "<!-- /variables -->"


def main() -> None:
    """Write, or check, every README."""
    stale = []
    for specs in sorted((ROOT / "collections/nvidia/mig/roles").glob("*/meta/argument_specs.yml")):
        readme = specs.parent.parent / "README.md"
        text = readme.read_text()
        entry_points = yaml.safe_load(specs.read_text())["argument_specs"]
        defaults = yaml.safe_load((specs.parent.parent / "defaults/main.yml").read_text())
        head, rest = text.split(START)
        tail = rest.split(END)[1]
        wanted = f"{head}{START}\n{table(entry_points, defaults)}{END}{tail}"
        if wanted != text:
            stale.append(str(readme.relative_to(ROOT)))
            if "--check" not in sys.argv:
                readme.write_text(wanted)
    if stale and "--check" in sys.argv:
        sys.exit(f"not as argument_specs.yml says, run tools/role_readmes.py: {', '.join(stale)}")


def table(entry_points: dict[str, Any], defaults: dict[str, Any]) -> str:
    """The options of all entry points, each once, as a table."""
    options = {name: option for entry in entry_points.values() for name, option in entry["options"].items()}
    rows = [
        f"| `{name}` | {escape(default(name, defaults))} | {escape(description(option))} |\n"
        for name, option in options.items()
    ]
    return "| variable | default | meaning |\n|---|---|---|\n" + "".join(rows)


def default(name: str, defaults: dict[str, Any]) -> str:
    """The default as it is written in an inventory."""
    if name not in defaults:
        return "(needed)"
    value = defaults[name]
    if isinstance(value, str) and "{{" in value:
        return "(see meaning)" if len(value) > 60 else f"`{value}`"
    text = yaml.safe_dump(value, default_flow_style=True, width=1000).removesuffix("...\n").strip()
    return f"`{text}`"


def description(option: dict[str, Any]) -> str:
    """The description as Markdown in one line, with the choices."""
    told = option["description"]
    text = " ".join([told] if isinstance(told, str) else told)
    text = re.sub(r"[OV]\(([\w.]+)#(?:module|role|filter):(\w+)\)", r"`\2` of `\1`", text)
    text = re.sub(r"(?:RV|[OVCMPE])\(([^)]*)\)", r"`\1`", text)
    if "choices" in option:
        text += f" One of {', '.join(f'`{choice}`' for choice in option['choices'])}."
    return text


def escape(text: str) -> str:
    """``text`` as a cell of a table."""
    return text.replace("|", "\\|")


if __name__ == "__main__":
    main()
