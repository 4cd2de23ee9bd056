"""Messages with errors in them: what a responder must survive (and need not answer).

Each mutant has a few errors, of kinds that parsers stumble over: single bits and bytes anywhere, lengths that are wrong by a little
or by all, messages cut short or too long, payloads twice, missing or in another order, fields of the header. The header's
length is made right again in most of them, so that what is inside is reached.

Mutated messages one after another, whatever is answered: sans-IO, driven like the initiator of a handshake.
"""

import random
import struct
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from ikeanalyze.replay.initiator.interface import OutgoingDatagram
from ikeanalyze.replay.responses import summarise_response
from ikeanalyze.wire.header import HEADER
from ikeanalyze.wire.ikev2.message import parse_payloads
from ikeanalyze.wire.registries.ikev2 import ExchangeType, PayloadType

#: Errors in one mutant, and bytes that it may have: what fits into a datagram of an ordinary network.
MAX_ERRORS: Final = 6
MAX_BYTES: Final = 4096
_LENGTH_AT: Final = 24
_LEAST: Final = HEADER.size
_LENGTH_STAYS_WRONG: Final = 0.2
#: Payload types that other ones are replaced with.
_PAYLOAD_TYPES: Final = (
    PayloadType.NONE,
    PayloadType.SA,
    PayloadType.KE,
    PayloadType.NONCE,
    PayloadType.NOTIFY,
    PayloadType.SK,
    PayloadType.SKF,
)
#: 16-bit numbers at which comparisons tip over.
_EDGES: Final = (0, 1, 3, 4, 5, 0x7FFF, 0x8000, 0xFFFC, 0xFFFF)


@dataclass(frozen=True, slots=True)
class FuzzedMessage:
    """A message with errors."""

    data: bytes = field(repr=False)
    errors: tuple[str, ...]  # what was done to it, in order


def mutate_message(message: bytes, chance: random.Random) -> FuzzedMessage:
    """A mutant of an IKE message, never the message itself."""
    while True:
        data, errors = bytearray(message[:MAX_BYTES]), []
        for _ in range(chance.randint(1, MAX_ERRORS)):
            name = chance.choice(tuple(_ERRORS))
            if len(data) >= _LEAST:
                _ERRORS[name](data, chance)
                del data[MAX_BYTES:]
                errors.append(name)
        if len(data) >= _LEAST and chance.random() >= _LENGTH_STAYS_WRONG:
            struct.pack_into(">I", data, _LENGTH_AT, len(data))
        if data and bytes(data) != message:
            return FuzzedMessage(bytes(data), tuple(errors))


def _bit(data: bytearray, chance: random.Random) -> None:
    data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)


def _byte(data: bytearray, chance: random.Random) -> None:
    data[chance.randrange(len(data))] = chance.randrange(256)


def _number(data: bytearray, chance: random.Random) -> None:
    struct.pack_into(">H", data, chance.randrange(len(data) - 1), chance.choice(_EDGES))


def _header(data: bytearray, chance: random.Random) -> None:
    data[chance.randrange(8, _LEAST)] = chance.randrange(256)


def _cut(data: bytearray, chance: random.Random) -> None:
    del data[chance.randrange(1, len(data)) :]


def _longer(data: bytearray, chance: random.Random) -> None:
    data += chance.randbytes(chance.randint(1, 256))


def _payload_length(data: bytearray, chance: random.Random) -> None:
    place = _payload(data, chance)
    if place is not None:
        at, size = place
        wrong = chance.choice((*_EDGES, size - 1, size + 1, size + 4, max(size - 4, 0)))
        struct.pack_into(">H", data, at + 2, wrong & 0xFFFF)


def _payload_type(data: bytearray, chance: random.Random) -> None:
    place = _payload(data, chance)
    if place is not None:
        data[place[0]] = chance.choice((*_PAYLOAD_TYPES, chance.randrange(256)))


def _payload_twice(data: bytearray, chance: random.Random) -> None:
    place = _payload(data, chance)
    if place is not None:
        at, size = place
        data[at:at] = data[at : at + size]


def _payload_gone(data: bytearray, chance: random.Random) -> None:
    place = _payload(data, chance)
    if place is not None:
        at, size = place
        del data[at : at + size]


def _payload(data: bytearray, chance: random.Random) -> tuple[int, int] | None:
    """Where one of the payloads is, and its bytes; None: no payload can be read."""
    places: Sequence[tuple[int, int]] = [
        (payload.offset, 4 + len(payload.body)) for payload in parse_payloads(bytes(data)).payloads
    ]
    return chance.choice(places) if places else None


_ERRORS: Final[dict[str, Callable[[bytearray, random.Random], None]]] = {
    "bit": _bit,
    "byte": _byte,
    "number": _number,
    "header": _header,
    "cut": _cut,
    "longer": _longer,
    "payload length": _payload_length,
    "payload type": _payload_type,
    "payload twice": _payload_twice,
    "payload gone": _payload_gone,
}


#: How long it listens after the last message.
_LINGER_NS: Final = 500_000_000


@dataclass(frozen=True, slots=True)
class FuzzResult:
    """What came of it."""

    sent: int
    errors: Counter[str]  # mutants by what was done to them; most have several
    answered: Counter[str]  # answers by kind (`answers.Answer.kind`)
    garbage: int  # datagrams that are no IKEv2 message
    began_ns: int
    ended_ns: int


@dataclass(frozen=True, slots=True)
class FuzzStep:
    """What to do now; as `replay.steps.Step`."""

    send: tuple[OutgoingDatagram, ...] = ()
    wake_ns: int | None = None
    finished: FuzzResult | None = None


class FuzzRun:
    """Sends mutants at a rate."""

    def __init__(self, mutants: Sequence[FuzzedMessage], rate: float) -> None:
        """`rate`: mutants a second."""
        self._mutants = mutants
        self._gap_ns = round(1e9 / rate)
        self._began_ns = 0
        self._next = 0
        self._answered: Counter[str] = Counter()
        self._garbage = 0

    def begin(self, now_ns: int) -> FuzzStep:
        """Start."""
        self._began_ns = now_ns
        return self.tick(now_ns)

    def tick(self, now_ns: int) -> FuzzStep:
        """Send what is due."""
        out = []
        while self._next < len(self._mutants) and self._began_ns + self._next * self._gap_ns <= now_ns:
            data = self._mutants[self._next].data
            out.append(OutgoingDatagram(data, ExchangeType.IKE_SA_INIT, 0, False, None, None, 1, 500))
            self._next += 1
        wake_ns = self._began_ns + self._next * self._gap_ns
        if self._next == len(self._mutants):
            wake_ns += _LINGER_NS
            if now_ns >= wake_ns:
                return FuzzStep(tuple(out), None, self.get_result(now_ns))
        return FuzzStep(tuple(out), wake_ns)

    def receive(self, data: bytes, now_ns: int, from_port: int) -> FuzzStep:  # noqa: ARG002 - the drivers' signature
        """Take what the target sent."""
        answer = summarise_response(data)
        if answer is None:
            self._garbage += 1
        else:
            self._answered[answer.kind] += 1
        return self.tick(now_ns)

    def get_result(self, now_ns: int) -> FuzzResult:
        """What came of it until now."""
        errors = Counter(name for mutant in self._mutants[: self._next] for name in mutant.errors)
        return FuzzResult(self._next, errors, self._answered, self._garbage, self._began_ns, now_ns)
