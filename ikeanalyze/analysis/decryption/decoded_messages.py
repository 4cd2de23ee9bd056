"""Decoded messages: each distinct message whose payloads were parsed, clear or decrypted.

Retransmissions share the entry of the first transmission; they have the same slot and body in `Messages`. Most messages
stay columns (`message_records`, `payloads.columns`); an object of a message is made when it is asked for.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar, overload

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from ikeanalyze.analysis.decryption.message_records import NO_RECORDS, MessageRecords
from ikeanalyze.analysis.state import AnalysisState
from ikeanalyze.capture.arrays import BoolArray, Int64Array, UInt64Array, read_uint32_be
from ikeanalyze.capture.buffers import MessageBytes
from ikeanalyze.keys.key_set import KeySet
from ikeanalyze.wire.cursor import WireError
from ikeanalyze.wire.header import HEADER, LENGTH_OFFSET
from ikeanalyze.wire.ikev2.message import parse_decrypted_payloads, parse_payloads
from ikeanalyze.wire.payload_chain import ENCRYPTED_TYPES, Payload

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class DecodedMessage:
    """One message: all its transmissions and fragments together."""

    handshake: int  # row in the capture's handshakes
    exchange: int  # row in the capture's exchanges
    protocol: int  # capture.decode.classify.Protocol
    exchange_type: int
    message_id: int
    from_initiator: bool  # of the IKE SA
    response: bool
    set_up: bool
    frame: int  # number of the frame with the last part that was used
    header: bytes  # of the IKE message or its first fragment, 28 bytes
    payloads: tuple[Payload, ...]  # the clear ones, then the decrypted ones; without SK or SKF
    error: str | None  # why the payloads could not be parsed to the end
    encrypted: bool = False
    epoch: int | None = None  # of the keys; None: clear message or IKEv1
    verified: bool | None = None  # the ICV is correct; False: the keys cannot check it; None: clear message
    clear: int = 0  # number of clear payloads before the encrypted ones
    first: int = 0  # type of the first decrypted payload
    plaintext: bytes = field(default=b"", repr=False)  # the decrypted payload chain; empty in a clear message
    datagrams: tuple[int, ...] = ()  # rows of the datagrams that were used, each fragment once, by fragment number
    keys: KeySet | None = field(default=None, repr=False)  # that decrypted it; None: clear message or IKEv1

    def get_bodies(self, payload_type: int) -> list[bytes]:
        """Bodies of the payloads of one type, in order."""
        return [payload.body for payload in self.payloads if payload.type == payload_type]

    def parse_bodies(self, payload_type: int, parse: Callable[[bytes], T]) -> Iterator[T]:
        """The payloads of one type as `parse` returns them, in order, without those that it cannot parse."""
        for body in self.get_bodies(payload_type):
            try:
                parsed = parse(body)
            except WireError:
                continue
            yield parsed


def make_decoded_message(state: AnalysisState, message: int, row: int, **contents: Any) -> DecodedMessage:
    """A decoded message of a row of Messages; `row` is that of the last datagram that was used.

    `contents` are the fields that depend on the payloads.
    """
    messages, exchange = state.messages, int(state.exchange_of_message[message])
    return DecodedMessage(
        handshake=int(state.association.handshake[row]),
        exchange=exchange,
        protocol=int(messages.protocol[message]),
        exchange_type=int(messages.exchange_type[message]),
        message_id=int(messages.message_id[message]),
        from_initiator=bool(messages.from_initiator[message]),
        response=bool(messages.response[message]),
        set_up=bool(state.exchanges.set_up[exchange]),
        frame=int(state.datagrams.number[row]),
        **contents,
    )


class DecodedMessageList(Sequence[DecodedMessage]):
    """Decoded messages, each of which becomes an object when it is first asked for."""

    def __init__(self, state: AnalysisState, records: MessageRecords, epochs: Int64Array | None = None) -> None:
        """`epochs`: of the messages, see `key_changes.find_epochs`; None: the messages have none."""
        self._state = state
        self._records = records
        self._epochs: Final = np.full(len(records), -1) if epochs is None else epochs
        self._objects: dict[int, DecodedMessage] = {}

    def __len__(self) -> int:
        return len(self._records)

    @overload
    def __getitem__(self, index: int) -> DecodedMessage: ...

    @overload
    def __getitem__(self, index: slice) -> list[DecodedMessage]: ...

    def __getitem__(self, index: int | slice) -> DecodedMessage | list[DecodedMessage]:
        numbers = range(len(self))[index]
        if isinstance(numbers, range):
            return [self[number] for number in numbers]
        message = self._objects.get(numbers)
        if message is None:
            message = self._objects[numbers] = self._decode(numbers)
        return message

    def _decode(self, index: int) -> DecodedMessage:
        """Parse the payloads of one message."""
        records, columns = self._records, self._records.columns
        begin, first_part = int(columns.begin[index]), int(columns.first_part[index])
        data = records.heap[begin : begin + int(columns.size[index])].tobytes()
        datagrams = tuple(records.parts[first_part : first_part + int(columns.parts[index])].tolist())
        decode = self._decode_decrypted if columns.encrypted[index] else self._decode_clear
        return decode(index, data, datagrams)

    def _decode_clear(self, index: int, data: bytes, datagrams: tuple[int, ...]) -> DecodedMessage:
        columns = self._records.columns
        chain = parse_payloads(data)
        error, length = chain.error, get_message_length(data)
        if error and len(data) < length:
            error = f"only {len(data)} of {length} bytes are in the capture"
        return make_decoded_message(
            self._state,
            int(columns.message[index]),
            int(columns.row[index]),
            header=data[: HEADER.size],
            payloads=chain.payloads,
            error=error,
            clear=len(chain.payloads),
            datagrams=datagrams,
        )

    def _decode_decrypted(self, index: int, data: bytes, datagrams: tuple[int, ...]) -> DecodedMessage:
        """`data`: the header and the plaintext."""
        records, columns = self._records, self._records.columns
        keys, outer, epoch = int(columns.keys[index]), int(columns.outer[index]), int(self._epochs[index])
        # IKEv1 encrypts all payloads
        before = () if keys < 0 or outer < 0 else parse_payloads(records.outer[outer]).payloads
        clear = tuple(payload for payload in before if payload.type not in ENCRYPTED_TYPES)
        first, plaintext = int(columns.first[index]), data[HEADER.size :]
        inner = parse_decrypted_payloads(plaintext, first)
        return make_decoded_message(
            self._state,
            int(columns.message[index]),
            int(columns.row[index]),
            header=data[: HEADER.size],
            payloads=clear + inner.payloads,
            error=inner.error,
            encrypted=True,
            epoch=None if epoch < 0 else epoch,
            verified=bool(columns.verified[index]),
            clear=len(clear),
            first=first,
            plaintext=plaintext,
            datagrams=datagrams,
            keys=None if keys < 0 else records.key_sets[keys],
        )


def get_message_length(data: bytes) -> int:
    """Bytes of an IKE message as its header gives them; the capture may have fewer."""
    return int.from_bytes(data[LENGTH_OFFSET : HEADER.size], "big")


def read_message_lengths(
    datagrams: npt.NDArray[np.integer], stores: Sequence[MessageBytes]
) -> tuple[Int64Array, Int64Array]:
    """Bytes of each message that are stored, and bytes by its header; 0: it is not stored. (datagrams,) each

    `stores`: where a message may be; the last one that has it counts.
    """
    stored, length = np.zeros(len(datagrams), np.int64), np.zeros(len(datagrams), np.int64)
    for store in stores:
        begin, size = store.places(datagrams)
        stored = np.where(size > 0, size, stored)
        whole = size >= HEADER.size
        if whole.any():
            length[whole] = read_uint32_be(store.heap, begin[whole] + LENGTH_OFFSET)
        for row in np.flatnonzero((size > 0) & ~whole).tolist():  # truncated in the capture
            length[row] = get_message_length(store[int(datagrams[row])])
    return stored, length


def describe_undecrypted(count: int, before: bool = False, after: bool = False) -> str:
    """The finding about messages of an IKE SA that no key decrypts, although others of the IKE SA were decrypted.

    `before`, `after`: whether no message was decrypted with the keys that protected these messages, and whether those
    were keys before the last IKE_INTERMEDIATE exchange that changes them, or the keys after it.
    """
    messages = "1 message" if count == 1 else f"{count} messages"
    text = f"{messages} could not be decrypted, although other messages of this IKE SA were"
    when = " and ".join(["before"] * before + ["after"] * after)
    return f"{text}: the keys from {when} its last IKE_INTERMEDIATE exchange are missing or wrong" if when else text


def describe_wrong_key(origin: str, spi_i: bytes, spi_r: bytes, from_initiator: bool, count: int) -> str:
    """The finding about messages of one sender whose SK_a is right and whose SK_e is wrong.

    `origin`: file and line of the keys; `count`: of messages.
    """
    side, messages = "i" if from_initiator else "r", "1 message" if count == 1 else f"{count} messages"
    return (
        f"{origin}: SK_e{side} of IKE SA {spi_i.hex()}:{spi_r.hex()} is wrong: the integrity check of {messages} passes "
        f"with SK_a{side}, but decryption gives no valid padding or payloads"
    )


class DecodedMessages(Struct, frozen=True):
    """All decoded messages of the captures that are analysed together."""

    of_message: Int64Array  # for each row of Messages: index into `all`; -1: not decoded
    all: Sequence[DecodedMessage]
    encrypted: BoolArray  # for each row of Messages: sent encrypted, in a capture that keys were given for
    decrypted: BoolArray  # for each row of Messages: sent encrypted, and could be decrypted
    findings: list[list[tuple[int, str]]]  # of each capture: frame, text
    records: MessageRecords = NO_RECORDS  # of `all`
    #: Digest of each datagram in `records.parts`.
    part_digests: UInt64Array = field(default_factory=lambda: np.zeros(0, np.uint64))
    #: Of `all`: see `key_changes.find_epochs`.
    epochs: Int64Array = field(default_factory=lambda: np.zeros(0, np.int64))
    #: Of each handshake: see `key_changes`; unknown without keys.
    key_changes: Int64Array = field(default_factory=lambda: np.zeros(0, np.int64))

    def group_by_handshake(self) -> dict[int, list[DecodedMessage]]:
        """The messages of each handshake, in the order of their exchanges, requests first."""
        groups: dict[int, list[DecodedMessage]] = {}
        for content in sorted(self.all, key=lambda content: (content.exchange, content.response)):
            groups.setdefault(content.handshake, []).append(content)
        return groups
