# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The arguments of the event source, as a rulebook has them."""

from __future__ import annotations

import pytest
from ansible_collections.nvidia.mig.plugins.module_utils.errors import InputError
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.demand_options import parse_options


def test_defaults():
    assert parse_options({}) == ((60, 10), (120, 900), False, False, False, None, None)


def test_what_a_rulebook_renders():
    """Variables come as they are, or as texts, or empty."""
    found = parse_options(
        {
            "batch_window": "30",
            "idle_window": 0,
            "retry": 1.5,
            "retry_limit": "1.5",
            "whole_gpus": "True",
            "shared_gpus": "no",
            "gang_jobs": True,
            "kubeconfig": "~/.kube/config",
            "context": "",
            "eda_feedback_queue": object(),
        }
    )
    assert found == ((30, 0), (1.5, 1.5), True, False, True, "~/.kube/config", None)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (
            {"batch_windw": 1},
            "batch_windw: there is no such argument (there are batch_window, context, gang_jobs, idle_window,"
            " kubeconfig, retry, retry_limit, shared_gpus, whole_gpus)",
        ),
        (
            {"batch_window": -1},
            "batch_window: -1 is not a number of seconds (such as 60; not below zero)",
        ),
        (
            {"idle_window": "soon"},
            "idle_window: 'soon' is not a number of seconds (such as 60; not below zero)",
        ),
        ({"retry": "nan"}, "retry: 'nan' is not a number of seconds (such as 60; not below zero)"),
        ({"retry": True}, "retry: True is not a number of seconds (such as 60; not below zero)"),
        (
            {"retry_limit": "inf"},
            "retry_limit: 'inf' is not a number of seconds (such as 60; not below zero)",
        ),
        ({"retry": 0}, "retry: 0 is too short (at least 1 second)"),
        ({"retry_limit": 60}, "retry_limit: 60 is less than retry, which is 120"),
        ({"whole_gpus": "maybe"}, "whole_gpus: 'maybe' is neither true nor false"),
        ({"gang_jobs": 2}, "gang_jobs: 2 is neither true nor false"),
        ({"context": 5}, "context: it is of type int (a name)"),
    ],
)
def test_what_cannot_be_is_named(args, message):
    with pytest.raises(InputError) as caught:
        parse_options(args)
    assert str(caught.value) == message


def test_a_kubeconfig_that_is_written_out_is_not_repeated():
    with pytest.raises(InputError) as caught:
        parse_options({"kubeconfig": {"users": [{"user": {"token": "precious"}}]}})
    assert str(caught.value) == "kubeconfig: it is of type dict (the path of a file)"
