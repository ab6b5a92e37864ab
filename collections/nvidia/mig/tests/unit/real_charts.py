# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NVIDIA's real charts, which are not part of this repository: $NVIDIA_CHARTS_DIR holds their archives."""

from __future__ import annotations

import functools
import os
from pathlib import Path

import pytest


@functools.cache
def archive(chart: str, version: str) -> Path:
    """The chart's archive, or skip with a plain word."""
    folder = os.environ.get("NVIDIA_CHARTS_DIR")
    if not folder:
        pytest.skip("NVIDIA_CHARTS_DIR is not set: nothing is checked against NVIDIA's charts")
    found = sorted(Path(folder).rglob(f"{chart}-{version}.tgz"))
    if not found:
        pytest.skip(f"no {chart}-{version}.tgz below {folder}")
    return found[0]
