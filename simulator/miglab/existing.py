"""An existing cluster, named by KUBECONFIG, in place of the lab's own: the lab's nodes join it, and leave."""

from __future__ import annotations

import os
import subprocess
from typing import Any

import yaml

from miglab import agent, binaries, kubeconfig, paths
from miglab.agent.nodes import is_simulated
from miglab.api import Api, ApiError
from miglab.console import LabError, MissingError


def join() -> None:
    """Take what KUBECONFIG names, its current context alone, for the lab's kubeconfig.

    Raises:
        LabError: KUBECONFIG names none that the lab can use, or a cluster with GPU nodes of its own.
        MissingError: there is no kubectl, which knows how several files make one.
    """
    named = os.environ.get("KUBECONFIG")
    if not named:
        raise LabError("an existing cluster is named by KUBECONFIG, which is not set")
    if str(paths.kubeconfig()) in named.split(os.pathsep):
        raise LabError(f"KUBECONFIG is {named}, the lab's own: name another cluster's")
    text = _current_context(named)
    kubeconfig.save(paths.kubeconfig(), text)
    try:
        _check(Api.from_kubeconfig())
    except BaseException:
        paths.kubeconfig().unlink()
        raise


def leave() -> None:
    """Take the lab's nodes away, and forget the cluster."""
    agent.stop()  # it would bring them back
    try:
        api = Api.from_kubeconfig()
        for node in api.get("/api/v1/nodes")["items"]:
            if is_simulated(node):
                api.delete(f"/api/v1/nodes/{node['metadata']['name']}")
    except ApiError as error:
        raise LabError(f"the lab's nodes are still in the cluster: {error}") from error
    finally:
        paths.kubeconfig().unlink(missing_ok=True)


def _current_context(named: str) -> str:
    kubectl = binaries.find_kubectl()
    if kubectl is None:
        raise MissingError("no kubectl here, which reads KUBECONFIG: have it in PATH")
    view = [str(kubectl.path), "config", "view", "--minify", "--flatten", "--raw", "--output=yaml"]
    done = subprocess.run(view, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise LabError(f"KUBECONFIG is {named}: {done.stderr.strip().removeprefix('error: ')}")
    config: dict[str, Any] = yaml.safe_load(done.stdout)
    # A program that logs in (exec) would have to run in every process of the lab.
    users = [each for each in config.get("users") or [] if {"token", "client-key-data"} & each["user"].keys()]
    if not users:
        raise LabError(f"KUBECONFIG is {named}: its user has neither a token nor a client certificate")
    return done.stdout


def _check(api: Api) -> None:
    """The lab deploys releases to all GPU nodes of a cluster: in one with real ones that would be harm."""
    own = [
        node["metadata"]["name"]
        for node in api.get("/api/v1/nodes")["items"]
        if not is_simulated(node)
        and any(name.startswith("nvidia.com/") for name in node["status"].get("capacity") or {})
    ]
    if own:
        raise LabError(
            f"the cluster has GPU nodes of its own ({', '.join(sorted(own))}): "
            "the lab's releases would change them; use a cluster without"
        )
