"""Selects the handshakes that a rule of the diagnosis may concern, and collects the facts that the rules need.

Most handshakes of most captures are clean. They are told apart by comparing columns, and only for the others the
messages are looked at.
"""

from typing import Final

import numpy as np
import polars as pl

from ikeanalyze.analysis import schema
from ikeanalyze.analysis.exchanges.answers import AnsweredTransmissions
from ikeanalyze.analysis.exchanges.exchanges import UNKNOWN
from ikeanalyze.analysis.handshakes.auth_methods import build_type_names
from ikeanalyze.analysis.handshakes.handshakes import HandshakeColumns
from ikeanalyze.analysis.handshakes.outcome import Outcome
from ikeanalyze.analysis.state import AnalysisState
from ikeanalyze.capture.arrays import BoolArray, Int64Array

_NAT_PORT: Final = 4500  # UDP encapsulation of RFC 3948
#: Packet numbers that are kept as evidence of one message.
_MAX_FRAMES: Final = 12

#: Facts about the request and the response of the last exchange.
_OF_MESSAGE: Final[schema.Schema] = {
    "bytes": pl.Int64,
    "fragments": pl.Int64,  # IKE fragments of the message; 0: not fragmented
    "ip_fragmented": pl.Boolean,
    "missing": pl.String,  # "fragment 2 of 2"; null: none
    "passed_bytes": pl.Int64,  # largest one of the same direction that arrived; null: none did
    "frames": pl.List(pl.UInt32),  # numbers of the first packets of its transmissions
}
#: Facts about a suspect, besides its row of the handshakes table. "Last" is the last exchange of its set-up, "passed"
#: are the messages of the exchanges before it, which arrived. Sizes are bytes on the wire of the largest datagram, with
#: all its IP fragments. `missing` are the numbers of IKE fragments that are in no transmission.
FACTS: Final[schema.Schema] = {
    "row": pl.Int64,  # of the handshakes table
    "last_type": pl.String,
    "last_message_id": pl.UInt32,
    "last_by": pl.String,  # who sent its request
    "sent": pl.String,  # how often its request was sent: "once", "4 times in 12.1 s"
    "again": pl.UInt32,  # retransmissions of its request
    "on_4500": pl.Boolean,  # it uses UDP port 4500
    "ended": pl.Boolean,  # it has a response that ended it
    "responses": pl.UInt32,  # transmissions of its response
    **{f"{kind}_{name}": dtype for kind in ("request", "response") for name, dtype in _OF_MESSAGE.items()},
    "answered": pl.UInt32,  # exchanges before the last one
    "passed_4500": pl.Boolean,  # the responder sent something from port 4500, in any handshake of the capture
}


def find_suspects(handshakes: HandshakeColumns, state: AnalysisState) -> BoolArray:
    """Which handshakes a rule may concern. (handshakes,)"""
    suspects = handshakes.outcome >= int(Outcome.FAILED)
    suspects |= handshakes.uncertain
    for mapping in (handshakes.reason, handshakes.extra_round_trips):
        suspects[list(mapping)] = True
    if handshakes.contents is not None:
        facts = handshakes.contents.facts
        refused = [facts.distinct[index].proof.child_error is not None for index in facts.of.values()]
        suspects[np.array(list(facts.of), np.int64)[np.array(refused, np.bool_)]] = True
    repeated = state.messages.transmission > 1
    suspects[state.messages.handshake[repeated]] = True
    return suspects & ~handshakes.rekeyed


def collect_facts(
    handshakes: HandshakeColumns, state: AnalysisState, answers: AnsweredTransmissions
) -> pl.DataFrame | None:
    """The facts about the suspects, in order of their rows, with the columns of `FACTS`; None: all are clean."""
    suspects = find_suspects(handshakes, state)
    if not suspects.any():
        return None
    exchanges = _tabulate_exchanges(suspects, state, answers)
    messages = _tabulate_messages(suspects, state)
    last = exchanges.group_by("row", maintain_order=True).agg(
        pl.all().last(), (pl.len() - 1).cast(pl.UInt32).alias("answered")
    )
    by_kind = messages.group_by("exchange", "response").agg(
        pl.col("bytes").max(),
        pl.col("fragments").max(),
        pl.col("fragment").unique().sort(),
        (pl.col("ip_fragments") > 0).any().alias("ip_fragmented"),
        pl.col("on_4500").any(),
        pl.col("message").n_unique().alias("transmissions"),
        (pl.col("time").max() - pl.col("time").min()).alias("span"),
        pl.col("frame").filter(pl.col("fragment") == pl.col("fragment").min()).sort().head(_MAX_FRAMES).alias("frames"),
    )
    for kind, response in (("request", False), ("response", True)):
        of_kind = by_kind.filter(pl.col("response") == response).select(
            "exchange",
            *(pl.col(name).alias(f"{kind}_{name}") for name in ("bytes", "fragments", "ip_fragmented", "frames")),
            *(pl.col(name).alias(f"{kind}_{name}") for name in ("on_4500", "transmissions", "span")),
            _describe_missing().alias(f"{kind}_missing"),
        )
        last = last.join(of_kind, on="exchange", how="left", maintain_order="left")
        passed = (
            exchanges.join(last.select("exchange"), on="exchange", how="anti")
            .filter("ended")
            .join(of_kind, on="exchange")
            .group_by("row")
            .agg(pl.col(f"{kind}_bytes").max().alias(f"{kind}_passed_bytes"))
        )
        last = last.join(passed, on="row", how="left", maintain_order="left")
    used = _find_responders_on_4500(handshakes, state)
    return last.with_columns(
        _describe_transmissions().alias("sent"),
        (pl.col("request_transmissions").fill_null(1) - 1).alias("again"),
        pl.col("response_transmissions").fill_null(0).alias("responses"),
        pl.any_horizontal(pl.col("request_on_4500", "response_on_4500").fill_null(False)).alias("on_4500"),
        pl.Series("passed_4500", used[last["row"].to_numpy()]),
        *(pl.col(f"{kind}_{name}").fill_null(0) for kind in ("request", "response") for name in ("bytes", "fragments")),
        *(pl.col(f"{kind}_ip_fragmented").fill_null(False) for kind in ("request", "response")),
    ).select(pl.col(name).cast(dtype) for name, dtype in FACTS.items())


def _tabulate_exchanges(suspects: BoolArray, state: AnalysisState, answers: AnsweredTransmissions) -> pl.DataFrame:
    """The exchanges of the set-ups of suspects, in order of handshake and time."""
    exchanges = state.exchanges
    rows = np.flatnonzero(suspects[exchanges.handshake] & exchanges.set_up)
    names = pl.Series(build_type_names(), dtype=pl.String)
    protocol = exchanges.protocol[rows].astype(np.uint32)
    sides = pl.Series(["responder", "initiator"], dtype=pl.String)
    return pl.DataFrame(
        {
            "row": exchanges.handshake[rows],
            "exchange": rows,
            "last_type": names.gather(protocol * 256 + exchanges.exchange_type[rows]),
            "last_message_id": exchanges.message_id[rows],
            "last_by": sides.gather(exchanges.initiator_asked[rows].astype(np.uint32)),
            "ended": answers.end_ns[rows] != UNKNOWN,
        }
    )


def _tabulate_messages(suspects: BoolArray, state: AnalysisState) -> pl.DataFrame:
    """The datagrams of suspects with what is known of their messages."""
    datagrams, messages = state.datagrams, state.messages
    rows: Int64Array = np.flatnonzero(suspects[state.association.handshake])
    message = state.message_of_datagram[rows]
    ports = datagrams.source_port[rows], datagrams.destination_port[rows]
    return pl.DataFrame(
        {
            "exchange": state.exchange_of_message[message],
            "response": messages.response[message],
            "message": message,
            "fragment": datagrams.fragment[rows],
            "fragments": datagrams.fragments[rows].astype(np.int64),
            "bytes": datagrams.bytes[rows],
            "ip_fragments": datagrams.ip_fragments[rows],
            "frame": datagrams.number[rows],
            "time": datagrams.first_ns[rows],
            "on_4500": (ports[0] == _NAT_PORT) | (ports[1] == _NAT_PORT),
        }
    )


def _describe_missing() -> pl.Expr:
    """The IKE fragments that are in no transmission, as text; null: none."""
    every = pl.int_ranges(1, pl.col("fragments") + 1, dtype=pl.UInt16)
    missing = every.list.set_difference(pl.col("fragment")).list.sort()
    numbers = missing.cast(pl.List(pl.String)).list.join(", ")
    word = pl.when(missing.list.len() > 1).then(pl.lit("fragments")).otherwise(pl.lit("fragment"))
    return pl.when(missing.list.len() > 0).then(pl.format("{} {} of {}", word, numbers, pl.col("fragments")))


def _describe_transmissions() -> pl.Expr:
    """How often the last request was sent, and in which time."""
    count = pl.col("request_transmissions")
    seconds = (pl.col("request_span") / 1e9).round(1)
    return pl.when(count > 1).then(pl.format("{} times in {} s", count, seconds)).otherwise(pl.lit("once"))


def _find_responders_on_4500(handshakes: HandshakeColumns, state: AnalysisState) -> BoolArray:
    """Whether the responder of each handshake sent anything from UDP port 4500, in any handshake. (handshakes,)"""
    datagrams = state.datagrams
    sent = (datagrams.source_port == _NAT_PORT) & ~state.association.from_initiator
    active = np.unique(state.association.handshake[sent])
    return np.isin(handshakes.ends.responder, handshakes.ends.responder[active])
