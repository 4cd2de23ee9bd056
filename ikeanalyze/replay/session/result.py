"""Results of a replay."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from ikeanalyze.keys.key_set import KeySet
from ikeanalyze.replay.fuzz import FuzzResult
from ikeanalyze.replay.initiator.interface import InitiatorResult
from ikeanalyze.replay.session.capture_writer import RecordingError
from ikeanalyze.replay.session.verbatim import ReceivedResponse, VerbatimResult
from ikeanalyze.replay.transport.interface import LocalEndpoint, TransportCounts, Way

Mode = Literal["verbatim", "reenact", "impair"]


@dataclass(frozen=True, slots=True)
class RunTraffic:
    """Traffic of one run at our end of the path: IP packets without link header, set-up exchanges only."""

    sent: int  # datagrams, including those that a fault drops
    sent_bytes: int
    received: int
    received_bytes: int
    blowup: float | None  # bytes of both sides divided by those of one transmission of each message


@dataclass(frozen=True, slots=True)
class ReportFigures:
    """Figures of the report for a run's handshake in our own capture, based on kernel times."""

    blowup: float | None
    setup_ns: int | None
    round_trips: dict[tuple[str, int, int], int | None]  # by exchange type, message ID and attempt, ns


@dataclass(frozen=True, slots=True)
class ReplayRun:
    """One handshake, or one verbatim replay of the recorded messages."""

    number: int  # from 1
    traffic: RunTraffic
    spi_i: bytes | None  # of its first message; None: no message was sent
    broken_off: str | None = None  # why it was aborted
    verbatim: VerbatimResult | None = None
    result: InitiatorResult | None = None
    met: Counter[str] = field(default_factory=Counter)  # datagrams selected by a fault, by `Fault.name`
    seed: int | None = None  # of its faults
    reported: ReportFigures | None = None  # None: our capture was not read or lacks the handshake


@dataclass(frozen=True, slots=True)
class LivenessCheck:
    """An ordinary IKE_SA_INIT request that tests whether the target is up."""

    answer: ReceivedResponse | None  # None: no response
    attempts: int
    seconds: float  # from the first attempt to the response or the end


@dataclass(frozen=True, slots=True)
class FuzzReport:
    """Mutated messages, and whether the target was up before and after."""

    before: LivenessCheck
    barrage: FuzzResult | None  # None: not sent, because the target was not up
    after: LivenessCheck | None
    seed: int
    broken_off: str | None = None

    @property
    def up(self) -> bool:
        """Whether the target was up afterwards."""
        return self.after is not None and self.after.answer is not None


@dataclass(frozen=True, slots=True)
class ExchangeCost:
    """Cost of an exchange or of a whole set-up, as in the report."""

    messages: int  # of both sides, retransmissions included
    bytes: int  # of IKE messages without headers
    rtt_ns: int | None  # for a set-up: the set-up time
    answered: bool


@dataclass(frozen=True, slots=True)
class ComparedExchange:
    """One exchange, recorded and live."""

    exchange: str  # name of the exchange type
    message_id: int
    attempt: int  # above 1 after COOKIE or INVALID_KE_PAYLOAD
    recorded: ExchangeCost | None  # None: no such exchange
    live: ExchangeCost | None


@dataclass(frozen=True, slots=True)
class ReplayComparison:
    """A recorded handshake and the live one of a run, both as in the report."""

    run: int
    rows: tuple[ComparedExchange, ...]
    together: tuple[ExchangeCost | None, ExchangeCost | None]  # recorded, live
    outcomes: tuple[str | None, str | None]
    proposals: tuple[str | None, str | None]
    blowups: tuple[float | None, float | None]


@dataclass(frozen=True, slots=True)
class ReplayReport:
    """Configuration and results of a replay."""

    mode: Mode
    capture: str
    handshake: int | None  # of the capture; None: first messages of all handshakes (mutants)
    target: str
    way: Way
    local: LocalEndpoint
    rate: float  # limit for the handshakes per second
    began_ns: int  # since 1970-01-01 UTC
    ended_ns: int
    counts: TransportCounts
    runs: tuple[ReplayRun, ...] = ()
    mutated: FuzzReport | None = None
    policy: str | None = None  # of retransmission; None: verbatim
    faults: tuple[str, ...] = ()  # requested, by `Fault.name`
    seed: int | None = None  # of faults, jitter and mutants; None: nothing random
    notes: tuple[str, ...] = ()  # guessed and omitted parts of the shape, unused faults
    interrupted: bool = False  # by the user
    lost: RecordingError | None = None  # failure to write our capture or its keys
    recording: str | None = None  # path of our capture
    keys: str | None = None  # path of its keys
    report: str | None = None  # command line for a report on our capture
    compared: tuple[ReplayComparison, ...] = ()

    @property
    def met(self) -> Counter[str]:
        """Datagrams of all runs selected by a fault, by `Fault.name`."""
        return sum((run.met for run in self.runs), Counter())

    @property
    def key_sets(self) -> Sequence[KeySet]:
        """The keys of all runs."""
        return [keys for run in self.runs if run.result is not None for keys in run.result.keys]
