"""The result of one check of a verification.

It contains digests instead of values, so that it reveals no secret.
"""

from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final, Literal

from ikeanalyze.analysis.decryption.decoded_messages import DecodedMessage
from ikeanalyze.keys.charon.model import Side
from ikeanalyze.keys.key_set import Origin
from ikeanalyze.wire.registries import get_name
from ikeanalyze.wire.registries.ikev2 import ExchangeType

Outcome = Literal["passed", "failed", "not made"]

#: Why a check that needs the PRF cannot be made.
UNKNOWN_PRF: Final = "the negotiated PRF is unknown or not supported"
_DIGEST_LENGTH: Final = 8  # hexadecimal digits


class MissingValueError(Exception):
    """A check cannot be made: the text names the missing value."""


@dataclass(frozen=True, slots=True)
class VerificationCheck:
    """One check and its outcome."""

    handshake: int  # row in the capture's handshakes
    what: str  # "ICV", "nonces", "SKEYSEED", "SK_d" ... "SK_pr", "SK_*", "IntAuth", "signed octets", "AUTH"
    outcome: Outcome
    why: str | None = None  # failed: the difference; not made: the missing value
    how: str | None = None  # the key or secret that was used, if there is a choice: "PSK of the log"
    expected: str | None = None  # digest of the correct value; None: no value, or several candidates
    found: str | None = None  # digest of the value in the log or the capture
    epoch: int | None = None  # of the checked keys
    side: Side | None = None  # that the value belongs to
    exchange: str | None = None  # the checked message: "IKE_AUTH 1 request"
    frame: int | None = None  # number of the frame with the last part of that message
    origin: Origin | None = None  # of the checked value in a key file; None: it is in the capture


def compute_digest(value: bytes) -> str:
    """The first 8 digits of a SHA-256."""
    return sha256(value).hexdigest()[:_DIGEST_LENGTH]


def compare_values(expected: bytes, found: bytes, difference: str) -> dict[str, Any]:
    """The fields of `VerificationCheck` for a comparison; `difference` is the reason if it fails."""
    passed = expected == found
    return {
        "outcome": "passed" if passed else "failed",
        "why": None if passed else difference,
        "expected": compute_digest(expected),
        "found": compute_digest(found),
    }


def name_sender(from_initiator: bool) -> Side:
    """The side that sent a message."""
    return "initiator" if from_initiator else "responder"


def describe_message(exchange_type: int, message_id: int, response: bool) -> str:
    """A message in words, such as "IKE_AUTH 1 request"."""
    role = "response" if response else "request"
    return f"{get_name(ExchangeType, exchange_type)} {message_id} {role}"


def make_message_check(
    content: DecodedMessage, what: str, outcome: Outcome, *, why: str | None = None, **details: Any
) -> VerificationCheck:
    """A check of a decrypted message; `details` are further fields of `VerificationCheck`."""
    return VerificationCheck(
        content.handshake,
        what,
        outcome,
        why=why,
        epoch=content.epoch,
        side=name_sender(content.from_initiator),
        exchange=describe_message(content.exchange_type, content.message_id, content.response),
        frame=content.frame,
        **details,
    )
