"""Mutated messages one after another, whatever is answered: sans-IO, driven like the initiator of a handshake."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ikeanalyze.replay.answers import summarise_response
from ikeanalyze.replay.mutation import FuzzedMessage
from ikeanalyze.replay.steps import OutgoingDatagram
from ikeanalyze.wire.registries.ikev2 import ExchangeType

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
