"""Conditions under which a report fails, as `--fail-on` and the JUnit format use them.

A condition is the name of an outcome (`failed`), `undecrypted`, `no-handshake`, or a word of the language of filters
with a name (`retransmissions>4`, `reason:AUTHENTICATION_FAILED`). This module loads neither numpy nor polars, so that a
command can refuse a condition before it reads a capture.
"""

from dataclasses import dataclass
from typing import Final

from ikeanalyze.analysis.tables.filter_language import NAMES, FilterError, HandshakeFilter, TextWord, parse_filter
from ikeanalyze.analysis.tables.layouts import FAILURES
from ikeanalyze.io.suggestions import suggest_name

#: Outcomes that are conditions: all but success.
_OUTCOMES: Final = (*FAILURES, "cut")
#: A handshake has encrypted messages that no key decrypts.
UNDECRYPTED: Final = "undecrypted"
#: There is no handshake at all: without this condition, a capture of something else passes.
NO_HANDSHAKE: Final = "no-handshake"
#: All conditions without a value.
PLAIN: Final = (*_OUTCOMES, UNDECRYPTED, NO_HANDSHAKE)


@dataclass(frozen=True, slots=True)
class FailCondition:
    """One condition of `--fail-on`."""

    text: str  # as it was given
    words: HandshakeFilter | None  # that a handshake matches; None: UNDECRYPTED or NO_HANDSHAKE


def parse_conditions(text: str) -> tuple[FailCondition, ...]:
    """Parse conditions that are separated by commas.

    Raises:
        FilterError: a condition does not exist, or its value does not fit; the message is for the user.
    """
    return tuple(_parse_condition(part.strip()) for part in text.split(","))


def _parse_condition(text: str) -> FailCondition:
    if text in (UNDECRYPTED, NO_HANDSHAKE):
        return FailCondition(text, None)
    words = parse_filter(f"outcome:{text}" if text in _OUTCOMES else text)
    if len(words.conditions) != 1 or words.conditions[0].word == TextWord((), text.lower().lstrip("!")):
        with_value = ("retransmissions>4", "setup_ms>100", "blowup>2", "reason:AUTHENTICATION_FAILED")
        raise FilterError(
            f"unknown condition {text!r}; {suggest_name(text, (*PLAIN, *NAMES))}there are {', '.join(PLAIN)}, and words "
            f"of filters such as {', '.join(with_value)}"
        )
    return FailCondition(text, words)


#: Of handshakes that did not succeed.
NO_SUCCESS: Final = parse_conditions(",".join(FAILURES))
