"""Collects the facts that the rules of the diagnosis need about the handshakes that `candidates` selects."""

from collections.abc import Sequence
from typing import Final

import numpy as np
import polars as pl

from ikeanalyze.analysis import schema
from ikeanalyze.analysis.exchanges.answers import AnsweredTransmissions
from ikeanalyze.analysis.exchanges.exchanges import UNKNOWN
from ikeanalyze.analysis.exchanges.radius import RadiusExchange
from ikeanalyze.analysis.handshakes.auth_methods import build_type_names
from ikeanalyze.analysis.handshakes.diagnosis.candidates import ShortResponses, find_steps_back
from ikeanalyze.analysis.handshakes.diagnosis.decrypted_columns import DECRYPTED_FACTS
from ikeanalyze.analysis.handshakes.diagnosis.icmp_facts import ICMP_FACTS, collect_icmp_facts, match_icmp_errors
from ikeanalyze.analysis.handshakes.diagnosis.responders import NAT_PORT, find_responder_facts
from ikeanalyze.analysis.handshakes.handshakes import HandshakeColumns
from ikeanalyze.analysis.handshakes.outcome import Outcome
from ikeanalyze.analysis.messages.capture_facts import WHOLE_CAPTURE, CaptureFacts
from ikeanalyze.analysis.state import AnalysisState
from ikeanalyze.capture.arrays import BoolArray, Int64Array
from ikeanalyze.capture.buffers import Columns
from ikeanalyze.wire.ikev2.key_exchange import get_key_exchange_name
from ikeanalyze.wire.registries.ikev2 import ExchangeType
from ikeanalyze.wire.registries.ikev2_notifies import NotifyType
from ikeanalyze.wire.registries.radius import RadiusCode

#: Packet numbers that are kept as evidence of one message.
_MAX_FRAMES: Final = 12
#: Facts about the request and the response of the last exchange of the set-up.
_OF_MESSAGE: Final[schema.Schema] = {
    "bytes": pl.Int64,  # of the largest datagram on the wire, with all its IP fragments
    "fragments": pl.Int64,  # IKE fragments of the message; 0: not fragmented
    "ip_fragmented": pl.Boolean,
    "missing": pl.String,  # "fragment 2 of 2": IKE fragments that are in no transmission; null: none
    "passed_bytes": pl.Int64,  # largest datagram of the same direction that arrived before; null: none did
    "frames": pl.List(pl.UInt32),  # numbers of the first packets of its transmissions
    "and_icmp_frames": pl.List(pl.UInt32),  # the same, and of packets with ICMP errors about them
    **ICMP_FACTS,
}
#: Further exchanges that a diagnosis may concern: the last IKE_SA_INIT, the one of the set-up whose request was sent
#: most often, the one with the greatest round-trip time without retransmissions, IKE_INTERMEDIATE in IP fragments, and
#: the last one after the set-up.
_EXCHANGES: Final = ("init", "repeated", "slow", "large", "later")
_OF_EXCHANGE: Final[schema.Schema] = {
    "type": pl.String,
    "message_id": pl.UInt32,
    "by": pl.String,  # who sent its request
    "frames": pl.List(pl.UInt32),  # numbers of the first packets of the message's transmissions
}
#: Facts about a suspect, in addition to its row of the handshakes table. "Last" is the last exchange of its set-up, and
#: "later" the last exchange after the set-up.
FACTS: Final[schema.Schema] = {
    "row": pl.Int64,  # of the handshakes table
    "last_type": pl.String,
    "last_message_id": pl.UInt32,
    "last_by": pl.String,  # who sent its request
    "sent": pl.String,  # how often its request was sent: "once", "4 times in 12.1 s"
    "again": pl.UInt32,  # retransmissions of its request
    "on_4500": pl.Boolean,  # it uses UDP port 4500
    "ended": pl.Boolean,  # it has a response that ended it
    "unprotected": pl.Boolean,  # it has responses, and none is encrypted
    "responses": pl.UInt32,  # transmissions of its response
    **{f"{kind}_{name}": dtype for kind in ("request", "response") for name, dtype in _OF_MESSAGE.items()},
    "response_ike_bytes": pl.Int64,  # length of the IKE message, if it is a short IKE_AUTH response; else null
    "ignored": pl.UInt32,  # transmissions of its request after the first one of its response
    "answered": pl.UInt32,  # exchanges before the last one
    "auth_exchanges": pl.UInt32,  # IKE_AUTH exchanges; several are EAP
    "passed_sent": pl.UInt32,  # transmissions of the one of their requests that was sent most often
    "step_back_ns": pl.Int64,  # by which time stamps go back between two of its packets; 0: they do not
    "aaa_rejected": pl.Boolean,  # the AAA server sent an Access-Reject
    "accepted": pl.String,  # the proposal that the responder accepted first, in any handshake of the capture
    "wanted_method": pl.String,  # key exchange method of the last INVALID_KE_PAYLOAD; null: there was none
    "passed_4500": pl.Boolean,  # the responder sent something from port 4500, in any handshake of the capture
    "repeated_sent": pl.UInt32,  # transmissions of the request of the set-up that was sent most often
    "shortest_timer_ns": pl.Int64,  # least time between two transmissions of a request; null: none was repeated
    "slow_rtt_ns": pl.Int64,  # greatest round-trip time of an exchange without retransmissions
    "large_bytes": pl.Int64,  # largest IKE_INTERMEDIATE message without IKE fragmentation, in IP fragments
    "large_kind": pl.String,  # "request" or "response"
    **{f"{name}_{column}": dtype for name in _EXCHANGES for column, dtype in _OF_EXCHANGE.items()},
    "later_sent": pl.String,
    "later_again": pl.UInt32,
    "later_ended": pl.Boolean,
    "later_unprotected": pl.Boolean,
    "later_idle_ns": pl.Int64,  # from the last message of its receiver before it to its first transmission
    **DECRYPTED_FACTS,
}


def collect_facts(
    suspects: BoolArray,
    handshakes: HandshakeColumns,
    state: AnalysisState,
    answers: AnsweredTransmissions,
    short: ShortResponses,
    icmp_errors: Columns,
    facts: CaptureFacts = WHOLE_CAPTURE,
) -> pl.DataFrame | None:
    """The facts about the suspects, in order of their rows, with the columns of `FACTS`; None: all are clean.

    `suspects`: see `candidates.find_suspects`; `icmp_errors`: see `capture.decode.icmp.ICMP_LAYOUT`.
    """
    # shared before anything else, because other parts of the capture may need it
    responders = find_responder_facts(handshakes, state, facts, np.flatnonzero(suspects))
    icmp = match_icmp_errors(icmp_errors, state, facts)
    if not suspects.any():
        return None
    exchanges = _tabulate_exchanges(suspects, state, answers)
    datagrams = _tabulate_datagrams(suspects, state, short)
    by_kind = _summarise_messages(datagrams)
    set_ups = exchanges.filter("set_up")
    if set_ups.is_empty():
        return None
    last = _summarise_last_exchanges(set_ups, by_kind).join(
        _count_ignored_responses(datagrams), on="exchange", how="left", maintain_order="left"
    )
    last = _add_icmp_facts(last, collect_icmp_facts(icmp, state, suspects))
    rows = last["row"].to_numpy()
    decrypted = _tabulate_decrypted_facts(handshakes, state, rows[_find_refused(handshakes)[rows]])
    parts = [
        _summarise_set_ups(set_ups, datagrams, by_kind),
        _summarise_later_exchanges(exchanges.filter(~pl.col("set_up")), datagrams, by_kind),
        decrypted,
    ]
    for part in parts:
        last = last.join(part, on="row", how="left", maintain_order="left")
    wanted = _find_wanted_methods(state, suspects)
    # a suspect without set-up in the capture is left out
    place = np.searchsorted(np.flatnonzero(suspects), rows)
    last = last.with_columns(
        pl.Series("wanted_method", [wanted.get(row) for row in rows.tolist()], dtype=pl.String),
        pl.Series("passed_4500", responders.on_4500[place]),
        pl.Series("accepted", [responders.accepted[at] for at in place.tolist()], dtype=pl.String),
        pl.Series("step_back_ns", find_steps_back(state)[rows]),
        pl.Series("aaa_rejected", [_is_rejected(handshakes.pairs.get(row, ())) for row in rows.tolist()]),
    )
    return last.select(pl.col(name).cast(dtype) for name, dtype in FACTS.items())


def _add_icmp_facts(last: pl.DataFrame, icmp: pl.DataFrame | None) -> pl.DataFrame:
    """The last exchanges with the facts about their messages from ICMP errors; None: there are none."""
    for kind, response in (("request", False), ("response", True)):
        names = {name: f"{kind}_{name}" for name in ICMP_FACTS}
        frames = f"{kind}_and_icmp_frames"
        if icmp is None:
            nothing = (pl.lit(None, ICMP_FACTS[name]).alias(column) for name, column in names.items())
            last = last.with_columns(*nothing, pl.lit(None, pl.List(pl.UInt32)).alias(frames))
            continue
        of_kind = icmp.filter(pl.col("response") == response).drop("response").rename(names)
        last = last.join(of_kind, on="exchange", how="left", maintain_order="left")
        both = pl.concat_list(pl.col(f"{kind}_frames", f"{kind}_icmp_frames").fill_null([]))
        last = last.with_columns(both.list.sort().list.head(_MAX_FRAMES).alias(frames))
    return last


def _find_wanted_methods(state: AnalysisState, suspects: BoolArray) -> dict[int, str]:
    """The key exchange method that the responder asked for with its last INVALID_KE_PAYLOAD, by handshake."""
    inits = state.inits
    methods = {
        form: get_key_exchange_name(int.from_bytes(data[:2], "big"))
        for form, view in enumerate(inits.views)
        for kind, data in view.notifies
        if kind == NotifyType.INVALID_KE_PAYLOAD
    }
    rows = np.flatnonzero(np.isin(inits.form, list(methods)))
    handshake = state.association.handshake[inits.rows[rows]]
    chosen = suspects[handshake]
    # the rows are in order of time, so the last one counts
    return {
        row: methods[form]
        for row, form in zip(handshake[chosen].tolist(), inits.form[rows[chosen]].tolist(), strict=True)
    }


def _is_rejected(pairs: Sequence[RadiusExchange]) -> bool:
    return any(pair.response_view is not None and pair.response_view.code == RadiusCode.ACCESS_REJECT for pair in pairs)


def _tabulate_decrypted_facts(handshakes: HandshakeColumns, state: AnalysisState, rows: Int64Array) -> pl.DataFrame:
    """A row for each handshake of `rows`; none without keys."""
    columns = {"row": pl.Int64, **DECRYPTED_FACTS}
    if handshakes.contents is None:
        return pl.DataFrame(schema=columns)
    # late: it loads parsers that a report without keys does not need
    from ikeanalyze.analysis.handshakes.diagnosis.decrypted_facts import collect_decrypted_facts

    facts = collect_decrypted_facts(handshakes.contents.contents, state, rows.tolist())
    return pl.DataFrame({"row": rows, **facts}, schema=columns)


def _find_refused(handshakes: HandshakeColumns) -> BoolArray:
    """Which handshakes payloads may say more about: those that failed, or that have no CHILD_SA. (handshakes,)"""
    refused = handshakes.outcome == int(Outcome.FAILED)
    if handshakes.contents is not None:
        for row, facts in handshakes.contents.facts.items():
            refused[row] |= facts.proof.child_error is not None
    return np.asarray(refused)


def _tabulate_exchanges(suspects: BoolArray, state: AnalysisState, answers: AnsweredTransmissions) -> pl.DataFrame:
    """The exchanges of suspects, in order of handshake and time."""
    exchanges = state.exchanges
    rows = np.flatnonzero(suspects[exchanges.handshake])
    names = pl.Series(build_type_names(), dtype=pl.String)
    protocol = exchanges.protocol[rows].astype(np.uint32)
    sides = pl.Series(["responder", "initiator"], dtype=pl.String)
    table = pl.DataFrame(
        {
            "row": exchanges.handshake[rows].astype(np.int64),
            "exchange": rows,
            "type": names.gather(protocol * 256 + exchanges.exchange_type[rows]),
            "message_id": exchanges.message_id[rows],
            "by": sides.gather(exchanges.initiator_asked[rows].astype(np.uint32)),
            "by_initiator": exchanges.initiator_asked[rows],
            "set_up": exchanges.set_up[rows],
            "ended": answers.end_ns[rows] != UNKNOWN,
            "unprotected": state.unprotected[rows],
            "rtt": answers.rtt_ns[rows],
            "start": exchanges.start_ns[rows],
        }
    )
    return table.with_columns(pl.when(pl.col("rtt") != UNKNOWN).then("rtt"))


def _tabulate_datagrams(suspects: BoolArray, state: AnalysisState, short: ShortResponses) -> pl.DataFrame:
    """The datagrams of suspects, with facts about their messages."""
    datagrams, messages = state.datagrams, state.messages
    rows: Int64Array = np.flatnonzero(suspects[state.association.handshake])
    message = state.message_of_datagram[rows].astype(np.int64)
    exchange = state.exchange_of_message[message].astype(np.int64)
    ports = datagrams.source_port[rows], datagrams.destination_port[rows]
    lacking = np.zeros((len(state.exchanges), 2), np.bool_)
    first = state.lacking_fragments
    lacking[state.exchange_of_message[first], messages.response[first].astype(np.intp)] = True
    table = pl.DataFrame(
        {
            "row": messages.handshake[message].astype(np.int64),
            "exchange": exchange,
            "response": messages.response[message],
            "from_initiator": messages.from_initiator[message],
            "intermediate": messages.exchange_type[message] == int(ExchangeType.IKE_INTERMEDIATE),
            "set_up": state.exchanges.set_up[exchange],
            "message": message,
            "transmission": messages.transmission[message],
            "fragment": datagrams.fragment[rows],
            "fragments": datagrams.fragments[rows].astype(np.int64),
            "arrived": ~state.undelivered[rows],
            "lacking": lacking[exchange, messages.response[message].astype(np.intp)],
            "bytes": datagrams.bytes[rows].astype(np.int64),
            "ip_fragments": datagrams.ip_fragments[rows],
            "frame": datagrams.number[rows],
            "time": datagrams.first_ns[rows],
            "on_4500": (ports[0] == NAT_PORT) | (ports[1] == NAT_PORT),
            "datagram": datagrams.datagram[rows],
        }
    )
    lengths = pl.DataFrame({"datagram": short.datagram, "ike_bytes": short.ike_bytes}).unique("datagram")
    return table.join(lengths, on="datagram", how="left", maintain_order="left")


def _summarise_messages(datagrams: pl.DataFrame) -> pl.DataFrame:
    """The request and the response of each exchange, all transmissions together."""
    # the receiver keeps the fragments with the largest total that arrived (RFC 7383, section 2.6); 0: unknown, of IKEv1
    total = pl.coalesce(pl.col("fragments").filter("arrived").max(), pl.col("fragments").max())
    is_kept = (pl.col("fragments") == total) & pl.col("arrived") | (pl.col("fragments") == 0)
    return datagrams.group_by("exchange", "response").agg(
        pl.col("bytes", "ike_bytes").max(),
        total.alias("fragments"),
        pl.col("fragment").filter(is_kept).unique().sort(),
        pl.col("lacking").any(),
        (pl.col("ip_fragments") > 0).any().alias("ip_fragmented"),
        pl.col("on_4500").any(),
        pl.col("message").n_unique().alias("transmissions"),
        (pl.col("time").max() - pl.col("time").min()).alias("span"),
        _list_first_frames(),
    )


def _count_ignored_responses(datagrams: pl.DataFrame) -> pl.DataFrame:
    """How often the request of each exchange was sent after the first response."""
    answer = pl.col("time").filter("response").min()
    later = ~pl.col("response") & (pl.col("time") > answer)
    return datagrams.group_by("exchange").agg(pl.col("message").filter(later).n_unique().alias("ignored"))


def _list_first_frames() -> pl.Expr:
    """The first packet of each transmission of a message."""
    return (
        pl.col("frame").filter(pl.col("fragment") == pl.col("fragment").min()).sort().head(_MAX_FRAMES).alias("frames")
    )


def _summarise_last_exchanges(exchanges: pl.DataFrame, by_kind: pl.DataFrame) -> pl.DataFrame:
    """The last exchange of each set-up."""
    names = ("type", "message_id", "by")
    last = exchanges.group_by("row", maintain_order=True).agg(
        pl.col("exchange", "ended", "unprotected").last(),
        *(pl.col(name).last().alias(f"last_{name}") for name in names),
        (pl.len() - 1).cast(pl.UInt32).alias("answered"),
        (pl.col("type") == "IKE_AUTH").sum().alias("auth_exchanges"),
    )
    copied = ("bytes", "fragments", "ip_fragmented", "frames", "on_4500", "transmissions", "span", "ike_bytes")
    for kind, response in (("request", False), ("response", True)):
        of_kind = by_kind.filter(pl.col("response") == response).select(
            "exchange",
            *(pl.col(name).alias(f"{kind}_{name}") for name in copied),
            _describe_missing().alias(f"{kind}_missing"),
        )
        last = last.join(of_kind, on="exchange", how="left", maintain_order="left")
        passed = (
            exchanges.join(last.select("exchange"), on="exchange", how="anti")
            .filter("ended")
            .join(of_kind, on="exchange")
            .group_by("row")
            .agg(
                pl.col(f"{kind}_bytes").max().alias(f"{kind}_passed_bytes"),
                pl.col(f"{kind}_transmissions").max().alias(f"{kind}_passed_sent"),
            )
        )
        last = last.join(passed, on="row", how="left", maintain_order="left")
    return last.with_columns(
        _describe_transmissions("request_transmissions", "request_span").alias("sent"),
        pl.col("request_passed_sent").alias("passed_sent"),
        (pl.col("request_transmissions").fill_null(1) - 1).alias("again"),
        pl.col("response_transmissions").fill_null(0).alias("responses"),
        pl.any_horizontal(pl.col("request_on_4500", "response_on_4500").fill_null(False)).alias("on_4500"),
        *(pl.col(f"{kind}_{name}").fill_null(0) for kind in ("request", "response") for name in ("bytes", "fragments")),
        *(pl.col(f"{kind}_ip_fragmented").fill_null(False) for kind in ("request", "response")),
    )


def _summarise_set_ups(exchanges: pl.DataFrame, datagrams: pl.DataFrame, by_kind: pl.DataFrame) -> pl.DataFrame:
    """The noteworthy exchanges of each set-up; `exchanges` are those of set-ups."""
    requests = by_kind.filter(~pl.col("response")).select("exchange", "transmissions", "frames")
    responses = by_kind.filter("response").select("exchange", "frames")
    init = exchanges.filter(pl.col("type") == "IKE_SA_INIT").join(
        responses, on="exchange", how="left", maintain_order="left"
    )
    repeated = exchanges.join(requests, on="exchange", maintain_order="left").sort("transmissions", maintain_order=True)
    slow = repeated.filter(pl.col("transmissions") == 1).sort("rtt", nulls_last=False, maintain_order=True)
    is_large = pl.col("intermediate") & (pl.col("fragment") == 0) & (pl.col("ip_fragments") > 0)
    large = (
        datagrams.filter(is_large)
        .group_by("exchange", "response")
        .agg(pl.col("bytes").max(), _list_first_frames())
        .join(exchanges, on="exchange")
        .sort("bytes", maintain_order=True)
    )
    first = datagrams.filter(~pl.col("response")).unique("message", keep="first", maintain_order=True)
    gap = pl.col("time").diff().over("exchange")
    timers = (
        first.sort("exchange", "transmission")
        .with_columns(gap.alias("shortest_timer_ns"))
        .filter("set_up")
        .group_by("row")
        .agg(pl.col("shortest_timer_ns").min())
    )
    kind = pl.when(pl.col("response").last()).then(pl.lit("response")).otherwise(pl.lit("request"))
    return (
        _take_last("init", init)
        .join(
            _take_last("repeated", repeated, pl.col("transmissions").last().alias("repeated_sent")),
            on="row",
            how="full",
            coalesce=True,
        )
        .join(_take_last("slow", slow, pl.col("rtt").last().alias("slow_rtt_ns")), on="row", how="full", coalesce=True)
        .join(
            _take_last("large", large, pl.col("bytes").last().alias("large_bytes"), kind.alias("large_kind")),
            on="row",
            how="full",
            coalesce=True,
        )
        .join(timers, on="row", how="left")
    )


def _take_last(name: str, exchanges: pl.DataFrame, *more: pl.Expr) -> pl.DataFrame:
    """The last exchange of each handshake, with the columns `_OF_EXCHANGE` and more ones."""
    columns = (pl.col(column).last().alias(f"{name}_{column}") for column in _OF_EXCHANGE)
    return exchanges.group_by("row", maintain_order=True).agg(*columns, *more)


def _summarise_later_exchanges(exchanges: pl.DataFrame, datagrams: pl.DataFrame, by_kind: pl.DataFrame) -> pl.DataFrame:
    """The last exchange after each set-up that has one; `exchanges` are those after set-ups."""
    requests = by_kind.filter(~pl.col("response")).select("exchange", "transmissions", "span", "frames")
    with_requests = exchanges.join(requests, on="exchange", how="left", maintain_order="left")
    copied = ("by_initiator", "start", "ended", "unprotected", "transmissions", "span")
    last = _take_last("later", with_requests, *(pl.col(name).last() for name in copied))
    heard = (
        datagrams.join(last.select("row", "by_initiator", "start"), on="row")
        .filter((pl.col("from_initiator") != pl.col("by_initiator")) & (pl.col("time") < pl.col("start")))
        .group_by("row")
        .agg(pl.col("time").max().alias("heard"))
    )
    return last.join(heard, on="row", how="left").select(
        "row",
        *(f"later_{column}" for column in _OF_EXCHANGE),
        pl.col("ended").alias("later_ended"),
        pl.col("unprotected").alias("later_unprotected"),
        _describe_transmissions("transmissions", "span").alias("later_sent"),
        (pl.col("transmissions").fill_null(1) - 1).alias("later_again"),
        (pl.col("start") - pl.col("heard")).alias("later_idle_ns"),
    )


def _describe_missing() -> pl.Expr:
    """The IKE fragments that are in no transmission, as text; null: none."""
    every = pl.int_ranges(1, pl.col("fragments") + 1, dtype=pl.UInt16)
    missing = every.list.set_difference(pl.col("fragment")).list.sort()
    numbers = missing.cast(pl.List(pl.String)).list.join(", ")
    word = pl.when(missing.list.len() > 1).then(pl.lit("fragments")).otherwise(pl.lit("fragment"))
    return pl.when("lacking", missing.list.len() > 0).then(pl.format("{} {} of {}", word, numbers, pl.col("fragments")))


def _describe_transmissions(count: str, span: str) -> pl.Expr:
    """How often a request was sent, and in which time."""
    seconds = (pl.col(span) / 1e9).round(1)
    return pl.when(pl.col(count) > 1).then(pl.format("{} times in {} s", count, seconds)).otherwise(pl.lit("once"))
