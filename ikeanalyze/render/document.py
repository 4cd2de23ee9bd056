"""The tables as the nested document of schema "ikeanalyze.report/1".

A report can have a hundred thousand handshakes, each of some two hundred values. So the text of their JSON is
put together by polars, column by column (`jsontext`), from a description of the document (`_handshake`,
`_exchange`) that says what stands where; the same description gives the indented and the compact form.

Every part is a generator or small, so that a report of any size can be streamed. Times are ISO 8601 strings
in UTC with nine fractional digits, durations (`*_ms`) milliseconds; what is not known is null.
"""

from collections.abc import Iterator
from json import loads
from typing import Any, Final

import polars as pl

from ikeanalyze.analysis.result import ACCOUNTING, Analysis, CaptureSummary
from ikeanalyze.analysis.schema import OUTCOMES
from ikeanalyze.render.jsontext import (
    Field,
    Member,
    Spec,
    an_object,
    deeper,
    enclosed,
    milliseconds,
    objects,
    or_null,
    plain,
    quoted,
    scalar,
    separator,
    string,
    strings,
    time,
    words,
)
from ikeanalyze.render.values import iso

SCHEMA: Final = "ikeanalyze.report/1"

#: A JSON object.
Document = dict[str, Any]

_AT_ONCE: Final = 4_000  # handshakes whose text is held in memory


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


def handshakes(analysis: Analysis) -> Iterator[Document]:
    """One document per handshake, in order of id."""
    return map(loads, handshake_texts(analysis))


def handshake_texts(analysis: Analysis, depth: int | None = None) -> Iterator[str]:
    """The JSON text of each handshake, in order of id.

    `depth` is the number of spaces by which it will be indented: objects that hold nothing but values stand
    on one line, every member of the others on a line of its own. None: all on one line, without spaces.
    """
    table = analysis.handshakes.sort("handshake")
    inner = None if depth is None else depth + 4
    named, radius = _payload_names(analysis), _radius(analysis, deeper(inner))
    for rows in table.iter_slices(_AT_ONCE):
        ids = rows["handshake"]
        of_rows = pl.col("handshake").is_between(ids[0], ids[-1])
        exchanges = (
            analysis.exchanges.filter(of_rows)
            .sort("handshake", "exchange")
            .join(named, on="exchange", how="left", maintain_order="left")
            .join(radius, on="exchange", how="left", maintain_order="left")
        )
        texts = (
            exchanges.select("handshake", an_object(_exchange(inner), inner).alias("exchanges_text"))
            .group_by("handshake", maintain_order=True)
            .agg(pl.col("exchanges_text").str.join(separator(deeper(depth))))
        )
        joined = rows.join(texts, on="handshake", how="left", maintain_order="left").join(
            _key_exchanges(rows, exchanges, deeper(depth)),
            on="handshake",
            how="left",
            maintain_order="left",
        )
        yield from joined.select(an_object(_handshake(), depth).alias("text"))["text"]


def _payload_names(analysis: Analysis) -> pl.DataFrame:
    """For each exchange of which something was looked into: the payloads of its request and its response."""
    known = analysis.messages.filter(pl.col("payloads").is_not_null() & pl.col("exchange").is_not_null()).sort(
        "message"
    )
    return known.group_by("exchange").agg(
        pl.col("payloads").filter(pl.col("kind") == kind).first().alias(f"{kind}_payloads")
        for kind in ("request", "response")
    )


def _radius(analysis: Analysis, depth: int | None) -> pl.DataFrame:
    """For each exchange that the AAA server had a part in: the JSON of the RADIUS packets, list items at `depth`."""
    packets = analysis.messages.filter((pl.col("protocol") == "RADIUS") & pl.col("exchange").is_not_null()).sort(
        "message"
    )
    spec: Spec = {
        "code": quoted("type"),
        "identifier": plain("message_id"),
        "frame": plain("first_frame"),
        "matched_by": quoted("matched_by"),
    }
    return (
        packets.select("exchange", an_object(spec, depth).alias("radius_text"))
        .group_by("exchange")
        .agg(pl.col("radius_text").str.join(separator(depth)))
    )


def _key_exchanges(rows: pl.DataFrame, exchanges: pl.DataFrame, depth: int | None) -> pl.DataFrame:
    """For each handshake with key exchanges: their JSON, list items at `depth`; each names its exchange."""
    spec: Spec = {
        "exchange": quoted("type"),
        "message_id": plain("message_id"),
        "initiated_by": quoted("initiated_by"),
        "attempt": plain("attempt"),
        "purpose": quoted("purpose"),
        "slot": plain("slot"),
        "method": quoted("method"),
        "id": plain("id"),
        "linked_to": plain("linked_to"),
        "request": quoted("request"),
        "request_bytes": plain("request_bytes"),
        "response": quoted("response"),
        "response_bytes": plain("response_bytes"),
        "findings": words(pl.col("findings"), depth),
    }
    return (
        rows.select("handshake", "key_exchanges")
        .drop_nulls("key_exchanges")  # to explode what is null takes as long as what is not
        .explode("key_exchanges")
        .drop_nulls("key_exchanges")
        .unnest("key_exchanges")
        .join(
            exchanges.select("exchange", "type", "message_id", "initiated_by", "attempt"),
            on="exchange",
            how="left",
            maintain_order="left",
        )
        .select("handshake", an_object(spec, depth).alias("key_exchanges_text"))
        .group_by("handshake")
        .agg(pl.col("key_exchanges_text").str.join(separator(depth)))
    )


def _handshake() -> Spec:
    ends = ("initiator_address", "responder_address")
    return {
        "id": plain("handshake"),
        "capture": quoted("capture"),
        "protocol": quoted("protocol"),
        "spi_i": quoted("spi_i"),
        "spi_r": quoted("spi_r"),
        "initiator": {"address": quoted("initiator_address"), "port": plain("initiator_port")},
        "responder": {"address": quoted("responder_address"), "port": plain("responder_port")},
        "nat": quoted("nat"),
        "start_time": time("start_ns"),
        "outcome": quoted("outcome"),
        "reason": quoted("reason"),
        "auth": {
            "initiator": quoted("auth_initiator"),
            "responder": quoted("auth_responder"),
            "eap": quoted("auth_eap"),
            "guessed": plain("auth_guessed"),
        },
        "proposal": {
            "encryption": quoted("encryption"),
            "prf": quoted("prf"),
            "integrity": quoted("integrity"),
            "key_exchange": quoted("key_exchange"),
            "additional_key_exchanges": _slots,
        },
        "links": _links,
        "phases": _phases,
        "exchanges": lambda depth: enclosed(pl.col("exchanges_text"), "[]", depth),
        "setup_ms": milliseconds("setup_ns"),
        "breakdown": {
            "network_ms": milliseconds("network_ns"),
            "initiator_ms": milliseconds("initiator_ns"),
            "responder_ms": milliseconds("responder_ns"),
            "aaa_ms": milliseconds("aaa_ns"),
            "retransmission_wait_ms": milliseconds("retransmission_wait_ns"),
            "vantage": quoted("vantage"),
            "path_rtt_ms": milliseconds("path_rtt_ns"),
            "path_rtt_source": quoted("path_rtt_source"),
        },
        "retransmissions": _counts("retransmitted"),
        "blowup": scalar(pl.col("blowup").fill_nan(None)),
        "fragmentation": {
            "ike_messages": plain("ike_messages_fragmented"),
            "ike_fragments": plain("ike_fragments"),
            "ip_fragments": plain("ip_fragments"),
        },
        "end_time": time("end_ns"),
        "offered": strings("offered"),
        "supports": {
            "initiator": strings("initiator_supports"),
            "responder": strings("responder_supports"),
        },
        "extra_round_trips": strings("extra_round_trips"),
        "capture_duplicates": plain("capture_duplicates"),
        "one_sided": quoted("one_sided"),
        "after_setup": lambda depth: enclosed(
            an_object(
                _link("initiator-responder", *ends, "after_setup_initiator", "after_setup_responder"),
                deeper(depth),
            ),
            "[]",
            depth,
        ),
        "replaces": plain("replaces"),
        "child_error": quoted("child_error"),
        "payload_bytes": objects("payload_bytes", _part),
        "key_exchanges": lambda depth: or_null("key_exchanges", enclosed(pl.col("key_exchanges_text"), "[]", depth)),
        "certificates": objects("certificates", _certificate),
        "hits": {"initiator": quoted("initiator_hit"), "responder": quoted("responder_hit")},
    }


def _part(field: Field) -> Spec:
    return {"payload": string(field("payload")), "bytes": scalar(field("bytes"))}


def _certificate(field: Field) -> Spec:
    texts = ("side", "name", "key", "signature")
    sizes = ("bytes", "key_bytes", "signature_bytes", "other_bytes")
    return {
        **{name: string(field(name)) for name in texts},
        **{name: scalar(field(name)) for name in sizes},
    }


def _exchange(depth: int | None) -> Spec:
    return {
        "type": quoted("type"),
        "message_id": plain("message_id"),
        "request": _half("request", depth),
        "response": _half("response", depth),
        "rtt_ms": milliseconds("rtt_ns"),
        "epoch": plain("epoch"),
        "decrypted": plain("decrypted"),
        "attempt": plain("attempt"),
        "initiated_by": quoted("initiated_by"),
        "set_up": plain("set_up"),
        "extra_round_trip": quoted("extra_round_trip"),
        "retransmission_wait_ms": milliseconds("wait_ns"),
        "radius": lambda depth: enclosed(pl.col("radius_text"), "[]", depth),
    }


def _counts(who: str) -> Spec:
    return {what: plain(f"{who}_{what}") for what in ("messages", "frames", "bytes")}


def _link(name: str, a: str, b: str, forth: str, back: str, again: str | None = None) -> Spec:
    spec: Spec = {
        "name": pl.lit(f'"{name}"'),
        "a": quoted(a),
        "b": quoted(b),
        "a_to_b": _counts(forth),
        "b_to_a": _counts(back),
    }
    more: Spec = {} if again is None else {"retransmissions": _counts(again)}
    return {**spec, **more}


def _links(depth: int | None) -> pl.Expr:
    """The link between initiator and responder, and that to the AAA server if RADIUS was seen."""
    ends = "initiator_address", "responder_address"
    ike = _link("initiator-responder", *ends, "initiator", "responder", "retransmitted")
    ends = "nas_address", "aaa_address"
    radius = _link("responder-aaa", *ends, "aaa_request", "aaa_response", "aaa_retransmitted")
    inner = deeper(depth)
    second = (
        pl.when(pl.col("nas_address").is_null())
        .then(pl.lit(""))
        .otherwise(pl.concat_str(pl.lit(separator(depth)), an_object(radius, inner)))
    )
    return enclosed(pl.concat_str(an_object(ike, inner), second), "[]", depth)


def _half(kind: str, depth: int | None) -> Member:
    """The request or the response of an exchange, null if the capture has none."""
    spec: Spec = {
        **_counts(kind),
        "first_time": time(f"{kind}_ns"),
        "payloads": words(pl.col(f"{kind}_payloads"), depth),
    }
    return lambda depth: or_null(f"{kind}_messages", an_object(spec, depth))


def _phases(depth: int | None) -> pl.Expr:
    phase = pl.element().struct
    counts: Spec = {what: scalar(phase.field(what)) for what in ("messages", "frames", "bytes")}
    colon = pl.lit(":" if depth is None else ": ")
    member = pl.concat_str(string(phase.field("type")), colon, an_object(counts, deeper(depth)))
    return enclosed(pl.col("phases").list.eval(member).list.join(separator(depth)), "{}", depth)


def _slots(depth: int | None) -> pl.Expr:
    slot = pl.element().struct
    spec: Spec = {
        "slot": scalar(slot.field("slot")),
        "method": string(slot.field("method")),
        "id": scalar(slot.field("id")),
    }
    items = pl.col("additional_key_exchanges").list.eval(an_object(spec, deeper(depth)))
    return enclosed(items.list.join(separator(depth)), "[]", depth)


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
    counts = pl.selectors.matches(r"_(messages|frames|bytes)$") & pl.selectors.numeric()
    sums = table.select(counts.sum()).row(0, named=True)
    links = {name: {w: sum(sums[f"{way}_{w}"] for way in both) for w in what} for name, both in ways.items()}
    outcomes = dict(table.group_by("outcome").len().select(pl.col("outcome").cast(pl.String), "len").iter_rows())
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
            what: sum(summary.accounting_bytes.get(what, 0) for summary in analysis.captures) for what in ACCOUNTING
        },
        "payload_bytes": payload_bytes(table),
    }


def payload_bytes(handshakes: pl.DataFrame) -> list[Document] | None:
    """Bytes by payload over all handshakes that were looked into, largest first; None: there is none."""
    known = handshakes["payload_bytes"].drop_nulls()
    if known.is_empty():
        return None
    parts = known.explode().drop_nulls().struct.unnest().group_by("payload").agg(pl.col("bytes").sum())
    return parts.sort("bytes", "payload", descending=[True, False]).to_dicts()
