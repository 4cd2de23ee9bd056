"""IKEv2 messages (RFC 7296): their payloads, their fragment numbers, and the contents of IKE_SA_INIT."""

from struct import Struct
from typing import Final

import msgspec

from ikeanalyze.wire.cursor import Cursor, WireError
from ikeanalyze.wire.header import HEADER, is_truncated_message
from ikeanalyze.wire.ikev2.payloads import parse_notify_fields
from ikeanalyze.wire.ikev2.proposals import Proposal, parse_sa
from ikeanalyze.wire.payload_chain import (
    ENCRYPTED_TYPES,
    PAYLOAD_HEADER,
    PayloadChain,
    iterate_payloads,
    parse_chain,
    parse_message_chain,
)
from ikeanalyze.wire.registries.ikev2 import PayloadType

#: Members used in the loops of this module; an attribute lookup on the enum would take a fifth of their time.
_NONE: Final = PayloadType.NONE
_NOTIFY: Final = PayloadType.NOTIFY
_SA: Final = PayloadType.SA
_KE: Final = PayloadType.KE
_NONCE: Final = PayloadType.NONCE
_VENDOR_ID: Final = PayloadType.VENDOR_ID
_CERTREQ: Final = PayloadType.CERTREQ

#: Beginning of a KE payload: the method.
_METHOD: Final = Struct(">Hxx")
#: Beginning of an SKF payload: its length, fragment number, total fragments.
_FRAGMENT: Final = Struct(">2xHHH")


class InitMessage(msgspec.Struct, frozen=True):
    """Contents of an IKE_SA_INIT (RFC 7296, section 1.2) or IKE_SESSION_RESUME (RFC 5723) message in clear."""

    proposals: tuple[Proposal, ...]  # request: in order of preference; response: the chosen one
    ke_method: int | None  # of the KE payload
    nonce: bytes | None
    notifies: tuple[tuple[int, bytes], ...]  # type and data, in order
    vendor_ids: tuple[bytes, ...]
    has_certreq: bool
    error: str | None  # why parsing stopped early, or which payload is malformed; None: everything was parsed
    #: Type of the notify in which the captured bytes end. It is not in `notifies`, because its data are truncated.
    truncated_notify: int | None = None
    is_truncated: bool = False  # the header announces more bytes than there are: payloads may follow

    @property
    def notify_types(self) -> tuple[int, ...]:
        """The types of all notifies in order, with that of a truncated one."""
        types = tuple(kind for kind, _ in self.notifies)
        return types if self.truncated_notify is None else (*types, self.truncated_notify)

    @property
    def chosen(self) -> Proposal | None:
        """The first proposal: in a response, the chosen one."""
        return self.proposals[0] if self.proposals else None

    def list_notify_data(self, notify_type: int) -> list[bytes]:
        """The data of each notify of this type, in order."""
        return [data for kind, data in self.notifies if kind == notify_type]


def parse_init(data: bytes) -> InitMessage:
    """Parse an IKE_SA_INIT message with its header. Never raises: `error` is set if something is missing.

    One pass over the payloads without an object for each, since captures have a hundred thousand of these messages.
    """
    proposals: tuple[Proposal, ...] = ()
    ke_method = nonce = error = truncated_notify = None
    is_truncated = len(data) > 0 and is_truncated_message(data)  # an encrypted message has no kept bytes
    notifies: list[tuple[int, bytes]] = []
    vendor_ids: list[bytes] = []
    has_certreq = False
    try:
        *_, length = fields = Cursor(data).unpack(HEADER)
        for kind, _, offset, body in iterate_payloads(Cursor(data, HEADER.size, length), fields[2]):
            try:
                if kind == _NOTIFY:
                    notifies.append(parse_notify_fields(body)[:2])
                elif kind == _SA:
                    sa = parse_sa(body)
                    proposals = proposals or sa.proposals
                    if sa.error is not None:
                        error = error or f"SA payload at byte {offset}: {sa.error}"
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
        if is_truncated:
            error = error or f"the header announces {length} bytes, the message has {len(data)}"
    except WireError as problem:
        error = error or str(problem)
        truncated_notify = _parse_truncated_notify(data)
    return InitMessage(
        proposals=proposals,
        ke_method=ke_method,
        nonce=nonce,
        notifies=tuple(notifies),
        vendor_ids=tuple(vendor_ids),
        has_certreq=has_certreq,
        error=error,
        truncated_notify=truncated_notify,
        is_truncated=is_truncated,
    )


def _parse_truncated_notify(data: bytes) -> int | None:
    """The type of the notify in which the captured bytes of a message end; None: they end elsewhere. Never raises.

    The type is before the data, so that the captured bytes have it although the data are cut.
    """
    try:
        *_, size = fields = Cursor(data).unpack(HEADER)
        kind, cursor = fields[2], Cursor(data, HEADER.size)
        while kind != _NONE and kind not in ENCRYPTED_TYPES:
            next_kind, _, length = cursor.unpack(PAYLOAD_HEADER)
            length -= PAYLOAD_HEADER.size
            if length > cursor.remaining():
                is_whole_on_the_wire = cursor.position + length <= size
                if kind != _NOTIFY or not is_whole_on_the_wire:
                    return None
                return parse_notify_fields(cursor.read_remaining())[0]
            cursor.skip(length)
            kind = next_kind
    except WireError:
        pass
    return None


def parse_payloads(data: bytes) -> PayloadChain:
    """Clear payloads of a message, up to and including SK or SKF (RFC 7296, section 3.2). Never raises."""
    return parse_message_chain(data)


def parse_decrypted_payloads(data: bytes, first: int) -> PayloadChain:
    """Payloads of decrypted data, which has no header; `first` is the type of the first one. Never raises."""
    return parse_chain(Cursor(data), first)


def parse_fragment_header(data: bytes) -> tuple[int, int] | None:
    """Fragment number and total fragments of an IKE fragment (RFC 7383, section 2.5); None for other messages.

    Also None if the length of the SKF payload leaves no room for both. The SKF payload is the last one of its message,
    but may follow others. The end of the message may be missing. Never raises.
    """
    try:
        fields = Cursor(data).unpack(HEADER)
        kind, cursor = fields[2], Cursor(data, HEADER.size, fields[-1])
        while kind != _NONE and kind not in ENCRYPTED_TYPES:
            kind, _, length = cursor.unpack(PAYLOAD_HEADER)
            cursor.skip(length - PAYLOAD_HEADER.size)
        if kind != PayloadType.SKF:
            return None
        length, number, total = cursor.unpack(_FRAGMENT)
    except WireError:
        return None
    return (number, total) if length >= _FRAGMENT.size else None
