"""IKEv2 messages (RFC 7296): the header, the clear payloads, fragments, and IKE_SA_INIT at a glance.

What is inside an encrypted payload is read with `read_payloads` once it is decrypted; the bodies of single
payloads with `ikev2_payloads`.
"""

from struct import Struct
from typing import Final

from ikeanalyze.wire.chain import SEALED, Chain, Payload, message_chain, read_chain
from ikeanalyze.wire.cursor import Cursor, WireError
from ikeanalyze.wire.header import HEADER, Header, parse_header
from ikeanalyze.wire.ikev2_init import InitView, read_init
from ikeanalyze.wire.ikev2_notify import Notify, decode_notify, nat_detection_hash, parse_notify
from ikeanalyze.wire.proposals import Attribute, Proposal, SecurityAssociation, Transform, read_sa
from ikeanalyze.wire.registries.ikev2 import PayloadType

__all__ = [
    "Attribute",
    "Chain",
    "Header",
    "InitView",
    "Notify",
    "Payload",
    "Proposal",
    "SecurityAssociation",
    "Transform",
    "decode_notify",
    "fragment_of",
    "nat_detection_hash",
    "parse_header",
    "parse_notify",
    "payloads",
    "read_init",
    "read_payloads",
    "read_sa",
]

#: Generic payload header, fragment number, total fragments.
_FRAGMENT: Final = Struct(">BBHHH")
_PAYLOAD: Final = Struct(">BBH")


def payloads(data: bytes) -> Chain:
    """The clear payloads of a message, up to and with SK or SKF (RFC 7296, section 3.2). Never raises."""
    return message_chain(data)


def read_payloads(data: bytes, first: int) -> Chain:
    """Payloads without a header, as decryption gives them; `first` is the type of the first. Never raises."""
    return read_chain(Cursor(data), first)


def fragment_of(data: bytes) -> tuple[int, int] | None:
    """Fragment number and total fragments of a message that is a fragment, else None (RFC 7383, section 2.5).
    Never raises.

    The SKF payload is the last of its message but need not be the only one. A fragment whose end is not
    captured still tells.
    """
    cursor = Cursor(data)
    try:
        fields = cursor.unpack(HEADER)
        kind, cursor = fields[2], Cursor(data, HEADER.size, fields[-1])
        while kind != PayloadType.NONE and kind not in SEALED:
            kind, _, length = cursor.unpack(_PAYLOAD)
            cursor.skip(length - _PAYLOAD.size)
        if kind != PayloadType.SKF:
            return None
        *_, number, total = cursor.unpack(_FRAGMENT)
    except WireError:
        return None
    return number, total
