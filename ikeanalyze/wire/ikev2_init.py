"""What a clear IKE_SA_INIT (or IKE_SESSION_RESUME) message says, read in one go: the way for a hundred
thousand of them.
"""

from dataclasses import dataclass
from struct import Struct
from typing import Final

from ikeanalyze.wire.chain import iterate_payloads
from ikeanalyze.wire.cursor import Cursor, WireError
from ikeanalyze.wire.header import HEADER
from ikeanalyze.wire.ikev2_notify import parse_notify_fields
from ikeanalyze.wire.proposals import Proposal, parse_sa
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
