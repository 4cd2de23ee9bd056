"""Decoded messages: one object per distinct message whose payloads were parsed, clear or decrypted.

Retransmissions share the object of the first transmission; they have the same slot and body in `Messages`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ikeanalyze.analysis.state import AnalysisState
from ikeanalyze.capture.arrays import BoolArray, Int64Array
from ikeanalyze.keys.key_set import KeySet
from ikeanalyze.wire.cursor import WireError
from ikeanalyze.wire.payload_chain import Payload

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


def get_message_length(data: bytes) -> int:
    """Bytes of an IKE message as its header gives them; the capture may have fewer."""
    return int.from_bytes(data[24:28], "big")


def describe_undecrypted(count: int) -> str:
    """The finding about messages of an IKE SA that no key decrypts, although others of the IKE SA were decrypted."""
    messages = "1 message" if count == 1 else f"{count} messages"
    return f"{messages} could not be decrypted, although other messages of this IKE SA were"


@dataclass(frozen=True, slots=True)
class DecodedMessages:
    """All decoded messages of the captures that are analysed together."""

    of_message: Int64Array  # for each row of Messages: index into `all`; -1: not decoded
    all: list[DecodedMessage]
    encrypted: BoolArray  # for each row of Messages: sent encrypted, in a capture that keys were given for
    decrypted: BoolArray  # for each row of Messages: sent encrypted, and could be decrypted
    findings: list[list[tuple[int, str]]]  # of each capture: frame, text

    def group_by_handshake(self) -> dict[int, list[DecodedMessage]]:
        """The messages of each handshake, in the order of their exchanges, requests first."""
        groups: dict[int, list[DecodedMessage]] = {}
        for content in sorted(self.all, key=lambda content: (content.exchange, content.response)):
            groups.setdefault(content.handshake, []).append(content)
        return groups
