"""IKEv2 messages (RFC 7296): the header, the clear payloads, fragments, and IKE_SA_INIT at a glance.

What is inside an encrypted payload is read with `parse_decrypted_payloads` once it is decrypted; the bodies of single
payloads with `ikev2_payloads`.
"""

from struct import Struct
from typing import Final

from ikeanalyze.wire.chain import SEALED, Payload, PayloadChain, parse_chain, parse_message_chain
from ikeanalyze.wire.cursor import Cursor, WireError
from ikeanalyze.wire.header import HEADER, Header, parse_header
from ikeanalyze.wire.ikev2_init import InitMessage, parse_init
from ikeanalyze.wire.ikev2_notify import Notify, compute_nat_detection_hash, decode_notify_data, parse_notify
from ikeanalyze.wire.proposals import Proposal, SecurityAssociation, Transform, TransformAttributeValue, parse_sa
from ikeanalyze.wire.registries.ikev2 import PayloadType

__all__ = [
    "TransformAttributeValue",
    "PayloadChain",
    "Header",
    "InitMessage",
    "Notify",
    "Payload",
    "Proposal",
    "SecurityAssociation",
    "Transform",
    "decode_notify_data",
    "parse_fragment_header",
    "compute_nat_detection_hash",
    "parse_header",
    "parse_notify",
    "parse_payloads",
    "parse_init",
    "parse_decrypted_payloads",
    "parse_sa",
]

#: Generic payload header, fragment number, total fragments.
_FRAGMENT: Final = Struct(">BBHHH")
_PAYLOAD: Final = Struct(">BBH")


def parse_payloads(data: bytes) -> PayloadChain:
    """The clear payloads of a message, up to and with SK or SKF (RFC 7296, section 3.2). Never raises."""
    return parse_message_chain(data)


def parse_decrypted_payloads(data: bytes, first: int) -> PayloadChain:
    """Payloads without a header, as decryption gives them; `first` is the type of the first. Never raises."""
    return parse_chain(Cursor(data), first)


def parse_fragment_header(data: bytes) -> tuple[int, int] | None:
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
