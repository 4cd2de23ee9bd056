"""The form of a rule of the diagnosis."""

from dataclasses import dataclass
from enum import Enum, StrEnum

import polars as pl


class Effect(StrEnum):
    """What a problem does to a handshake. Of each effect, the first rule that applies is the diagnosis."""

    UNRELIABLE = "unreliable"  # the time stamps are wrong, and so may be all else: excludes the other effects
    STOPPED = "stopped"  # the IKE SA or its CHILD_SA was not set up
    DISCONNECTED = "disconnected"  # it was set up, and a peer stopped answering later
    SLOWED = "slowed"
    WEAKENED = "weakened"  # it works, but not as it was meant to


class Confidence(StrEnum):
    """How sure a diagnosis is."""

    CERTAIN = "certain"  # a message states it, or the packets leave no other explanation
    CONSISTENT = "consistent with"  # the packets look like it, but something outside of the capture may be the cause


@dataclass(frozen=True, slots=True)
class SubjectMessage:
    """The message that a diagnosis concerns: the columns of `suspects.FACTS` that describe it."""

    exchange: str  # prefix of the columns of its exchange
    kind: str | None  # "request" or "response"; None: in the column "kind"
    frames: str  # column


class Subject(Enum):
    """The messages that diagnoses concern."""

    REQUEST = SubjectMessage("last", "request", "request_frames")
    RESPONSE = SubjectMessage("last", "response", "response_frames")
    REJECTED_REQUEST = SubjectMessage("last", "request", "request_and_icmp_frames")
    REJECTED_RESPONSE = SubjectMessage("last", "response", "response_and_icmp_frames")
    INIT_RESPONSE = SubjectMessage("init", "response", "init_frames")
    REPEATED_REQUEST = SubjectMessage("repeated", "request", "repeated_frames")
    SLOW_REQUEST = SubjectMessage("slow", "request", "slow_frames")
    LARGE_MESSAGE = SubjectMessage("large", None, "large_frames")
    LATER_REQUEST = SubjectMessage("later", "request", "later_frames")


@dataclass(frozen=True, slots=True)
class Rule:
    """One row of the table of rules."""

    code: str  # stable name for scripts; several rules may have one code, for which docs/diagnosis.md has a section
    effect: Effect
    confidence: Confidence
    rfc: str  # where the behaviour is specified
    subject: Subject
    when: pl.Expr  # over the columns of the handshakes table and of `suspects.FACTS`; null counts as false
    sentence: str  # with the names of columns in braces
    remedy: str  # what to try
    also: bool = False  # another explanation of what an earlier rule explains: it does not exclude this one
