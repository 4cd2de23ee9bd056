"""Replay modes over a transport: runs one at a time, at a limited rate."""

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from ikeanalyze.capture.write.frames import UdpEndpoint
from ikeanalyze.replay.fuzz import FuzzRun, mutate_message
from ikeanalyze.replay.initiator.initiator import Initiator
from ikeanalyze.replay.session.driver import INTERRUPTED, Driver, DriveResult, TrafficCounter
from ikeanalyze.replay.session.faults import Fault, FaultInjector
from ikeanalyze.replay.session.recorded_messages import RecordedHandshake, RecordedMessage
from ikeanalyze.replay.session.result import FuzzReport, LivenessCheck, ReplayRun, RunTraffic
from ikeanalyze.replay.session.verbatim import (
    Randomness,
    RenewedMessage,
    VerbatimResult,
    VerbatimSession,
    renew_message,
)
from ikeanalyze.replay.transport.interface import PacketTransport
from ikeanalyze.replay.transport.target import Target

#: Limit for the responder's recovery after mutated messages; charon deletes half-open IKE SAs after 30 s.
RECOVERY_S: Final = 45.0
_CHECK_WAIT_S: Final = 2.0
_CHECK_GAP_S: Final = 1.0
_CLOSING_S: Final = 10.0


class ReplayRunner:
    """Runs replays to one target."""

    def __init__(
        self,
        target: Target,
        transport: PacketTransport,
        *,
        rate: float,
        seconds: float,
        randomness: Randomness,
        on_run: Callable[[ReplayRun], None] = lambda _: None,
    ) -> None:
        """`rate`: limit in handshakes per second; `seconds`: limit for one run; `on_run`: called after each run."""
        self._target, self._transport = target, transport
        self._rate, self._seconds = rate, seconds
        self._randomness, self._on_run = randomness, on_run
        self._started = -1 / rate
        self._counters: dict[bytes, TrafficCounter] = {}  # by SPIi
        self.interrupted = False  # by the user

    def run_verbatim(self, handshake: RecordedHandshake, count: int, *, speed: float, wait_s: float) -> list[ReplayRun]:
        """Send the recorded messages `count` times."""

        def run_once(number: int) -> tuple[ReplayRun, TrafficCounter]:
            result, driver, why = self._run_verbatim_once(handshake, speed, wait_s)
            traffic = _get_traffic(driver.counter)
            return ReplayRun(number, traffic, result.spi_i or None, why, verbatim=result), driver.counter

        return self._run_each(count, run_once)

    def run_live(
        self, make: Callable[[], Initiator], count: int, *, faults: Sequence[Fault] = (), seed: int | None = None
    ) -> list[ReplayRun]:
        """Do `count` live handshakes, each deleted again; run n has faults with the seed `seed` + n - 1."""
        first_seed = random.randrange(1 << 32) if seed is None else seed

        def run_once(number: int) -> tuple[ReplayRun, TrafficCounter]:
            run_seed = first_seed + number - 1
            initiator, injector = make(), FaultInjector(faults, run_seed)
            self._pace()
            driver = Driver(self._transport, faults=injector, counters=self._counters)
            driven = driver.run(initiator, initiator.begin, self._seconds)
            self._note_interrupt(driven)
            # delete the IKE SA of the target, which is not part of the measurement
            driver.disable_faults()
            closed = driver.run(initiator, initiator.close, _CLOSING_S)
            self._note_interrupt(closed)
            end = closed.finished or initiator.conclude(driver.now())
            # closing concludes an aborted handshake
            result = replace(driven.finished or end, deleted=end.deleted)
            run = ReplayRun(number, _get_traffic(driver.counter), result.spi_i, driven.why, result=result)
            used_seed = run_seed if faults else None
            return replace(run, met=injector.match_counts, seed=used_seed), driver.counter

        return self._run_each(count, run_once)

    def _run_each(self, count: int, run_once: Callable[[int], tuple[ReplayRun, TrafficCounter]]) -> list[ReplayRun]:
        """Do the runs; return the finished ones if the user interrupts."""
        runs: list[tuple[ReplayRun, TrafficCounter]] = []
        while len(runs) < count and not self.interrupted:
            try:
                runs.append(run_once(len(runs) + 1))
            except KeyboardInterrupt:  # between two runs; the driver handles it within a run
                self.interrupted = True
                break
            self._on_run(runs[-1][0])
        # with datagrams that arrived during the next run
        return [replace(run, traffic=_get_traffic(counter)) for run, counter in runs]

    def _note_interrupt(self, driven: DriveResult[Any]) -> None:
        self.interrupted = self.interrupted or driven.why == INTERRUPTED

    def run_fuzz(self, handshakes: Sequence[RecordedHandshake], count: int, seed: int) -> FuzzReport:
        """Send `count` mutants of recorded first messages, between two ordinary IKE_SA_INIT requests.

        `seed`: makes the mutants reproducible for the same ports and target; the ordinary requests are new each time.
        """
        ordinary = handshakes[0]
        before = self._check_liveness(ordinary, 0)
        if before.answer is None or self.interrupted:
            return FuzzReport(before, None, None, seed)
        rng = random.Random(seed)
        firsts = [handshake.first for handshake in handshakes if handshake.first is not None]
        mutants = [mutate_message(self._renew(rng.choice(firsts), rng.randbytes).data, rng) for _ in range(count)]
        fuzz_run = FuzzRun(mutants, self._rate)
        driver = Driver(self._transport, max_datagrams=20 * count + 1000, counters=self._counters)
        driven = driver.run(fuzz_run, fuzz_run.begin, count / self._rate + self._seconds)
        self._note_interrupt(driven)
        after = None if self.interrupted else self._check_liveness(ordinary, RECOVERY_S)
        return FuzzReport(before, fuzz_run.get_result(driver.now()), after, seed, driven.why)

    def _check_liveness(self, handshake: RecordedHandshake, timeout_s: float) -> LivenessCheck:
        """Send requests until one is answered or the timeout is over, at least one."""
        began, attempts = time.monotonic(), 0
        first = handshake.first
        messages = tuple(message for message in handshake.messages if first and message.exchange == first.exchange)
        first_exchange = replace(handshake, messages=messages)
        while True:
            attempts += 1
            result = self._run_verbatim_once(first_exchange, 1000.0, _CHECK_WAIT_S)[0]
            answers = [sent.answers[0] for sent in result.sent if sent.answers]
            seconds = time.monotonic() - began
            if answers or self.interrupted or seconds >= timeout_s:
                return LivenessCheck(answers[0] if answers else None, attempts, seconds)
            time.sleep(_CHECK_GAP_S)

    def _run_verbatim_once(
        self, handshake: RecordedHandshake, speed: float, wait_s: float
    ) -> tuple[VerbatimResult, Driver, str | None]:
        """Return the result of a run, its driver, and why it was aborted."""
        self._pace()
        # one port may refuse and the other answer, and the target may start to listen later
        driver = Driver(self._transport, ignore_refusals=True, counters=self._counters)
        session = VerbatimSession(handshake, self._renew, speed=speed, wait_ns=round(wait_s * 1e9))
        driven = driver.run(session, session.begin, self._seconds, session.sent)
        self._note_interrupt(driven)
        return driven.finished or session.conclude(driver.now()), driver, driven.why

    def _renew(self, message: RecordedMessage, randomness: Randomness | None = None) -> RenewedMessage:
        local = self._transport.local
        ours = UdpEndpoint(local.packed, local.port_of(message.role))
        theirs = UdpEndpoint(self._target.packed, self._target.port_of(message.role))
        return renew_message(message, ours, theirs, randomness or self._randomness)

    def _pace(self) -> None:
        """Wait until the rate allows another handshake."""
        now = time.monotonic()
        time.sleep(max(self._started + 1 / self._rate - now, 0))
        self._started = time.monotonic()


def _get_traffic(counter: TrafficCounter) -> RunTraffic:
    sent, received = ((counter.datagrams[ours], counter.total[ours]) for ours in (True, False))
    return RunTraffic(*sent, *received, counter.blowup)
