"""Received datagrams: matches them to the pending request, decrypts and reassembles them, and counts the rest."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from ikeanalyze.crypto.sk_payload import DecryptedMessage, EncryptedPayload, find_encrypted_payload
from ikeanalyze.crypto.skf_fragments import SkfReassembler
from ikeanalyze.replay.initiator.interface import IgnoredDatagrams
from ikeanalyze.replay.initiator.pending_request import PendingRequest
from ikeanalyze.replay.initiator.sa_keys import IkeSaKeys
from ikeanalyze.replay.responses import format_notify_type
from ikeanalyze.wire.cursor import WireError
from ikeanalyze.wire.header import Header, parse_header
from ikeanalyze.wire.ikev2.message import parse_payloads
from ikeanalyze.wire.ikev2.payloads import parse_notify
from ikeanalyze.wire.registries.ikev2 import ExchangeType, PayloadType

#: Limits for data of the target; an ordinary handshake needs less than a hundredth.
MAX_DATAGRAMS: Final = 2_000
MAX_BYTES: Final = 4 << 20


@dataclass(frozen=True, slots=True)
class ReceivedMessage:
    """A complete message of the responder."""

    header: Header
    message: bytes = field(repr=False)  # as received; the first fragment of a fragmented message
    decrypted: DecryptedMessage | None = field(repr=False)  # None: IKE_SA_INIT, which is not encrypted


class Inbox:
    """Collects datagrams. The initiator sets `spi_r` and `sa_keys` once they are known."""

    def __init__(self, spi_i: bytes, exchanges: Sequence[PendingRequest]) -> None:
        """`exchanges`: all exchanges of ours, the pending one last; the initiator appends to this list."""
        self._spi_i = spi_i
        self._exchanges = exchanges
        self._datagrams = self._bytes = 0
        self._ignored: Counter[str] = Counter()
        self._fragments = SkfReassembler()
        self._fragments_message_id: int | None = None
        self._first_fragment_data = b""
        self.spi_r: bytes | None = None
        self.sa_keys: IkeSaKeys | None = None
        self.hint: str | None = None  # first notify of an unprotected message, which is not trusted

    @property
    def ignored(self) -> IgnoredDatagrams:
        """Counts of the ignored datagrams."""
        return IgnoredDatagrams(**self._ignored)

    @property
    def overflows(self) -> bool:
        """Whether the target has sent more than the limits allow."""
        return self._datagrams > MAX_DATAGRAMS or self._bytes > MAX_BYTES

    def count_ignored(self, reason: str) -> None:
        """Count an ignored datagram under a field of `IgnoredDatagrams`."""
        self._ignored[reason] += 1

    def add_datagram(self, data: bytes, from_port: int, *, awaiting_response: bool) -> ReceivedMessage | None:
        """Add a datagram and return the message that it completes; None: no message is complete.

        `awaiting_response`: our last request has no response yet. Requests of the target are returned as well.
        """
        self._datagrams += 1
        self._bytes += len(data)
        header = self._parse_header(data)
        if header is None:
            return None
        if not header.response:
            return self._receive_request(header, data)
        exchange = self._match_exchange(header, len(data))
        if exchange is None or not awaiting_response or exchange is not self._exchanges[-1]:
            self.count_ignored("unexpected" if exchange is None else "repeated")
            return None
        if from_port != exchange.port or self.spi_r not in (None, header.spi_r):
            self.count_ignored("foreign")
            return None
        if header.exchange_type == ExchangeType.IKE_SA_INIT:
            return ReceivedMessage(header, data, None)
        return self._receive_response(header, data, exchange)

    def _parse_header(self, data: bytes) -> Header | None:
        try:
            header = parse_header(data)
        except WireError:
            header = None
        if header is None or header.major_version != 2 or header.length != len(data):
            self.count_ignored("garbage")
            return None
        if header.spi_i != self._spi_i or header.initiator:
            self.count_ignored("foreign")
            return None
        return header

    def _match_exchange(self, header: Header, size: int) -> PendingRequest | None:
        """Return our latest exchange that a response belongs to, after counting the datagram in it."""
        for exchange in reversed(self._exchanges):
            if (exchange.message_id, exchange.exchange_type) == (header.message_id, header.exchange_type):
                exchange.record_datagram(size)
                return exchange
        return None

    def _receive_response(self, header: Header, data: bytes, exchange: PendingRequest) -> ReceivedMessage | None:
        encrypted, decrypted = self._decrypt(data)
        if encrypted is None or decrypted is None:
            return None
        if encrypted.fragment is None:
            exchange.mark_used(len(data))
            return ReceivedMessage(header, data, decrypted)
        if self._fragments_message_id != header.message_id:
            self._fragments, self._fragments_message_id = SkfReassembler(), header.message_id
        if not self._fragments.add(*encrypted.fragment, decrypted.first, decrypted.plaintext):
            self.count_ignored("repeated")
            return None
        exchange.mark_used(len(data))
        if encrypted.fragment[0] == 1:
            self._first_fragment_data = data
        message = self._fragments.get_message()
        return None if message is None else ReceivedMessage(header, self._first_fragment_data, message)

    def _receive_request(self, header: Header, data: bytes) -> ReceivedMessage | None:
        """Decrypt a request of the target. Fragments are not reassembled: no request that we answer is large."""
        if self.sa_keys is None or header.spi_r != self.spi_r:
            self.count_ignored("unexpected")
            return None
        encrypted, decrypted = self._decrypt(data)
        if encrypted is None or decrypted is None:
            return None
        if encrypted.fragment is not None:
            self.count_ignored("unexpected")
            return None
        return ReceivedMessage(header, data, decrypted)

    def _decrypt(self, data: bytes) -> tuple[EncryptedPayload | None, DecryptedMessage | None]:
        encrypted = find_encrypted_payload(data)
        if encrypted is None and _has_encrypted_payload(data):
            self.count_ignored("garbage")  # an invalid SK or SKF payload: truncated, or fragment 4 of 3
            return None, None
        if encrypted is None or self.sa_keys is None:
            self.count_ignored("unprotected")
            self.hint = self.hint or _get_first_notify_name(data)
            return None, None
        decrypted = self.sa_keys.decrypt_payload(encrypted)
        if decrypted is None:
            self.count_ignored("garbage")
        return encrypted, decrypted


def _has_encrypted_payload(message: bytes) -> bool:
    """Whether the message has an SK or SKF payload, valid or not."""
    return any(payload.type in (PayloadType.SK, PayloadType.SKF) for payload in parse_payloads(message).payloads)


def _get_first_notify_name(message: bytes) -> str | None:
    for payload in parse_payloads(message).payloads:
        if payload.type == PayloadType.NOTIFY:
            try:
                return format_notify_type(parse_notify(payload.body).type)
            except WireError:
                continue
    return None
