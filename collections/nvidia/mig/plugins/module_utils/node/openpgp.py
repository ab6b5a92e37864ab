# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""OpenPGP public keys (RFC 4880, RFC 9580): what primary keys a file holds, and their fingerprints.

A minimal node has no gpg, so this reads packets itself. It verifies no signature: it answers whether the
file holds the pinned keys and no others, and apt or rpm then verify what is signed with them.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from dataclasses import dataclass
from typing import Iterator, List, Sequence, Tuple

from ansible_collections.nvidia.mig.plugins.module_utils.errors import InputError

_SIGNATURE, _PUBLIC_KEY, _MARKER, _TRUST, _USER_ID, _PUBLIC_SUBKEY, _USER_ATTRIBUTE, _PADDING = (
    2,
    6,
    10,
    12,
    13,
    14,
    17,
    21,
)
_SECRET = (5, 7)
_BELONGS_TO_A_KEY = (_SIGNATURE, _TRUST, _USER_ID, _PUBLIC_SUBKEY, _USER_ATTRIBUTE, _PADDING)

_BLOCK = re.compile(
    r"^-----BEGIN PGP PUBLIC KEY BLOCK-----[ \t]*\n(.*?)^-----END PGP PUBLIC KEY BLOCK-----[ \t]*$",
    re.MULTILINE | re.DOTALL,
)
_FINGERPRINT = re.compile(r"[0-9A-F]{40}|[0-9A-F]{64}")
_KEY_ID = re.compile(r"[0-9A-F]{8}|[0-9A-F]{16}")


@dataclass(frozen=True)
class PublicKey:
    """One primary key."""

    fingerprint: str
    user_ids: Tuple[str, ...]


def parse_fingerprint(text: str, path: str = "fingerprints") -> str:
    """``text`` as 40 or 64 upper-case digits. Blanks and a leading 0x are as people write them."""
    plain = re.sub(r"\s", "", text).upper()
    plain = plain[2:] if plain.startswith("0X") else plain
    if _FINGERPRINT.fullmatch(plain):
        return plain
    problem = "is a key id, and anyone can make a key with that id" if _KEY_ID.fullmatch(plain) else "is none"
    raise InputError(
        f"{text!r} {problem}", path, "a fingerprint has 40 hexadecimal digits, or 64 for a version 6 key"
    )


def check_pinned(keys: Sequence[PublicKey], pinned: Sequence[str], source: str) -> None:
    """Refuse keys of which one is not pinned: all of them would be trusted. Raises InputError."""
    foreign = [key for key in keys if key.fingerprint not in pinned]
    if foreign:
        told = ", ".join(f"{key.fingerprint} ({'; '.join(key.user_ids) or 'no name'})" for key in foreign)
        raise InputError(
            f"{source} holds the key {told}, pinned is {' or '.join(pinned)}",
            "fingerprints",
            "nothing was changed; ask the repository's owner before you pin another key",
        )


def read_keys(packets: bytes) -> List[PublicKey]:
    """The primary keys in binary key material. Raises InputError."""
    keys: List[PublicKey] = []
    for tag, body in _packets(packets):
        if tag in _SECRET:
            raise InputError("there is a secret key in it", hint="give the public key only")
        if tag == _PUBLIC_KEY:
            keys.append(PublicKey(_fingerprint(body), ()))
        elif tag == _MARKER:
            continue
        elif tag not in _BELONGS_TO_A_KEY or not keys:
            raise InputError(f"an OpenPGP packet of type {tag} does not belong there")
        elif tag == _USER_ID:
            name = body.decode("utf-8", "replace")
            keys[-1] = PublicKey(keys[-1].fingerprint, (*keys[-1].user_ids, name))
    if not keys:
        raise InputError("there is no public key in it")
    return keys


def dearmor(data: bytes) -> bytes:
    """Binary key material, whatever form ``data`` has. Raises InputError."""
    if data[:1] >= b"\x80":
        return data
    text = data.decode("utf-8", "replace").replace("\r\n", "\n")
    blocks = _BLOCK.findall(text)
    if not blocks:
        begins = text.strip()[:40].split("\n")[0]
        raise InputError(
            f"this is no OpenPGP public key, it begins with {begins!r}" if begins else "it is empty"
        )
    return b"".join(_block(block) for block in blocks)


def armor(packets: bytes) -> bytes:
    """Binary key material as text, in which form alone rpm imports it."""
    text = base64.b64encode(packets).decode()
    lines = [text[start : start + 64] for start in range(0, len(text), 64)]
    checksum = base64.b64encode(_crc24(packets)).decode()
    return "\n".join(
        (
            "-----BEGIN PGP PUBLIC KEY BLOCK-----",
            "",
            *lines,
            f"={checksum}",
            "-----END PGP PUBLIC KEY BLOCK-----",
            "",
        )
    ).encode()


def _block(block: str) -> bytes:
    """What is between the first and the last line of an armored key."""
    lines = [line.strip() for line in block.split("\n")]
    if "" in lines and all(":" in line for line in lines[: lines.index("")]):
        lines = lines[lines.index("") + 1 :]
    lines = [line for line in lines if line]
    checksum = lines.pop()[1:] if lines and re.fullmatch(r"=[A-Za-z0-9+/]{4}", lines[-1]) else None
    try:
        packets = base64.b64decode("".join(lines), validate=True)
    except binascii.Error as error:
        raise InputError(f"the armored key is damaged: {error}") from error
    if checksum is not None and base64.b64decode(checksum) != _crc24(packets):
        raise InputError("the armored key is damaged: its checksum is wrong")
    return packets


def _packets(data: bytes) -> Iterator[Tuple[int, bytes]]:
    """Tag and body of each packet."""
    position = 0
    while position < len(data):
        tag, start, length = _header(data, position)
        position = start + length
        if position > len(data):
            raise InputError("the key is cut off")
        yield tag, data[start:position]


def _header(data: bytes, position: int) -> Tuple[int, int, int]:
    """Tag, start of the body, length of the body."""
    first = data[position]
    if not first & 0x80:
        raise InputError(f"there is no OpenPGP packet at byte {position}")
    if first & 0x40:
        octet = data[position + 1] if position + 1 < len(data) else 255
        if octet < 192:
            return first & 0x3F, position + 2, octet
        if octet < 224:
            return first & 0x3F, position + 3, _number(data, position + 1, 2) - 0xC000 + 192
        if octet == 255:
            return first & 0x3F, position + 6, _number(data, position + 2, 4)
        raise InputError("a packet of a key may not come in parts")
    if first & 3 == 3:
        raise InputError("a packet of a key needs a length")
    octets = 1 << (first & 3)
    return first >> 2 & 0x0F, position + 1 + octets, _number(data, position + 1, octets)


def _number(data: bytes, start: int, octets: int) -> int:
    if start + octets > len(data):
        raise InputError("the key is cut off")
    return int.from_bytes(data[start : start + octets], "big")


def _fingerprint(body: bytes) -> str:
    """RFC 4880 12.2, RFC 9580 5.5.4. FIPS mode allows SHA-1 only for what is not called security."""
    version = body[0] if body else 0
    if version == 4:
        return (
            hashlib.sha1(b"\x99" + len(body).to_bytes(2, "big") + body, usedforsecurity=False)
            .hexdigest()
            .upper()
        )
    if version == 6:
        return hashlib.sha256(b"\x9b" + len(body).to_bytes(4, "big") + body).hexdigest().upper()
    raise InputError(f"a key of version {version} cannot be pinned", hint="versions 4 and 6 can")


def _crc24(data: bytes) -> bytes:
    """RFC 4880 6.1."""
    crc = 0xB704CE
    for octet in data:
        crc ^= octet << 16
        for _bit in range(8):
            crc = crc << 1 ^ (0x1864CFB if crc & 0x800000 else 0)
    return (crc & 0xFFFFFF).to_bytes(3, "big")
