"""Captures to an analysis: the way from files to the four tables.

polars is not loaded before it is needed: that takes a seventh of a second, in which the second half of a large capture can be read
by another process; and it starts threads, after which no process can safely be forked.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from ikeanalyze.analysis.association import associate
from ikeanalyze.analysis.duplicates import mark_duplicates
from ikeanalyze.analysis.exchanges import UNKNOWN, make_exchanges
from ikeanalyze.analysis.handshakes import Conversation, make_handshakes
from ikeanalyze.analysis.messages import make_messages
from ikeanalyze.analysis.radius import RadiusPair, Turns, assign, pair_up
from ikeanalyze.analysis.redirects import follow_redirects
from ikeanalyze.analysis.result import Analysis, CaptureSummary, Skipped, Warning
from ikeanalyze.analysis.units import Units, make_units
from ikeanalyze.capture.datagrams import Protocol
from ikeanalyze.capture.frames import CaptureFrames, address_text, read_frames
from ikeanalyze.capture.records import CaptureError

if TYPE_CHECKING:
    from ikeanalyze.analysis.tables import FirstIds, Radius, Tables

Progress = Callable[[int, int | None], None]
Vantage = Literal["initiator", "responder"]


def read(
    paths: str | Path | Sequence[str | Path],
    *,
    ports: Sequence[int] = (),
    vantage: Vantage | None = None,
    rtt_ms: float | None = None,
    progress: Progress | None = None,
) -> Analysis:
    """Analyse captures: pcap or pcapng, plain, gzip or zstd; "-" is standard input.

    A capture of which nothing can be read does not raise: it is in `skipped`, with the reason.

    Args:
        paths: one capture or several; ids in the tables count through all of them.
        ports: UDP and TCP ports that carry IKE besides 500 and 4500.
        vantage: the side that the captures were taken on, where the TTLs do not tell.
        rtt_ms: round-trip time of the path, to be used in place of the shortest one seen.
        progress: called with the bytes read of a file and its size (None: not known).
    """
    if isinstance(paths, (str, Path)):
        paths = [paths]
    summaries: list[CaptureSummary] = []
    tables: list[Tables] = []
    warnings: list[Warning] = []
    skipped: list[Skipped] = []
    for path in map(str, paths):
        try:
            capture = read_frames(path, ports, progress, _load_polars)
        except CaptureError as error:
            skipped.append(Skipped(path, str(error).removeprefix(f"{path}: ")))
            continue
        found, more = _analyse(path, capture, vantage, None if rtt_ms is None else round(rtt_ms * 1e6), tables)
        summaries.append(_summary(path, capture))
        warnings.extend(Warning(path, frame, what) for frame, what in capture.warnings + more)
        tables.append(found)
    whole = tables[0] if len(tables) == 1 else _joined(tables)
    return Analysis(
        summaries, whole.frames, whole.messages, whole.exchanges, whole.handshakes, warnings, skipped
    )


def _load_polars() -> None:
    import ikeanalyze.analysis.tables  # noqa: F401


def _joined(tables: "list[Tables]") -> "Tables":
    import polars as pl

    from ikeanalyze.analysis.tables import EMPTY, Tables

    if not tables:
        return EMPTY
    return Tables(*(pl.concat([getattr(one, name) for one in tables]) for name in Tables.__dataclass_fields__))


def _summary(path: str, capture: CaptureFrames) -> CaptureSummary:
    return CaptureSummary(
        path=path,
        format=capture.format,
        packets=capture.packets,
        bytes=capture.bytes,
        first_ns=capture.first_ns,
        last_ns=capture.last_ns,
        snaplen_truncated=capture.snaplen_truncated,
        damaged=capture.damaged,
        accounting=capture.accounting,
        accounting_bytes=capture.accounting_bytes,
    )


def _analyse(
    path: str, capture: CaptureFrames, vantage: Vantage | None, rtt_ns: int | None, before: "list[Tables]"
) -> "tuple[Tables, list[tuple[int | None, str]]]":
    from ikeanalyze.analysis.tables import Radius, ids_after, make_tables

    duplicate = mark_duplicates(capture.columns)
    units = make_units(capture.columns, duplicate)
    ike = units.take(np.flatnonzero(units.protocol <= Protocol.IKEV1)) if _has_others(units) else units
    association = follow_redirects(ike, associate(ike, capture.clear), capture.clear)
    messages, message_of_unit = make_messages(ike, association)
    exchanges, exchange_of_message = make_exchanges(messages)
    conversation = Conversation(
        ike, association, messages, message_of_unit, exchanges, exchange_of_message,
        capture.clear, capture.addresses, capture.last_ns or 0,
    )  # fmt: skip
    asking = units.take(np.flatnonzero(units.protocol == Protocol.RADIUS)) if _has_others(units) else units.take(units.unit[:0])
    radius = Radius(asking, pair_up(asking, capture.clear))
    more: list[tuple[int | None, str]] = []
    aaa_ns = np.zeros(len(exchanges), np.int64)
    if radius.pairs:
        more.extend(_assign_radius(conversation, radius, capture))
        for pair in radius.pairs:
            if pair.exchange is not None and pair.responses:
                aaa_ns[pair.exchange] += _waited(pair, asking)
    handshakes = make_handshakes(conversation, radius.pairs, aaa_ns, vantage, rtt_ns)
    return make_tables(path, capture, duplicate, conversation, radius, handshakes, ids_after(before)), more


def _has_others(units: Units) -> bool:
    return bool((units.protocol > Protocol.IKEV1).any())


def _waited(pair: RadiusPair, units: Units) -> int:
    """From the first transmission of the request to the response."""
    return max(int(units.last_ns[pair.responses[0]] - units.first_ns[pair.requests[0]]), 0)


def _assign_radius(
    conversation: Conversation, radius: "Radius", capture: CaptureFrames
) -> list[tuple[int | None, str]]:
    exchanges, units, association = conversation.exchanges, conversation.units, conversation.association
    rows = np.flatnonzero(exchanges.set_up & exchanges.initiator_asked & (exchanges.request_messages > 0))
    rows = rows[np.argsort(exchanges.request_ns[rows], kind="stable")]
    end = np.where(exchanges.end_ns[rows] == UNKNOWN, conversation.last_ns, exchanges.end_ns[rows])
    turns = Turns(exchanges.request_ns[rows], end, exchanges.handshake[rows], rows)
    peers: dict[int, tuple[str, str]] = {}
    _, heads = np.unique(association.handshake, return_index=True)
    for handshake, head in enumerate(heads.tolist()):
        ends = [address_text(int(column[head]), capture.addresses) for column in (units.source, units.destination)]
        peers[handshake] = (ends[0], ends[1]) if association.from_initiator[head] else (ends[1], ends[0])
    return [(frame, what) for frame, what in assign(radius.pairs, radius.units, turns, peers)]
