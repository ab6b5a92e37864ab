# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The program that a node runs at boot, before kubelet: without Ansible, and never longer than it may."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import time
from datetime import datetime, timezone
from typing import Any, Dict, List, Optional, Sequence

from ansible_collections.nvidia.mig.plugins.module_utils.boot import services
from ansible_collections.nvidia.mig.plugins.module_utils.boot.deadline import NoAnswerError, within
from ansible_collections.nvidia.mig.plugins.module_utils.boot.restore import failure, needs_free_gpus, restore
from ansible_collections.nvidia.mig.plugins.module_utils.boot.status import STATUS_FILE, write_atomically
from ansible_collections.nvidia.mig.plugins.module_utils.boot.wish import LAYOUT_FILE, read_wish
from ansible_collections.nvidia.mig.plugins.module_utils.errors import MigError
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.node_features import restore_features

FEATURE_FILE = "nvidia-mig-restore"


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Restore the layout and tell how it went; the exit status is 0 if the layout is there."""
    options = _parser().parse_args(arguments)
    outcome = attempt(options.layout, options.timeout)
    failed = outcome["result"] == "failed"
    told_to = sys.stderr if failed else sys.stdout
    told_to.writelines(f"{line}\n" for line in [*outcome["actions"], outcome["message"]])
    told = _publish(outcome, options)
    return 0 if told and not failed else 1


def attempt(layout: str, timeout: float) -> Dict[str, Any]:
    """`restore`, for as long as it may take; services that hold GPUs are away where these must be free."""
    begin = time.monotonic()
    away: List[str] = []
    try:
        wish = read_wish(layout)
        if wish["services"] and within(timeout, lambda: {"free": needs_free_gpus(wish)})["free"]:
            away = services.stop(wish["services"])
        return within(timeout, lambda: restore(wish), spent=time.monotonic() - begin)
    except MigError as error:
        return failure(str(error))
    except NoAnswerError as error:
        return failure(f"The work was given up: {error}. Run the playbook: it goes on from what is there.")
    finally:
        services.start(away)


def _publish(outcome: Dict[str, Any], options: argparse.Namespace) -> bool:
    """Write the status and, where there is node feature discovery, its feature file."""
    status = {**outcome, "booted_at": _booted_at(), "finished_at": _utc(time.time())}
    files = {options.status: json.dumps(status, indent=2) + "\n"}
    if options.features and os.path.isdir(options.features):
        files[os.path.join(options.features, FEATURE_FILE)] = restore_features(outcome["result"])
    good = True
    for path, text in files.items():
        try:
            write_atomically(path, text)
        except OSError as error:
            sys.stderr.write(f"cannot write {path}: {error.strerror}\n")
            good = False
    return good


def _booted_at(stat: str = "/proc/stat") -> Optional[str]:
    with open(stat, encoding="ascii") as file:
        found = re.search(r"^btime (\d+)$", file.read(), re.MULTILINE)
    return _utc(int(found[1])) if found else None


def _utc(seconds: float) -> str:
    return datetime.fromtimestamp(int(seconds), timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="nvidia-mig-restore", description="Bring the GPUs back to the MIG layout that is wanted."
    )
    parser.add_argument("--layout", default=LAYOUT_FILE, help="the wanted layout (%(default)s)")
    parser.add_argument("--status", default=STATUS_FILE, help="where to tell how it went (%(default)s)")
    parser.add_argument("--features", default="", help="directory of NFD's feature files; none by default")
    parser.add_argument("--timeout", type=float, default=120, help="seconds that it may take (%(default)s)")
    return parser
