# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fingerprints beside those of gpg, and all that is not a key or not the pinned one."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess

import pytest
from ansible_collections.nvidia.mig.plugins.module_utils.errors import InputError
from ansible_collections.nvidia.mig.plugins.module_utils.node.openpgp import (
    PublicKey,
    armor,
    check_pinned,
    dearmor,
    parse_fingerprint,
    read_keys,
)

ALGORITHMS = ("rsa2048", "ed25519", "nistp256")
BODY = b"\x04" + bytes(4) + b"\x01" + b"key material"
FINGERPRINT = hashlib.sha1(b"\x99" + len(BODY).to_bytes(2, "big") + BODY).hexdigest().upper()


def old(tag, body, octets=2):
    """A packet with a header of the old format."""
    return bytes([0x80 | tag << 2 | {1: 0, 2: 1, 4: 2}[octets]]) + len(body).to_bytes(octets, "big") + body


def new(tag, body, octets=1):
    """A packet with a header of the new format."""
    length = {
        1: lambda: bytes([len(body)]),
        2: lambda: (len(body) - 192 + 0xC000).to_bytes(2, "big"),
        5: lambda: b"\xff" + len(body).to_bytes(4, "big"),
    }[octets]()
    return bytes([0xC0 | tag]) + length + body


@pytest.fixture(scope="module")
def gpg(tmp_path_factory):
    """Runs gpg in a home of its own, in which there is a key of each algorithm."""
    program = shutil.which("gpg")
    if program is None:
        pytest.skip("no gpg on this machine")
    home = tmp_path_factory.mktemp("gpg")
    home.chmod(0o700)

    def run(*args, **options):
        command = [program, "--homedir", str(home), "--batch", "--no-tty", *args]
        return subprocess.run(command, capture_output=True, check=True, **options).stdout

    for algorithm in ALGORITHMS:
        name = f"Repository {algorithm} <repository@example.org>"
        run("--passphrase", "", "--quick-generate-key", name, algorithm, "sign", "1y")
    yield run
    subprocess.run(["gpgconf", "--homedir", str(home), "--kill", "all"], check=False)


def fingerprints_of_gpg(gpg, keys):
    """What gpg says of the primary keys: fpr is the line after pub."""
    listed = gpg("--with-colons", "--show-keys", input=keys).decode()
    return re.findall(r"^pub:.*\nfpr:+([0-9A-F]+):", listed, re.MULTILINE)


@pytest.mark.parametrize("options", [(), ("--armor",)], ids=["binary", "armored"])
def test_as_gpg_says(gpg, options):
    exported = gpg("--export", *options)
    keys = read_keys(dearmor(exported))
    assert [key.fingerprint for key in keys] == fingerprints_of_gpg(gpg, exported)
    assert [key.user_ids[0].split()[1] for key in keys] == list(ALGORITHMS)


def test_subkeys_and_second_names_belong_to_their_key(gpg):
    fingerprint = fingerprints_of_gpg(gpg, gpg("--export", "rsa2048"))[0]
    gpg("--passphrase", "", "--quick-add-key", fingerprint, "rsa2048", "sign", "1y")
    gpg("--passphrase", "", "--quick-add-uid", fingerprint, "Second <second@example.org>")
    (key,) = read_keys(gpg("--export", "rsa2048"))
    assert key.fingerprint == fingerprint
    assert sorted(name.split()[0] for name in key.user_ids) == ["Repository", "Second"]


def test_gpg_reads_what_is_armored_here(gpg):
    exported = gpg("--export")
    text = armor(exported)
    assert dearmor(text) == exported
    assert fingerprints_of_gpg(gpg, text) == fingerprints_of_gpg(gpg, exported)


def test_a_secret_key_is_refused(gpg):
    with pytest.raises(InputError, match="secret key"):
        read_keys(gpg("--passphrase", "", "--export-secret-keys", "ed25519"))


def test_blocks_in_one_file_are_all_read():
    second = BODY + b"2"
    text = armor(old(6, BODY)) + b"\n" + armor(old(6, second))
    assert len(read_keys(dearmor(text))) == 2


@pytest.mark.parametrize("header", ["", "Version: GnuPG v2\nComment: a: b\n"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("checksum", [True, False])
def test_armor_as_it_comes(header, end, checksum):
    text = armor(old(6, BODY)).decode().replace("BLOCK-----\n", f"BLOCK-----\n{header}", 1)
    if not checksum:
        text = re.sub(r"^=.{4}\n", "", text, flags=re.MULTILINE)
    key = read_keys(dearmor(("a word before\n" + text).replace("\n", end).encode()))[0]
    assert key == PublicKey(FINGERPRINT, ())


@pytest.mark.parametrize("octets", [1, 2, 4])
def test_old_headers(octets):
    assert read_keys(old(6, BODY, octets))[0].fingerprint == FINGERPRINT


@pytest.mark.parametrize(("octets", "size"), [(1, 20), (2, 300), (5, 20)])
def test_new_headers(octets, size):
    body = BODY.ljust(size, b"x")
    name = "A name".ljust(size).encode()
    (key,) = read_keys(new(6, body, octets) + new(13, name, octets) + new(21, b"pad"))
    assert key.fingerprint == read_keys(old(6, body))[0].fingerprint
    assert key.user_ids == (name.decode(),)


def test_a_key_of_version_6_has_the_longer_fingerprint():
    body = b"\x06" + BODY[1:]
    expected = hashlib.sha256(b"\x9b" + len(body).to_bytes(4, "big") + body).hexdigest().upper()
    assert read_keys(new(6, body))[0].fingerprint == expected


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "it is empty"),
        (b"<!DOCTYPE html>\n<html>", "begins with '<!DOCTYPE html>'"),
        (b"-----BEGIN PGP SIGNATURE-----\n", "begins with '-----BEGIN PGP SIGNATURE"),
        (old(6, BODY)[:-1], "cut off"),
        (old(6, BODY)[:1], "cut off"),
        (new(6, BODY)[:1], "cut off"),
        (old(6, BODY) + b"junk", "no OpenPGP packet at byte"),
        (old(2, BODY) + old(6, BODY), "type 2 does not belong there"),
        (old(6, BODY) + new(11, b"data"), "type 11 does not belong there"),
        (old(10, b"PGP"), "no public key"),
        (old(6, b"\x03" + BODY[1:]), "version 3 cannot be pinned"),
        (old(6, b""), "version 0 cannot be pinned"),
        (bytes([0xC0 | 6, 0xE1]) + BODY, "in parts"),
        (bytes([0x80 | 6 << 2 | 3]) + BODY, "needs a length"),
        (re.sub(rb"^=.{4}$", b"=AAAA", armor(old(6, BODY)), flags=re.MULTILINE), "checksum"),
        (armor(old(6, BODY)).replace(b"\n\n", b"\n\n!"), "damaged"),
    ],
)
def test_what_is_no_key(data, message):
    with pytest.raises(InputError, match=re.escape(message)):
        read_keys(dearmor(data))


@pytest.mark.parametrize(
    "text",
    [
        "EB693B3035CD5710E231E123A4B469963BF863CC",
        "eb693b3035cd5710e231e123a4b469963bf863cc",
        "EB69 3B30 35CD 5710 E231  E123 A4B4 6996 3BF8 63CC",
        "0xEB693B3035CD5710E231E123A4B469963BF863CC",
    ],
)
def test_fingerprints_as_people_write_them(text):
    assert parse_fingerprint(text) == "EB693B3035CD5710E231E123A4B469963BF863CC"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("3BF863CC", "is a key id"),
        ("0xA4B469963BF863CC", "is a key id"),
        ("", "is none"),
        ("EB693B3035CD5710E231E123A4B469963BF863C", "is none"),
        ("XB693B3035CD5710E231E123A4B469963BF863CC", "is none"),
    ],
)
def test_what_is_no_fingerprint(text, message):
    with pytest.raises(InputError, match=message) as caught:
        parse_fingerprint(text, "fingerprints[1]")
    assert caught.value.path == "fingerprints[1]"


def test_every_key_must_be_pinned():
    mine, other = PublicKey("A" * 40, ("Mine",)), PublicKey("B" * 40, ("Other <other@example.org>",))
    check_pinned([mine], ["A" * 40], "url")
    check_pinned([mine], ["B" * 40, "A" * 40], "url")
    with pytest.raises(InputError, match="Other <other@example.org>.*pinned is AAAA") as caught:
        check_pinned([mine, other], ["A" * 40], "https://example.org/key")
    assert "https://example.org/key" in str(caught.value)
    assert "Mine" not in str(caught.value)
