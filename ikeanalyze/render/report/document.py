"""The JSON document of a report, schema "ikeanalyze.report/1", and the JSON lines of its handshakes.

A report can have 100,000 handshakes of about 200 values each. polars encodes them as JSON, a few thousand at a time, so
that a report of any size can be streamed. A report of up to 100 handshakes is indented by two spaces; in a larger one,
each handshake is one line. In JSON lines, each line is an object of the JSON report's "handshakes". IKE SAs
that replaced another one are not handshakes: they are in "rekeyed_ike_sas", in the same form.

Times are ISO 8601 strings in UTC with nine fractional digits, durations (`*_ms`) are milliseconds; unknown values are
null.
"""

from collections.abc import Iterator
from json import loads
from typing import Any, Final, TextIO

import polars as pl

from ikeanalyze.analysis.handshakes.diagnosis.captures import diagnose_captures
from ikeanalyze.analysis.result import ACCOUNTING, Analysis, AppliedSelection, CaptureSummary
from ikeanalyze.analysis.schema import OUTCOMES
from ikeanalyze.render.core.columns import cast_text_columns, format_duration_columns, format_time_columns
from ikeanalyze.render.core.json import escape_non_ascii, format_json, select_attributes
from ikeanalyze.render.core.values import format_iso_time
from ikeanalyze.render.report.selection import select_rekeyed_ike_sas, select_set_ups

SCHEMA: Final = "ikeanalyze.report/1"
#: The lists of the document with objects of the form of a handshake, and their rows.
_LISTS: Final = {"handshakes": select_set_ups, "rekeyed_ike_sas": select_rekeyed_ike_sas}

#: A JSON object.
Document = dict[str, Any]

_COUNTS: Final = ("messages", "frames", "bytes")
#: Columns with the figures of the lab's manifest.
_LAB: Final = (
    *("measure", "jobs", "warm_up", "attempts", "initiator_clock_ms"),
    *(f"{host}_{cost}" for cost in ("processor_ms", "rss_bytes") for host in ("initiator", "responder", "aaa")),
)
_BATCH_SIZE: Final = 4_000  # handshakes encoded at a time
_MAX_INDENTED: Final = 100  # handshakes; indenting takes ten times as long as encoding


def build_report(analysis: Analysis) -> Document:
    """Return the whole document."""
    lists = {name: list(build_handshakes(select(analysis))) for name, select in _LISTS.items()}
    return {**_build_without_handshakes(analysis), **lists}


def _build_without_handshakes(analysis: Analysis) -> Document:
    return {
        "schema": SCHEMA,
        "captures": _build_captures(analysis),
        **({} if analysis.selection is None else {"selection": _build_selection(analysis.selection)}),
        "handshakes": [],
        "rekeyed_ike_sas": [],
        "totals": compute_totals(analysis),
        "warnings": [
            {"capture": warning.capture, "frame": warning.frame, "message": warning.message}
            for warning in analysis.warnings
        ],
        "skipped": [select_attributes(file, "path", "reason") for file in analysis.skipped],
    }


def _build_captures(analysis: Analysis) -> list[Document]:
    found: dict[str, list[Document]] = {}
    for entry in diagnose_captures(analysis.handshakes):
        keys = ("code", "confidence", "message", "handshakes", "remedy", "rfc")
        found.setdefault(entry.capture, []).append(select_attributes(entry, *keys))
    return [{**build_capture(summary), "diagnosis": found.get(summary.path, [])} for summary in analysis.captures]


def _build_selection(selection: AppliedSelection) -> Document:
    return {**selection.options, **select_attributes(selection, "selected", "total")}


def build_capture(summary: CaptureSummary) -> Document:
    """Return the object of a capture that was read."""
    return {
        **select_attributes(summary, "path", "format", "packets", "bytes"),
        **({"files": list(summary.files)} if summary.files else {}),
        "first_time": format_iso_time(summary.first_ns),
        "last_time": format_iso_time(summary.last_ns),
        **select_attributes(summary, "snaplen_truncated", "damaged"),
        **{
            name: {kind: getattr(summary, name).get(kind, 0) for kind in ACCOUNTING}
            for name in ("accounting", "accounting_bytes")
        },
    }


def build_handshakes(analysis: Analysis) -> Iterator[Document]:
    """Return the objects of all rows of the handshakes table, in order of id."""
    return map(loads, iterate_handshake_json(analysis))


def iterate_handshake_json(analysis: Analysis) -> Iterator[str]:
    """Yield the JSON of each row of the handshakes table without line breaks, in order of id."""
    payloads, radius = _payload_names(analysis), _radius(analysis)
    for rows in analysis.handshakes.sort("handshake").iter_slices(_BATCH_SIZE):
        ids = rows["handshake"]
        exchanges = (
            analysis.exchanges.filter(pl.col("handshake").is_between(ids[0], ids[-1]))
            .sort("handshake", "exchange")
            .join(payloads, on="exchange", how="left", maintain_order="left")
            .join(radius, on="exchange", how="left", maintain_order="left")
        )
        table = (
            cast_text_columns(rows)
            .join(_exchanges(exchanges), on="handshake", how="left", maintain_order="left")
            .join(_key_exchanges(rows, exchanges), on="handshake", how="left", maintain_order="left")
        )
        yield from map(escape_non_ascii, table.select(_handshake_text())["text"])


def _payload_names(analysis: Analysis) -> pl.DataFrame:
    """The payloads of request and response of each exchange in which messages were decoded."""
    decoded = analysis.messages.filter(pl.col("payloads").is_not_null() & pl.col("exchange").is_not_null()).sort(
        "message"
    )
    return decoded.group_by("exchange").agg(
        pl.col("payloads").filter(pl.col("kind") == kind).first().alias(f"{kind}_payloads")
        for kind in ("request", "response")
    )


def _radius(analysis: Analysis) -> pl.DataFrame:
    """The RADIUS packets of each exchange that has some."""
    packets = analysis.messages.filter((pl.col("protocol") == "RADIUS") & pl.col("exchange").is_not_null()).sort(
        "message"
    )
    return packets.group_by("exchange").agg(
        pl.struct(
            pl.col("type").cast(pl.String).alias("code"),
            pl.col("message_id").alias("identifier"),
            pl.col("first_frame").alias("frame"),
            "matched_by",
        ).alias("radius")
    )


def _exchanges(exchanges: pl.DataFrame) -> pl.DataFrame:
    """The exchanges of each handshake."""
    exchange = pl.struct(
        "type",
        "message_id",
        _message("request"),
        _message("response"),
        _ms("rtt_ns"),
        "epoch",
        "decrypted",
        "attempt",
        "initiated_by",
        "set_up",
        "extra_round_trip",
        _ms("wait_ns", "retransmission_wait_ms"),
        pl.col("radius").fill_null([]),
    )
    return cast_text_columns(exchanges).group_by("handshake", maintain_order=True).agg(exchange.alias("exchanges"))


def _message(kind: str) -> pl.Expr:
    """The request or the response of an exchange; null if the capture has none."""
    fields = pl.struct(
        *(pl.col(f"{kind}_{count}").alias(count) for count in _COUNTS),
        _time(f"{kind}_ns", "first_time"),
        pl.col(f"{kind}_payloads").alias("payloads"),
    )
    return pl.when(pl.col(f"{kind}_messages").is_not_null()).then(fields).alias(kind)


def _key_exchanges(rows: pl.DataFrame, exchanges: pl.DataFrame) -> pl.DataFrame:
    """The key exchanges of each handshake that has some, each with its exchange."""
    key_exchanges = rows.select("handshake", "key_exchanges").drop_nulls("key_exchanges").explode("key_exchanges")
    facts = exchanges.select(
        "exchange", pl.col("type").cast(pl.String), "message_id", pl.col("initiated_by").cast(pl.String), "attempt"
    )
    return (
        key_exchanges.drop_nulls("key_exchanges")
        .unnest("key_exchanges")
        .join(facts, on="exchange", how="left", maintain_order="left")
        .group_by("handshake")
        .agg(
            pl.struct(
                pl.col("type").alias("exchange"),
                *("message_id", "initiated_by", "attempt", "purpose", "slot", "method", "id", "linked_to"),
                *("request", "request_bytes", "response", "response_bytes", "findings"),
            ).alias("key_exchange_objects")
        )
    )


def _handshake_text() -> pl.Expr:
    """The JSON of a handshake.

    polars encodes everything except the brackets of `links` (lists of different lengths take longer than all the rest)
    and of `phases` (an object whose keys are values of the table).
    """
    before = pl.struct(*_identity(), _proposal()).struct.json_encode()
    after = pl.struct(*_measurements(), *_contents()).struct.json_encode()
    start, end = before.str.strip_suffix("}"), after.str.strip_prefix("{")
    middle = pl.lit(',"links":['), _links(), pl.lit('],"phases":{'), _phases(), pl.lit("},")
    return pl.concat_str(start, *middle, end).alias("text")


def _identity() -> list[pl.Expr]:
    return [
        pl.col("handshake").alias("id"),
        *map(pl.col, ("capture", "protocol", "spi_i", "spi_r")),
        *(_renamed(name, address=f"{name}_address", port=f"{name}_port") for name in ("initiator", "responder")),
        *map(pl.col, ("nat", "tunnel")),
        _time("start_ns", "start_time"),
        *map(pl.col, ("outcome", "reason")),
        _renamed(
            "auth", initiator="auth_initiator", responder="auth_responder", eap="auth_eap", guessed="auth_guessed"
        ),
    ]


def _proposal() -> pl.Expr:
    additional = pl.col("additional_key_exchanges").fill_null([])
    return pl.struct("encryption", "prf", "integrity", "key_exchange", additional).alias("proposal")


def _links() -> pl.Expr:
    """The link between initiator and responder, and the link to the AAA server if the capture has RADIUS."""
    ends = ("initiator_address", "responder_address")
    ike = _link("initiator-responder", *ends, "initiator", "responder", "retransmitted")
    ends = ("nas_address", "aaa_address")
    radius = _link("responder-aaa", *ends, "aaa_request", "aaa_response", "aaa_retransmitted")
    second = pl.when(pl.col("nas_address").is_null()).then(pl.lit("")).otherwise("," + radius.struct.json_encode())
    return ike.struct.json_encode() + second


def _link(name: str, a: str, b: str, forth: str, back: str, retransmitted: str | None = None) -> pl.Expr:
    retransmissions = [] if retransmitted is None else [_counts(retransmitted, "retransmissions")]
    ends = pl.lit(name).alias("name"), pl.col(a).alias("a"), pl.col(b).alias("b")
    return pl.struct(*ends, _counts(forth, "a_to_b"), _counts(back, "b_to_a"), *retransmissions)


def _phases() -> pl.Expr:
    phase = pl.element().struct
    counts = pl.struct(*(phase.field(count) for count in _COUNTS)).struct.json_encode()
    name = pl.struct(phase.field("type")).struct.json_encode().str.strip_prefix('{"type":').str.strip_suffix("}")
    members = pl.col("phases").list.eval(pl.concat_str(name, pl.lit(":"), counts)).list.join(",")
    return members.fill_null("")


def _measurements() -> list[pl.Expr]:
    sides = ("network_ns", "initiator_ns", "initiator_and_network_ns", "responder_ns")
    parts = (*sides, "aaa_ns", "retransmission_wait_ns")
    path = ("vantage", _ms("path_rtt_ns"), "path_rtt_source", "uncertain")
    return [
        pl.col("exchanges").fill_null([]),
        _ms("setup_ns"),
        _ms("initiator_setup_ns"),
        pl.struct(*map(_ms, parts), *path).alias("breakdown"),
        pl.col("diagnosis").fill_null([]),
        _counts("retransmitted", "retransmissions"),
        pl.col("blowup").fill_nan(None),
        _renamed(
            "fragmentation",
            ike_messages="ike_messages_fragmented",
            ike_fragments="ike_fragments",
            ip_fragments="ip_fragments",
        ),
        _time("end_ns", "end_time"),
    ]


def _contents() -> list[pl.Expr]:
    ends = ("initiator_address", "responder_address")
    after_setup = _link("initiator-responder", *ends, "after_setup_initiator", "after_setup_responder")
    sides = ("initiator", "responder")
    supports = [pl.col(f"{side}_supports").fill_null([]).alias(side) for side in sides]
    truncated = [pl.col(f"{side}_init_truncated").alias(f"{side}_truncated") for side in sides]
    key_exchanges = pl.col("key_exchange_objects").fill_null([])
    return [
        pl.col("offered").fill_null([]),
        pl.struct(*supports, *truncated).alias("supports"),
        pl.col("extra_round_trips").fill_null([]),
        *map(pl.col, ("capture_duplicates", "one_sided")),
        pl.concat_list(after_setup).alias("after_setup"),
        *map(pl.col, ("replaces", "child_error", "payload_bytes")),
        pl.when(pl.col("key_exchanges").is_not_null()).then(key_exchanges).alias("key_exchanges"),
        pl.col("certificates"),
        _renamed("hits", initiator="initiator_hit", responder="responder_hit"),
        pl.when(pl.any_horizontal(pl.col(*_LAB).is_not_null())).then(pl.struct(*_LAB)).alias("lab"),
    ]


def _renamed(name: str, **columns: str) -> pl.Expr:
    """An object of renamed columns."""
    return pl.struct(pl.col(column).alias(key) for key, column in columns.items()).alias(name)


def _counts(prefix: str, name: str) -> pl.Expr:
    """An object of the columns that count messages, frames and bytes."""
    return _renamed(name, **{count: f"{prefix}_{count}" for count in _COUNTS})


def _time(column: str, name: str) -> pl.Expr:
    """A `*_ns` column of points in time, as text."""
    (expression,) = format_time_columns([column])
    return expression.alias(name)


def _ms(column: str, name: str | None = None) -> pl.Expr:
    """A `*_ns` column of durations, in milliseconds."""
    (expression,) = format_duration_columns([column])
    return expression.alias(name or column.replace("_ns", "_ms"))


def compute_totals(analysis: Analysis) -> Document:
    """Return the sums over all handshakes and captures.

    `messages`, `frames` and `bytes` count all links of all handshakes, `links` splits them; the blow-up and the
    retransmissions count the link initiator-responder.
    """
    table = select_set_ups(analysis).handshakes
    ways = {"initiator-responder": ("initiator", "responder"), "responder-aaa": ("aaa_request", "aaa_response")}
    counts = pl.selectors.matches(r"_(messages|frames|bytes)$") & pl.selectors.numeric()
    sums = table.select(counts.sum()).row(0, named=True)
    links = {
        name: {count: sum(sums[f"{way}_{count}"] for way in both) for count in _COUNTS} for name, both in ways.items()
    }
    outcomes = dict(table.group_by("outcome").len().select(pl.col("outcome").cast(pl.String), "len").iter_rows())
    is_counted = pl.col("set_up") & pl.col("handshake").is_not_null() & (pl.col("protocol") != "RADIUS")
    sent, needed = analysis.messages.select(pl.col("bytes", "needed_bytes").filter(is_counted).sum()).row(0)
    setup = table.select(
        *(
            getattr(pl.col("setup_ns"), statistic)().cast(pl.Float64).truediv(1e6).round(6).alias(statistic)
            for statistic in ("min", "median", "mean", "max")
        )
    ).row(0, named=True)
    return {
        "captures": len(analysis.captures),
        "handshakes": table.height,
        "rekeyed_ike_sas": analysis.handshakes.height - table.height,
        "outcomes": {outcome: outcomes.get(outcome, 0) for outcome in OUTCOMES.categories},
        **{count: sum(link[count] for link in links.values()) for count in _COUNTS},
        "links": links,
        "retransmissions": {count: sums[f"retransmitted_{count}"] for count in _COUNTS},
        "blowup": sent / needed if needed else None,
        "setup_ms": {**setup, "known": table["setup_ns"].count(), "uncertain": table["uncertain"].count()},
        "packets": sum(summary.packets for summary in analysis.captures),
        **{
            name: {
                kind: sum(getattr(summary, name).get(kind, 0) for summary in analysis.captures) for kind in ACCOUNTING
            }
            for name in ("accounting", "accounting_bytes")
        },
        "payload_bytes": sum_payload_bytes(table),
    }


def sum_payload_bytes(handshakes: pl.DataFrame) -> list[Document] | None:
    """Return the bytes by payload of all decrypted handshakes, largest first; None if none was decrypted."""
    payloads = handshakes["payload_bytes"].drop_nulls()
    if payloads.is_empty():
        return None
    parts = payloads.explode().drop_nulls().struct.unnest().group_by("payload").agg(pl.col("bytes").sum())
    return parts.sort("bytes", "payload", descending=[True, False]).to_dicts()


def write_json_lines(analysis: Analysis, out: TextIO) -> None:
    """Write one line per handshake."""
    out.writelines(text + "\n" for text in iterate_handshake_json(select_set_ups(analysis)))


def write_report(analysis: Analysis, out: TextIO) -> None:
    """Write the whole document. Many handshakes are a line each, and are written as they are encoded."""
    if analysis.handshakes.height <= _MAX_INDENTED:
        out.write(format_json(build_report(analysis)) + "\n")
        return
    rest = format_json(_build_without_handshakes(analysis))
    for name, select in _LISTS.items():
        before, rest = rest.split(f'"{name}": []')
        out.write(f'{before}"{name}": [')
        for index, text in enumerate(iterate_handshake_json(select(analysis))):
            out.write(f"{',' if index else ''}\n    {text}")
        out.write("\n  ]")
    out.write(rest + "\n")
