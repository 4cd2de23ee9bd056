"""One check of a verification: what was compared, and how that went.

No value is in it, only digests: they tell two values apart and give neither away.
"""

from dataclasses import dataclass
from hashlib import sha256
from typing import Final, Literal

from ikeanalyze.keys.charon.model import Side
from ikeanalyze.keys.key_set import Origin
from ikeanalyze.wire.registries import get_name
from ikeanalyze.wire.registries.ikev2 import ExchangeType

Outcome = Literal["passed", "failed", "not made"]

_SHOWN: Final = 8  # hexadecimal digits of a digest


@dataclass(frozen=True, slots=True)
class VerificationCheck:
    """One check."""

    handshake: int  # row in the capture's handshakes
    what: str  # "ICV", "nonces", "SKEYSEED", "SK_d" ... "SK_pr", "SK_*", "IntAuth", "signed octets", "AUTH"
    outcome: Outcome
    why: str | None = None  # failed: what is wrong; not made: what is missing
    how: str | None = None  # with what it was made, where there is a choice: "PSK of the log"
    expected: str | None = None  # digest of what it has to be; None: there is no such value, or not one alone
    found: str | None = None  # digest of what the log or the capture has
    epoch: int | None = None  # of the keys that it is about
    side: Side | None = None  # whose value it is
    exchange: str | None = None  # the message that it is about: "IKE_AUTH 1 request"
    frame: int | None = None  # with the last part of that message
    origin: Origin | None = None  # where the value stands that was checked; None: in the capture


def compute_digest(value: bytes) -> str:
    """The first 8 digits of a SHA-256."""
    return sha256(value).hexdigest()[:_SHOWN]


def compare_values(expected: bytes, found: bytes) -> Outcome:
    """The outcome of a comparison."""
    return "passed" if expected == found else "failed"


def name_sender(from_initiator: bool) -> Side:
    """The word for who sent a message."""
    return "initiator" if from_initiator else "responder"


def describe_message(exchange_type: int, message_id: int, response: bool) -> str:
    """IKE_AUTH 1 request."""
    kind = "response" if response else "request"
    return f"{get_name(ExchangeType, exchange_type)} {message_id} {kind}"
