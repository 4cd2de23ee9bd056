"""Builds the tables of `layouts` from the results of the analysis."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from ikeanalyze import core
from ikeanalyze.analysis.exchanges.answers import AnsweredTransmissions
from ikeanalyze.analysis.exchanges.exchanges import ExchangeColumns
from ikeanalyze.analysis.exchanges.hip_exchange_types import get_exchange_types
from ikeanalyze.analysis.exchanges.radius import RadiusMessages
from ikeanalyze.analysis.handshakes.auth_methods import build_type_names
from ikeanalyze.analysis.messages.duplicates import DuplicateFrames, relabel_duplicates
from ikeanalyze.analysis.messages.messages import MessageColumns
from ikeanalyze.analysis.state import AnalysisState
from ikeanalyze.analysis.tables import layouts
from ikeanalyze.analysis.tables.columns import (
    AddressColumn,
    Array,
    TableColumns,
    TextColumn,
    make_empty_columns,
    null_unknown,
    null_where_unknown,
    null_zero,
    scatter_texts,
)
from ikeanalyze.analysis.tables.row_ids import FirstRowIds, MessageRowIds, RowIds, RowNumbering
from ikeanalyze.capture.arrays import BoolArray, Int32Array, Int64Array, UInt8Array, are_all_numbers
from ikeanalyze.capture.buffers import Columns
from ikeanalyze.capture.decode.classify import Encapsulation, Protocol
from ikeanalyze.capture.decode.ip import NO_IDENT, get_capture_numbers

if TYPE_CHECKING:
    import polars as pl

    from ikeanalyze.analysis.handshakes.contents.handshake_contents import CaptureContents


_INITIATOR, _RESPONDER, _AAA = 0, 1, 2
#: Columns of the messages table that messages of IKE and datagrams of RADIUS have.
_COMMON_COLUMNS: Final = ("message_id", "first_ns", "last_ns", "frames", "bytes", "ip_fragments", "digest")


class AnalysisTables:
    """The four tables of one capture or of several. A table that is given as columns is made when it is read."""

    def __init__(
        self,
        frames: "pl.DataFrame | TableColumns",
        messages: "pl.DataFrame | TableColumns",
        exchanges: "pl.DataFrame | TableColumns",
        handshakes: "pl.DataFrame | TableColumns",
    ) -> None:
        self._given = {"frames": frames, "messages": messages, "exchanges": exchanges, "handshakes": handshakes}

    @property
    def frames(self) -> "pl.DataFrame":
        """As in `schema.FRAMES`."""
        return self._make("frames")

    @property
    def messages(self) -> "pl.DataFrame":
        """As in `schema.MESSAGES`."""
        return self._make("messages")

    @property
    def exchanges(self) -> "pl.DataFrame":
        """As in `schema.EXCHANGES`."""
        return self._make("exchanges")

    @property
    def handshakes(self) -> "pl.DataFrame":
        """As in `schema.HANDSHAKES`."""
        return self._make("handshakes")

    def _make(self, name: str) -> "pl.DataFrame":
        table = self._given[name]
        if isinstance(table, TableColumns):
            from ikeanalyze.analysis.tables.polars_columns import make_table  # loads polars

            self._given[name] = table = make_table(table)
        return table

    def count_handshakes(self) -> int:
        """Number of rows of `handshakes`."""
        return self._given["handshakes"].height

    def count_rekeyed(self) -> int:
        """Number of rows of `handshakes` that are rekeyed IKE SAs."""
        table = self._given["handshakes"]
        if not table.height:
            return 0
        return int((table.columns if isinstance(table, TableColumns) else table)["rekeyed"].sum())


def get_next_ids(tables: Sequence[AnalysisTables]) -> FirstRowIds:
    """The first ids after those of earlier captures."""
    first = FirstRowIds()
    return FirstRowIds(
        first.handshake + sum(earlier.count_handshakes() for earlier in tables),
        first.message + sum(len(earlier.messages) for earlier in tables),
        first.exchange + sum(len(earlier.exchanges) for earlier in tables),
    )


def _get_type_names(protocol: UInt8Array, exchange_type: UInt8Array) -> TextColumn:
    """Names of exchange types."""
    return TextColumn(build_type_names(), protocol.astype(np.uint32) * 256 + exchange_type)


class MessageTableSources(Struct, frozen=True):
    """The input of the table of messages."""

    ids: RowIds
    messages: MessageColumns
    exchange_of_message: Int32Array  # row of the exchange of each message of IKE and HIP
    exchanges: ExchangeColumns
    radius: RadiusMessages
    contents: "CaptureContents | None"  # None: no keys were given


class ExchangeTableSources(Struct, frozen=True):
    """The input of the table of exchanges."""

    ids: RowIds
    exchanges: ExchangeColumns
    exchange_of_message: Int32Array  # row of the exchange of each message of IKE and HIP
    answers: AnsweredTransmissions
    extra_round_trips: Mapping[int, str]  # of the exchanges (rows) with which the responder asked for another request
    contents: "CaptureContents | None"  # None: no keys were given


class _RadiusColumns(Struct, frozen=True):
    """Columns of the RADIUS packets, one row per datagram."""

    handshake: Int64Array  # row, -1: none
    exchange: Int64Array  # row, -1: none
    transmission: Int64Array
    response: BoolArray
    from_client: BoolArray


def _build_radius_columns(radius: RadiusMessages) -> _RadiusColumns:
    count = len(radius.datagrams)
    columns = _RadiusColumns(
        handshake=np.full(count, -1, np.int64),
        exchange=np.full(count, -1, np.int64),
        transmission=np.ones(count, np.int64),
        response=np.zeros(count, np.bool_),
        from_client=np.ones(count, np.bool_),
    )
    for pair in radius.pairs:
        for rows, answers in ((pair.requests, False), (pair.responses, True)):
            for ordinal, row in enumerate(rows):
                columns.transmission[row], columns.response[row] = ordinal + 1, answers
                columns.from_client[row] = pair.from_client != answers
                if pair.handshake is not None and pair.exchange is not None:
                    columns.handshake[row], columns.exchange[row] = pair.handshake, pair.exchange
    return columns


def _build_match_column(count: int, extra: int, radius: RadiusMessages) -> TextColumn:
    """How each RADIUS packet was matched to its exchange; null for the `count` messages of IKE and HIP before them."""
    ways = list(dict.fromkeys([None, *(pair.matched_by for pair in radius.pairs)]))
    place = np.zeros(count + extra, np.uint32)
    for pair in radius.pairs:
        for row in pair.requests + pair.responses:
            place[count + row] = ways.index(pair.matched_by)
    return TextColumn(ways, place)


def build_message_columns(sources: MessageTableSources) -> TableColumns:
    """The messages of IKE, HIP and RADIUS in order of time."""
    ids, ike, exchange = sources.ids, sources.messages, sources.exchange_of_message
    datagrams, radius = sources.radius.datagrams, _build_radius_columns(sources.radius)
    extra = len(datagrams)
    not_fragmented = np.zeros(extra, np.int64)

    def join(of_ike: Array, of_radius: Array) -> Array:
        return np.concatenate([of_ike, of_radius]) if extra else of_ike

    handshakes, exchanges = join(ike.handshake, radius.handshake), join(exchange, radius.exchange)
    by_client = np.where(radius.from_client, _RESPONDER, _AAA).astype(np.uint8)
    protocol = join(ike.protocol, datagrams.protocol)
    columns: dict[str, Any] = {
        "handshake": (_get_ids(ids.handshake.astype(np.uint32), handshakes), handshakes >= 0),
        "exchange": (_get_ids(ids.exchange.astype(np.uint32), exchanges), exchanges >= 0),
        "protocol": protocol,
        "type": _get_type_names(protocol, join(get_exchange_types(ike), datagrams.exchange_type)),
        "sender": join(np.where(ike.from_initiator, np.uint8(_INITIATOR), np.uint8(_RESPONDER)), by_client),
        "kind": join(ike.response, radius.response).view(np.uint8),
        "set_up": join(sources.exchanges.set_up[exchange], radius.handshake >= 0),
        "transmission": join(ike.transmission, radius.transmission),
        "first_frame": join(ike.first_frame, datagrams.number),
        "needed_bytes": join(ike.needed_bytes, np.where(radius.transmission == 1, datagrams.bytes, 0)),
        "fragments": null_zero(join(ike.fragments, not_fragmented)),
        "fragments_seen": (
            join(ike.fragments_seen, not_fragmented),
            join((ike.fragments > 0) | (ike.fragments_seen > 0), not_fragmented).astype(np.bool_),
        ),
        **{name: join(getattr(ike, name), getattr(datagrams, name)) for name in _COMMON_COLUMNS},
    }
    if sources.radius.pairs:
        columns["matched_by"] = _build_match_column(len(ike), extra, sources.radius)
    if sources.contents is not None:
        # here, because the modules that describe payloads are loaded only with keys
        from ikeanalyze.analysis.tables.content_columns import build_message_content_columns

        columns.update(build_message_content_columns(ike, extra, ids.message.of_row, sources.contents))
    table = TableColumns(
        {"message": ids.message.of_row, **columns},
        layouts.MESSAGES,
        ids.numbering.select_paths(ids.message.capture),
        len(protocol),
        ids.message.order,
    )
    columns.clear()
    # the core sorts them while it writes them
    return table.sort_rows() if core.compiled is None or isinstance(table.capture, TextColumn) else table


def _get_ids(ids: Array, rows: Array) -> Array:
    """The ids of rows; undefined for row -1."""
    return ids[rows] if len(ids) else rows


class DatagramLabels(Struct, frozen=True):
    """The message and handshake of each datagram; -1: none."""

    message: npt.NDArray[np.int32]  # id
    handshake: npt.NDArray[np.int32]  # row of Handshakes

    def count(self, datagram: npt.NDArray[np.uint32], handshakes: int) -> Int64Array:
        """Number of frames of each handshake, from the datagram of each frame. (handshakes,)"""
        handshake = self.handshake[datagram]
        return np.bincount(handshake[handshake >= 0], minlength=handshakes)


def label_datagrams(
    columns: Columns, duplicates: DuplicateFrames, state: AnalysisState, radius: RadiusMessages, ids: MessageRowIds
) -> DatagramLabels:
    """Return the message and the handshake of each datagram, after RADIUS was assigned.

    Args:
        columns: of the frames.
        duplicates: which frames are duplicates, and get the labels of those that they repeat.
        state: the datagrams of IKE and HIP, their messages and handshakes.
        radius: the datagrams of RADIUS, whose messages come after those of `state`.
        ids: of all these messages.
    """
    datagram = columns["datagram"]
    count = int(datagram.max()) + 1 if len(datagram) else 0
    ike = state.datagrams.datagram
    of_ike = ids.of_row.view(np.int32)[state.message_of_datagram], state.association.handshake
    if are_all_numbers(ike, count):
        message, handshake = of_ike
        if radius.pairs or duplicates.mask.any():
            handshake = handshake.copy()
    else:
        message, handshake = np.full(count, -1, np.int32), np.full(count, -1, np.int32)
        message[ike], handshake[ike] = of_ike
    message[radius.datagrams.datagram] = ids.of_row[len(ids.of_row) - len(radius.datagrams) :]
    for pair in radius.pairs:
        if pair.handshake is not None:
            handshake[radius.datagrams.datagram[pair.requests + pair.responses]] = pair.handshake
    repeats = duplicates.mask
    if duplicates.relayed:
        for copy, original in duplicates.relayed.items():
            message[copy], handshake[copy] = message[original], handshake[original]
        # they have contents of their own, which may be repeated too
        repeats = repeats & ~np.isin(datagram, np.fromiter(duplicates.relayed, np.uint32, len(duplicates.relayed)))
    if repeats.any():
        relabel_duplicates(columns, repeats, message, handshake)
    return DatagramLabels(message, handshake)


def make_address_columns(columns: Columns, ipv6: Sequence[bytes]) -> dict[str, AddressColumn]:
    """The addresses of the frames; `ipv6` are the addresses of the address codes."""
    return {name: AddressColumn(columns[name], ipv6) for name in ("source", "destination")}


#: Columns of the frames table that other frames decide about.
_LABELS: Final = ("message", "handshake", "capture_duplicate")


def build_packet_columns(
    numbering: RowNumbering,
    columns: Columns,
    addresses: "Mapping[str, AddressColumn | pl.Series]",
    tunnels: Sequence[str],
) -> TableColumns:
    """The columns of the frames table that a frame alone decides about, in the order of the captures.

    `addresses` are those of `make_address_columns`; `tunnels` are the names of the tunnels, from number 1 on.
    """
    several = len(numbering.paths) > 1
    captures = get_capture_numbers(columns["source"]) if several else np.zeros(0, np.int64)
    tunnel: dict[str, Any] = {}
    if columns["tunnel"].any():
        tunnel["tunnel"] = TextColumn([None, *tunnels], columns["tunnel"])
    known = {
        **dict.fromkeys(("spi_i", "spi_r", "next_payload", "flags"), columns["protocol"] <= int(Protocol.IKEV1)),
        **dict.fromkeys(("source_port", "destination_port"), columns["encapsulation"] != int(Encapsulation.IP)),
        "ip_id": columns["ip_id"] != NO_IDENT,
        "message_id": columns["protocol"] != int(Protocol.HIP),
        "fragment": columns["fragment"] > 0,
        "fragments": columns["fragments"] > 0,
    }
    converted = (*known, "tunnel")
    unchanged = {name: columns[name] for name in layouts.FRAMES if name in columns and name not in converted}
    return TableColumns(
        {
            **unchanged,
            **{name: null_where_unknown(columns[name], mask) for name, mask in known.items()},
            **addresses,
            **tunnel,
        },
        {name: kind for name, kind in layouts.FRAMES.items() if name not in _LABELS},
        numbering.select_paths(captures),
        len(columns["number"]),
    )


def build_frame_labels(
    columns: Columns, labels: DatagramLabels, handshake_ids: Int64Array, duplicate: BoolArray
) -> TableColumns:
    """The other columns of the frames table; `duplicate`: which frames repeat another one."""
    datagram = columns["datagram"]
    message, handshake = labels.message, labels.handshake
    if not are_all_numbers(datagram, len(message)):
        message, handshake = message[datagram], handshake[datagram]
    known_handshake = handshake >= 0
    handshake = _get_ids(handshake_ids.astype(np.uint32), handshake)
    return TableColumns(
        {
            "message": null_where_unknown(message.view(np.uint32), message >= 0),  # without a copy
            "handshake": null_where_unknown(handshake, known_handshake),
            "capture_duplicate": duplicate,
        },
        {name: layouts.FRAMES[name] for name in _LABELS},
        "",
        len(datagram),
    )


def join_frame_columns(packets: TableColumns, labels: TableColumns) -> TableColumns:
    """The frames table."""
    return TableColumns({**packets.columns, **labels.columns}, layouts.FRAMES, packets.capture, packets.height)


def build_exchange_columns(sources: ExchangeTableSources) -> TableColumns:
    """The exchanges; those of a handshake are contiguous."""
    ids, exchanges, answers = sources.ids, sources.exchanges, sources.answers
    count = len(exchanges)
    volumes = [
        (f"{role}_{unit}", f"{role}_messages")
        for role in ("request", "response")
        for unit in ("messages", "frames", "bytes")
    ]
    contents: dict[str, Any] = {}
    if sources.contents is not None:
        # here, because the modules that describe payloads are loaded only with keys
        from ikeanalyze.analysis.tables.content_columns import build_exchange_content_columns

        contents = build_exchange_content_columns(count, sources.exchange_of_message, sources.contents)
    return TableColumns(
        {
            "exchange": ids.exchange,
            "handshake": ids.handshake[exchanges.handshake],
            "type": _get_type_names(exchanges.protocol, exchanges.exchange_type),
            "message_id": exchanges.message_id,
            "attempt": exchanges.attempt + 1,
            "initiated_by": np.where(exchanges.initiator_asked, _INITIATOR, _RESPONDER).astype(np.uint8),
            "set_up": exchanges.set_up,
            "extra_round_trip": scatter_texts(sources.extra_round_trips, count),
            **{name: (getattr(exchanges, name), getattr(exchanges, counted) > 0) for name, counted in volumes},
            **{name: null_unknown(getattr(exchanges, name)) for name in ("request_ns", "response_ns")},
            **{name: null_unknown(getattr(answers, name)) for name in ("rtt_ns", "wait_ns", "end_ns")},
            **contents,
        },
        layouts.EXCHANGES,
        ids.numbering.select_paths(ids.capture[exchanges.handshake]),
        count,
    )


def make_empty_tables() -> AnalysisTables:
    """The tables without rows."""
    every = (layouts.FRAMES, layouts.MESSAGES, layouts.EXCHANGES, layouts.HANDSHAKES)
    return AnalysisTables(*(make_empty_columns(layout) for layout in every))
