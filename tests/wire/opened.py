"""What is inside the recorded encrypted messages, opened with the daemon's keys and nothing of ours.

AES-GCM and AES-CBC with HMAC-SHA2-256 are what the recordings have.
"""

import gzip
import hashlib
import hmac
import json
import re
import struct
from dataclasses import dataclass
from functools import cache

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CBC

from tests.paths import CAPTURES
from tests.wire.recorded import ike_messages

_SK, _SKF = 46, 53
_LINE = re.compile(r"(?:parsed|generating) (\S+) (request|response) (\d+) \[ (.*)\]")


@dataclass(frozen=True, slots=True)
class Opened:
    """A whole message, its fragments put together."""

    exchange_type: int
    response: bool
    message_id: int
    first: int  # type of the first payload inside
    inside: bytes


@cache
def opened(name: str) -> tuple[Opened, ...]:
    """The encrypted messages of a recording, each once, in order."""
    keys = json.loads((CAPTURES / f"{name}.keys.json").read_text())
    result: dict[tuple, Opened] = {}
    parts: dict[tuple, dict[int, bytes]] = {}
    for message in ike_messages(name):
        kind = message[16]
        if kind not in (_SK, _SKF):
            continue
        flags, ident = message[19], int.from_bytes(message[20:24], "big")
        which = message[:16], message[18], bool(flags & 0x20), ident
        first, head = message[28], 32 if kind == _SK else 36
        plain = next((p for p in (_open(message, head, k, flags) for k in keys) if p is not None), None)
        if plain is None:
            continue
        if kind == _SKF:
            number, total = struct.unpack(">HH", message[32:36])
            group = parts.setdefault(which, {})
            group[number] = plain if number > 1 else bytes([first]) + plain
            if len(group) < total:
                continue
            whole = b"".join(group[number] for number in sorted(group))
            first, plain = whole[0], whole[1:]
        result.setdefault(which, Opened(message[18], which[2], ident, first, plain))
    return tuple(result.values())


def _open(message: bytes, head: int, keys: dict[str, str], flags: int) -> bytes | None:
    side = "i" if flags & 0x08 else "r"
    key, authentication = bytes.fromhex(keys[f"Sk_e{side}"]), keys.get(f"Sk_a{side}")
    if authentication:
        icv = hmac.digest(bytes.fromhex(authentication), message[:-16], hashlib.sha256)
        if not hmac.compare_digest(icv[:16], message[-16:]):
            return None
        decryptor = Cipher(AES(key), CBC(message[head : head + 16])).decryptor()
        plain = decryptor.update(message[head + 16 : -16]) + decryptor.finalize()
    else:
        nonce = key[-4:] + message[head : head + 8]
        try:
            plain = AESGCM(key[:-4]).decrypt(nonce, message[head + 8 :], message[:head])
        except InvalidTag:
            return None
    return plain[: -1 - plain[-1]]


@cache
def logged(name: str) -> dict[tuple[str, bool, int], tuple[str, ...]]:
    """Payloads that the daemon listed, by exchange, response and message ID; of several the last."""
    text = gzip.decompress((CAPTURES / f"{name}.charon.log.gz").read_bytes()).decode()
    return {
        (exchange, kind == "response", int(ident)): tuple(payloads.split())
        for exchange, kind, ident, payloads in _LINE.findall(text)
        if "EF(" not in payloads
    }
