"""The tables as the nested document of schema "ikeanalyze.report/1".

A report can have a hundred thousand handshakes, each of some two hundred values. So the text of their JSON is
put together by polars, column by column, from a description of the document (`_handshake`, `_exchange`) that
says what stands where; the same description gives the indented and the compact form.

Every part is a generator or small, so that a report of any size can be streamed. Times are ISO 8601 strings
in UTC with nine fractional digits, durations (`*_ms`) milliseconds; what is not known is null.
"""

from collections.abc import Callable, Iterator, Mapping
from json import loads
from typing import Any, Final, Union

import polars as pl

from ikeanalyze.analysis.result import ACCOUNTING, Analysis, CaptureSummary
from ikeanalyze.analysis.schema import OUTCOMES
from ikeanalyze.render.values import iso

SCHEMA: Final = "ikeanalyze.report/1"

#: A JSON object.
Document = dict[str, Any]

#: What an object is made of: JSON text in an expression, another object, or what depends on the depth.
Spec = Mapping[str, Union["Spec", pl.Expr, Callable[[int | None], pl.Expr]]]

_AT_ONCE: Final = 4_000  # handshakes whose text is held in memory


def times(columns: list[str]) -> list[pl.Expr]:
    """Columns `*_ns` that are points in time, as text."""
    return [pl.from_epoch(c, time_unit="ns").dt.strftime("%Y-%m-%dT%H:%M:%S%.9fZ").alias(c) for c in columns]


def durations(columns: list[str]) -> list[pl.Expr]:
    """Columns `*_ns` that are durations, in milliseconds."""
    return [(pl.col(c) / 1e6).round(6).alias(c) for c in columns]


def report(analysis: Analysis) -> Document:
    """The whole document at once; `json.write` streams the same."""
    return {
        "schema": SCHEMA,
        "captures": [capture(summary) for summary in analysis.captures],
        "handshakes": list(handshakes(analysis)),
        "totals": totals(analysis),
        "warnings": list(warnings(analysis)),
        "skipped": list(skipped(analysis)),
    }


def capture(summary: CaptureSummary) -> Document:
    """One capture that was read."""
    return {
        "path": summary.path,
        "format": summary.format,
        "packets": summary.packets,
        "bytes": summary.bytes,
        "first_time": iso(summary.first_ns),
        "last_time": iso(summary.last_ns),
        "snaplen_truncated": summary.snaplen_truncated,
        "damaged": summary.damaged,
        "accounting": {what: summary.accounting.get(what, 0) for what in ACCOUNTING},
        "accounting_bytes": {what: summary.accounting_bytes.get(what, 0) for what in ACCOUNTING},
    }


def warnings(analysis: Analysis) -> Iterator[Document]:
    """What the user should know of."""
    for warning in analysis.warnings:
        yield {"capture": warning.capture, "frame": warning.frame, "what": warning.what}


def skipped(analysis: Analysis) -> Iterator[Document]:
    """Captures of which nothing could be read."""
    for one in analysis.skipped:
        yield {"path": one.path, "reason": one.reason}


def text_columns(frame: pl.DataFrame) -> list[pl.Expr]:
    """Enum and categorical columns as plain text."""
    return [
        pl.col(name).cast(pl.String)
        for name, kind in frame.schema.items()
        if isinstance(kind, pl.Enum | pl.Categorical)
    ]


def handshakes(analysis: Analysis) -> Iterator[Document]:
    """One document per handshake, in order of id."""
    return map(loads, handshake_texts(analysis))


def handshake_texts(analysis: Analysis, depth: int | None = None) -> Iterator[str]:
    """The JSON text of each handshake, in order of id.

    `depth` is the number of spaces by which it will be indented: objects that hold nothing but values stand
    on one line, every member of the others on a line of its own. None: all on one line, without spaces.
    """
    table = analysis.handshakes.sort("handshake")
    for rows in table.iter_slices(_AT_ONCE):
        ids = rows["handshake"]
        of_rows = pl.col("handshake").is_between(ids[0], ids[-1])
        exchanges = analysis.exchanges.filter(of_rows).sort("handshake", "exchange")
        inner = None if depth is None else depth + 4
        texts = (
            exchanges.select("handshake", _text(_exchange(), inner).alias("exchanges_text"))
            .group_by("handshake", maintain_order=True)
            .agg(pl.col("exchanges_text").str.join(_separator(_deeper(depth))))
        )
        joined = rows.join(texts, on="handshake", how="left", maintain_order="left")
        yield from joined.select(_text(_handshake(), depth).alias("text"))["text"]


def _handshake() -> Spec:
    ends = ("initiator_address", "responder_address")
    return {
        "id": _plain("handshake"),
        "capture": _quoted("capture"),
        "protocol": _quoted("protocol"),
        "spi_i": _quoted("spi_i"),
        "spi_r": _quoted("spi_r"),
        "initiator": {"address": _quoted("initiator_address"), "port": _plain("initiator_port")},
        "responder": {"address": _quoted("responder_address"), "port": _plain("responder_port")},
        "nat": _quoted("nat"),
        "start_time": _time("start_ns"),
        "outcome": _quoted("outcome"),
        "reason": _quoted("reason"),
        "auth": {
            "initiator": _quoted("auth_initiator"),
            "responder": _quoted("auth_responder"),
            "eap": _quoted("auth_eap"),
            "guessed": _plain("auth_guessed"),
        },
        "proposal": {
            "encryption": _quoted("encryption"),
            "prf": _quoted("prf"),
            "integrity": _quoted("integrity"),
            "key_exchange": _quoted("key_exchange"),
            "additional_key_exchanges": _slots,
        },
        "links": _links,
        "phases": _phases,
        "exchanges": lambda depth: _enclosed(pl.col("exchanges_text"), "[]", depth),
        "setup_ms": _milliseconds("setup_ns"),
        "breakdown": {
            "network_ms": _milliseconds("network_ns"),
            "initiator_ms": _milliseconds("initiator_ns"),
            "responder_ms": _milliseconds("responder_ns"),
            "aaa_ms": _milliseconds("aaa_ns"),
            "retransmission_wait_ms": _milliseconds("retransmission_wait_ns"),
            "vantage": _quoted("vantage"),
            "path_rtt_ms": _milliseconds("path_rtt_ns"),
            "path_rtt_source": _quoted("path_rtt_source"),
        },
        "retransmissions": _counts("retransmitted"),
        "blowup": _value(pl.col("blowup").fill_nan(None)),
        "fragmentation": {
            "ike_messages": _plain("ike_messages_fragmented"),
            "ike_fragments": _plain("ike_fragments"),
            "ip_fragments": _plain("ip_fragments"),
        },
        "end_time": _time("end_ns"),
        "offered": _strings("offered"),
        "supports": {
            "initiator": _strings("initiator_supports"),
            "responder": _strings("responder_supports"),
        },
        "extra_round_trips": _strings("extra_round_trips"),
        "capture_duplicates": _plain("capture_duplicates"),
        "one_sided": _quoted("one_sided"),
        "after_setup": lambda depth: _enclosed(
            _text(
                _link("initiator-responder", *ends, "after_setup_initiator", "after_setup_responder"),
                _deeper(depth),
            ),
            "[]",
            depth,
        ),
    }


def _exchange() -> Spec:
    return {
        "type": _quoted("type"),
        "message_id": _plain("message_id"),
        "request": _half("request"),
        "response": _half("response"),
        "rtt_ms": _milliseconds("rtt_ns"),
        "epoch": _plain("epoch"),
        "decrypted": _plain("decrypted"),
        "attempt": _plain("attempt"),
        "initiated_by": _quoted("initiated_by"),
        "set_up": _plain("set_up"),
        "extra_round_trip": _quoted("extra_round_trip"),
        "retransmission_wait_ms": _milliseconds("wait_ns"),
    }


def _counts(who: str) -> Spec:
    return {what: _plain(f"{who}_{what}") for what in ("messages", "frames", "bytes")}


def _link(name: str, a: str, b: str, forth: str, back: str) -> Spec:
    return {
        "name": pl.lit(f'"{name}"'),
        "a": _quoted(a),
        "b": _quoted(b),
        "a_to_b": _counts(forth),
        "b_to_a": _counts(back),
    }


def _links(depth: int | None) -> pl.Expr:
    """The link between initiator and responder, and that to the AAA server if RADIUS was seen."""
    ike = _link("initiator-responder", "initiator_address", "responder_address", "initiator", "responder")
    radius = _link("responder-aaa", "nas_address", "aaa_address", "aaa_request", "aaa_response")
    inner = _deeper(depth)
    second = (
        pl.when(pl.col("nas_address").is_null())
        .then(pl.lit(""))
        .otherwise(pl.concat_str(pl.lit(_separator(depth)), _text(radius, inner)))
    )
    return _enclosed(pl.concat_str(_text(ike, inner), second), "[]", depth)


def _half(kind: str) -> Callable[[int | None], pl.Expr]:
    """The request or the response of an exchange, null if the capture has none."""
    spec: Spec = {**_counts(kind), "first_time": _time(f"{kind}_ns")}

    def text(depth: int | None) -> pl.Expr:
        return (
            pl.when(pl.col(f"{kind}_messages").is_null()).then(pl.lit("null")).otherwise(_text(spec, depth))
        )

    return text


def _phases(depth: int | None) -> pl.Expr:
    phase = pl.element().struct
    counts: Spec = {what: _value(phase.field(what)) for what in ("messages", "frames", "bytes")}
    colon = pl.lit(":" if depth is None else ": ")
    member = pl.concat_str(_string(phase.field("type")), colon, _text(counts, _deeper(depth)))
    return _enclosed(pl.col("phases").list.eval(member).list.join(_separator(depth)), "{}", depth)


def _slots(depth: int | None) -> pl.Expr:
    slot = pl.element().struct
    spec: Spec = {
        "slot": _value(slot.field("slot")),
        "method": _string(slot.field("method")),
        "id": _value(slot.field("id")),
    }
    items = pl.col("additional_key_exchanges").list.eval(_text(spec, _deeper(depth)))
    return _enclosed(items.list.join(_separator(depth)), "[]", depth)


def _strings(column: str) -> Callable[[int | None], pl.Expr]:
    items = pl.col(column).list.eval(_string(pl.element()))
    return lambda depth: _enclosed(items.list.join(_separator(depth)), "[]", depth)


def _plain(column: str) -> pl.Expr:
    """A number or a truth value as JSON."""
    return _value(pl.col(column))


def _value(value: pl.Expr) -> pl.Expr:
    return value.cast(pl.String).fill_null("null")


def _quoted(column: str) -> pl.Expr:
    """A text, or what is one to the reader (an enum, a category), as JSON."""
    return _string(pl.col(column))


def _string(value: pl.Expr) -> pl.Expr:
    escaped = pl.struct(value.cast(pl.String).alias("v")).struct.json_encode()
    return escaped.str.strip_prefix('{"v":').str.strip_suffix("}")


def _time(column: str) -> pl.Expr:
    return pl.concat_str(pl.lit('"'), *times([column]), pl.lit('"')).fill_null("null")


def _milliseconds(column: str) -> pl.Expr:
    (expression,) = durations([column])
    return _value(expression)


def _deeper(depth: int | None) -> int | None:
    return None if depth is None else depth + 2


def _separator(depth: int | None) -> str:
    """What stands between the items of a list at `depth`."""
    return "," if depth is None else ",\n" + " " * (depth + 2)


def _enclosed(items: pl.Expr, brackets: str, depth: int | None) -> pl.Expr:
    """Joined items in brackets; no items: the brackets alone."""
    start, end = ("", "") if depth is None else ("\n" + " " * (depth + 2), "\n" + " " * depth)
    full = pl.concat_str(pl.lit(brackets[0] + start), items, pl.lit(end + brackets[1]))
    return pl.when(items.fill_null("") == "").then(pl.lit(brackets)).otherwise(full)


def _text(spec: Spec, depth: int | None) -> pl.Expr:
    """An object as JSON."""
    values_only = all(isinstance(value, pl.Expr) for value in spec.values())
    if depth is None:
        start, between, colon, end = "{", ",", ":", "}"
    elif values_only:
        start, between, colon, end = "{", ", ", ": ", "}"
    else:
        start, between, colon, end = (
            "{" + _separator(depth)[1:],
            _separator(depth),
            ": ",
            "\n" + " " * depth + "}",
        )
    pieces: list[pl.Expr] = []
    for name, value in spec.items():
        pieces.append(pl.lit(f'{between if pieces else start}"{name}"{colon}'))
        if isinstance(value, pl.Expr):
            pieces.append(value)
        elif isinstance(value, Mapping):
            pieces.append(_text(value, _deeper(depth)))
        else:
            pieces.append(value(_deeper(depth)))
    return pl.concat_str(*pieces, pl.lit(end))


def totals(analysis: Analysis) -> Document:
    """Sums over all handshakes and captures.

    `messages`, `frames` and `bytes` are of all links of all handshakes, `links` splits them; the blow-up and
    the retransmissions are of the link initiator-responder.
    """
    table = analysis.handshakes
    what = ("messages", "frames", "bytes")
    ways = {
        "initiator-responder": ("initiator", "responder"),
        "responder-aaa": ("aaa_request", "aaa_response"),
    }
    sums = table.select(pl.selectors.matches(r"_(messages|frames|bytes)$").sum()).row(0, named=True)
    links = {name: {w: sum(sums[f"{way}_{w}"] for way in both) for w in what} for name, both in ways.items()}
    outcomes = dict(
        table.group_by("outcome").len().select(pl.col("outcome").cast(pl.String), "len").iter_rows()
    )
    messages = analysis.messages.filter(
        pl.col("set_up"), pl.col("handshake").is_not_null(), pl.col("protocol") != "RADIUS"
    )
    sent, needed = int(messages["bytes"].sum()), int(messages["needed_bytes"].sum())
    known = table["setup_ns"].drop_nulls()
    setup = table.select(
        *(
            getattr(pl.col("setup_ns"), how)().cast(pl.Float64).truediv(1e6).round(6).alias(how)
            for how in ("min", "median", "mean", "max")
        )
    ).row(0, named=True)
    return {
        "captures": len(analysis.captures),
        "handshakes": table.height,
        "outcomes": {outcome: outcomes.get(outcome, 0) for outcome in OUTCOMES.categories},
        **{w: sum(link[w] for link in links.values()) for w in what},
        "links": links,
        "retransmissions": {w: sums[f"retransmitted_{w}"] for w in what},
        "blowup": sent / needed if needed else None,
        "setup_ms": {**setup, "known": len(known)},
        "packets": sum(summary.packets for summary in analysis.captures),
        "accounting": {
            what: sum(summary.accounting.get(what, 0) for summary in analysis.captures) for what in ACCOUNTING
        },
        "accounting_bytes": {
            what: sum(summary.accounting_bytes.get(what, 0) for summary in analysis.captures)
            for what in ACCOUNTING
        },
    }
