"""IKEv1 messages (RFC 2408, RFC 2409): the header, clear payloads, phase 1 at a glance, and the fragments of
Cisco and Microsoft.
"""

from dataclasses import dataclass
from struct import Struct
from typing import Final

from ikeanalyze.wire.chain import Chain, Payload, message_chain
from ikeanalyze.wire.cursor import Cursor, WireError
from ikeanalyze.wire.header import HEADER, Header, parse_header
from ikeanalyze.wire.ikev1_sa import Phase1Sa, Phase1Transform, read_phase1_sa
from ikeanalyze.wire.registries.ikev1 import PayloadType

__all__ = [
    "Chain",
    "Fragment",
    "Header",
    "Payload",
    "Phase1Sa",
    "Phase1Transform",
    "Phase1View",
    "fragment_of",
    "parse_header",
    "payloads",
    "read_phase1",
    "read_phase1_sa",
]

#: DOI, protocol, SPI size, notify message type (RFC 2408, section 3.14).
_NOTIFY: Final = Struct(">IBBH")
#: Next payload and reserved, length, fragment ID, fragment number, flags.
_FRAGMENT: Final = Struct(">xxHHBB")
_LAST: Final = 0x01


@dataclass(frozen=True, slots=True)
class Fragment:
    """Header of a fragment in payload 132, known from open implementations; no RFC has it."""

    ident: int  # the same in all fragments of a message
    number: int  # from 1
    last: bool  # the message ends with it


@dataclass(frozen=True, slots=True)
class Phase1View:
    """Contents of a clear message of phase 1 (RFC 2409, section 5)."""

    exchange_type: int | None  # 2 main mode, 4 aggressive mode; None: there is not even a header
    encrypted: bool  # nothing but the header can be read
    transforms: tuple[Phase1Transform, ...]  # request: in order of preference; response: the chosen one
    vendor_ids: tuple[bytes, ...]
    notifies: tuple[int, ...]  # types
    ke_bytes: int | None  # size of the KE payload's public value
    nonce: bytes | None
    nat_hashes: tuple[bytes, ...]  # of NAT-D payloads (RFC 3947, section 3.2, and its drafts): destination first
    fragment: Fragment | None  # the message is a fragment, and nothing else in it can be read
    error: str | None  # why reading ended before the end, or what of it made no sense; None: all was read


def payloads(data: bytes) -> Chain:
    """The payloads of a clear message, none of an encrypted one (RFC 2408, section 3.2). Never raises."""
    try:
        header = parse_header(data)
    except WireError as error:
        return Chain((), str(error))
    return Chain((), None) if header.encrypted else message_chain(data)


def fragment_of(data: bytes) -> Fragment | None:
    """Header of the fragment that a message is, be its end cut off or not; else None. Never raises."""
    cursor = Cursor(data)
    try:
        if cursor.unpack(HEADER)[2] != PayloadType.FRAGMENT:
            return None
        _, ident, number, flags = cursor.unpack(_FRAGMENT)
    except WireError:
        return None
    return Fragment(ident, number, bool(flags & _LAST))


def read_phase1(data: bytes) -> Phase1View:
    """Read a message of phase 1, header included. Never raises: `error` says why something is missing."""
    try:
        header = parse_header(data)
    except WireError as problem:
        return Phase1View(None, False, (), (), (), None, None, (), None, str(problem))
    fragment = fragment_of(data)
    if fragment is not None or header.encrypted:
        return Phase1View(header.exchange_type, header.encrypted, (), (), (), None, None, (), fragment, None)
    transforms: tuple[Phase1Transform, ...] = ()
    vendor_ids: list[bytes] = []
    notifies: list[int] = []
    ke_bytes = nonce = None
    nat_hashes: list[bytes] = []
    chain = message_chain(data)
    error = chain.error
    for payload in chain.payloads:
        match payload.type:
            case PayloadType.SA:
                sa = read_phase1_sa(payload.body)
                transforms = transforms or sa.transforms
                if sa.error is not None:
                    error = error or f"SA payload at byte {payload.offset}: {sa.error}"
            case PayloadType.VENDOR_ID:
                vendor_ids.append(payload.body)
            case PayloadType.NOTIFY:
                try:
                    notifies.append(Cursor(payload.body).unpack(_NOTIFY)[3])
                except WireError as problem:
                    error = error or f"notification at byte {payload.offset}: {problem}"
            case PayloadType.KE:
                ke_bytes = len(payload.body)
            case PayloadType.NONCE:
                nonce = payload.body
            case PayloadType.NAT_D | PayloadType.NAT_D_DRAFT:
                nat_hashes.append(payload.body)
    return Phase1View(
        header.exchange_type,
        False,
        transforms,
        tuple(vendor_ids),
        tuple(notifies),
        ke_bytes,
        nonce,
        tuple(nat_hashes),
        None,
        error,
    )
