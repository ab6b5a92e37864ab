"""How the programs of the lab's control plane are called: flags, and the credentials that these name."""

from __future__ import annotations

import subprocess
from pathlib import Path

from miglab import audit, paths
from miglab.certificates import Credentials
from miglab.ports import ADDRESS


def etcd(program: Path, ports: dict[str, int], credentials: Credentials, data: str) -> list[str]:
    client, peer = (f"https://{ADDRESS}:{ports[name]}" for name in ("etcd", "etcd-peer"))
    flags = [
        "--name=lab",
        f"--data-dir={paths.cluster_dir() / data}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=lab={peer}",
        "--log-level=warn",
    ]
    if _knows(program, "unsafe-no-fsync"):
        flags.append("--unsafe-no-fsync")  # the lab's data may be lost when the machine goes down
    for prefix in ("", "peer-"):
        flags += [
            f"--{prefix}cert-file={credentials.certificate}",
            f"--{prefix}key-file={credentials.key}",
            f"--{prefix}trusted-ca-file={credentials.ca}",
            f"--{prefix}client-cert-auth",
        ]
    return flags


def kube_apiserver(ports: dict[str, int], credentials: Credentials, whole: bool) -> list[str]:
    flags = [
        f"--bind-address={ADDRESS}",
        f"--advertise-address={ADDRESS}",
        f"--secure-port={ports['server']}",
        f"--tls-cert-file={credentials.certificate}",
        f"--tls-private-key-file={credentials.key}",
        f"--token-auth-file={credentials.tokens}",
        "--anonymous-auth=false",
        "--authorization-mode=RBAC",
        f"--service-account-key-file={credentials.account_public_key}",
        f"--service-account-signing-key-file={credentials.account_key}",
        "--service-account-issuer=https://kubernetes.default.svc",
        "--service-cluster-ip-range=10.96.0.0/16",
        "--endpoint-reconciler-type=none",
        "--allow-privileged=true",
        f"--etcd-servers=https://{ADDRESS}:{ports['etcd']}",
        f"--etcd-cafile={credentials.ca}",
        f"--etcd-certfile={credentials.certificate}",
        f"--etcd-keyfile={credentials.key}",
    ]
    if not whole:
        # No controller makes what it would wait for; nor is one in the log.
        flags += ["--disable-admission-plugins=ServiceAccount", *audit.flags()]
    return flags


def kube_controller_manager(kubeconfig: Path, credentials: Credentials) -> list[str]:
    return [
        *_controller(kubeconfig),
        "--use-service-account-credentials",
        f"--service-account-private-key-file={credentials.account_key}",
        f"--root-ca-file={credentials.ca}",
    ]


def kube_scheduler(kubeconfig: Path) -> list[str]:
    return _controller(kubeconfig)


def _controller(kubeconfig: Path) -> list[str]:
    return [f"--kubeconfig={kubeconfig}", "--leader-elect=false", "--secure-port=0"]


def _knows(program: Path, flag: str) -> bool:
    """Does the program have the flag? etcd before 3.5 lacks one."""
    try:
        shown = subprocess.run(
            [str(program), "--help"], capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return flag in shown.stdout + shown.stderr
