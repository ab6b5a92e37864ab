"""Writes the C sources that come from data: GPU tables from gpus.json, function numbers from symbols.txt."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from miglab import paths

GPUS_JSON = paths.SIMULATOR / "gpus.json"
SYMBOLS = paths.SIMULATOR / "nvml" / "symbols.txt"
STATE_LAYOUT = (paths.SIMULATOR / "nvml" / "state.h", paths.SIMULATOR / "nvml" / "abi.h")

# Counted and open to faults like NVML's own, but no symbol of NVML.
EXTRA_FUNCTIONS = ("migsim_gpu_reset",)

ARCHITECTURES = {"turing": 6, "ampere": 7, "ada": 8, "hopper": 9, "blackwell": 10}
BRANDS = {"nvidia": 14, "nvidia-rtx": 13}
NVIDIA_VENDOR = 0x10DE


def models() -> dict[str, Any]:
    """GPU models of gpus.json by key."""
    loaded: dict[str, Any] = json.loads(GPUS_JSON.read_text(encoding="utf-8"))["gpus"]
    return loaded


def generate(directory: Path) -> list[Path]:
    """Write the generated sources into ``directory``; returns the C files among them."""
    directory.mkdir(parents=True, exist_ok=True)
    symbols = SYMBOLS.read_text(encoding="utf-8").split()
    sources = {
        "functions.h": _functions_header(symbols),
        "functions.c": _functions_source(symbols),
        "stubs.c": _stubs(symbols),
        "models.c": _models(models()),
    }
    for name, text in sources.items():
        (directory / name).write_text(text, encoding="utf-8")
    return [directory / name for name in sources if name.endswith(".c")]


def _layout_id() -> int:
    """Changes with anything that gives the bytes of a state file another meaning."""
    digest = hashlib.sha256()
    for part in (*STATE_LAYOUT, SYMBOLS, GPUS_JSON):
        digest.update(part.read_bytes())
    return int.from_bytes(digest.digest()[:8], "big")


def _functions_header(symbols: list[str]) -> str:
    names = [*symbols, *EXTRA_FUNCTIONS]
    numbers = "\n".join(f"    FN_{name}," for name in names)
    return (
        "#ifndef SIM_FUNCTIONS_H\n#define SIM_FUNCTIONS_H\n"
        f"#define SIM_LAYOUT_ID {_layout_id():#x}ull\n"
        f"#define FUNCTION_COUNT {len(names)}\n"
        f"enum {{\n{numbers}\n}};\n"
        "extern const char *const function_names[FUNCTION_COUNT];\n#endif\n"
    )


def _functions_source(symbols: list[str]) -> str:
    names = "\n".join(f'    "{name}",' for name in [*symbols, *EXTRA_FUNCTIONS])
    return f'#include "functions.h"\nconst char *const function_names[FUNCTION_COUNT] = {{\n{names}\n}};\n'


def _stubs(symbols: list[str]) -> str:
    """A weak definition of every NVML function; the ones that the simulator implements override theirs."""
    head = '#include "call.h"\n#define STUB __attribute__((weak, visibility("default"))) nvmlReturn_t\n'
    head += (
        "static nvmlReturn_t stub(unsigned int function)\n{\n    nvmlReturn_t result = sim_enter(function);\n"
        "    return sim_leave(result == NVML_SUCCESS ? NVML_ERROR_NOT_SUPPORTED : result);\n}\n"
    )
    return head + "".join(f"STUB {name}(void) {{ return stub(FN_{name}); }}\n" for name in symbols)


def _models(table: dict[str, Any]) -> str:
    text = '#include "model.h"\n#include <string.h>\n'
    rows = []
    for number, (key, gpu) in enumerate(table.items()):
        mig = gpu["mig"]
        if mig:
            profiles = ",\n".join(_profile(profile) for profile in mig["profiles"])
            text += f"static const struct model_profile profiles_{number}[] = {{\n{profiles}\n}};\n"
        rows.append(_model(number, key, gpu))
    text += "const struct model model_table[] = {\n" + ",\n".join(rows) + "\n};\n"
    text += f"const unsigned int model_count = {len(rows)};\n"
    return text + (
        "const struct model *model_find(const char *key)\n{\n"
        "    for (unsigned int i = 0; i < model_count; i++)\n"
        "        if (strcmp(model_table[i].key, key) == 0)\n            return &model_table[i];\n"
        "    return NULL;\n}\n"
    )


def _model(number: int, key: str, gpu: dict[str, Any]) -> str:
    mig = gpu["mig"]
    major, minor = gpu["compute_capability"].split(".")
    device_id = int(gpu["pci_device_id"], 16) << 16 | NVIDIA_VENDOR
    fields = [
        _string(key),
        _string(gpu["name"]),
        f"{device_id:#x}u",
        ARCHITECTURES[gpu["architecture"]],
        major,
        minor,
        BRANDS[gpu["brand"]],
        gpu["memory_mib"],
        gpu["sm"],
    ]
    if mig:
        resetless = int(mig["mode_change"] == "resetless")
        fields += [_string(mig["min_driver"]), resetless, mig["compute_slices"], mig["placement_units"]]
        fields += [len(mig["profiles"]), f"profiles_{number}"]
    else:
        fields += ["NULL", 0, 0, 0, 0, "NULL"]
    return "    {" + ", ".join(map(str, fields)) + "}"


def _profile(profile: dict[str, Any]) -> str:
    compute = ", ".join(
        f"{{{c['id']}, {c['slices']}, {c['sm']}, {c['max']}, {_placements(c['placements'])}}}"
        for c in profile["compute_instances"]
    )
    fields: list[Any] = [_string(profile["name"])]
    fields += [profile[name] for name in ("enum", "id", "slices", "max", "memory_mib", "sm")]
    fields += [profile[name] for name in ("copy", "dec", "enc", "jpeg", "ofa")]
    fields += [int(profile.get("gfx", False)), _media(profile["name"])]
    fields += [_string(profile["min_driver"]) if "min_driver" in profile else "NULL"]
    fields += [_placements(profile["placements"]), len(profile["compute_instances"]), f"{{{compute}}}"]
    return "    {" + ", ".join(map(str, fields)) + "}"


def _media(name: str) -> str:
    if name.endswith("+me.all"):
        return "MEDIA_ALL"
    if name.endswith("+me"):
        return "MEDIA_EXTRA"
    return "MEDIA_NONE" if name.endswith("-me") else "MEDIA_SHARE"


def _placements(placements: list[list[int]]) -> str:
    return f"{len(placements)}, {{" + ", ".join(f"{{{start}, {size}}}" for start, size in placements) + "}"


def _string(text: str) -> str:
    return json.dumps(text)
