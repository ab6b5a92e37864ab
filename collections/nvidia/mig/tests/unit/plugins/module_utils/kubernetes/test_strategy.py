# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Strategy against layout: what each strategy takes, and the exact refusals."""

from __future__ import annotations

import pytest
from ansible_collections.nvidia.mig.plugins.module_utils.errors import InputError
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.node_gpu import (
    NodeGpu,
    gpus_from_info,
)
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.strategy import (
    check_layout,
    check_strategy,
)
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.versions import parse_version

A100 = "NVIDIA A100-SXM4-40GB"


def node(*layouts, product=A100):
    """One GPU per layout: None is MIG off, 'incapable' has no MIG, else a tuple of profile names."""
    return [
        NodeGpu(index, "Tesla T4", mig_capable=False)
        if layout == "incapable"
        else NodeGpu(index, product, layout is not None, tuple(layout or ()))
        for index, layout in enumerate(layouts)
    ]


TWO_3G = ("3g.20gb", "3g.20gb")
MIXED = ("1g.5gb", "1g.5gb", "2g.10gb", "3g.20gb")


@pytest.mark.parametrize(
    ("strategy", "gpus"),
    [
        ("none", node(*[None] * 8)),
        ("none", node("incapable")),
        ("single", node(*[TWO_3G] * 8)),
        ("single", node(("1g.5gb",) * 7)),
        ("single", node(("1g.5gb",) * 7, ("1g.5gb",) * 3)),
        ("single", node(("1c.3g.20gb",) * 6)),
        ("mixed", node(None, MIXED, TWO_3G)),
        ("mixed", node(*[None] * 8)),
        ("mixed", node("incapable", TWO_3G)),
        ("mixed", node((), ())),
    ],
)
def test_agrees(strategy, gpus):
    check_layout(strategy, gpus)


@pytest.mark.parametrize(
    ("strategy", "gpus", "words"),
    [
        ("none", node(None, TWO_3G, TWO_3G, TWO_3G, None, ()), ["MIG off", "GPUs 1-3, 5", "'mig: false'"]),
        ("single", node(TWO_3G, None, TWO_3G), ["off on GPU 1", "enables it on GPUs 0, 2", "mixed"]),
        ("single", node(*[None] * 8), ["MIG on none", "strategy none"]),
        ("single", node("incapable", "incapable"), ["no GPU of this node can do MIG (Tesla T4)", "none"]),
        ("single", node("incapable", TWO_3G), ["GPU 0 (Tesla T4) cannot do MIG", "mixed"]),
        ("single", node(TWO_3G, (), ()), ["GPUs 1-2 would have none"]),
        ("single", node(TWO_3G, ("1g.5gb",) * 7), ["has 2: 1g.5gb on GPU 1; 3g.20gb on GPU 0"]),
        ("single", node(("1g.5gb",) * 6 + ("1g.5gb+me",)), ["1g.5gb on GPU 0; 1g.5gb+me on GPU 0"]),
        ("single", node(("1c.3g.20gb", "2c.3g.20gb")), ["1c.3g.20gb", "2c.3g.20gb"]),
        ("both", node(None), ["'both' is not a MIG strategy", "none, single or mixed"]),
        (None, node(None), ["null is not a MIG strategy"]),
    ],
)
def test_contradicts(strategy, gpus, words):
    with pytest.raises(InputError) as caught:
        check_layout(strategy, gpus, "mig_strategy")
    assert str(caught.value).startswith("mig_strategy: ")
    for word in words:
        assert word in str(caught.value)


def test_single_wants_one_product():
    gpus = [NodeGpu(0, A100, True, TWO_3G), NodeGpu(1, "NVIDIA A100-PCIE-40GB", True, TWO_3G)]
    with pytest.raises(InputError, match="NVIDIA A100-PCIE-40GB, NVIDIA A100-SXM4-40GB"):
        check_layout("single", gpus)
    check_layout("mixed", gpus)


@pytest.mark.parametrize(
    ("gpus", "refused", "accepted", "word"),
    [
        (node(TWO_3G, ()), "0.15.1", "0.16.0", "GPU 1 would have MIG enabled and no instance"),
        (node(("1c.2g.10gb", "1c.2g.10gb")), "0.20.0", "0.19.3", "no resource for 1c.2g.10gb on GPU 0"),
    ],
)
def test_mixed_depends_on_the_chart(gpus, refused, accepted, word):
    check_layout("mixed", gpus, chart_version=accepted)
    with pytest.raises(InputError) as caught:
        check_layout("mixed", gpus, chart_version=refused)
    assert word in str(caught.value) and refused in str(caught.value)


def test_check_strategy_returns_it():
    assert [check_strategy(name) for name in ("none", "single", "mixed")] == ["none", "single", "mixed"]


def test_gpus_from_mig_info():
    info = {
        "index": 2,
        "product": A100,
        "mig_capable": True,
        "mig_mode": {"current": "enabled", "pending": "enabled"},
        "profiles": [{"name": "3g.20gb", "memory_mib": 20096, "multiprocessors": 42}],
        "instances": [
            {"profile": "3g.20gb", "compute_instances": [{"profile": "3g.20gb"}]},
            {
                "profile": "3g.20gb",
                "compute_instances": [{"profile": "1c.3g.20gb"}, {"profile": "2c.3g.20gb"}],
            },
            {"profile": "1g.5gb", "compute_instances": []},
        ],
    }
    (gpu,) = gpus_from_info([info])
    assert gpu == NodeGpu(2, A100, True, ("3g.20gb", "1c.3g.20gb", "2c.3g.20gb"))
    assert gpu.sizes["3g.20gb"].memory_mib == 20096


def test_gpus_from_mig_layout_and_without_mig():
    summary = {"index": 0, "product": A100, "mig": True, "profiles": ["3g.20gb", "3g.20gb"]}
    plain = {"index": 1, "product": "Tesla T4", "mig_capable": False, "mig_mode": {"current": None}}
    assert gpus_from_info([summary, plain]) == (
        NodeGpu(0, A100, True, TWO_3G),
        NodeGpu(1, "Tesla T4", mig_capable=False),
    )


@pytest.mark.parametrize(
    ("entry", "word"),
    [
        ({"index": 0}, "gpus[0]"),
        ("GPU 0", "gpus[0]"),
        ({"index": 0, "product": "x", "mig": True, "profiles": 2}, "gpus[0].profiles"),
    ],
)
def test_malformed_gpus(entry, word):
    with pytest.raises(InputError) as caught:
        gpus_from_info([entry])
    assert caught.value.path == word


def test_versions_order():
    texts = ["0.7.0-rc.2", "0.7.0-rc.10", "0.7.0", "v0.12.3", "0.17.4+build"]
    versions = [parse_version(text) for text in texts]
    assert versions == sorted(versions)
    assert [str(version) for version in versions] == [
        "0.7.0-rc.2",
        "0.7.0-rc.10",
        "0.7.0",
        "0.12.3",
        "0.17.4",
    ]
    assert parse_version("0.12.0-rc.1").at_least("0.12.0")


@pytest.mark.parametrize("text", ["0.7", 0.7, "", None, "latest", "0.7.0 "])
def test_no_version(text):
    with pytest.raises(InputError) as caught:
        parse_version(text, "version")
    assert caught.value.path == "version"
