# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Looks over all hosts of an inventory in one task: a task for each would take minutes for a big fleet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible import context
from ansible.errors import AnsibleError
from ansible.inventory.manager import InventoryManager
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.plugins.action import ActionBase
from ansible.vars.plugins import get_vars_from_inventory_sources
from ansible_collections.nvidia.mig.plugins.plugin_utils.inventory_lint import (
    GroupVars,
    alike,
    layout_problems,
    surprises,
    together,
    unknown,
    unoffered,
)

ROLES = Path(__file__).resolve().parents[2] / "roles"
LAYOUT = "__mig_layout_options"


class ActionModule(ActionBase):
    """The action of nvidia.mig.inventory_lint; options and results are documented there."""

    _supports_check_mode = True
    _requires_connection = False
    TRANSFERS_FILES = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Ansible's entry point."""
        result = super().run(tmp, task_vars)
        _checked, args = self.validate_argument_spec(
            {
                "hosts": {"type": "list", "elements": "str", "required": True},
                "known": {"type": "list", "elements": "str", "default": []},
            }
        )
        task_vars = task_vars or {}
        specs = self._specs()
        known = {*specs, *args["known"]}
        defaults = {**self._role_vars(), "hostvars": task_vars["hostvars"]}
        problems: dict[str, list[str]] = {}
        notes: dict[str, list[str]] = {}
        bare = []
        groups = self._groups(known)
        seen: dict[str, tuple[list[str], list[str]]] = {}
        for host in args["hosts"]:
            own = task_vars["hostvars"].raw_get(host)
            key = alike(host, own)
            if key not in seen:
                found, meant = self._look_at(own, specs, known, defaults)
                meant += surprises([groups[name] for name in own["group_names"] if name in groups], known)
                seen[key] = found, meant
            problems[host], notes[host] = seen[key]
            if not own.get("mig_gpus"):
                bare.append(host)
        result["problems"] = together(problems)
        result["notes"] = together(notes)
        if bare:
            word = (
                "host does not say which GPUs it has"
                if len(bare) == 1
                else "hosts do not say which GPUs they have"
            )
            result["notes"].append(
                f"{len(bare)} {word} (mig_gpus), so their layouts are checked by their form only"
            )
        if result["problems"]:
            result.update(failed=True, msg="\n".join(result["problems"]))
        return result

    def _look_at(
        self, own: dict[str, Any], specs: dict[str, Any], known: set[str], defaults: dict[str, Any]
    ) -> tuple[list[str], list[str]]:
        """Problems and notes of one host."""
        notes: list[str] = []
        found = [
            f"{name} is no variable of this toolkit" + (f"; did you mean {near}?" if near else "")
            for name, near in unknown(own, known).items()
        ]
        values = {**defaults, **own}
        templar = self._templar.copy_with_new_env(available_variables=values)
        given = sorted(specs.keys() & own.keys())
        try:
            provided = {name: templar.template(own[name]) for name in given}
            checked = ArgumentSpecValidator({name: specs[name] for name in given}).validate(provided)
            found += checked.error_messages
            if not checked.error_messages:
                gpus, options = provided.get("mig_gpus"), templar.template(values[LAYOUT])
                found += layout_problems(options, gpus)
                notes += [] if gpus else unoffered(options)
                for strategy, layout in (provided.get("mig_layouts") or {}).items():
                    if strategy != options["strategy"] and not found:
                        other = {"layout": layout, "strategy": strategy}
                        told = layout_problems(other, gpus)
                        notes += [f"mig_layouts.{strategy}, after a switch to it: {line}" for line in told]
        except AnsibleError as error:
            found.append(" ".join(str(error).split()))
        return found, notes

    def _specs(self) -> dict[str, Any]:
        """Every option of every role, without what is demanded of a role's caller."""
        found: dict[str, Any] = {}
        for path in sorted(ROLES.glob("*/meta/argument_specs.yml")):
            for entry in self._loader.load_from_file(str(path))["argument_specs"].values():
                for name, option in (entry.get("options") or {}).items():
                    found[name] = {
                        key: value for key, value in option.items() if key not in ("required", "default")
                    }
        return found

    def _role_vars(self) -> dict[str, Any]:
        """Defaults and variables of the roles that make mig_layout's options."""
        found: dict[str, Any] = {}
        for name in ("gpu_releases/defaults", "mig/defaults", "mig/vars"):
            path = str(ROLES / name / "main.yml")
            found.update(self._loader.load_from_file(path, trusted_as_template=True))
        return found

    def _groups(self, known: set[str]) -> dict[str, GroupVars]:
        sources = list(context.CLIARGS["inventory"])
        inventory = InventoryManager(loader=self._loader, sources=sources)
        found = {}
        for name, group in inventory.groups.items():
            values = {
                **group.get_vars(),
                **get_vars_from_inventory_sources(self._loader, sources, [group], "all"),
            }
            rank = (group.depth, group.priority)
            found[name] = GroupVars(name, rank, {key: value for key, value in values.items() if key in known})
        return found
