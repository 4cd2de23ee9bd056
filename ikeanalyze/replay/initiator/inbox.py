"""What comes from the target: whether it belongs to the request under way, opened and put together; the rest is counted."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from ikeanalyze.crypto.sk_payload import DecryptedMessage, EncryptedPayload, find_encrypted_payload
from ikeanalyze.crypto.skf_fragments import SkfReassembler
from ikeanalyze.replay.initiator.interface import IgnoredDatagrams
from ikeanalyze.replay.initiator.pending_request import PendingRequest
from ikeanalyze.replay.initiator.sa_keys import IkeSaKeys
from ikeanalyze.replay.responses import get_notify_name
from ikeanalyze.wire.cursor import WireError
from ikeanalyze.wire.header import Header, parse_header
from ikeanalyze.wire.ikev2.message import parse_payloads
from ikeanalyze.wire.ikev2.notify import parse_notify
from ikeanalyze.wire.registries.ikev2 import ExchangeType, PayloadType

#: What is taken from a target at most: an ordinary handshake has not a hundredth of it.
MOST_DATAGRAMS: Final = 2_000
MOST_BYTES: Final = 4 << 20


@dataclass(frozen=True, slots=True)
class ReceivedMessage:
    """A whole message of the responder."""

    header: Header
    message: bytes = field(repr=False)  # as it came; of fragments the first
    opened: DecryptedMessage | None = field(repr=False)  # None: IKE_SA_INIT, which is in clear


class Inbox:
    """Takes datagrams. `spi_r` and `protection` are given to it when they are known."""

    __slots__ = (
        "_bytes",
        "_datagrams",
        "_exchanges",
        "_first_fragment",
        "_fragments",
        "_fragments_of",
        "_ignored",
        "_spi_i",
        "hint",
        "protection",
        "spi_r",
    )

    spi_r: bytes | None
    protection: IkeSaKeys | None
    hint: str | None  # notify that came in clear where it must not, and so is not believed

    def __init__(self, spi_i: bytes, exchanges: Sequence[PendingRequest]) -> None:
        """`exchanges`: all of ours; the list grows elsewhere, its last one is under way."""
        self._spi_i = spi_i
        self._exchanges = exchanges
        self._datagrams = self._bytes = 0
        self._ignored: Counter[str] = Counter()
        self._fragments = SkfReassembler()
        self._fragments_of: int | None = None
        self._first_fragment = b""
        self.spi_r = None
        self.protection = None
        self.hint = None

    @property
    def ignored(self) -> IgnoredDatagrams:
        """What did nothing."""
        return IgnoredDatagrams(**self._ignored)

    @property
    def overflows(self) -> bool:
        """The target sends more than anybody has to read."""
        return self._datagrams > MOST_DATAGRAMS or self._bytes > MOST_BYTES

    def count(self, reason: str) -> None:
        """Enter a datagram that did nothing, under a field of `IgnoredDatagrams`."""
        self._ignored[reason] += 1

    def add_datagram(self, data: bytes, from_port: int, *, open_exchange: bool) -> ReceivedMessage | None:
        """A datagram; the message that it makes whole.

        `open_exchange`: our last request still waits for its response. A request of the target comes back as it is.
        """
        self._datagrams += 1
        self._bytes += len(data)
        header = self._header(data)
        if header is None:
            return None
        if not header.response:
            return self._request(header, data)
        exchange = self._exchange(header, len(data))
        if exchange is None or not open_exchange or exchange is not self._exchanges[-1]:
            self.count("unexpected" if exchange is None else "repeated")
            return None
        if from_port != exchange.port or self.spi_r not in (None, header.spi_r):
            self.count("foreign")
            return None
        if header.exchange_type == ExchangeType.IKE_SA_INIT:
            return ReceivedMessage(header, data, None)
        return self._response(header, data, exchange)

    def _header(self, data: bytes) -> Header | None:
        try:
            header = parse_header(data)
        except WireError:
            header = None
        if header is None or header.major_version != 2 or header.length != len(data):
            self.count("garbage")
            return None
        if header.spi_i != self._spi_i or header.initiator:
            self.count("foreign")
            return None
        return header

    def _exchange(self, header: Header, size: int) -> PendingRequest | None:
        """The latest exchange of ours that a response belongs to; the datagram is counted there."""
        for exchange in reversed(self._exchanges):
            if (exchange.message_id, exchange.exchange_type) == (header.message_id, header.exchange_type):
                exchange.received(size)
                return exchange
        return None

    def _response(self, header: Header, data: bytes, exchange: PendingRequest) -> ReceivedMessage | None:
        sealed, opened = self._open(data)
        if sealed is None or opened is None:
            return None
        if sealed.fragment is None:
            exchange.mark_used(len(data))
            return ReceivedMessage(header, data, opened)
        if self._fragments_of != header.message_id:
            self._fragments, self._fragments_of = SkfReassembler(), header.message_id
        if not self._fragments.add(*sealed.fragment, opened.first, opened.plaintext):
            self.count("repeated")
            return None
        exchange.mark_used(len(data))
        if sealed.fragment[0] == 1:
            self._first_fragment = data
        whole = self._fragments.get_message()
        return None if whole is None else ReceivedMessage(header, self._first_fragment, whole)

    def _request(self, header: Header, data: bytes) -> ReceivedMessage | None:
        """Of the target; fragments are not put together, since none of the requests that are answered is large."""
        if self.protection is None or header.spi_r != self.spi_r:
            self.count("unexpected")
            return None
        sealed, opened = self._open(data)
        if sealed is None or opened is None:
            return None
        if sealed.fragment is not None:
            self.count("unexpected")
            return None
        return ReceivedMessage(header, data, opened)

    def _open(self, data: bytes) -> tuple[EncryptedPayload | None, DecryptedMessage | None]:
        sealed = find_encrypted_payload(data)
        if sealed is None and _claims_protection(data):
            self.count("garbage")  # an SK or SKF payload that is none: cut, or fragment 4 of 3
            return None, None
        if sealed is None or self.protection is None:
            self.count("unprotected")
            self.hint = self.hint or _notify_name(data)
            return None, None
        opened = self.protection.open(sealed)
        if opened is None:
            self.count("garbage")
        return sealed, opened


def _claims_protection(message: bytes) -> bool:
    """Whether there is a payload that says it is encrypted, whatever is wrong with it."""
    return any(payload.type in (PayloadType.SK, PayloadType.SKF) for payload in parse_payloads(message).payloads)


def _notify_name(message: bytes) -> str | None:
    for payload in parse_payloads(message).payloads:
        if payload.type == PayloadType.NOTIFY:
            try:
                return get_notify_name(parse_notify(payload.body).type)
            except WireError:
                continue
    return None
