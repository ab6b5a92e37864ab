# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a role promises in meta/argument_specs.yml is what its defaults hold, and its README tells of both."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

ROLES = sorted(path.parent.parent for path in Path(__file__).parents[3].glob("roles/*/tasks/main.yml"))
# Where a task gives a variable its value: set_fact and vars hold mappings, register holds a name.
SET_FACT = ("ansible.builtin.set_fact", "set_fact")


def load(path):
    """A YAML file's content; nothing where there is no such file."""
    return (yaml.safe_load(path.read_text(encoding="utf-8")) or {}) if path.exists() else {}


def entry_points(role):
    """Name -> specification of the role's entry points."""
    return load(role / "meta/argument_specs.yml")["argument_specs"]


def tasks_in(content):
    """Every task of a task file, those in blocks included."""
    for task in content or []:
        yield task
        for part in ("block", "rescue", "always"):
            yield from tasks_in(task.get(part))


def included(task):
    """The role of this collection that a task hands its ``vars`` to, or None."""
    name = (task.get("ansible.builtin.include_role") or {}).get("name", "")
    return next((role for role in ROLES if name == f"nvidia.mig.{role.name}"), None)


def assigned(task):
    """Names of the variables that a task sets for its own role."""
    names = set() if included(task) else set(task.get("vars") or {})
    for action in SET_FACT:
        names.update(task.get(action) or {})
    names.update({task["register"]} if "register" in task else ())
    loop = task.get("loop_control") or {}
    return (names | {loop[key] for key in ("loop_var", "index_var") if key in loop}) - {"cacheable"}


def test_there_are_roles():
    assert {role.name for role in ROLES} >= {"mig", "gpu_releases"}


@pytest.fixture(params=ROLES, ids=lambda role: role.name)
def role(request):
    return request.param


def computed(value):
    """Whether a default is a template: in a specification Ansible resolves it even where the user sets it."""
    return isinstance(value, str) and "{{" in value


def test_every_entry_point_specifies_the_defaults(role):
    defaults = load(role / "defaults/main.yml")
    plain = {key: value for key, value in defaults.items() if not computed(value)}
    for name, specification in entry_points(role).items():
        options = specification.get("options") or {}
        promised = {key: option["default"] for key, option in options.items() if "default" in option}
        required = {key for key, option in options.items() if option.get("required")}
        assert promised == plain, f"entry point {name}"
        assert set(options) == set(defaults) | required, f"entry point {name}"


def test_every_entry_point_has_its_task_file(role):
    for name, specification in entry_points(role).items():
        assert (role / "tasks" / f"{name}.yml").is_file()
        assert specification.get("short_description")
        assert specification.get("description")


def test_every_option_has_a_type_and_a_description(role):
    for specification in entry_points(role).values():
        for name, option in (specification.get("options") or {}).items():
            assert option.get("type"), name
            assert option.get("description"), name


def test_every_name_has_the_role_s_prefix(role):
    for name in load(role / "defaults/main.yml"):
        assert name.startswith(f"{role.name}_"), name
    for path in sorted((role / "vars").glob("*.yml")):
        for name in load(path):
            assert name.startswith(f"__{role.name}_"), f"{path.name}: {name}"
    for path in sorted([*role.glob("tasks/*.yml"), *role.glob("handlers/*.yml")]):
        for task in tasks_in(load(path)):
            for name in assigned(task):
                assert re.match(rf"(__)?{role.name}_", name), f"{path.name}: {name}"


def test_what_is_handed_to_another_role_are_its_options(role):
    for path in sorted(role.glob("tasks/*.yml")):
        for task in tasks_in(load(path)):
            other = included(task)
            if other:
                options = set().union(*(entry["options"] for entry in entry_points(other).values()))
                assert set(task.get("vars") or {}) <= options, f"{path.name}: {task['name']}"


def test_the_readme_tells_every_variable(role):
    readme = (role / "README.md").read_text(encoding="utf-8")
    told = set(re.findall(rf"^\| `({role.name}_\w+)`", readme, re.MULTILINE))
    options = {name for entry in entry_points(role).values() for name in entry.get("options") or {}}
    assert told == options


def test_the_checks_see_what_they_look_for():
    content = yaml.safe_load(
        """
        - block:
            - ansible.builtin.set_fact: {wrong_fact: 1, cacheable: true}
          rescue:
            - ansible.builtin.command: "true"
              register: wrong_result
              loop: []
              loop_control: {loop_var: wrong_item}
              vars: {wrong_variable: 1}
        """
    )
    names = set().union(*(assigned(task) for task in tasks_in(content)))
    assert names == {"wrong_fact", "wrong_result", "wrong_item", "wrong_variable"}
