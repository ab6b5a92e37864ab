# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of GPU models is what simulated GPUs of them say of themselves."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.nvidia.mig.plugins.module_utils.errors import InputError
from ansible_collections.nvidia.mig.plugins.plugin_utils.gpu_models import declared, models
from ansible_collections.nvidia.mig.tests.unit.plugins.module_utils.geometry.support import GPUS, catalog


@pytest.mark.parametrize("model", GPUS)
def test_a_declared_gpu_is_one_as_it_came(model: str) -> None:
    first, second = declared({model: 2}, "mig_gpus")
    assert first.catalog == second.catalog == catalog(model, compute=False)
    assert [state.identity.index for state in (first, second)] == [0, 1]
    assert first.identity.product == GPUS[model]["name"]
    assert first.identity.pci_device_id == GPUS[model]["pci_device_id"].upper().replace("X", "x") + "10DE"
    assert first.mig_capable == bool(GPUS[model].get("mig"))
    assert not (first.mig_current or first.mig_pending or first.instances)


def test_every_model_is_there() -> None:
    assert set(models()) == set(GPUS)


def test_gpus_of_several_models_are_counted_on() -> None:
    found = declared({"A30-24GB": 1, "T4-16GB": "2"}, "mig_gpus")
    assert [(s.identity.index, s.mig_capable) for s in found] == [(0, True), (1, False), (2, False)]


@pytest.mark.parametrize(
    "gpus, words",
    [
        ({"A100-SXM4-40G": 8}, "mig_gpus: no GPU model A100-SXM4-40G is known .did you mean A100-SXM4-40GB"),
        ({"X": 8}, "known are A30-24GB, A100"),
        ({"T4-16GB": 0}, "mig_gpus.T4-16GB: 0 is not a number of GPUs .use 1 to 16"),
        ({"T4-16GB": True}, "True is not a number of GPUs"),
        ({"T4-16GB": "many"}, "'many' is not a number of GPUs"),
        (["T4-16GB"], "is not a mapping .write it like"),
    ],
)
def test_what_is_refused(gpus: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        declared(gpus, "mig_gpus")
