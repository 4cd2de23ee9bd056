"""Mutated messages one after another, whatever is answered: sans-IO, driven like the initiator of a handshake."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ikeanalyze.replay.answers import read_answer
from ikeanalyze.replay.mutation import Mutant
from ikeanalyze.replay.steps import Outgoing
from ikeanalyze.wire.registries.ikev2 import ExchangeType

#: How long it listens after the last message.
_LINGER_NS: Final = 500_000_000


@dataclass(frozen=True, slots=True)
class BarrageRun:
    """What came of it."""

    sent: int
    errors: Counter[str]  # mutants by what was done to them; most have several
    answered: Counter[str]  # answers by kind (`answers.Answer.kind`)
    garbage: int  # datagrams that are no IKEv2 message
    began_ns: int
    ended_ns: int


@dataclass(frozen=True, slots=True)
class BarrageStep:
    """What to do now; as `replay.steps.Step`."""

    send: tuple[Outgoing, ...] = ()
    wake_ns: int | None = None
    finished: BarrageRun | None = None


class Barrage:
    """Sends mutants at a rate."""

    def __init__(self, mutants: Sequence[Mutant], rate: float) -> None:
        """`rate`: mutants a second."""
        self._mutants = mutants
        self._gap_ns = round(1e9 / rate)
        self._began_ns = 0
        self._next = 0
        self._answered: Counter[str] = Counter()
        self._garbage = 0

    def begin(self, now_ns: int) -> BarrageStep:
        """Start."""
        self._began_ns = now_ns
        return self.tick(now_ns)

    def tick(self, now_ns: int) -> BarrageStep:
        """Send what is due."""
        out = []
        while self._next < len(self._mutants) and self._began_ns + self._next * self._gap_ns <= now_ns:
            data = self._mutants[self._next].data
            out.append(Outgoing(data, ExchangeType.IKE_SA_INIT, 0, False, None, None, 1, 500))
            self._next += 1
        wake_ns = self._began_ns + self._next * self._gap_ns
        if self._next == len(self._mutants):
            wake_ns += _LINGER_NS
            if now_ns >= wake_ns:
                return BarrageStep(tuple(out), None, self.conclude(now_ns))
        return BarrageStep(tuple(out), wake_ns)

    def receive(self, data: bytes, now_ns: int, from_port: int) -> BarrageStep:  # noqa: ARG002 - the drivers' signature
        """Take what the target sent."""
        answer = read_answer(data)
        if answer is None:
            self._garbage += 1
        else:
            self._answered[answer.kind] += 1
        return self.tick(now_ns)

    def conclude(self, now_ns: int) -> BarrageRun:
        """What came of it until now."""
        errors = Counter(name for mutant in self._mutants[: self._next] for name in mutant.errors)
        return BarrageRun(self._next, errors, self._answered, self._garbage, self._began_ns, now_ns)
