"""Fuzzing: mutated messages that a responder must survive, but need not answer.

Each mutant has a few errors that parsers often mishandle: flipped bits and bytes, wrong lengths, truncated or extended
messages, duplicate, missing or reordered payloads, invalid header fields. Most mutants have the correct length in the
header, so that the responder parses the rest.

The sans-IO run sends mutants at a fixed rate, whatever is answered, and is driven like an initiator.
"""

import random
import struct
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from ikeanalyze.replay.initiator.interface import DriverStep, OutgoingDatagram
from ikeanalyze.replay.responses import summarise_response
from ikeanalyze.wire.header import HEADER, LENGTH_OFFSET
from ikeanalyze.wire.ikev2.message import parse_payloads
from ikeanalyze.wire.registries.ikev2 import ExchangeType, PayloadType

#: Limits for the errors and the bytes of a mutant.
MAX_ERRORS: Final = 6
MAX_BYTES: Final = 4096
_HEADER_BYTES: Final = HEADER.size
_INVALID_LENGTH_PROBABILITY: Final = 0.2
#: Replacements for payload types.
_PAYLOAD_TYPES: Final = tuple(PayloadType[name] for name in ("NONE", "SA", "KE", "NONCE", "NOTIFY", "SK", "SKF"))
#: 16-bit boundary values.
_EDGES: Final = (0, 1, 3, 4, 5, 0x7FFF, 0x8000, 0xFFFC, 0xFFFF)


@dataclass(frozen=True, slots=True)
class FuzzedMessage:
    """A mutated message."""

    data: bytes = field(repr=False)
    errors: tuple[str, ...]  # mutations in order


def mutate_message(message: bytes, rng: random.Random) -> FuzzedMessage:
    """Return a mutated copy of an IKE message that differs from the original."""
    while True:
        data, errors = bytearray(message[:MAX_BYTES]), []
        for _ in range(rng.randint(1, MAX_ERRORS)):
            name = rng.choice(tuple(_ERRORS))
            if len(data) >= _HEADER_BYTES:
                _ERRORS[name](data, rng)
                del data[MAX_BYTES:]
                errors.append(name)
        if len(data) >= _HEADER_BYTES and rng.random() >= _INVALID_LENGTH_PROBABILITY:
            struct.pack_into(">I", data, LENGTH_OFFSET, len(data))
        if data and bytes(data) != message:
            return FuzzedMessage(bytes(data), tuple(errors))


def _flip_bit(data: bytearray, rng: random.Random) -> None:
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def _set_byte(data: bytearray, rng: random.Random) -> None:
    data[rng.randrange(len(data))] = rng.randrange(256)


def _set_number(data: bytearray, rng: random.Random) -> None:
    struct.pack_into(">H", data, rng.randrange(len(data) - 1), rng.choice(_EDGES))


def _set_header_byte(data: bytearray, rng: random.Random) -> None:
    data[rng.randrange(8, _HEADER_BYTES)] = rng.randrange(256)


def _truncate(data: bytearray, rng: random.Random) -> None:
    del data[rng.randrange(1, len(data)) :]


def _append_bytes(data: bytearray, rng: random.Random) -> None:
    data += rng.randbytes(rng.randint(1, 256))


def _set_payload_length(data: bytearray, rng: random.Random) -> None:
    if payload := _choose_payload(data, rng):
        offset, size = payload
        length = rng.choice((*_EDGES, size - 1, size + 1, size + 4, max(size - 4, 0)))
        struct.pack_into(">H", data, offset + 2, length & 0xFFFF)


def _set_payload_type(data: bytearray, rng: random.Random) -> None:
    if payload := _choose_payload(data, rng):
        data[payload[0]] = rng.choice((*_PAYLOAD_TYPES, rng.randrange(256)))


def _duplicate_payload(data: bytearray, rng: random.Random) -> None:
    if payload := _choose_payload(data, rng):
        offset, size = payload
        data[offset:offset] = data[offset : offset + size]


def _remove_payload(data: bytearray, rng: random.Random) -> None:
    if payload := _choose_payload(data, rng):
        offset, size = payload
        del data[offset : offset + size]


def _choose_payload(data: bytearray, rng: random.Random) -> tuple[int, int] | None:
    """Choose a payload; return its offset and length, or None without payloads."""
    chain = parse_payloads(bytes(data)).payloads
    payloads = [(payload.offset, 4 + len(payload.body)) for payload in chain]
    return rng.choice(payloads) if payloads else None


_ERRORS: Final[dict[str, Callable[[bytearray, random.Random], None]]] = {
    "bit": _flip_bit,
    "byte": _set_byte,
    "number": _set_number,
    "header": _set_header_byte,
    "cut": _truncate,
    "longer": _append_bytes,
    "payload length": _set_payload_length,
    "payload type": _set_payload_type,
    "payload twice": _duplicate_payload,
    "payload gone": _remove_payload,
}


#: Wait after the last message.
_LINGER_NS: Final = 500_000_000


@dataclass(frozen=True, slots=True)
class FuzzResult:
    """Result of a run."""

    sent: int
    errors: Counter[str]  # mutants by mutation; most have several
    answered: Counter[str]  # answers by `ResponseSummary.kind`
    garbage: int  # datagrams that are not IKEv2 messages
    began_ns: int
    ended_ns: int


class FuzzRun:
    """Sends mutants at a fixed rate."""

    def __init__(self, mutants: Sequence[FuzzedMessage], rate: float) -> None:
        """`rate`: mutants per second."""
        self._mutants = mutants
        self._gap_ns = round(1e9 / rate)
        self._began_ns = 0
        self._next_index = 0
        self._answered: Counter[str] = Counter()
        self._garbage = 0

    def begin(self, now_ns: int) -> DriverStep[FuzzResult]:
        """Start the run."""
        self._began_ns = now_ns
        return self.tick(now_ns)

    def tick(self, now_ns: int) -> DriverStep[FuzzResult]:
        """Send the mutants that are due."""
        datagrams = []
        while self._next_index < len(self._mutants) and self._began_ns + self._next_index * self._gap_ns <= now_ns:
            data = self._mutants[self._next_index].data
            datagrams.append(OutgoingDatagram(data, ExchangeType.IKE_SA_INIT, 0, False, None, None, 1, 500))
            self._next_index += 1
        wake_ns = self._began_ns + self._next_index * self._gap_ns
        if self._next_index == len(self._mutants):
            wake_ns += _LINGER_NS
            if now_ns >= wake_ns:
                return DriverStep(tuple(datagrams), None, self.get_result(now_ns))
        return DriverStep(tuple(datagrams), wake_ns)

    def receive(self, data: bytes, now_ns: int, from_port: int) -> DriverStep[FuzzResult]:  # noqa: ARG002
        """Process a datagram of the target."""
        answer = summarise_response(data)
        if answer is None:
            self._garbage += 1
        else:
            self._answered[answer.kind] += 1
        return self.tick(now_ns)

    def get_result(self, now_ns: int) -> FuzzResult:
        """Return the result so far."""
        errors = Counter(name for mutant in self._mutants[: self._next_index] for name in mutant.errors)
        return FuzzResult(self._next_index, errors, self._answered, self._garbage, self._began_ns, now_ns)
