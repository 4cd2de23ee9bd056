"""IKEv1 messages (RFC 2408 and 2409) and the fragments of its vendors (payload type 132)."""

import struct
from collections.abc import Iterable, Sequence
from random import Random

from .ike import Payload, chain, ike_header

MAIN_MODE, AGGRESSIVE_MODE, INFORMATIONAL, QUICK_MODE = 2, 4, 5, 32

SA, PROPOSAL, TRANSFORM, KE, ID, CERT, HASH, SIGNATURE, NONCE, NOTIFY, DELETE, VENDOR_ID = (
    1, 2, 3, 4, 5, 6, 8, 9, 10, 11, 12, 13,
)  # fmt: skip
NAT_D, FRAGMENT = 20, 132

ENCRYPTED = 0x01

FRAGMENTATION_VENDOR_ID = bytes.fromhex("4048b7d56ebce88525e7de7f00d6c2d3")


def header(
    cookie_i: bytes,
    cookie_r: bytes,
    next_payload: int,
    exchange_type: int,
    flags: int,
    message_id: int,
    length: int,
) -> bytes:
    return ike_header(cookie_i, cookie_r, next_payload, exchange_type, flags, message_id, length, version=0x10)


def message(
    cookie_i: bytes, cookie_r: bytes, exchange_type: int, payloads: Iterable[Payload], message_id: int = 0
) -> bytes:
    """A message in the clear."""
    first, body = chain(payloads)
    return header(cookie_i, cookie_r, first, exchange_type, 0, message_id, 28 + len(body)) + body


def encrypted(
    cookie_i: bytes, cookie_r: bytes, exchange_type: int, first: int, body: bytes, message_id: int = 0
) -> bytes:
    """`first`: type of the first payload inside; `body`: ciphertext."""
    length = 28 + len(body)
    return header(cookie_i, cookie_r, first, exchange_type, ENCRYPTED, message_id, length) + body


def sa(attributes: Sequence[tuple[int, int]] = ((1, 7), (14, 128), (2, 4), (4, 14), (3, 1))) -> Payload:
    """One proposal of one transform. Default: AES-128-CBC, SHA2-256, MODP-2048, shared key."""
    values = b"".join(struct.pack(">HH", 0x8000 | kind, value) for kind, value in attributes)
    transform = struct.pack(">BxHBBH", 0, 8 + len(values), 1, 1, 0) + values
    proposal = struct.pack(">BxHBBBB", 0, 8 + len(transform), 1, 1, 0, 1) + transform
    return SA, struct.pack(">II", 1, 1) + proposal


def fragments(complete: bytes, size: int, ident: int = 1) -> list[bytes]:
    """A whole message, cut into payloads of type 132 of at most `size` bytes of it each."""
    spi_i, spi_r, exchange_type = complete[:8], complete[8:16], complete[18]
    message_id = int.from_bytes(complete[20:24], "big")
    parts = [complete[at : at + size] for at in range(0, len(complete), size)]
    result = []
    for number, part in enumerate(parts, 1):
        payload = struct.pack(">BxHHBB", 0, 8 + len(part), ident, number, number == len(parts)) + part
        length = 28 + len(payload)
        result.append(header(spi_i, spi_r, FRAGMENT, exchange_type, 0, message_id, length) + payload)
    return result


def main_mode(rng: Random) -> list[bytes]:
    """Six messages of a phase 1; initiator and responder take turns."""
    i, r = rng.randbytes(8), rng.randbytes(8)
    offer = [sa(), (VENDOR_ID, FRAGMENTATION_VENDOR_ID)]

    def key_exchange() -> list[Payload]:
        nat = [(NAT_D, rng.randbytes(32)), (NAT_D, rng.randbytes(32))]
        return [(KE, rng.randbytes(256)), (NONCE, rng.randbytes(32)), *nat]

    return [
        message(i, bytes(8), MAIN_MODE, offer),
        message(i, r, MAIN_MODE, offer),
        message(i, r, MAIN_MODE, key_exchange()),
        message(i, r, MAIN_MODE, key_exchange()),
        encrypted(i, r, MAIN_MODE, ID, rng.randbytes(80)),
        encrypted(i, r, MAIN_MODE, ID, rng.randbytes(80)),
    ]


def aggressive_mode(rng: Random) -> list[bytes]:
    """Three messages of a phase 1, the first by the initiator."""
    i, r = rng.randbytes(8), rng.randbytes(8)
    keys: list[Payload] = [(KE, rng.randbytes(256)), (NONCE, rng.randbytes(32))]
    name: Payload = (ID, b"\x02\0\0\0gateway.example")
    return [
        message(i, bytes(8), AGGRESSIVE_MODE, [sa(), *keys, name]),
        message(i, r, AGGRESSIVE_MODE, [sa(), *keys, name, (HASH, rng.randbytes(32))]),
        encrypted(i, r, AGGRESSIVE_MODE, HASH, rng.randbytes(64)),
    ]


def quick_mode(rng: Random, cookies: bytes) -> list[bytes]:
    """Three messages of a phase 2, the first by the initiator. `cookies`: 16 bytes, those of phase 1."""
    ident = rng.randrange(1, 2**32)
    return [
        encrypted(cookies[:8], cookies[8:16], QUICK_MODE, HASH, rng.randbytes(size), ident) for size in (160, 160, 48)
    ]
