"""The chain of payloads: every payload's header tells the type of the next."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from struct import Struct
from typing import Final

from ikeanalyze.wire.cursor import Cursor, WireError
from ikeanalyze.wire.header import HEADER
from ikeanalyze.wire.registries.ikev2 import PayloadType

#: Type of the next payload, flags, length.
PAYLOAD_HEADER: Final = Struct(">BBH")
_CRITICAL: Final = 0x80
#: Bound once: the lookup of an enum's member takes a fifth of the time of these loops.
_NONE: Final = PayloadType.NONE

#: IKEv2's encrypted payload and its fragment: their next payload field tells what is inside (RFC 7296, 3.14;
#: RFC 7383, 2.5).
SEALED: Final = frozenset({PayloadType.SK, PayloadType.SKF})


@dataclass(frozen=True, slots=True)
class Payload:
    """A payload (RFC 7296, section 3.2; RFC 2408, section 3.2)."""

    type: int
    critical: bool  # IKEv2: who does not know the type must reject the message
    body: bytes = field(repr=False)  # without the four bytes of the generic header; may hold a password
    offset: int  # of its generic header, in bytes from the beginning of the message


@dataclass(frozen=True, slots=True)
class PayloadChain:
    """What could be read of a message's payloads."""

    payloads: tuple[Payload, ...]
    error: str | None  # why reading ended before the end; None: all was read


def iterate_payloads(cursor: Cursor, kind: int) -> Iterator[tuple[int, int, int, bytes]]:
    """Payloads from the cursor on, as type, flags, offset and body; `kind` is the type of the first.

    Ends after an encrypted payload, which is IKEv2's last. Raises `WireError` where a payload cannot be read.
    """
    while kind != _NONE:
        offset = cursor.position
        following, flags, length = cursor.unpack(PAYLOAD_HEADER)
        if length < PAYLOAD_HEADER.size:
            raise WireError(offset, f"payload {kind} has a length of {length}, its header alone has 4")
        yield kind, flags, offset, cursor.get_bytes(length - PAYLOAD_HEADER.size)
        if kind in SEALED:
            return
        kind = following


def parse_chain(cursor: Cursor, kind: int) -> PayloadChain:
    """Payloads from the cursor on, as many as can be read. Never raises."""
    found: list[Payload] = []
    try:
        for this, flags, offset, body in iterate_payloads(cursor, kind):
            found.append(Payload(this, bool(flags & _CRITICAL), body, offset))
    except WireError as error:
        return PayloadChain(tuple(found), str(error))
    return PayloadChain(tuple(found), None)


def parse_message_chain(data: bytes) -> PayloadChain:
    """The clear payloads of an IKE message, up to and with an encrypted one. Never raises.

    Reads no further than the header's length: what is behind is no part of the message.
    """
    try:
        fields = Cursor(data).unpack(HEADER)
    except WireError as error:
        return PayloadChain((), str(error))
    return parse_chain(Cursor(data, HEADER.size, fields[-1]), fields[2])
