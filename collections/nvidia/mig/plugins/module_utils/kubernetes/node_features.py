# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node tells of itself by a feature file of node feature discovery (NFD). Pure.

NFD's worker reads such files and labels the node, so the node itself needs no credentials.
"""

from __future__ import annotations

# A namespace has to be written out; this one is NFD's own, which it admits without a setting.
RESTORE_LABEL = "feature.node.kubernetes.io/mig-restore.result"


def restore_features(result: str) -> str:
    """The content of the feature file that tells how the layout was restored at boot."""
    return f"{RESTORE_LABEL}={result}\n"
