"""The form of a rule of the diagnosis."""

from collections.abc import Callable
from enum import StrEnum, unique

from msgspec import Struct

from ikeanalyze.analysis.handshakes.diagnosis.suspect import Suspect


class Effect(StrEnum):
    """What a problem does to a handshake. Of each effect, the first rule that applies is the diagnosis."""

    UNRELIABLE = "unreliable"  # the time stamps are wrong, and so may be all else: excludes the other effects
    STOPPED = "stopped"  # the IKE SA or its CHILD_SA was not set up
    REFUSED = "refused"  # it was set up, and a later request, as for rekeying, was refused: what was set up still works
    DISCONNECTED = "disconnected"  # it was set up, and a peer stopped answering later
    SLOWED = "slowed"
    WEAKENED = "weakened"  # it works, but not as it was meant to


class Confidence(StrEnum):
    """How sure a diagnosis is."""

    CERTAIN = "certain"  # a message states it, or the packets leave no other explanation
    CONSISTENT = "consistent with"  # the packets look like it, but something outside of the capture may be the cause


@unique
class Subject(StrEnum):
    """The messages that diagnoses concern."""

    REQUEST = "request of the last exchange of the set-up"
    RESPONSE = "response of the last exchange of the set-up"
    REFUSAL = "the same response, or the Informational message that has the error notify in the clear"
    REJECTED_REQUEST = "the same request, with the ICMP errors about it"
    REJECTED_RESPONSE = "the same response, with the ICMP errors about it"
    INIT_RESPONSE = "response of the last IKE_SA_INIT"
    REPEATED_REQUEST = "request of the set-up that was sent most often"
    SLOW_REQUEST = "request of the set-up that was sent once and answered last"
    LARGE_MESSAGE = "largest IKE_INTERMEDIATE message without IKE fragmentation, in IP fragments"
    LATER_REQUEST = "request of the last exchange after the set-up"
    REJECTED_LATER_REQUEST = "request of the last exchange after the set-up, with the ICMP errors about it"
    LATER_REFUSAL = (
        "response that refused a CREATE_CHILD_SA or IKE_FOLLOWUP_KE request after the set-up, or Informational message of "
        "IKEv1 that refused a quick mode"
    )


class Rule(Struct, frozen=True, kw_only=True):
    """One row of the table of rules."""

    code: str  # stable name for scripts; several rules may have one code, for which docs/diagnosis.md has a section
    effect: Effect
    confidence: Confidence
    rfc: str  # where the behaviour is specified
    subject: Subject
    when: Callable[[Suspect], bool]
    sentence: str  # with names in braces: fields of `Suspect`, or values that `diagnose` makes of them
    remedy: str  # what to try
    also: bool = False  # another explanation of what an earlier rule explains: it does not exclude this one
