"""Read pre-shared keys from a file: the secret itself, or lines as in strongSwan's ipsec.secrets.

A secret is literal text, hexadecimal digits with the prefix 0x, or base64 with the prefix 0s.
"""

import base64
import binascii
import os
import re
from dataclasses import dataclass, field
from typing import Final

from ikeanalyze.keys.collector import parse_hex

_MAX_BYTES: Final = 1 << 20  # bytes
#: "left right : PSK secret" with any number of identities.
_LINE: Final = re.compile(rb"(?:[^\"#]|\"[^\"]*\")*:[ \t]*PSK[ \t]+(\S.*)", re.IGNORECASE)
_QUOTED: Final = re.compile(rb"\"([^\"]*)\"|'([^']*)'")


class PskError(Exception):
    """A file has no usable pre-shared key; one line for the user, without content of the file."""


@dataclass(frozen=True, slots=True)
class PreSharedKeys:
    """The pre-shared keys of a file."""

    path: str  # as given
    secrets: tuple[bytes, ...] = field(repr=False)  # without repetitions, in file order


def read_psk(path: str) -> PreSharedKeys:
    """Read the pre-shared keys of a file.

    Raises:
        PskError: the file cannot be read, or has no pre-shared key.
    """
    try:
        with open(path, "rb") as stream:
            data = stream.read(_MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        if not os.path.lexists(path):  # it may be the secret itself, which must not reach a log
            raise PskError("pre-shared key: No such file. Name a file that has the key, not the key itself") from None
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise PskError(f"{path}: cannot be read ({reason})") from None
    if len(data) > _MAX_BYTES:
        raise PskError(f"{path}: too large for a file with pre-shared keys")
    try:
        return PreSharedKeys(path, parse_pre_shared_keys(data))
    except ValueError as error:
        raise PskError(f"{path}: {error}") from None


def parse_pre_shared_keys(data: bytes) -> tuple[bytes, ...]:
    """Return the secrets in the content of a file, without repetitions.

    Raises:
        ValueError: a secret is empty or invalid; the message does not contain it.
    """
    values = [match[1].strip() for line in data.splitlines() if (match := _LINE.fullmatch(line.strip()))]
    if values:
        secrets = [
            quoted[quoted.lastindex or 0] if (quoted := _QUOTED.match(value)) else _decode_secret(value.split()[0])
            for value in values
        ]
    else:
        secrets = [_decode_secret(data.removesuffix(b"\n").removesuffix(b"\r"))]
    if not all(secrets):
        raise ValueError("a pre-shared key is empty")
    return tuple(dict.fromkeys(secrets))


def _decode_secret(text: bytes) -> bytes:
    if text[:2] == b"0x":
        value = parse_hex(text[2:].decode("ascii", "replace")) if len(text) > 2 else None
        if value is None:
            raise ValueError("0x must be followed by hexadecimal digits")
        return value
    if text[:2] == b"0s":
        try:
            return base64.b64decode(text[2:].strip(), validate=True)
        except binascii.Error:
            raise ValueError("0s must be followed by base64") from None
    return text
