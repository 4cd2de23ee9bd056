"""Parses the chain of payloads of an IKE message, in which each payload header has the type of the next payload."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from struct import Struct
from typing import Final

import msgspec

from ikeanalyze.wire.cursor import Cursor, WireError
from ikeanalyze.wire.header import HEADER
from ikeanalyze.wire.registries.ikev2 import PayloadType

#: Type of the next payload, flags, length.
PAYLOAD_HEADER: Final = Struct(">BBH")
#: Flag of an IKEv2 payload (RFC 7296, section 3.2).
FLAG_CRITICAL: Final = 0x80
#: A local name, because an attribute lookup on the enum takes a fifth of the time of these loops.
_NONE: Final = PayloadType.NONE

#: IKEv2's encrypted payload and its fragment, the last of a message: the next payload field is the type of the first
#: encrypted payload (RFC 7296, section 3.14; RFC 7383, section 2.5).
ENCRYPTED_TYPES: Final = frozenset({PayloadType.SK, PayloadType.SKF})


@dataclass(frozen=True, slots=True)
class Payload:
    """A payload (RFC 7296, section 3.2; RFC 2408, section 3.2)."""

    type: int
    critical: bool  # IKEv2: a receiver that does not support the type must reject the message
    body: bytes = field(repr=False)  # without the four bytes of the generic header; may contain a password
    offset: int  # of the generic header in the message, in bytes


class PayloadChain(msgspec.Struct, frozen=True):
    """The payloads of a message that could be parsed."""

    payloads: tuple[Payload, ...]
    error: str | None  # why parsing stopped early; None: everything was parsed


def iterate_payloads(cursor: Cursor, kind: int) -> Iterator[tuple[int, int, int, bytes]]:
    """Yield type, flags, offset and body of each payload; `kind` is the type of the first one.

    Ends after an encrypted payload.

    Raises:
        WireError: a payload is truncated or has an invalid length.
    """
    while kind != _NONE:
        offset = cursor.position
        next_kind, flags, length = cursor.unpack(PAYLOAD_HEADER)
        if length < PAYLOAD_HEADER.size:
            raise WireError(offset, f"payload {kind} has a length of {length}, less than its 4-byte header")
        yield kind, flags, offset, cursor.read_bytes(length - PAYLOAD_HEADER.size)
        if kind in ENCRYPTED_TYPES:
            return
        kind = next_kind


def parse_chain(cursor: Cursor, kind: int) -> PayloadChain:
    """Parse payloads up to the end or the first error; `kind` is the type of the first one. Never raises."""
    payloads: list[Payload] = []
    try:
        for payload_kind, flags, offset, body in iterate_payloads(cursor, kind):
            payloads.append(Payload(payload_kind, bool(flags & FLAG_CRITICAL), body, offset))
    except WireError as error:
        return PayloadChain(tuple(payloads), str(error))
    return PayloadChain(tuple(payloads), None)


def parse_message_chain(data: bytes) -> PayloadChain:
    """Parse the clear payloads of an IKE message, up to and including an encrypted one. Never raises.

    Bytes after the length in the header do not belong to the message and are ignored.
    """
    try:
        fields = Cursor(data).unpack(HEADER)
    except WireError as error:
        return PayloadChain((), str(error))
    return parse_chain(Cursor(data, HEADER.size, fields[-1]), fields[2])
