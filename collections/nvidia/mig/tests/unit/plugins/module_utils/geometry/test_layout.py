# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.nvidia.mig.plugins.module_utils.errors import InputError
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.layout import (
    assign,
    parse_layout,
    parse_mig_parted,
)
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.profile import describe_profiles
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.selector import parse_selector
from ansible_collections.nvidia.mig.plugins.module_utils.geometry.state import GpuState
from ansible_collections.nvidia.mig.tests.unit.plugins.module_utils.geometry.support import (
    A30,
    A100,
    H100,
    T4,
    state,
)

DGX = [state(A100, index=i) for i in range(4)]
# A workstation: A100s, and a display GPU in between.
STATION = [state(A100, index=0), state(T4, index=1), state(A100, index=2)]
MIXED = [state(A100, index=0), state(A30, index=1)]


def assigned(entries: list[dict[str, Any]], gpus: list[GpuState]) -> dict[int, str]:
    return {
        index: describe_profiles(layout.profiles) if layout.mig else "off"
        for index, layout in assign(parse_layout(entries), gpus).items()
    }


@pytest.mark.parametrize(
    ("entries", "gpus", "expected"),
    [
        ([], DGX, {}),
        ([{"gpus": "all", "profiles": {"3g.20gb": 2}}], DGX, dict.fromkeys(range(4), "3g.20gb x2")),
        ([{"gpus": "ALL", "mig": False}], DGX, dict.fromkeys(range(4), "off")),
        ([{"gpus": "all", "profiles": {}}], DGX[:1], {0: ""}),
        ([{"gpus": "all", "profiles": {}, "mig": True}], DGX[:1], {0: ""}),
        ([{"gpus": 1, "profiles": {"1G.5GB": 7}}], DGX, {1: "1g.5gb x7"}),
        ([{"gpus": "1", "profiles": {"1g.5gb": 7}}], DGX, {1: "1g.5gb x7"}),
        (
            [{"gpus": [0, 1], "mig": False}, {"gpus": [3], "profiles": {"1g.5gb": 1, "3g.20gb": 1}}],
            DGX,
            {0: "off", 1: "off", 3: "3g.20gb + 1g.5gb"},
        ),
        # Null is what Ansible hands over for options that were not given.
        ([{"gpus": 0, "profiles": None, "mig": False, "product": None, "device_id": None}], DGX, {0: "off"}),
        ([{"gpus": ["GPU-00000002-AAAA", "0000:07:00.0"], "mig": False}], DGX, {0: "off", 2: "off"}),
        ([{"gpus": ["08:00.0", "00000000:09:00.0"], "mig": False}], DGX, {1: "off", 2: "off"}),
        # A GPU that cannot do MIG is passed over by "all", and has MIG off already.
        ([{"gpus": "all", "profiles": {"7g.40gb": 1}}], STATION, {0: "7g.40gb", 2: "7g.40gb"}),
        ([{"gpus": "all", "mig": False}], STATION, {0: "off", 1: "off", 2: "off"}),
        ([{"gpus": 1, "mig": False}], STATION, {1: "off"}),
        # Filters: what is for another kind of host does not count.
        (
            [
                {"gpus": "all", "product": "A30", "profiles": {"2g.12gb": 2}},
                {"gpus": "all", "product": "nvidia a100*", "profiles": {"3g.20gb": 2}},
                {"gpus": "all", "product": "H100*", "profiles": {"3g.40gb": 2}},
                {"gpus": [6, 7], "product": "H200*", "profiles": {"3g.71gb": 2}},
            ],
            MIXED,
            {0: "3g.20gb x2", 1: "2g.12gb x2"},
        ),
        ([{"gpus": "all", "device_id": "0x20b710DE", "mig": False}], MIXED, {1: "off"}),
        ([{"gpus": "all", "device_id": 0x20B710DE, "mig": False}], MIXED, {1: "off"}),
        ([{"gpus": [0, 1], "device_id": ["0x20B010DE", "0x20F110DE"], "mig": False}], MIXED, {0: "off"}),
        ([{"gpus": "all", "product": "A100*", "device_id": "0x20B010DE", "mig": False}], MIXED, {0: "off"}),
    ],
)
def test_assigns(entries: list[dict[str, Any]], gpus: list[GpuState], expected: dict[int, str]) -> None:
    assert assigned(entries, gpus) == expected


THERE = "it has 0 (A100-SXM4-40GB, 00000000:07:00.0), 1 (A30, 00000000:08:00.0)"


@pytest.mark.parametrize(
    ("entries", "gpus", "messages"),
    [
        ([{"gpus": 7, "mig": False}], MIXED, [f"layout[0].gpus: there is no GPU 7 on this host ({THERE})"]),
        (
            [{"gpus": ["GPU-ffff", "00000000:FF:00.0"], "mig": False}],
            MIXED,
            [
                f"layout[0].gpus: there is no GPU gpu-ffff on this host ({THERE})",
                f"layout[0].gpus: there is no GPU 00000000:ff:00.0 on this host ({THERE})",
            ],
        ),
        (
            [{"gpus": [0, "GPU-00000000-aaaa"], "mig": False}],
            MIXED,
            ["0 and gpu-00000000-aaaa are the same GPU"],
        ),
        (
            [{"gpus": "all", "mig": False}, {"gpus": [1, 2], "profiles": {"1g.5gb": 1}}],
            DGX,
            [
                "layout[1]: GPUs 1-2: selected by both layout[0] and layout[1] "
                "(each GPU takes one entry; narrow one of them down)"
            ],
        ),
        (
            [{"gpus": [1], "profiles": {"1g.5gb": 1}}],
            STATION,
            ["layout[0].gpus: GPU 1: Tesla T4 cannot do MIG (leave it out, or write mig: false)"],
        ),
        (
            [{"gpus": "all", "product": "Tesla T4", "profiles": {"1g.5gb": 1}}],
            STATION,
            ["layout[0].gpus: GPU 1: Tesla T4 cannot do MIG"],
        ),
        (
            [{"gpus": "all", "profiles": {"1g.5gb": 1}}],
            [state(T4)],
            ["layout[0].gpus: no GPU of this host can do MIG (Tesla T4)"],
        ),
        (
            [{"gpus": "all", "profiles": {"2g.20gb": 1, "3g.20gb": 1}}],
            DGX,
            [
                "layout[0].profiles.2g.20gb: GPUs 0-3: A100-SXM4-40GB does not offer 2g.20gb "
                "(the nearest is 2g.10gb; it offers"
            ],
        ),
        (
            [{"gpus": "all", "profiles": {"3g.20gb": 2}}],
            MIXED,
            ["layout[0].profiles.3g.20gb: GPU 1: A30 does not offer 3g.20gb (the nearest is 4g.24gb;"],
        ),
        (
            [
                {"gpus": "all", "product": "A100-PCIE*", "profiles": {"3g.20gb": 2}},
                {"gpus": "all", "device_id": "0x233010DE", "profiles": {"3g.40gb": 2}},
            ],
            MIXED,
            [
                "layout: no entry selects a GPU of this host: they are for A100-PCIE*, 0x233010DE "
                "(this host has A100-SXM4-40GB, A30 (0x20B010DE, 0x20B710DE))"
            ],
        ),
        ([{"gpus": "all", "mig": False}], [], ["layout[0].gpus: this host has no GPU"]),
        ([{"gpus": 0, "mig": False}], [], ["layout[0].gpus: this host has no GPU"]),
        (
            [{"gpus": "all", "product": "A*", "mig": False}],
            [],
            ["layout: no entry selects a GPU of this host: they are for A* (this host has no GPU)"],
        ),
        # All of them at once.
        (
            [{"gpus": 0, "profiles": {"9g.99gb": 1}}, {"gpus": 5, "mig": False}, {"gpus": 0, "mig": False}],
            MIXED,
            [
                "3 problems:",
                "- layout[0].profiles.9g.99gb: GPU 0: A100-SXM4-40GB does not offer 9g.99gb",
                "- layout[1].gpus: there is no GPU 5 on this host",
                "- layout[2]: GPU 0: selected by both layout[0] and layout[2]",
            ],
        ),
    ],
)
def test_refuses_what_does_not_fit_the_host(
    entries: list[dict[str, Any]], gpus: list[GpuState], messages: list[str]
) -> None:
    with pytest.raises(InputError) as error:
        assign(parse_layout(entries), gpus)
    for message in messages:
        assert message in str(error.value)


BUS_ID_HINT = "put quotes around a PCI bus id: '0000:07:00.0'"
ON = {"profiles": {"1g.5gb": 1}}


@pytest.mark.parametrize(
    ("entries", "messages"),
    [
        ({"gpus": "all"}, ["layout: a layout is a list of entries"]),
        ("all", ["layout: a layout is a list of entries"]),
        (None, ["layout: a layout is a list of entries"]),
        ([7], ["layout[0]: 7 is not a mapping (its keys are gpus, profiles, mig, product, device_id)"]),
        (
            [{"gpu": 0, **ON}],
            ["layout[0]: unknown key 'gpu' (allowed are gpus, profiles, mig, product, device_id)"],
        ),
        ([ON], ["layout[0]: gpus is missing"]),
        ([{"gpus": 0}], ["layout[0]: profiles is missing (write profiles: {} for MIG on without instances"]),
        ([{"gpus": 0, "mig": True}], ["layout[0]: profiles is missing"]),
        ([{"gpus": 0, "mig": "on", **ON}], ["layout[0].mig: 'on' is neither true nor false"]),
        ([{"gpus": 0, "mig": False, **ON}], ["layout[0]: profiles are asked for with mig: false"]),
        ([{"gpus": [], **ON}], ["layout[0].gpus: the list of GPUs is empty"]),
        ([{"gpus": [0, 0], **ON}], ["layout[0].gpus[1]: 0 stands twice"]),
        ([{"gpus": [0, "all"], **ON}], ["layout[0].gpus[1]: all cannot stand in a list"]),
        ([{"gpus": -1, **ON}], ["layout[0].gpus: -1 is not a GPU's index"]),
        ([{"gpus": True, **ON}], ["layout[0].gpus: True is not a GPU"]),
        ([{"gpus": "first", **ON}], ["layout[0].gpus: 'first' is not a GPU (write all, an index such as 0"]),
        ([{"gpus": 420.0, **ON}], [f"layout[0].gpus: 420.0 is not a GPU ({BUS_ID_HINT})"]),
        ([{"gpus": {"index": 0}, **ON}], ["layout[0].gpus: {'index': 0} is not a GPU"]),
        ([{"gpus": 0, "profiles": ["1g.5gb"]}], ["layout[0].profiles: ['1g.5gb'] is not a mapping"]),
        ([{"gpus": 0, "profiles": {"1g5gb": 1}}], ["layout[0].profiles.1g5gb: '1g5gb' is not a MIG profile"]),
        ([{"gpus": 0, "profiles": {"1g.5gb": 0}}], ["layout[0].profiles.1g.5gb: the count 0 is too small"]),
        ([{"gpus": 0, "profiles": {"1g.5gb": -1}}], ["layout[0].profiles.1g.5gb: the count -1 is too small"]),
        ([{"gpus": 0, "profiles": {"1g.5gb": 10**9}}], ["the count 1000000000 is too big"]),
        ([{"gpus": 0, "profiles": {"1g.5gb": "2"}}], ["layout[0].profiles.1g.5gb: '2' is not a count"]),
        ([{"gpus": 0, "profiles": {"1g.5gb": 1.0}}], ["layout[0].profiles.1g.5gb: 1.0 is not a count"]),
        ([{"gpus": 0, "profiles": {"1g.5gb": True}}], ["layout[0].profiles.1g.5gb: True is not a count"]),
        ([{"gpus": 0, "profiles": {"1g.5gb": None}}], ["layout[0].profiles.1g.5gb: None is not a count"]),
        (
            [{"gpus": 0, "profiles": {"3g.20gb": 1, "3c.3g.20GB": 1}}],
            ["layout[0].profiles.3c.3g.20GB: 3g.20gb and 3c.3g.20GB are the same profile"],
        ),
        ([{"gpus": 0, "product": "", **ON}], ["layout[0].product: '' is not a product name"]),
        ([{"gpus": 0, "product": ["A30"], **ON}], ["layout[0].product: ['A30'] is not a product name"]),
        ([{"gpus": 0, "device_id": "20B0", **ON}], ["layout[0].device_id: '20B0' is not a PCI device id"]),
        ([{"gpus": 0, "device_id": [], **ON}], ["layout[0].device_id: the list of PCI device ids is empty"]),
        (
            [{"gpus": 0, "device_id": ["0x1", True], **ON}],
            ["layout[0].device_id[1]: True is not a PCI"],
        ),
        (
            [{"gpus": "x", **ON}, {"gpus": 0, "profiles": {"a": 1, "1g.5gb": -1}}],
            ["3 problems:", "- layout[0].gpus", "- layout[1].profiles.a", "- layout[1].profiles.1g.5gb"],
        ),
    ],
)
def test_refuses_what_is_malformed(entries: Any, messages: list[str]) -> None:
    with pytest.raises(InputError) as error:
        parse_layout(entries)
    for message in messages:
        assert message in str(error.value)


def test_selector_alone_as_other_modules_take_it() -> None:
    assert parse_selector("all").select(DGX) == (0, 1, 2, 3)
    assert parse_selector([2, 0]).select(DGX) == (0, 2)
    with pytest.raises(InputError, match="gpus: there is no GPU 9"):
        parse_selector(9).select(DGX)


def on(**more: Any) -> dict[str, Any]:
    return {"devices": "all", "mig-enabled": True, **more}


def parted(*specs: dict[str, Any]) -> dict[str, Any]:
    return {"version": "v1", "mig-configs": {"mine": list(specs), "all-disabled": [OFF]}}


OFF = {"devices": "all", "mig-enabled": False}


@pytest.mark.parametrize(
    ("specs", "gpus", "expected"),
    [
        ([OFF], DGX[:2], {0: "off", 1: "off"}),
        ([{**OFF, "mig-devices": {}}], DGX[:1], {0: "off"}),
        ([{"devices": "all", "mig-enabled": True, "mig-devices": {}}], DGX[:1], {0: ""}),
        (
            [
                {"devices": [0], "mig-enabled": False},
                {
                    "devices": [1, 2],
                    "mig-enabled": True,
                    "mig-devices": {"1g.5gb": 0, "2g.10gb": 1, "1c.3g.20gb": 2},
                },
            ],
            DGX,
            {0: "off", 1: "1c.3g.20gb x2 + 2g.10gb", 2: "1c.3g.20gb x2 + 2g.10gb"},
        ),
        (
            [
                {
                    "device-filter": ["0x20B010DE", "0x20F110DE"],
                    "devices": "all",
                    "mig-enabled": True,
                    "mig-devices": {"1g.5gb": 2},
                },
                {
                    "device-filter": "0x20B710DE",
                    "devices": "all",
                    "mig-enabled": True,
                    "mig-devices": {"1g.6gb": 2},
                },
                {
                    "device-filter": "0x233010DE",
                    "devices": [5],
                    "mig-enabled": True,
                    "mig-devices": {"1g.10gb": 2},
                },
            ],
            MIXED,
            {0: "1g.5gb x2", 1: "1g.6gb x2"},
        ),
    ],
)
def test_mig_parted(specs: list[dict[str, Any]], gpus: list[GpuState], expected: dict[int, str]) -> None:
    found = assign(parse_mig_parted(parted(*specs), "mine"), gpus)
    assert {
        i: describe_profiles(layout.profiles) if layout.mig else "off" for i, layout in found.items()
    } == expected


def test_mig_parted_filter_with_subsystem() -> None:
    gpu = state(H100)
    board = replace(gpu, identity=replace(gpu.identity, pci_subsystem_id="0x16C110DE"))
    spec = {"device-filter": "0x233010DE:0x16c110de", "devices": "all", "mig-enabled": False}
    assert list(assign(parse_mig_parted(parted(spec), "mine"), [board])) == [0]
    with pytest.raises(InputError, match="no entry selects a GPU of this host"):
        assign(parse_mig_parted(parted(spec), "mine"), [gpu])


@pytest.mark.parametrize(
    ("config", "messages"),
    [
        ([], ["config: [] is not a mapping"]),
        (
            {"mig-configs": {"mine": [OFF]}},
            ["config.version: None is not a version that is known"],
        ),
        ({"version": "v2", "mig-configs": {"mine": [OFF]}}, ["config.version: 'v2' is not a version"]),
        ({"version": "v1", "mig_configs": {}}, ["config: unknown key 'mig_configs'"]),
        ({"version": "v1"}, ["config.mig-configs: there is no configuration"]),
        ({"version": "v1", "mig-configs": {"mien": [OFF]}}, ["no configuration 'mine' (did you mean mien?)"]),
        (
            {"version": "v1", "mig-configs": {"a": [OFF], "b": [OFF]}},
            ["'mine' (it has a, b)"],
        ),
        (
            {"version": "v1", "mig-configs": {"mine": []}},
            ["mig-configs.mine: a configuration is a list"],
        ),
        (parted({"mig-enabled": False}), ["config.mig-configs.mine[0]: devices is missing"]),
        (parted({"devices": "all"}), ["config.mig-configs.mine[0]: mig-enabled is missing"]),
        (parted({**OFF, "mig-enabled": "no"}), ["mine[0].mig-enabled: 'no' is neither true nor false"]),
        (parted({**OFF, "gpus": 1}), ["config.mig-configs.mine[0]: unknown key 'gpus'"]),
        (parted({**OFF, "devices": 0}), ["mine[0].devices: 0 is neither all nor a list of GPU indexes"]),
        (
            parted({**OFF, "devices": ["0"]}),
            ["mine[0].devices: ['0'] is neither all nor a list"],
        ),
        (parted({"devices": "all", "mig-enabled": True}), ["mine[0]: mig-devices is missing"]),
        (
            parted({**OFF, "mig-devices": {"1g.5gb": 1}}),
            ["MIG devices are asked for"],
        ),
        (parted({**OFF, "device-filter": "A100"}), ["mine[0].device-filter: 'A100' is not a PCI"]),
        (
            parted(
                {"devices": "all", "mig-enabled": True, "mig-devices": {"1g.5gb": -1, "x": 1}},
                {**OFF, "devices": [True]},
            ),
            ["3 problems", "mine[0].mig-devices.1g.5gb", "mine[0].mig-devices.x", "mine[1].devices"],
        ),
    ],
)
def test_mig_parted_refuses(config: Any, messages: list[str]) -> None:
    with pytest.raises(InputError) as error:
        parse_mig_parted(config, "mine")
    for message in messages:
        assert message in str(error.value)
