# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The keyring is written if each key is pinned, and otherwise nothing is."""

from __future__ import annotations

import functools
import http.server
import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from ansible_collections.nvidia.mig.plugins.module_utils.node.openpgp import armor, dearmor, read_keys
from ansible_collections.nvidia.mig.tests.unit.plugins.modules.node_support import COLLECTIONS


def packet(tag, body):
    return bytes([0xC0 | tag, len(body)]) + body


def key(name):
    """Key material, good enough to be parsed."""
    return packet(6, b"\x04" + bytes(4) + b"\x01" + name.encode()) + packet(13, name.encode())


MINE, OTHER = key("Mine <mine@example.org>"), key("Other <other@example.org>")
FINGERPRINT, OTHER_FINGERPRINT = (read_keys(material)[0].fingerprint for material in (MINE, OTHER))


def run(check=False, **options):
    """The module as Ansible sends it, in a process of its own."""
    arguments = {**options, "_ansible_check_mode": check, "_ansible_diff": True}
    maker = Path(__file__).with_name("node_payload.py")
    command = [sys.executable, str(maker), str(COLLECTIONS), "openpgp_keyring", json.dumps(arguments)]
    program = subprocess.run(command, capture_output=True, check=True).stdout
    ended = subprocess.run([sys.executable, "-"], input=program, capture_output=True, check=False)
    return json.loads(ended.stdout)


@pytest.fixture
def url(tmp_path):
    """An HTTP server with both keys, each in both forms."""
    directory = tmp_path / "www"
    directory.mkdir()
    (directory / "mine.gpg").write_bytes(MINE)
    (directory / "mine.asc").write_bytes(armor(MINE))
    (directory / "both.gpg").write_bytes(MINE + OTHER)

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args):
            pass

    handler = functools.partial(Quiet, directory=str(directory))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_check_mode_predicts_and_a_second_run_changes_nothing(url, tmp_path):
    path = tmp_path / "keyring.gpg"
    options = {"path": str(path), "url": f"{url}/mine.asc", "fingerprints": [FINGERPRINT], "mode": "0644"}
    told = [{"fingerprint": FINGERPRINT, "user_ids": ["Mine <mine@example.org>"]}]

    predicted = run(check=True, **options)
    assert not path.exists()
    done = run(**options)
    assert (predicted["changed"], predicted["public_keys"], predicted["diff"]) == (True, told, done["diff"])
    assert done["diff"] == {"before": {"keys": []}, "after": {"keys": told}}
    assert path.read_bytes() == MINE
    assert path.stat().st_mode & 0o777 == 0o644
    assert not run(**options)["changed"]
    assert not run(check=True, **options)["changed"]

    path.chmod(0o600)
    assert run(check=True, **options)["changed"]
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_key_that_is_not_pinned_changes_nothing(url, tmp_path):
    path = tmp_path / "keyring.gpg"
    path.write_bytes(OTHER)
    result = run(path=str(path), url=f"{url}/both.gpg", fingerprints=[FINGERPRINT])
    assert result["failed"]
    assert f"holds the key {OTHER_FINGERPRINT} (Other <other@example.org>)" in result["msg"]
    assert f"pinned is {FINGERPRINT}" in result["msg"]
    assert path.read_bytes() == OTHER
    assert run(path=str(path), url=f"{url}/both.gpg", fingerprints=[FINGERPRINT, OTHER_FINGERPRINT])[
        "changed"
    ]


def test_text_from_the_control_node_for_rpm(tmp_path):
    path = tmp_path / "RPM-GPG-KEY"
    result = run(path=str(path), content=armor(MINE).decode(), fingerprints=[FINGERPRINT], armored=True)
    assert result["changed"]
    assert path.read_bytes() == armor(MINE)
    assert dearmor(path.read_bytes()) == MINE


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"url": "{url}/none.gpg"}, "404"),
        ({"url": "ftp://example.org/key"}, "is not an address"),
        ({"url": "file:///nowhere/key"}, "it is empty"),
        ({"content": "<html>"}, "begins with '<html>'"),
        ({"content": "x", "url": "y"}, "mutually exclusive"),
        ({}, "one of the following is required"),
        ({"content": "x", "fingerprints": []}, "no fingerprint is pinned"),
        ({"content": "x", "fingerprints": ["3BF863CC"]}, "fingerprints[0]: '3BF863CC' is a key id"),
    ],
)
def test_errors(options, message, url, tmp_path):
    path = tmp_path / "keyring.gpg"
    options = {"fingerprints": [FINGERPRINT], **options}
    if "url" in options:
        options["url"] = options["url"].replace("{url}", url)
    result = run(path=str(path), **options)
    assert result["failed"]
    assert message in result["msg"]
    assert not path.exists()
