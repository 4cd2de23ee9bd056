"""Facts from ICMP errors about the datagrams of suspects.

An error quotes the beginning of the datagram that it is about. It is matched with a datagram of the same addresses and
ports that was sent before: with the same initiator's SPI and message ID if these are quoted, and otherwise with the
latest one. Nothing authenticates an ICMP error (RFC 5927): it is evidence, and changes neither outcome nor times.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Final

import numpy as np
import polars as pl
from msgspec import Struct

from ikeanalyze.analysis import schema
from ikeanalyze.analysis.messages.capture_facts import CaptureFacts, SharedFact
from ikeanalyze.analysis.state import AnalysisState
from ikeanalyze.capture.arrays import BoolArray, Int64Array
from ikeanalyze.capture.buffers import Columns
from ikeanalyze.capture.decode.ip import format_address_code
from ikeanalyze.wire.registries.icmp import describe_icmp_error

#: Facts about the errors of the most frequent problem, for the request or the response of an exchange.
ICMP_FACTS: Final[schema.Schema] = {
    "icmp_problem": pl.String,  # an `IcmpProblem`; null: there are no errors
    "icmp": pl.String,  # '192.0.2.2 (the responder) returned the ICMP error "port unreachable" (packet 2)'
    "icmp_sender": pl.String,  # of the first error
    "icmp_bytes": pl.Int64,  # of the largest quoted IP packet
    "icmp_port": pl.Int64,  # UDP port that the quoted datagram was sent to
    "path_mtu": pl.String,  # "a path MTU of 1,400 bytes": the smallest one that errors name
    "icmp_frames": pl.List(pl.UInt32),  # numbers of the first packets with these errors
}
#: A host gives up the reassembly of a packet after at most two minutes (RFC 1122, 3.3.2).
_LONGEST_WAIT_NS: Final = 120_000_000_000
#: Copies of one packet that a capture of several interfaces has are closer together.
_COPY_NS: Final = 10_000_000
_ENDS: Final = ("source", "destination", "source_port", "destination_port")
#: What identifies a datagram, by how much an error quotes.
_QUOTED: Final = ((*_ENDS, "spi_i", "message_id"), (*_ENDS, "spi_i"), _ENDS)
_MAX_FRAMES: Final = 12


class _IcmpError(Struct, frozen=True):
    """Columns of `capture.decode.icmp.ICMP_LAYOUT`."""

    number: int
    sender: int
    ipv6: bool
    type: int
    code: int
    mtu: int
    size: int
    destination: int
    destination_port: int


def match_icmp_errors(errors: Columns, state: AnalysisState, facts: CaptureFacts) -> pl.DataFrame | None:
    """The errors about datagrams of the state, with the `row` of the datagram; None: the capture has no errors.

    Args:
        errors: those of the whole capture; see `capture.decode.icmp.ICMP_LAYOUT`.
        state: the datagrams.
        facts: receives which errors were matched by addresses and ports alone. Another part of the capture may have a
            later datagram of these.
    """
    if not len(errors["number"]):
        return None
    table = _drop_copies(pl.DataFrame(errors).with_row_index("error"))
    matched = _match_errors(table, _tabulate(state, _find_datagrams(errors, state)))
    by_ends = pl.col("spi_i") == 0
    loose = matched.filter(by_ends)
    shared = facts.share(
        SharedFact.ICMP_ERRORS, lambda: {name: loose[name].to_numpy() for name in ("error", "sent_ns", "frame")}
    )
    if shared is None:
        return matched
    latest = loose.join(pl.DataFrame(dict(shared)), on=("error", "sent_ns", "frame"), how="semi", maintain_order="left")
    return pl.concat([matched.filter(~by_ends), latest])


def collect_icmp_facts(matched: pl.DataFrame | None, state: AnalysisState, suspects: BoolArray) -> pl.DataFrame | None:
    """The columns `exchange`, `response` and `ICMP_FACTS`; None: there are no errors about suspects.

    Args:
        matched: errors about datagrams, from `match_icmp_errors`.
        state: the datagrams.
        suspects: the handshakes to look at. (handshakes,)
    """
    if matched is None:
        return None
    message = state.message_of_datagram[matched["row"].to_numpy()]
    matched = matched.with_columns(
        pl.Series("exchange", state.exchange_of_message[message].astype(np.int64)),
        pl.Series("response", state.messages.response[message].astype(np.bool_)),
    ).filter(pl.Series(suspects[state.messages.handshake[message]]))
    if matched.is_empty():
        return None
    found: dict[tuple[int, bool], list[_IcmpError]] = defaultdict(list)
    for exchange, response, *values in (
        matched.sort("time_ns", "number").select("exchange", "response", *_IcmpError.__struct_fields__).iter_rows()
    ):
        found[exchange, response].append(_IcmpError(*values))
    facts = [
        {"exchange": exchange, "response": response, **_summarise(group, state.addresses)}
        for (exchange, response), group in found.items()
    ]
    return pl.DataFrame(facts, schema={"exchange": pl.Int64, "response": pl.Boolean, **ICMP_FACTS})


def _find_datagrams(errors: Columns, state: AnalysisState) -> Int64Array:
    """The datagrams between hosts that errors are about."""
    datagrams = state.datagrams
    return np.flatnonzero(
        np.isin(datagrams.source, errors["source"]) & np.isin(datagrams.destination, errors["destination"])
    )


def _tabulate(state: AnalysisState, rows: Int64Array) -> pl.DataFrame:
    datagrams = state.datagrams
    columns = {name: getattr(datagrams, name)[rows] for name in (*_ENDS, "spi_i", "message_id")}
    sent = datagrams.first_ns[rows]
    table = pl.DataFrame({"row": rows, "time_ns": sent, "sent_ns": sent, "frame": datagrams.number[rows], **columns})
    return table.with_columns(pl.col("message_id").cast(pl.Int64)).sort("time_ns", "frame")


def _drop_copies(errors: pl.DataFrame) -> pl.DataFrame:
    """The errors in order of time, each once."""
    errors = errors.sort("time_ns", "number")
    return errors.filter((pl.col("time_ns").diff().over("sender", "copy") >= _COPY_NS).fill_null(True))


def _match_errors(errors: pl.DataFrame, datagrams: pl.DataFrame) -> pl.DataFrame:
    """The errors about the datagrams, which both are in order of time, with the `row` of the datagram."""
    has_spi, has_id = pl.col("spi_i") != 0, pl.col("message_id") >= 0
    parts = [
        errors.filter(condition).join_asof(
            datagrams.select("row", "time_ns", "sent_ns", "frame", *names),
            on="time_ns",
            by=list(names),
            tolerance=_LONGEST_WAIT_NS,
            check_sortedness=False,
        )
        for condition, names in zip((has_spi & has_id, has_spi & ~has_id, ~has_spi), _QUOTED, strict=True)
    ]
    return pl.concat(parts).filter(pl.col("row").is_not_null())


def _summarise(errors: Sequence[_IcmpError], addresses: Sequence[bytes]) -> dict[str, object]:
    """The facts about errors in order of time, which concern one message."""
    described = [describe_icmp_error(error.type, error.code, ipv6=error.ipv6) for error in errors]
    counts = Counter(problem for problem, _ in described)
    problem = max(counts, key=lambda one: counts[one])  # of several, the first one
    name = next(name for one, name in described if one == problem)
    errors = [error for error, (one, _) in zip(errors, described, strict=True) if one == problem]
    return {
        "icmp_problem": str(problem),
        "icmp": _describe(errors, name, addresses),
        "icmp_sender": format_address_code(errors[0].sender, addresses),
        "icmp_bytes": max(error.size for error in errors),
        "icmp_port": errors[0].destination_port,
        "path_mtu": _describe_path_mtu([error.mtu for error in errors if error.mtu]),
        "icmp_frames": [error.number for error in errors[:_MAX_FRAMES]],
    }


def _describe_path_mtu(mtus: Sequence[int]) -> str:
    """The smallest of the MTUs that errors name."""
    return f"a path MTU of {min(mtus):,} bytes" if mtus else "a smaller path MTU (the error does not name it)"


def _describe(errors: Sequence[_IcmpError], name: str, addresses: Sequence[bytes]) -> str:
    """Who returned which error how often."""
    first = errors[0]
    sender = format_address_code(first.sender, addresses)
    if first.sender == first.destination:
        sender += " (the destination)"
    others = len({error.sender for error in errors}) - 1
    if others:
        sender += f" and {others:,} other host{'s' if others > 1 else ''}"
    packets = f"(packet {first.number})"
    if len(errors) > 1:
        packets = f"{len(errors):,} times (first in packet {first.number})"
    return f'{sender} returned the ICMP error "{name}" {packets}'
