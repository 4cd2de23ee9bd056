"""The metrics of handshakes that can be compared, by name.

Every numeric column of the handshakes table is one, durations as `*_ms`; labels that are numbers too. What the
table has in another form (lists, parts of a sum) has a name here. Counts are of the set-up and of the link
between initiator and responder unless the name says `aaa` or `after_setup`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import polars as pl
from polars.datatypes import DataType

from ikeanalyze.dataset.compare.errors import CompareError

#: Names and types of the columns of a handshakes table, labels included.
Columns = Mapping[str, DataType]

#: Numbers that are no quantities, and one that has another name here.
_LEFT_OUT: Final = {
    *("handshake", "initiator_port", "responder_port", "replaces", "start_ns", "end_ns"),
    "retransmitted_messages",
}
_UNITS: Final = {"ms": "ms", "bytes": "bytes", "messages": "messages", "frames": "frames"}
_COUNTS: Final = ("messages", "frames", "bytes")


@dataclass(frozen=True, slots=True)
class Metric:
    """Something of a handshake that is a number."""

    name: str  # ends with the unit where there is one: setup_ms, aaa_bytes
    value: pl.Expr  # over the handshakes table, Float64; null: not known
    from_exchanges: bool = False  # `value` also needs what `aggregate_exchanges` makes of the exchanges table

    @property
    def unit(self) -> str | None:
        """ms, bytes, messages, frames; None: a plain number."""
        return _UNITS.get(self.name.rsplit("_", 1)[-1])


#: Column that `aggregate_exchanges` makes; no label has such a name.
_ROUND_TRIPS: Final = "round trips"


def aggregate_exchanges(exchanges: pl.LazyFrame) -> pl.LazyFrame:
    """What the exchanges tell of each handshake, by `capture` and `handshake`."""
    answered = pl.col("set_up") & pl.col("request_messages").is_not_null()
    answered &= pl.col("response_messages").is_not_null()
    return exchanges.group_by("capture", "handshake").agg(answered.sum().cast(pl.Float64).alias(_ROUND_TRIPS))


def build_metrics(columns: Columns, phases: list[str], payloads: list[str]) -> dict[str, Metric]:
    """All metrics of a handshakes table, by name.

    Args:
        columns: of the table.
        phases: exchange types that occur in its column `phases`.
        payloads: payloads that occur in its column `payload_bytes`.
    """
    computed = [*_named(), *_phases(phases), *_payloads(payloads)]
    known = {metric.name: metric for metric in computed}
    for name, kind in columns.items():
        if kind.is_numeric() and name not in _LEFT_OUT:
            metric = _plain(name)
            known.setdefault(metric.name, metric)
    return known


def select_metrics(handshakes: pl.LazyFrame, names: Sequence[str]) -> list[Metric]:
    """The metrics of these names; `CompareError`, with those that there are, for an unknown name."""
    columns = handshakes.collect_schema()
    known = build_metrics(columns, [], [])
    if not known.keys() >= set(names):  # what is in the lists takes a look at all handshakes
        known = build_metrics(
            columns, _parts(handshakes, "phases", "type"), _parts(handshakes, "payload_bytes", "payload")
        )
    for name in names:
        if name not in known:
            raise CompareError(f"there is no metric {name!r}; there are {', '.join(sorted(known))}", "metric")
    return [known[name] for name in names]


def _parts(handshakes: pl.LazyFrame, column: str, field: str) -> list[str]:
    """What occurs in the field of a column of lists."""
    values = handshakes.select(pl.col(column).explode().struct.field(field).cast(pl.String).unique().drop_nulls())
    return sorted(values.collect().to_series().to_list())


def _named() -> Iterator[Metric]:
    """Sums of both directions, and what goes by another name or is no number in the table."""
    for unit in _COUNTS:
        for name, first, second in (
            (unit, "initiator", "responder"),
            (f"aaa_{unit}", "aaa_request", "aaa_response"),
            (f"after_setup_{unit}", "after_setup_initiator", "after_setup_responder"),
        ):
            both = pl.col(f"{first}_{unit}") + pl.col(f"{second}_{unit}")
            yield Metric(name, both.cast(pl.Float64))
    yield Metric("retransmissions", pl.col("retransmitted_messages").cast(pl.Float64))
    yield Metric("extra_round_trips", pl.col("extra_round_trips").list.len().cast(pl.Float64))
    yield Metric("round_trips", pl.col(_ROUND_TRIPS), from_exchanges=True)


def _phases(types: list[str]) -> Iterator[Metric]:
    for kind in types:
        for unit in _COUNTS:
            yield Metric(f"phase_{kind.replace(' ', '_')}_{unit}", _of_list("phases", "type", kind, unit))


def _payloads(names: list[str]) -> Iterator[Metric]:
    for name in names:
        value = _of_list("payload_bytes", "payload", name, "bytes")
        yield Metric(f"payload_{name.replace(' ', '_')}_bytes", value)


def _of_list(column: str, field: str, wanted: str, unit: str) -> pl.Expr:
    """`what` of the struct of a list whose `field` is `wanted`, 0 if there is none; null: there is no list."""
    part = pl.element().struct
    chosen = pl.when(part.field(field) == wanted).then(part.field(unit))
    return pl.col(column).list.eval(chosen).list.sum().cast(pl.Float64)


def _plain(column: str) -> Metric:
    if column.endswith("_ns"):
        return Metric(f"{column.removesuffix('_ns')}_ms", pl.col(column) / 1e6)
    return Metric(column, pl.col(column).cast(pl.Float64))
