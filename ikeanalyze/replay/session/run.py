"""The modes of a replay over a transport: run after run, never two at once, and never faster than allowed."""

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from ikeanalyze.replay.fuzz import FuzzRun, mutate_message
from ikeanalyze.replay.initiator.initiator import Initiator
from ikeanalyze.replay.session.driver import INTERRUPTED, Driver, DriveResult, TrafficCounter
from ikeanalyze.replay.session.faults import Fault, FaultInjector
from ikeanalyze.replay.session.recorded_messages import RecordedHandshake, RecordedMessage
from ikeanalyze.replay.session.result import FuzzReport, LivenessCheck, ReplayRun, RunTraffic
from ikeanalyze.replay.session.verbatim import (
    Randomness,
    RenewedMessage,
    UdpEndpoint,
    VerbatimResult,
    VerbatimSession,
    renew_message,
)
from ikeanalyze.replay.transport.interface import PacketTransport
from ikeanalyze.replay.transport.target import Target

#: Seconds that a responder has to answer again after mutated messages: charon lets half-open IKE SAs go after 30.
RECOVERY_S: Final = 45.0
_CHECK_WAIT_S: Final = 2.0
_CHECK_GAP_S: Final = 1.0
_CLOSING_S: Final = 10.0

Tell = Callable[[ReplayRun], None]


class ReplayRunner:
    """Runs to one target."""

    def __init__(
        self,
        target: Target,
        transport: PacketTransport,
        *,
        rate: float,
        seconds: float,
        randomness: Randomness,
        tell: Tell = lambda _: None,
    ) -> None:
        """`rate`: handshakes a second, `seconds`: of one run, at most; `tell` hears of each run when it is over."""
        self._target, self._transport = target, transport
        self._rate, self._seconds = rate, seconds
        self._randomness, self._tell = randomness, tell
        self._started = -1 / rate
        self._tallies: dict[bytes, TrafficCounter] = {}  # by SPIi
        self.interrupted = False  # by the user: what was asked for is not done to its end

    def run_verbatim(self, handshake: RecordedHandshake, count: int, *, speed: float, wait_s: float) -> list[ReplayRun]:
        """Recorded messages, `count` times."""

        def run_once(number: int) -> tuple[ReplayRun, TrafficCounter]:
            conversation, driver, why = self._verbatim(handshake, speed, wait_s)
            return ReplayRun(
                number, _traffic(driver.tally), conversation.spi_i or None, why, verbatim=conversation
            ), driver.tally

        return self._each(count, run_once)

    def run_live(
        self,
        make: Callable[[], Initiator],
        count: int,
        *,
        faults: Sequence[Fault] = (),
        seed: int | None = None,
    ) -> list[ReplayRun]:
        """Live handshakes, `count` times, each deleted again; the n-th meets its faults by `seed` + n - 1."""
        first = random.randrange(1 << 32) if seed is None else seed

        def run_once(number: int) -> tuple[ReplayRun, TrafficCounter]:
            its_seed = first + number - 1
            initiator, some = make(), FaultInjector(faults, its_seed)
            self._pace()
            driver = Driver(self._transport, faults=some, tallies=self._tallies)
            driven = driver.run(initiator, initiator.begin, self._seconds)
            self._note(driven)
            # the target is told to forget what stands, or what it may believe that stands; that is no part of the measurement
            driver.disable_faults()
            closed = driver.run(initiator, initiator.close, _CLOSING_S)
            self._note(closed)
            end = closed.finished or initiator.conclude(driver.now())
            # what was broken off is concluded by closing it
            result = replace(driven.finished or end, deleted=end.deleted)
            return ReplayRun(
                number,
                _traffic(driver.tally),
                result.spi_i,
                driven.why,
                result=result,
                met=some.met,
                seed=its_seed if faults else None,
            ), driver.tally

        return self._each(count, run_once)

    def _each(self, count: int, run_once: Callable[[int], tuple[ReplayRun, TrafficCounter]]) -> list[ReplayRun]:
        """Run after run. Whoever interrupts a long row of them gets those that were begun."""
        runs: list[tuple[ReplayRun, TrafficCounter]] = []
        while len(runs) < count and not self.interrupted:
            try:
                runs.append(run_once(len(runs) + 1))
            except KeyboardInterrupt:  # between two runs; within one, the driver takes note of it
                self.interrupted = True
                break
            self._tell(runs[-1][0])
        # with what came of one when the next was under way
        return [replace(run, traffic=_traffic(tally)) for run, tally in runs]

    def _note(self, driven: DriveResult[Any]) -> None:
        self.interrupted = self.interrupted or driven.why == INTERRUPTED

    def run_fuzz(self, handshakes: Sequence[RecordedHandshake], count: int, seed: int) -> FuzzReport:
        """Mutants of recorded first messages, `count` of them, between two ordinary IKE_SA_INIT requests.

        `seed`: for the same bytes again, from the same ports to the same target; the ordinary requests are new ones each time.
        """
        ordinary = handshakes[0]
        before = self._check(ordinary, 0)
        if before.answer is None or self.interrupted:
            return FuzzReport(before, None, None, seed)
        chance = random.Random(seed)
        firsts = [handshake.first for handshake in handshakes if handshake.first is not None]
        mutants = [
            mutate_message(self._renewed(chance.choice(firsts), chance.randbytes).data, chance) for _ in range(count)
        ]
        barrage = FuzzRun(mutants, self._rate)
        driver = Driver(self._transport, most=20 * count + 1000, tallies=self._tallies)
        driven = driver.run(barrage, barrage.begin, count / self._rate + self._seconds)
        self._note(driven)
        after = None if self.interrupted else self._check(ordinary, RECOVERY_S)
        return FuzzReport(before, barrage.get_result(driver.now()), after, seed, driven.why)

    def _check(self, handshake: RecordedHandshake, patience_s: float) -> LivenessCheck:
        """Ask until there is an answer, or for so many seconds; at least once."""
        began, attempts = time.monotonic(), 0
        first = handshake.first
        alone = replace(
            handshake,
            messages=tuple(message for message in handshake.messages if first and message.exchange == first.exchange),
        )
        while True:
            attempts += 1
            conversation = self._verbatim(alone, 1000.0, _CHECK_WAIT_S)[0]
            answers = [sent.answers[0] for sent in conversation.sent if sent.answers]
            seconds = time.monotonic() - began
            if answers or self.interrupted or seconds >= patience_s:
                return LivenessCheck(answers[0] if answers else None, attempts, seconds)
            time.sleep(_CHECK_GAP_S)

    def _verbatim(
        self, handshake: RecordedHandshake, speed: float, wait_s: float
    ) -> tuple[VerbatimResult, Driver, str | None]:
        """What came of a run, who drove it, and why it was broken off."""
        self._pace()
        # one port may refuse what the other answers, and whoever listens later may answer what is sent later
        driver = Driver(self._transport, stubborn=True, tallies=self._tallies)
        core = VerbatimSession(handshake, self._renewed, speed=speed, wait_ns=round(wait_s * 1e9))
        driven = driver.run(core, core.begin, self._seconds, core.sent)
        self._note(driven)
        return driven.finished or core.conclude(driver.now()), driver, driven.why

    def _renewed(self, message: RecordedMessage, randomness: Randomness | None = None) -> RenewedMessage:
        local = self._transport.local
        ours = UdpEndpoint(local.packed, local.port_of(message.role))
        theirs = UdpEndpoint(self._target.packed, self._target.port_of(message.role))
        return renew_message(message, ours, theirs, randomness or self._randomness)

    def _pace(self) -> None:
        """Wait until another handshake may begin."""
        now = time.monotonic()
        time.sleep(max(self._started + 1 / self._rate - now, 0))
        self._started = time.monotonic()


def _traffic(tally: TrafficCounter) -> RunTraffic:
    return RunTraffic(
        tally.datagrams[True], tally.total[True], tally.datagrams[False], tally.total[False], tally.blowup
    )
