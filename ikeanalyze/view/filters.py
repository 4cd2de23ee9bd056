"""Parses the filter of the list of handshakes.

A filter has words, all of which must match a row:

    text            text anywhere in the row: addresses, SPIs, outcome, reason, algorithms, authentication, time...
    outcome:failed  text in one column
    bytes>2000      a number above, below or equal: bytes<500, messages=4, setup>100 (milliseconds),
                    setup=13.1 (rounded to the digits that were typed)
    !outcome:cut    "!" negates a word

Matching ignores case. Incomplete words, such as "bytes>", are ignored.
"""

import re
from collections.abc import Callable, Mapping
from functools import reduce
from operator import and_, eq, ge, gt, le, lt
from typing import Final

import polars as pl

#: Names of texts in filters, and their columns of the list table (see `columns.build_list_table`).
_TEXTS: Final = {
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
    "auth": ("auth",),
    "nat": ("nat",),
    "tunnel": ("tunnel",),
}
#: Names of numbers in filters, their columns, and the factor to the column's unit.
_NUMBERS: Final = {
    "#": ("handshake", 1),
    "id": ("handshake", 1),
    "messages": ("messages", 1),
    "msgs": ("messages", 1),
    "bytes": ("bytes", 1),
    "setup": ("setup", 1_000_000),
    "retransmissions": ("retransmissions", 1),
    "rtx": ("retransmissions", 1),
}
_DECIMALS: Final = 3  # of a number in the list, see `format_ms`
_OPERATORS: Final[Mapping[str, Callable[[pl.Expr, float], pl.Expr]]] = {"<": lt, "<=": le, "=": eq, ">=": ge, ">": gt}
_COMPARISON: Final = re.compile(r"(#|[a-z]+)(<=|>=|[<>=])([\d_.,]*)")

#: All names for filters.
NAMES: Final = (*_TEXTS, *_NUMBERS)


def parse_filter(text: str) -> pl.Expr:
    """Return a filter as an expression over the list table. Never raises: other words are searched for as text."""
    conditions = map(_parse_word, text.lower().split())
    return reduce(and_, (condition for condition in conditions if condition is not None), pl.lit(True))


def _parse_word(word: str) -> pl.Expr | None:
    """Return the condition of a word, or None if it is incomplete."""
    positive = word.lstrip("!")
    condition = _parse_positive_word(positive) if positive else None
    return ~condition if condition is not None and (len(word) - len(positive)) % 2 else condition


def _parse_positive_word(word: str) -> pl.Expr | None:
    name, colon, value = word.partition(":")
    if colon and name in _TEXTS:
        if not value:
            return None
        return pl.any_horizontal(
            pl.col(column).str.to_lowercase().str.contains(value, literal=True).fill_null(False)
            for column in _TEXTS[name]
        )
    match = _COMPARISON.fullmatch(word)
    if match is not None and match[1] in _NUMBERS:
        column, unit = _NUMBERS[match[1]]
        return _compare_number(pl.col(column), match[2], match[3].replace(",", "").replace("_", ""), unit)
    return pl.col("search").str.contains(word, literal=True)


def _compare_number(column: pl.Expr, operator: str, digits: str, unit: int) -> pl.Expr | None:
    try:
        value = float(digits) * unit
    except ValueError:
        return None
    if operator == "=" and unit > 1:  # shown numbers are rounded: equal if they round to the digits that were typed
        places = min(len(digits.partition(".")[2]), _DECIMALS)
        condition: pl.Expr = (column - value).abs() <= unit / 10**places / 2
    else:
        condition = _OPERATORS[operator](column, value)
    return condition.fill_null(False)
