"""IKEv2 messages (RFC 7296): the header, the clear payloads, fragments, and IKE_SA_INIT at a glance.

What is inside an encrypted payload is read with `parse_decrypted_payloads` once it is decrypted; the bodies of single
payloads with `ikev2_payloads`.

What a clear IKE_SA_INIT (or IKE_SESSION_RESUME) message says, read in one go: the way for a hundred
thousand of them.
"""

from dataclasses import dataclass
from struct import Struct
from typing import Final

from ikeanalyze.wire.cursor import Cursor, WireError
from ikeanalyze.wire.header import HEADER, Header, parse_header
from ikeanalyze.wire.ikev2.notify import (
    Notify,
    compute_nat_detection_hash,
    decode_notify_data,
    parse_notify,
    parse_notify_fields,
)
from ikeanalyze.wire.ikev2.proposals import Proposal, SecurityAssociation, Transform, TransformAttributeValue, parse_sa
from ikeanalyze.wire.payload_chain import (
    SEALED,
    Payload,
    PayloadChain,
    iterate_payloads,
    parse_chain,
    parse_message_chain,
)
from ikeanalyze.wire.registries.ikev2 import PayloadType

#: Bound once: the lookup of an enum's member takes a fifth of the time of these loops.
_NOTIFY: Final = PayloadType.NOTIFY
_SA: Final = PayloadType.SA
_KE: Final = PayloadType.KE
_NONCE: Final = PayloadType.NONCE
_VENDOR_ID: Final = PayloadType.VENDOR_ID
_CERTREQ: Final = PayloadType.CERTREQ
_METHOD: Final = Struct(">Hxx")


@dataclass(frozen=True, slots=True)
class InitMessage:
    """Contents of an IKE_SA_INIT request or response (RFC 7296, section 1.2)."""

    proposals: tuple[Proposal, ...]  # request: in order of preference; response: the chosen one
    ke_method: int | None  # of the KE payload
    nonce: bytes | None
    notifies: tuple[tuple[int, bytes], ...]  # type and data, in order
    vendor_ids: tuple[bytes, ...]
    has_certreq: bool
    error: str | None  # why reading ended before the end, or what of it made no sense; None: all was read

    @property
    def chosen(self) -> Proposal | None:
        """The first proposal: in a response, the chosen one."""
        return self.proposals[0] if self.proposals else None


def parse_init(data: bytes) -> InitMessage:
    """Read an IKE_SA_INIT message, header included. Never raises: `error` says why something is missing."""
    proposals: tuple[Proposal, ...] = ()
    ke_method = nonce = error = None
    notifies: list[tuple[int, bytes]] = []
    vendor_ids: list[bytes] = []
    has_certreq = False
    try:
        cursor = Cursor(data)
        *_, length = fields = cursor.unpack(HEADER)
        for kind, _, offset, body in iterate_payloads(Cursor(data, HEADER.size, length), fields[2]):
            try:
                if kind == _NOTIFY:
                    notifies.append(parse_notify_fields(body)[:2])
                elif kind == _SA:
                    read = parse_sa(body)
                    proposals = proposals or read.proposals
                    if read.error is not None:
                        error = error or f"SA payload at byte {offset}: {read.error}"
                elif kind == _KE:
                    ke_method = Cursor(body).unpack(_METHOD)[0]
                elif kind == _NONCE:
                    nonce = body
                elif kind == _VENDOR_ID:
                    vendor_ids.append(body)
                elif kind == _CERTREQ:
                    has_certreq = True
            except WireError as problem:
                error = error or f"payload {kind} at byte {offset}: {problem}"
        if length > len(data):
            error = error or f"the message has {length} bytes by its header, {len(data)} are there"
    except WireError as problem:
        error = error or str(problem)
    return InitMessage(proposals, ke_method, nonce, tuple(notifies), tuple(vendor_ids), has_certreq, error)


pass

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
