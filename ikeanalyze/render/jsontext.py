"""JSON as polars puts it together, column by column: a description of an object to the expression of its text.

The `depth` of a function is the number of spaces by which a list or an object will be indented: objects that hold
nothing but values stand on one line, every member of the others on a line of its own. None: all on one line,
without spaces.
"""

from collections.abc import Callable, Mapping
from typing import Union

import polars as pl

from ikeanalyze.render.columns import durations, times

#: What an object is made of: JSON text in an expression, another object, or what depends on the depth.
Spec = Mapping[str, Union["Spec", pl.Expr, "Member"]]
Member = Callable[[int | None], pl.Expr]

#: The expression of a struct's field.
Field = Callable[[str], pl.Expr]


def an_object(spec: Spec, depth: int | None) -> pl.Expr:
    """An object as JSON."""
    values_only = all(isinstance(value, pl.Expr) for value in spec.values())
    if depth is None:
        start, between, colon, end = "{", ",", ":", "}"
    elif values_only:
        start, between, colon, end = "{", ", ", ": ", "}"
    else:
        start, between, colon, end = (
            "{" + separator(depth)[1:],
            separator(depth),
            ": ",
            "\n" + " " * depth + "}",
        )
    pieces: list[pl.Expr] = []
    for name, value in spec.items():
        pieces.append(pl.lit(f'{between if pieces else start}"{name}"{colon}'))
        if isinstance(value, pl.Expr):
            pieces.append(value)
        elif isinstance(value, Mapping):
            pieces.append(an_object(value, deeper(depth)))
        else:
            pieces.append(value(deeper(depth)))
    return pl.concat_str(*pieces, pl.lit(end))


def strings(column: str) -> Member:
    """A column of lists of texts, a line for each text."""
    items = pl.col(column).list.eval(string(pl.element()))
    return lambda depth: enclosed(items.list.join(separator(depth)), "[]", depth)


def words(texts: pl.Expr, depth: int | None) -> pl.Expr:
    """A list of texts on one line; null where there is none."""
    joined = texts.list.eval(string(pl.element())).list.join("," if depth is None else ", ")
    return pl.concat_str(pl.lit("["), joined, pl.lit("]")).fill_null("null")


def objects(column: str, spec: Callable[[Field], Spec]) -> Member:
    """A column of lists of structs; null where there is none. `spec` is given how to come by a field."""
    each = spec(lambda name: pl.element().struct.field(name))

    def items(depth: int | None) -> pl.Expr:
        texts = pl.col(column).list.eval(an_object(each, deeper(depth)))
        return or_null(column, enclosed(texts.list.join(separator(depth)), "[]", depth))

    return items


def or_null(column: str, known: pl.Expr) -> pl.Expr:
    """`known`, but null where the column is."""
    return pl.when(pl.col(column).is_null()).then(pl.lit("null")).otherwise(known)


def plain(column: str) -> pl.Expr:
    """A column of numbers or truth values."""
    return scalar(pl.col(column))


def scalar(value: pl.Expr) -> pl.Expr:
    """A number or a truth value as JSON."""
    return value.cast(pl.String).fill_null("null")


def quoted(column: str) -> pl.Expr:
    """A column of texts."""
    return string(pl.col(column))


def string(value: pl.Expr) -> pl.Expr:
    """A text, or what is one to the reader (an enum, a category), as JSON."""
    escaped = pl.struct(value.cast(pl.String).alias("v")).struct.json_encode()
    return escaped.str.strip_prefix('{"v":').str.strip_suffix("}")


def time(column: str) -> pl.Expr:
    """A column `*_ns` that is a point in time."""
    return pl.concat_str(pl.lit('"'), *times([column]), pl.lit('"')).fill_null("null")


def milliseconds(column: str) -> pl.Expr:
    """A column `*_ns` that is a duration."""
    (expression,) = durations([column])
    return scalar(expression)


def deeper(depth: int | None) -> int | None:
    """The depth of what is in a list or an object at `depth`."""
    return None if depth is None else depth + 2


def separator(depth: int | None) -> str:
    """What stands between the items of a list at `depth`."""
    return "," if depth is None else ",\n" + " " * (depth + 2)


def enclosed(items: pl.Expr, brackets: str, depth: int | None) -> pl.Expr:
    """Joined items in brackets; no items: the brackets alone."""
    start, end = ("", "") if depth is None else ("\n" + " " * (depth + 2), "\n" + " " * depth)
    full = pl.concat_str(pl.lit(brackets[0] + start), items, pl.lit(end + brackets[1]))
    return pl.when(items.fill_null("") == "").then(pl.lit(brackets)).otherwise(full)
