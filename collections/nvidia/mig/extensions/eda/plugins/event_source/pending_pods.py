# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An event source of Event-Driven Ansible: pods that wait for MIG devices."""

from __future__ import annotations

DOCUMENTATION = r"""
module: pending_pods
short_description: An event once pods that lack MIG devices have waited long enough
version_added: 0.1.0
author: MIG provisioning toolkit maintainers (@nvidia)
description:
  - Watches the pods of a Kubernetes cluster, and sends one event for each batch of pods for which GPUs could
    be partitioned anew. Which pods these are is decided as by the module M(nvidia.mig.mig_demand_info).
  - A pod that no event has told of makes it send one at once. While the same pods wait, the event is repeated
    after O(retry) seconds, then after twice as long each time, but at least every O(retry_limit) seconds.
    That begins anew when one of the pods has gone.
  - Without the API it goes on trying, and sends nothing in the meantime. A kubeconfig is read anew each time.
  - It needs the right to list and watch the pods of the whole cluster.
requirements:
  - kubernetes (Python package), in the environment of ansible-rulebook
options:
  batch_window:
    description:
      - A pod that is younger than so many seconds waits for others, so that one event serves them all.
      - With V(0), no pod waits.
    type: float
    default: 60
  idle_window:
    description: If no other pod has come for so many seconds, O(batch_window) is not waited for.
    type: float
    default: 10
  retry:
    description: After so many seconds the event is repeated for the first time. At least V(1).
    type: float
    default: 120
  retry_limit:
    description: The longest time between two events while pods wait. Not less than O(retry).
    type: float
    default: 900
  whole_gpus:
    description: Whether pods count as well that ask for whole GPUs only.
    type: bool
    default: false
  shared_gpus:
    description:
      - Whether pods count as well that ask for shares of GPUs, C(nvidia.com/gpu.shared).
    type: bool
    default: false
  gang_jobs:
    description: Whether the pods of a Job run all or none.
    type: bool
    default: false
  kubeconfig:
    description: >-
      Path of a kubeconfig. Without it and O(context), the API of the cluster is used that this runs in, or
      else the default kubeconfig.
    type: str
  context:
    description: A context of the kubeconfig.
    type: str
"""

EXAMPLES = r"""
- name: GPUs follow the pods that wait
  hosts: all
  sources:
    - nvidia.mig.pending_pods:
        kubeconfig: /etc/mig/kubeconfig
        batch_window: 60
  rules:
    - name: Partition for them
      condition: event.pending_pods.count > 0
      action:
        run_playbook:
          name: playbooks/repartition.yml
"""

RETURN = r"""
pending_pods:
  description: The pods to partition GPUs for.
  returned: always
  type: dict
  contains:
    count:
      description: How many these are.
      type: int
      sample: 2
    names:
      description: Namespace and name of each, the oldest first; no more than a hundred.
      type: list
      elements: str
      sample: [ml/train-1, ml/train-2]
    devices:
      description: How many of each kind of device they ask for.
      type: dict
      sample: {nvidia.com/mig-1g.10gb: 2}
    waiting:
      description: How many pods more ask for devices, and are left for later.
      type: int
      sample: 0
    repeated:
      description: How often the event was sent before, of these pods.
      type: int
      sample: 0
"""

import asyncio
import contextlib
import logging
import os
import sys
import time
from typing import Any, Dict, List, Optional, Set

# ansible-rulebook runs this file by its path, and knows nothing of the collection around it.
_ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 7))
if _ROOT not in sys.path:
    sys.path.insert(0, _ROOT)

from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.demand_events import Events
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.demand_options import (
    Options,
    parse_options,
)
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.pending import Pending, pending_pods
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.pod_watch import PodWatch, connection

# Seconds between two looks at the pods: they come in crowds. In a big cluster a look takes a while itself.
SETTLE = 1.0
SHARE = 4

logger = logging.getLogger("nvidia.mig.pending_pods")


async def main(queue: asyncio.Queue[Any], args: Dict[str, Any]) -> None:
    """What ansible-rulebook calls. Raises MigError if the arguments cannot be; never ends by itself else."""
    options = parse_options(args)
    loop = asyncio.get_running_loop()
    changed = asyncio.Event()

    def tell() -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(changed.set)

    def connect() -> Any:
        return connection(options.kubeconfig, options.context)

    connect()  # what is wrong in the configuration is told at once
    watch = PodWatch(connect, tell)
    watch.start()
    try:
        await _send(queue, options, watch, changed)
    finally:
        watch.stop()


async def _send(queue: asyncio.Queue[Any], options: Options, watch: PodWatch, changed: asyncio.Event) -> None:
    """Look at the pods whenever they have changed or one has waited long enough."""
    events = Events(options.backoff)
    problems: Set[str] = set()
    while True:
        changed.clear()
        began = time.monotonic()
        pods = watch.pods()
        pause = None
        if pods is not None:
            # A thread of its own, as rules and their actions run in this one.
            pending = await asyncio.to_thread(_look, pods, options)
            problems = _tell_problems(pending.problems, problems)
            due = events.due(pending, time.monotonic())
            if due is not None and due <= time.monotonic():
                await _put(queue, events.sent(pending, time.monotonic()))
                continue
            pause = _pause(due, pending.due)
        await asyncio.sleep(max(SETTLE, SHARE * (time.monotonic() - began)))
        if not changed.is_set():
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(changed.wait(), pause)


def _look(pods: List[Any], options: Options) -> Pending:
    return pending_pods(
        pods, time.time(), options.window, options.whole_gpus, options.gang_jobs, options.shared_gpus
    )


def _pause(due: Optional[float], ripe: Optional[float]) -> Optional[float]:
    """Seconds until the next event, or until the next pod has waited long enough."""
    ends = []
    if due is not None:
        ends.append(due - time.monotonic())
    if ripe is not None:
        ends.append(ripe - time.time())
    return max(0.0, min(ends)) if ends else None


async def _put(queue: asyncio.Queue[Any], event: Dict[str, Any]) -> None:
    found = event["pending_pods"]
    devices = ", ".join(f"{count} x {name}" for name, count in sorted(found["devices"].items()))
    again = f" (repetition {found['repeated']})" if found["repeated"] else ""
    logger.info("pods that wait: %d, for %s%s", found["count"], devices, again)
    await queue.put(event)


def _tell_problems(found: List[str], told: Set[str]) -> Set[str]:
    """Say once what is wrong with a pod. Returns what was said."""
    for problem in found:
        if problem not in told:
            logger.warning("%s", problem)
    return set(found)
