"""The table in which filters and the list of `view` search: one row for each handshake, with its texts and numbers."""

from collections.abc import Callable, Mapping
from functools import reduce
from operator import and_, eq, ge, gt, le, lt
from typing import Final

import polars as pl

from ikeanalyze.analysis.tables.filter_language import FilterCondition, HandshakeFilter, NumberWord

#: Columns of text that are searched.
_TEXTS: Final = (
    *("initiator", "responder", "aaa", "outcome", "reason", "child_error", "kex", "spii", "spir", "auth"),
    *("protocol", "algorithms", "diagnosis"),
)
_OPERATORS: Final[Mapping[str, Callable[[pl.Expr, float], pl.Expr]]] = {"<": lt, "<=": le, "=": eq, ">=": ge, ">": gt}


def build_search_table(handshakes: pl.DataFrame) -> pl.DataFrame:
    """Return for each handshake the values to show, sort by and search, in the same order.

    The column `search` has all texts of a row in lower case. Times are nanoseconds.
    """
    additional = (
        pl.col("additional_key_exchanges")
        .list.eval(pl.coalesce(pl.element().struct.field("method"), pl.lit("?")))
        .list.join(" + ")
        .replace("", None)
    )
    codes = pl.col("diagnosis").list.eval(pl.element().struct.field("code"))
    table = handshakes.select(
        "handshake",
        pl.col("capture").cast(pl.String),
        pl.col("protocol").cast(pl.String),
        pl.col("start_ns").alias("time"),
        pl.col("initiator_address").alias("initiator"),
        "initiator_port",
        pl.col("responder_address").alias("responder"),
        "responder_port",
        pl.col("aaa_address").alias("aaa"),
        "rekeyed",
        pl.col("outcome").cast(pl.String),
        "reason",
        "child_error",
        codes.list.join(" ").replace("", None).alias("diagnosis"),
        pl.col("diagnosis").list.first().struct.field("message").alias("problem"),
        (pl.col("initiator_messages") + pl.col("responder_messages")).alias("messages"),
        (pl.col("initiator_frames") + pl.col("responder_frames")).alias("frames"),
        (pl.col("initiator_bytes") + pl.col("responder_bytes")).alias("bytes"),
        pl.col("setup_ns").alias("setup"),
        pl.col("uncertain").is_not_null().alias("uncertain"),
        pl.col("retransmitted_messages").alias("retransmissions"),
        pl.col("aaa_retransmitted_messages").alias("aaa_retransmissions"),
        pl.col("blowup").fill_nan(None),
        "key_exchange",
        "additional_key_exchanges",
        pl.concat_str("key_exchange", additional, separator=" + ", ignore_nulls=True).alias("kex"),
        # HIP has HITs instead of SPIs
        pl.coalesce("spi_i", "initiator_hit").alias("spii"),
        pl.coalesce("spi_r", "responder_hit").alias("spir"),
        pl.concat_str("auth_initiator", "auth_responder", "auth_eap", separator=" ", ignore_nulls=True).alias("auth"),
        "auth_guessed",
        "nat",
        "tunnel",
        pl.concat_str("encryption", "prf", "integrity", separator=" ", ignore_nulls=True).alias("algorithms"),
    )
    numbers = ("handshake", "initiator_port", "responder_port", "messages", "bytes")
    time = pl.from_epoch("time", time_unit="ns").dt.strftime("%Y-%m-%d %H:%M:%S%.6f")
    return table.with_columns(
        pl.concat_str(
            *_TEXTS, time, *(pl.col(name).cast(pl.String) for name in numbers), separator=" ", ignore_nulls=True
        )
        .str.to_lowercase()
        .alias("search")
    )


def build_filter_expression(words: HandshakeFilter) -> pl.Expr:
    """Return a filter as an expression over the search table, true or false in each row."""
    return reduce(and_, map(_build_condition, words.conditions), pl.lit(True))


def _build_condition(condition: FilterCondition) -> pl.Expr:
    word = condition.word
    if isinstance(word, NumberWord):
        matches = _compare_number(word)
    elif word.columns:
        matches = pl.any_horizontal(
            pl.col(column).str.to_lowercase().str.contains(word.text, literal=True).fill_null(False)
            for column in word.columns
        )
    else:
        matches = pl.col("search").str.contains(word.text, literal=True)
    return ~matches if condition.negated else matches


def _compare_number(word: NumberWord) -> pl.Expr:
    number = word.number
    column, value = pl.col(number.column), word.value * number.unit
    matches: pl.Expr = _OPERATORS[word.operator](column, value)
    if word.operator == "=" and number.decimals:  # shown numbers are rounded: equal if they round to the typed digits
        places = min(word.decimals, number.decimals)
        matches = (column - value).abs() <= number.unit / 10**places / 2
    return matches.fill_null(False)
