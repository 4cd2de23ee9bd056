"""What is typed into the filter line, as a condition on the rows of the list.

Words that all have to be true of a row, in any order:

    text            somewhere in the row: addresses, SPIs, outcome, reason, algorithms, authentication, time ...
    outcome:failed  the text in one column
    bytes>2000      a number above, below or equal: bytes<500, messages=4, setup>100 (milliseconds)
    !outcome:cut    a "!" before a word: it must not be true

Small and capital letters are the same. What is not finished, such as "bytes>", asks for nothing.
"""

import re
from functools import reduce
from operator import and_
from typing import Final

import polars as pl

#: Names in filters of what is text, and the columns of the list's table (see `columns.prepare`).
_TEXTS: Final = {
    "outcome": ("outcome",),
    "reason": ("reason", "child_error"),
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
}
#: Names of numbers, their columns, and what one of them is in the column's unit.
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
_COMPARISON: Final = re.compile(r"(#|[a-z]+)(<=|>=|[<>=])([\d_.,]*)")

#: All names that a filter knows, for the help.
NAMES: Final = (*_TEXTS, *_NUMBERS)


def condition(text: str) -> pl.Expr:
    """A filter line as an expression over the list's table. Never raises: what has no meaning is searched for as text."""
    return reduce(and_, map(_word, text.lower().split()), pl.lit(True))


def _word(word: str) -> pl.Expr:
    if word.startswith("!"):
        return ~_word(word[1:]) if len(word) > 1 else pl.lit(True)
    name, colon, value = word.partition(":")
    if colon and name in _TEXTS:
        found = (
            pl.col(column).str.to_lowercase().str.contains(value, literal=True).fill_null(value == "")
            for column in _TEXTS[name]
        )
        return pl.any_horizontal(*found)
    match = _COMPARISON.fullmatch(word)
    if match is not None and match[1] in _NUMBERS:
        column, unit = _NUMBERS[match[1]]
        return _compared(pl.col(column), match[2], match[3].replace(",", "").replace("_", ""), unit)
    return pl.col("search").str.contains(word, literal=True)


def _compared(column: pl.Expr, sign: str, digits: str, unit: int) -> pl.Expr:
    try:
        value = float(digits) * unit
    except ValueError:
        return pl.lit(True)
    match sign:
        case "<":
            true = column < value
        case ">":
            true = column > value
        case "<=":
            true = column <= value
        case ">=":
            true = column >= value
        case _:
            true = column == value
    return true.fill_null(False)
