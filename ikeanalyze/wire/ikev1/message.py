"""Parses IKEv1 messages (RFC 2408, RFC 2409): clear payloads, contents of phase 1, and fragments."""

from struct import Struct
from typing import Final

import msgspec

from ikeanalyze.wire.cursor import Cursor, WireError
from ikeanalyze.wire.header import HEADER, parse_header
from ikeanalyze.wire.ikev1.proposals import Ikev1Transform, parse_ikev1_sa
from ikeanalyze.wire.payload_chain import PAYLOAD_HEADER, PayloadChain, parse_message_chain
from ikeanalyze.wire.registries.ikev1 import Ikev1PayloadType

#: DOI, protocol, SPI size, notify message type (RFC 2408, section 3.14).
_NOTIFY: Final = Struct(">IBBH")
#: Fragment ID, fragment number, flags.
_FRAGMENT: Final = Struct(">HBB")
_LAST: Final = 0x01


class Ikev1Fragment(msgspec.Struct, frozen=True):
    """Header of a fragment in payload 132 of Cisco and Microsoft, as in open implementations; no RFC specifies it."""

    ident: int  # the same in all fragments of a message
    number: int  # from 1
    last: bool  # it is the last fragment of the message


class Phase1Message(msgspec.Struct, frozen=True):
    """Contents of a clear message of phase 1 (RFC 2409, section 5)."""

    exchange_type: int | None  # 2 main mode, 4 aggressive mode; None: the header is truncated
    encrypted: bool  # only the header is in clear
    transforms: tuple[Ikev1Transform, ...]  # request: in order of preference; response: the chosen one
    vendor_ids: tuple[bytes, ...]
    notifies: tuple[int, ...]  # types
    ke_bytes: int | None  # size of the KE payload's public value
    nonce: bytes | None
    nat_hashes: tuple[bytes, ...]  # of NAT-D payloads (RFC 3947, section 3.2, and its drafts): destination first
    fragment: Ikev1Fragment | None  # set if the message is a fragment, which has no other contents
    error: str | None  # why parsing stopped early, or the malformed part; None: everything was parsed


def parse_ikev1_payloads(data: bytes) -> PayloadChain:
    """Parse the payloads of a clear message (RFC 2408, section 3.2); empty if it is encrypted. Never raises."""
    try:
        header = parse_header(data)
    except WireError as error:
        return PayloadChain((), str(error))
    return PayloadChain((), None) if header.encrypted else parse_message_chain(data)


def parse_ikev1_fragment(data: bytes) -> Ikev1Fragment | None:
    """Parse the fragment header of a message, which may be truncated; None if it is not a fragment. Never raises."""
    cursor = Cursor(data)
    try:
        if cursor.unpack(HEADER)[2] != Ikev1PayloadType.FRAGMENT:
            return None
        cursor.skip(PAYLOAD_HEADER.size)
        return parse_ikev1_fragment_fields(cursor)
    except WireError:
        return None


def parse_ikev1_fragment_fields(cursor: Cursor) -> Ikev1Fragment:
    """Parse the fields of a fragment payload after its generic header; raises `WireError` if they are truncated."""
    ident, number, flags = cursor.unpack(_FRAGMENT)
    return Ikev1Fragment(ident, number, bool(flags & _LAST))


def parse_phase1_message(data: bytes) -> Phase1Message:
    """Parse a message of phase 1 with its header. Never raises: `error` is set if something is missing."""
    try:
        header = parse_header(data)
    except WireError as problem:
        return Phase1Message(None, False, (), (), (), None, None, (), None, str(problem))
    fragment = parse_ikev1_fragment(data)
    if fragment is not None or header.encrypted:
        return Phase1Message(header.exchange_type, header.encrypted, (), (), (), None, None, (), fragment, None)
    transforms: tuple[Ikev1Transform, ...] = ()
    vendor_ids: list[bytes] = []
    notifies: list[int] = []
    ke_bytes = nonce = None
    nat_hashes: list[bytes] = []
    chain = parse_message_chain(data)
    error = chain.error
    for payload in chain.payloads:
        match payload.type:
            case Ikev1PayloadType.SA:
                sa = parse_ikev1_sa(payload.body)
                transforms = transforms or sa.transforms
                if sa.error is not None:
                    error = error or f"SA payload at byte {payload.offset}: {sa.error}"
            case Ikev1PayloadType.VENDOR_ID:
                vendor_ids.append(payload.body)
            case Ikev1PayloadType.NOTIFY:
                try:
                    notifies.append(Cursor(payload.body).unpack(_NOTIFY)[3])
                except WireError as problem:
                    error = error or f"notification at byte {payload.offset}: {problem}"
            case Ikev1PayloadType.KE:
                ke_bytes = len(payload.body)
            case Ikev1PayloadType.NONCE:
                nonce = payload.body
            case Ikev1PayloadType.NAT_D | Ikev1PayloadType.NAT_D_DRAFT:
                nat_hashes.append(payload.body)
    return Phase1Message(
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
