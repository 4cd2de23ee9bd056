"""What is inside messages: one object for each distinct message that was looked into, clear or decrypted.

Retransmissions share their content with the first transmission: the columns of `Messages` tell that they are the
same slot and body.
"""

from dataclasses import dataclass, field

from ikeanalyze.capture.arrays import BoolArray, Int64Array
from ikeanalyze.keys.key_set import KeySet
from ikeanalyze.wire.payload_chain import Payload


@dataclass(frozen=True, slots=True)
class DecodedMessage:
    """One message, all its transmissions and fragments together."""

    handshake: int  # row in the capture's handshakes
    exchange: int  # row in the capture's exchanges
    protocol: int  # capture.datagrams.Protocol
    exchange_type: int
    message_id: int
    from_initiator: bool  # of the IKE SA
    response: bool
    set_up: bool
    frame: int  # number of the frame that the last part of it was taken from
    header: bytes  # of the IKE message or its first fragment, 28 bytes
    payloads: tuple[Payload, ...]  # the clear ones, then those that were inside; without SK or SKF
    error: str | None  # why the payloads could not be read to their end
    encrypted: bool
    epoch: int | None  # of the keys; None: clear, or of IKEv1
    verified: bool | None  # the ICV fits; False: there is none to check; None: clear
    clear: int  # payloads in front that were not encrypted
    first: int  # type of the first payload that was inside
    plaintext: bytes = field(repr=False)  # the inner payload chain; empty in a clear message
    units: tuple[int, ...] = ()  # rows of the units that it was taken from, each fragment once, rising
    keys: KeySet | None = field(default=None, repr=False)  # what opened it; None: clear, or of IKEv1

    def get_bodies(self, kind: int) -> list[bytes]:
        """Bodies of the payloads of one type, in order."""
        return [payload.body for payload in self.payloads if payload.type == kind]


@dataclass(frozen=True, slots=True)
class DecodedMessages:
    """What could be looked into of a capture."""

    of_message: Int64Array  # for each row of Messages: index into `all`, -1: not looked into
    all: list[DecodedMessage]
    sealed: BoolArray  # for each row of Messages: it was sent encrypted, in a capture that is looked into
    opened: BoolArray  # and could be decrypted
    findings: list[list[tuple[int, str]]]  # of each capture: frame, what

    def group_by_handshake(self) -> dict[int, list[DecodedMessage]]:
        """The contents of each handshake, in order of their exchanges, requests first."""
        found: dict[int, list[DecodedMessage]] = {}
        for content in sorted(self.all, key=lambda one: (one.exchange, one.response)):
            found.setdefault(content.handshake, []).append(content)
        return found
