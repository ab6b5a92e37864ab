# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fixtures for the tests of the node's modules."""

from ansible_collections.nvidia.mig.tests.unit.plugins.modules.node_support import (  # noqa: F401  # pylint: disable=unused-import
    make_host,
    node_server,
)
