# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What nvidia-ctk's dry run means for the files of a container engine. The dry runs are as it prints them."""

from __future__ import annotations

import json

import pytest
from ansible_collections.nvidia.mig.plugins.module_utils.errors import InputError
from ansible_collections.nvidia.mig.plugins.plugin_utils.engine_config import plan_engine_config

CONTAINERD = "/etc/containerd/config.toml"
CONTAINERD_DROP_IN = "/etc/containerd/conf.d/99-nvidia.toml"
DOCKER = "/etc/docker/daemon.json"
CRIO = "/etc/crio/crio.conf"
CRIO_DROP_IN = "/etc/crio/crio.conf.d/99-nvidia.toml"

# As Debian ships it.
CONTAINERD_BEFORE = """\
# A comment that nvidia-ctk does not keep.
version = 2

[plugins]
  [plugins."io.containerd.grpc.v1.cri"]
    [plugins."io.containerd.grpc.v1.cri".cni]
      bin_dir = "/usr/lib/cni"
"""

NVIDIA_TABLES = """\

[plugins]

  [plugins."io.containerd.grpc.v1.cri"]

    [plugins."io.containerd.grpc.v1.cri".cni]
      bin_dir = "/usr/lib/cni"

    [plugins."io.containerd.grpc.v1.cri".containerd]

      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes]

        [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.nvidia]
          runtime_type = "io.containerd.runc.v2"

          [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.nvidia.options]
            BinaryName = "/usr/bin/nvidia-container-runtime"
"""
DROP_IN = f"version = 2\n{NVIDIA_TABLES}"
TOP_LEVEL = """\
imports = ["/etc/containerd/conf.d/*.toml"]
version = 2

[plugins]

  [plugins."io.containerd.grpc.v1.cri"]

    [plugins."io.containerd.grpc.v1.cri".cni]
      bin_dir = "/usr/lib/cni"
"""
# nvidia-ctk prints both, one after the other.
BOTH = f"{DROP_IN}\n{TOP_LEVEL}"


def plan(dry_run, files, config, drop_in=""):
    result = plan_engine_config(dry_run, files, config, drop_in)
    return result["files"], result["lost"]


def test_a_drop_in_and_its_import_are_new():
    changed = plan(BOTH, {CONTAINERD: CONTAINERD_BEFORE}, CONTAINERD, CONTAINERD_DROP_IN)
    assert changed == ([CONTAINERD_DROP_IN, CONTAINERD], [])


def test_nothing_is_new_where_both_are_there():
    files = {CONTAINERD: TOP_LEVEL, CONTAINERD_DROP_IN: DROP_IN}
    assert plan(BOTH, files, CONTAINERD, CONTAINERD_DROP_IN) == ([], [])


def test_comments_and_order_do_not_count():
    commented = (
        "version = 2 # comment\nimports = ['/etc/containerd/conf.d/*.toml']\n" + TOP_LEVEL.split("\n", 2)[2]
    )
    files = {CONTAINERD: commented, CONTAINERD_DROP_IN: f"# by hand\n{DROP_IN}"}
    assert plan(BOTH, files, CONTAINERD, CONTAINERD_DROP_IN) == ([], [])


def test_a_stale_drop_in_is_told():
    files = {CONTAINERD: TOP_LEVEL, CONTAINERD_DROP_IN: DROP_IN.replace("/usr/lib/cni", "/opt/cni/bin")}
    assert plan(BOTH, files, CONTAINERD, CONTAINERD_DROP_IN) == ([CONTAINERD_DROP_IN], [])


def test_a_key_before_the_imports_belongs_to_the_second_document():
    both = f'{DROP_IN}\ndisabled_plugins = ["btrfs"]\n{TOP_LEVEL}'
    files = {CONTAINERD: f'disabled_plugins = ["btrfs"]\n{TOP_LEVEL}', CONTAINERD_DROP_IN: DROP_IN}
    assert plan(both, files, CONTAINERD, CONTAINERD_DROP_IN) == ([], [])


def test_without_drop_ins_the_one_file_is_compared():
    assert plan(DROP_IN, {CONTAINERD: CONTAINERD_BEFORE}, CONTAINERD) == ([CONTAINERD], [])
    assert plan(DROP_IN, {CONTAINERD: DROP_IN}, CONTAINERD) == ([], [])


def test_cri_o_prints_its_drop_in_alone():
    dry_run = (
        '\n[crio]\n\n  [crio.runtime]\n\n    [crio.runtime.runtimes.nvidia]\n      runtime_type = "oci"\n'
    )
    assert plan(dry_run, {CRIO: "[crio]\n"}, CRIO, CRIO_DROP_IN) == ([CRIO_DROP_IN], [])
    assert plan(dry_run, {CRIO: "[crio]\n", CRIO_DROP_IN: dry_run}, CRIO, CRIO_DROP_IN) == ([], [])


def docker(**more):
    return json.dumps({"runtimes": {"nvidia": {"path": "nvidia-container-runtime", "args": []}}, **more})


def test_docker_without_a_file():
    assert plan(docker(), {}, DOCKER) == ([DOCKER], [])
    assert plan(docker(), {DOCKER: docker()}, DOCKER) == ([], [])


def test_a_lost_setting_is_told():
    before = json.dumps({"features": {"containerd-snapshotter": True}, "log-driver": "journald"})
    after = docker(features={"cdi": True}, **{"log-driver": "json-file"})
    assert plan(after, {DOCKER: before}, DOCKER) == (
        [DOCKER],
        ["features.containerd-snapshotter", "log-driver"],
    )


def test_what_is_nvidia_ctk_s_may_change():
    before = json.dumps(
        {
            "default-runtime": "runc",
            "features": {"cdi": False},
            "runtimes": {
                "nvidia": {"path": "/opt/old", "runtimeArgs": []},
                "kata": {"path": "/usr/bin/kata"},
            },
        }
    )
    after = json.loads(docker(features={"cdi": True}, **{"default-runtime": "nvidia"}))
    after["runtimes"]["kata"] = {"path": "/usr/bin/kata"}
    assert plan(json.dumps(after), {DOCKER: before}, DOCKER) == ([DOCKER], [])


def test_an_import_of_the_operator_s_must_stay():
    before = CONTAINERD_BEFORE.replace("version", "imports = ['/etc/containerd/site/*.toml']\nversion", 1)
    assert plan(BOTH, {CONTAINERD: before}, CONTAINERD, CONTAINERD_DROP_IN)[1] == ["imports"]


@pytest.mark.parametrize(
    ("path", "text", "words"),
    [
        (DOCKER, '{"log-driver": }', "/etc/docker/daemon.json cannot be read"),
        (DOCKER, "[]", "/etc/docker/daemon.json holds no object"),
        (CONTAINERD, "version 2", "/etc/containerd/config.toml cannot be read"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(path, text, words):
    with pytest.raises(InputError, match=words):
        plan("", {path: text}, path)
