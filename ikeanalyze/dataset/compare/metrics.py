"""Defines the metrics of handshakes that can be compared.

Every numeric column of the handshakes table is a metric (durations as `*_ms`), numeric labels included. Further metrics
are computed from lists and sums of columns. Counts are of the set-up and of the link between initiator and responder,
unless the name contains `aaa` or `after_setup`. `NAME+NAME` is the sum of metrics, per handshake.
"""

import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final

import polars as pl
from polars.datatypes import DataType

from ikeanalyze.dataset.compare import CompareError
from ikeanalyze.io.suggestions import suggest_names

#: Names and types of the columns of a handshakes table, labels included.
Columns = Mapping[str, DataType]

#: Numeric columns that are not quantities, and one with another name as a metric.
_EXCLUDED: Final = {
    *("handshake", "initiator_port", "responder_port", "replaces", "start_ns", "end_ns"),
    "retransmitted_messages",
}
_UNITS: Final = {"ms": "ms", "bytes": "bytes", "messages": "messages", "frames": "frames"}
_COUNTS: Final = ("messages", "frames", "bytes")
#: Separates the names of metrics that are added; names of labels and columns do not contain it.
PLUS: Final = "+"
_LIST_OF_METRICS: Final = "(docs/compare.md lists the metrics; numeric labels are metrics, too)"


@dataclass(frozen=True, slots=True)
class Metric:
    """A numeric property of a handshake."""

    name: str  # ends with the unit, if any: setup_ms, aaa_bytes
    value: pl.Expr  # over the handshakes table, Float64; null: unknown
    from_exchanges: bool = False  # `value` needs the column of `aggregate_exchanges`

    @property
    def unit(self) -> str | None:
        """ms, bytes, messages, frames; None: a plain number, or a sum of quantities that are not all in one unit."""
        units = {_UNITS.get(name.rsplit("_", 1)[-1]) for name in self.name.split(PLUS)}
        return units.pop() if len(units) == 1 else None


#: Column of `aggregate_exchanges`; labels have no spaces.
_ROUND_TRIPS: Final = "round trips"


def aggregate_exchanges(exchanges: pl.LazyFrame) -> pl.LazyFrame:
    """The number of round trips of each handshake, by `capture` and `handshake`."""
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
    computed = [*_make_named_metrics(), *_make_phase_metrics(phases), *_make_payload_metrics(payloads)]
    metrics = {metric.name: metric for metric in computed}
    for name, dtype in columns.items():
        if dtype.is_numeric() and name not in _EXCLUDED:
            metric = _make_column_metric(name)
            metrics.setdefault(metric.name, metric)
    return metrics


def select_metrics(handshakes: pl.LazyFrame, names: Sequence[str], argument: str = "metric") -> list[Metric]:
    """The metrics of these names, sums (`NAME+NAME`) included.

    Raises:
        CompareError: unknown name, in which case the text has similar names, or a sum of different units. `argument` is
            the argument that has the names.
    """
    columns = handshakes.collect_schema()
    known = build_metrics(columns, [], [])
    wanted = {part.strip() for name in names for part in name.split(PLUS)}
    if not known.keys() >= wanted:  # the contents of lists need a scan of all handshakes
        known = build_metrics(
            columns, _list_values(handshakes, "phases", "type"), _list_values(handshakes, "payload_bytes", "payload")
        )
    selected = [_add_metrics([part.strip() for part in name.split(PLUS)], known, argument) for name in names]
    return list({metric.name: metric for metric in selected}.values())


def _add_metrics(names: Sequence[str], known: Mapping[str, Metric], argument: str) -> Metric:
    """The sum of the metrics of these names; unknown if one of them is unknown."""
    for name in names:
        if name not in known:
            hint = suggest_names(name, sorted(known))
            raise CompareError(f"unknown metric {name!r}{f'; {hint}' if hint else ' '}{_LIST_OF_METRICS}", argument)
    parts = [known[name] for name in names]
    units = dict.fromkeys(part.unit for part in parts if part.unit is not None)
    if len(units) > 1:
        raise CompareError(f"{PLUS.join(names)} would add {' to '.join(units)}", argument)
    return Metric(
        PLUS.join(names),
        reduce(operator.add, (part.value for part in parts)),
        any(part.from_exchanges for part in parts),
    )


def _list_values(handshakes: pl.LazyFrame, column: str, field: str) -> list[str]:
    """The distinct values of a struct field in a column of lists."""
    values = handshakes.select(pl.col(column).explode().struct.field(field).cast(pl.String).unique().drop_nulls())
    return sorted(values.collect().to_series().to_list())


def _make_named_metrics() -> Iterator[Metric]:
    """Sums of both directions, and metrics whose column has another name or type."""
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


def _make_phase_metrics(types: list[str]) -> Iterator[Metric]:
    for exchange_type in types:
        for unit in _COUNTS:
            yield Metric(
                f"phase_{exchange_type.replace(' ', '_')}_{unit}",
                _select_from_list("phases", "type", exchange_type, unit),
            )


def _make_payload_metrics(names: list[str]) -> Iterator[Metric]:
    for name in names:
        value = _select_from_list("payload_bytes", "payload", name, "bytes")
        yield Metric(f"payload_{name.replace(' ', '_')}_bytes", value)


def _select_from_list(column: str, field: str, wanted: str, unit: str) -> pl.Expr:
    """`unit` of the struct of a list whose `field` is `wanted`; 0: no such struct; null: the list is null."""
    part = pl.element().struct
    chosen = pl.when(part.field(field) == wanted).then(part.field(unit))
    return pl.col(column).list.eval(chosen).list.sum().cast(pl.Float64)


def _make_column_metric(column: str) -> Metric:
    if column.endswith("_ns"):
        return Metric(f"{column.removesuffix('_ns')}_ms", pl.col(column) / 1e6)
    return Metric(column, pl.col(column).cast(pl.Float64))
