"""Pre-shared keys out of a file: the secret itself, or lines as in strongSwan's ipsec.secrets.

A secret is text as it stands, or hex digits behind 0x, or base64 behind 0s.
"""

import base64
import binascii
import re
from dataclasses import dataclass, field
from typing import Final

from ikeanalyze.keys.collector import parse_hex

_LARGEST: Final = 1 << 20  # bytes
#: "left right : PSK secret", the identities being none or some.
_LINE: Final = re.compile(rb"(?:[^\"#]|\"[^\"]*\")*:[ \t]*PSK[ \t]+(\S.*)", re.IGNORECASE)
_QUOTED: Final = re.compile(rb"\"([^\"]*)\"|'([^']*)'")


class PskError(Exception):
    """No pre-shared key comes out of this file; one line for the user, without any of its content."""


@dataclass(frozen=True, slots=True)
class PreSharedKeys:
    """What was in a file."""

    path: str  # as it was given
    secrets: tuple[bytes, ...] = field(repr=False)  # each once, in the order of the file


def read_psk(path: str) -> PreSharedKeys:
    """Read the pre-shared keys of a file. `PskError` if it cannot be read, or has none."""
    try:
        with open(path, "rb") as stream:
            data = stream.read(_LARGEST + 1)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise PskError(f"{path}: cannot be read ({why})") from None
    if len(data) > _LARGEST:
        raise PskError(f"{path}: is too large for a file with pre-shared keys")
    try:
        return PreSharedKeys(path, parse_pre_shared_keys(data))
    except ValueError as error:
        raise PskError(f"{path}: {error}") from None


def parse_pre_shared_keys(data: bytes) -> tuple[bytes, ...]:
    """The secrets in the content of a file, each once. `ValueError`, which says nothing of the content: there are none."""
    listed = [match[1].strip() for line in data.splitlines() if (match := _LINE.fullmatch(line.strip()))]
    if listed:
        found = [_plain(quoted) if (quoted := _QUOTED.match(text)) else _value(text.split()[0]) for text in listed]
    else:
        found = [_value(data.removesuffix(b"\n").removesuffix(b"\r"))]
    if not all(found):
        raise ValueError("a pre-shared key in it is empty")
    return tuple(dict.fromkeys(found))


def _plain(quoted: re.Match[bytes]) -> bytes:
    return quoted[1] if quoted[1] is not None else quoted[2]


def _value(text: bytes) -> bytes:
    if text[:2] == b"0x":
        value = parse_hex(text[2:].decode("ascii", "replace")) if len(text) > 2 else None
        if value is None:
            raise ValueError("what is behind 0x is no hex digits")
        return value
    if text[:2] == b"0s":
        try:
            return base64.b64decode(text[2:].strip(), validate=True)
        except binascii.Error:
            raise ValueError("what is behind 0s is no base64") from None
    return text
