"""The language of filters of handshakes, as `view` and the option `--filter` use it.

A filter has words, all of which must match a handshake:

    text            text anywhere: addresses, SPIs, outcome, reason, algorithms, authentication, time...
    outcome:failed  text in one column
    bytes>2000      a number above, below or equal: bytes<500, messages=4, setup>100 (milliseconds),
                    setup=13.1 (rounded to the digits that were typed)
    !outcome:cut    "!" negates a word

Matching ignores case. This module parses filters and loads nothing, so that a command can refuse a filter before it
reads a capture; `search_table` applies them.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ikeanalyze.io.suggestions import suggest_name

#: Names of texts, and their columns of the search table.
TEXTS: Final[Mapping[str, tuple[str, ...]]] = {
    "outcome": ("outcome",),
    "reason": ("reason", "child_error"),
    "diagnosis": ("diagnosis",),
    "protocol": ("protocol",),
    "initiator": ("initiator",),
    "responder": ("responder",),
    "address": ("initiator", "responder", "aaa"),
    "aaa": ("aaa",),
    "spi": ("spii", "spir"),
    "spii": ("spii",),
    "spir": ("spir",),
    "kex": ("kex",),
    "algorithm": ("algorithms",),
    "auth": ("auth",),
    "nat": ("nat",),
    "tunnel": ("tunnel",),
    "capture": ("capture",),
}


@dataclass(frozen=True, slots=True)
class FilterNumber:
    """A number that filters can compare."""

    column: str  # of the search table
    unit: int = 1  # factor from the number in a filter to the column
    decimals: int = 0  # digits after the point that lists show: "=" compares numbers rounded to those that were typed


#: Names of numbers.
NUMBERS: Final[Mapping[str, FilterNumber]] = {
    "#": FilterNumber("handshake"),
    "id": FilterNumber("handshake"),
    "messages": FilterNumber("messages"),
    "msgs": FilterNumber("messages"),
    "frames": FilterNumber("frames"),
    "bytes": FilterNumber("bytes"),
    "setup": FilterNumber("setup", 1_000_000, 3),
    "setup_ms": FilterNumber("setup", 1_000_000, 3),
    "retransmissions": FilterNumber("retransmissions"),
    "rtx": FilterNumber("retransmissions"),
    "blowup": FilterNumber("blowup", decimals=3),
}
#: All names.
NAMES: Final = (*TEXTS, *NUMBERS)

_NAMED: Final = re.compile(r"(#|[a-z_]+)(:|<=|>=|[<>=])(.*)", re.DOTALL)
_DIGITS: Final = re.compile(r"\d+\.?\d*|\.\d+")
_ADDRESS_GROUP: Final = re.compile(r"[0-9a-f]{1,4}")


class FilterError(ValueError):
    """A word of a filter that cannot be applied: one line with the word, the problem and what is allowed."""


@dataclass(frozen=True, slots=True)
class TextWord:
    """A text that has to be in one of some columns."""

    columns: tuple[str, ...]  # of the search table; empty: anywhere
    text: str  # lower case


@dataclass(frozen=True, slots=True)
class NumberWord:
    """A number with which a column is compared."""

    number: FilterNumber
    operator: str  # "<", "<=", "=", ">=" or ">"
    value: float  # in the unit of filters
    decimals: int  # digits after the point that were typed


@dataclass(frozen=True, slots=True)
class FilterCondition:
    """One word of a filter."""

    word: TextWord | NumberWord
    negated: bool = False


@dataclass(frozen=True, slots=True)
class HandshakeFilter:
    """A filter of handshakes: all conditions must hold."""

    text: str  # as it was given
    conditions: tuple[FilterCondition, ...]


def parse_filter(text: str, *, unfinished: bool = False) -> HandshakeFilter:
    """Parse a filter.

    Args:
        text: words that are separated by white space.
        unfinished: the user is typing: words without a value, such as "bytes>", are left out.

    Raises:
        FilterError: a word has a name that does not exist, or a value that does not fit its name.
    """
    conditions = (_parse_word(word, unfinished=unfinished) for word in text.lower().split())
    return HandshakeFilter(text, tuple(condition for condition in conditions if condition is not None))


def _parse_word(word: str, *, unfinished: bool) -> FilterCondition | None:
    """Return the condition of a word, or None if it is unfinished."""
    positive = word.lstrip("!")
    negated = bool((len(word) - len(positive)) % 2)
    match = _NAMED.fullmatch(positive)
    if positive and (match is None or _is_address(match)):
        return FilterCondition(TextWord((), positive), negated)
    name, operator, value = match.groups() if match is not None else ("", "", "")
    if name and name not in NAMES:
        raise FilterError(f"unknown name {name!r} in {word!r}; {suggest_name(name, NAMES)}there are {', '.join(NAMES)}")
    if not value.strip("."):
        if unfinished:
            return None
        raise FilterError(f"{word!r} is unfinished: it has no value")
    if name in NUMBERS:
        return FilterCondition(_parse_number(name, operator, value), negated)
    if operator != ":":
        raise FilterError(f"{name} is text: write {name}:{value}")
    return FilterCondition(TextWord(TEXTS[name], value), negated)


def _is_address(match: re.Match[str]) -> bool:
    """Return whether a word with a colon may be a part of an IPv6 address, not a name with a value."""
    return match[1] not in NAMES and match[2] == ":" and _ADDRESS_GROUP.fullmatch(match[1]) is not None


def _parse_number(name: str, operator: str, text: str) -> NumberWord:
    if operator == ":":
        raise FilterError(f"{name} is a number: write {name}={text}, {name}<{text} or {name}>{text}")
    digits = text.replace(",", "").replace("_", "")
    if not _DIGITS.fullmatch(digits):
        unit = " of milliseconds" if NUMBERS[name].column == "setup" else ""
        raise FilterError(f"{text!r} is not a number{unit}, which {name} is compared with")
    return NumberWord(NUMBERS[name], operator, float(digits), len(digits.partition(".")[2]))
