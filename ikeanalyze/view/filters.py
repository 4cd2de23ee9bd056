"""What is typed into the filter line, as a condition on the rows of the list.

Words that all have to be true of a row, in any order:

    text            somewhere in the row: addresses, SPIs, outcome, reason, algorithms, authentication, time ...
    outcome:failed  the text in one column
    bytes>2000      a number above, below or equal: bytes<500, messages=4, setup>100 (milliseconds),
                    setup=13.1 (rounded as typed)
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
_SHOWN_PLACES: Final = 3  # of a number in the list, see `render.values.ms`
_COMPARISON: Final = re.compile(r"(#|[a-z]+)(<=|>=|[<>=])([\d_.,]*)")

#: All names that a filter knows, for the help.
NAMES: Final = (*_TEXTS, *_NUMBERS)


def parse_filter(text: str) -> pl.Expr:
    """A filter line as an expression over the list's table. Never raises: what has no meaning is searched for as text."""
    conditions = map(_word, text.lower().split())
    return reduce(and_, (one for one in conditions if one is not None), pl.lit(True))


def _word(word: str) -> pl.Expr | None:
    """The condition of one word; None: it asks for nothing, and neither does its opposite."""
    asked = word.lstrip("!")
    found = _asked(asked) if asked else None
    return ~found if found is not None and (len(word) - len(asked)) % 2 else found


def _asked(word: str) -> pl.Expr | None:
    name, colon, value = word.partition(":")
    if colon and name in _TEXTS:
        if not value:
            return None
        found = (
            pl.col(column).str.to_lowercase().str.contains(value, literal=True).fill_null(False)
            for column in _TEXTS[name]
        )
        return pl.any_horizontal(*found)
    match = _COMPARISON.fullmatch(word)
    if match is not None and match[1] in _NUMBERS:
        column, unit = _NUMBERS[match[1]]
        return _compared(pl.col(column), match[2], match[3].replace(",", "").replace("_", ""), unit)
    return pl.col("search").str.contains(word, literal=True)


def _compared(column: pl.Expr, sign: str, digits: str, unit: int) -> pl.Expr | None:
    try:
        value = float(digits) * unit
    except ValueError:
        return None
    match sign:
        case "<":
            true = column < value
        case ">":
            true = column > value
        case "<=":
            true = column <= value
        case ">=":
            true = column >= value
        case _ if unit > 1:  # what is shown is rounded: equal is what rounds to the digits that were typed
            places = min(len(digits.partition(".")[2]), _SHOWN_PLACES)
            true = (column - value).abs() <= unit / 10**places / 2
        case _:
            true = column == value
    return true.fill_null(False)
