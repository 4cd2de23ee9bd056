"""What a replay was and what came of it: all that is shown of it."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from ikeanalyze.keys.key_set import KeySet
from ikeanalyze.replay.fuzz import FuzzResult
from ikeanalyze.replay.initiator.interface import InitiatorResult
from ikeanalyze.replay.session.capture_writer import RecordingError
from ikeanalyze.replay.session.verbatim import ReceivedResponse, VerbatimResult
from ikeanalyze.replay.transport.interface import LocalEndpoint, TransportCounts, Way

Mode = Literal["verbatim", "reenact", "impair"]
MODES: Final[tuple[Mode, ...]] = ("verbatim", "reenact", "impair")


@dataclass(frozen=True, slots=True)
class RunTraffic:
    """What crossed our end of the path in one run, IP packets without link header; exchanges of the set-up alone."""

    sent: int  # datagrams, those included that a fault of ours took away
    sent_bytes: int
    received: int
    received_bytes: int
    blowup: float | None  # bytes of both sides over those that one transmission of each message needs


@dataclass(frozen=True, slots=True)
class ReportFigures:
    """What the report says of a run's handshake in our own capture, whose times are the kernel's."""

    blowup: float | None
    setup_ns: int | None
    round_trips: dict[tuple[str, int, int], int | None]  # by exchange type, message ID and attempt, ns


@dataclass(frozen=True, slots=True)
class ReplayRun:
    """One handshake, or one sending of the recorded messages."""

    number: int  # from 1
    traffic: RunTraffic
    spi_i: bytes | None  # of its first message; None: nothing was sent
    broken_off: str | None = None  # why it was not gone through to its end
    verbatim: VerbatimResult | None = None
    result: InitiatorResult | None = None
    met: Counter[str] = field(default_factory=Counter)  # datagrams that met a fault, by `Fault.name`
    seed: int | None = None  # of its faults
    reported: ReportFigures | None = None  # None: our capture has not been read, or has no such handshake


@dataclass(frozen=True, slots=True)
class LivenessCheck:
    """An ordinary IKE_SA_INIT, asked to see whether the target is up."""

    answer: ReceivedResponse | None  # None: no answer
    attempts: int
    seconds: float  # from the first attempt to the answer, or to the end


@dataclass(frozen=True, slots=True)
class FuzzReport:
    """Mutated messages, and whether the target was up before and after."""

    before: LivenessCheck
    barrage: FuzzResult | None  # None: the target was not up before, so nothing was sent
    after: LivenessCheck | None
    seed: int
    broken_off: str | None = None

    @property
    def up(self) -> bool:
        """The target survived."""
        return self.after is not None and self.after.answer is not None


@dataclass(frozen=True, slots=True)
class ExchangeCost:
    """An exchange, or a whole set-up, as the report counts it."""

    messages: int  # of both sides, retransmissions included
    bytes: int  # of IKE messages, so that links of other kinds compare
    rtt_ns: int | None  # of a set-up: its time
    answered: bool


@dataclass(frozen=True, slots=True)
class ComparedExchange:
    """One exchange, recorded and live."""

    exchange: str  # name of the exchange type
    message_id: int
    attempt: int  # 1, or more where the request was repeated with another body
    recorded: ExchangeCost | None  # None: there was no such exchange
    live: ExchangeCost | None


@dataclass(frozen=True, slots=True)
class ReplayComparison:
    """A recorded handshake and the live one of a run, side by side, both by the report."""

    run: int
    rows: tuple[ComparedExchange, ...]
    together: tuple[ExchangeCost | None, ExchangeCost | None]  # recorded, live
    outcomes: tuple[str | None, str | None]
    proposals: tuple[str | None, str | None]
    blowups: tuple[float | None, float | None]


@dataclass(frozen=True, slots=True)
class ReplayReport:
    """A replay."""

    mode: Mode
    capture: str
    handshake: int | None  # of the capture; None: the first messages of all (mutated ones)
    target: str
    way: Way
    local: LocalEndpoint
    rate: float  # handshakes a second at most
    began_ns: int  # since 1970-01-01 UTC
    ended_ns: int
    counts: TransportCounts
    runs: tuple[ReplayRun, ...] = ()
    mutated: FuzzReport | None = None
    policy: str | None = None  # of retransmission, as it was asked for; None: verbatim has none
    faults: tuple[str, ...] = ()  # as they were asked for, by `Fault.name`
    seed: int | None = None  # of faults, jitter and mutants; None: nothing was left to chance
    notes: tuple[str, ...] = ()  # of the shape: what is guessed, what is left out; which faults were never met
    interrupted: bool = False  # by the user, before all was done
    lost: RecordingError | None = None  # our capture, or the keys to it, could not be written; None: they were
    recording: str | None = None  # path of our capture
    keys: str | None = None  # path of the keys to it
    report: str | None = None  # the command line that reads it
    compared: tuple[ReplayComparison, ...] = ()

    @property
    def met(self) -> Counter[str]:
        """Datagrams of all runs that met a fault, by `Fault.name`."""
        return sum((run.met for run in self.runs), Counter())

    @property
    def key_sets(self) -> Sequence[KeySet]:
        """The keys of all runs."""
        return [keys for run in self.runs if run.result is not None for keys in run.result.keys]
