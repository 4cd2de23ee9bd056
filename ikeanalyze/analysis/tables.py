"""The analysis of one capture as the four tables of `schema`: names for numbers, null for what is not known."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import polars as pl

from ikeanalyze.analysis import schema
from ikeanalyze.analysis.duplicates import follow_originals
from ikeanalyze.analysis.exchanges import Exchanges
from ikeanalyze.analysis.handshakes import Handshakes
from ikeanalyze.analysis.hip_types import packet_types
from ikeanalyze.analysis.ids import FirstIds, Ids, MessageIds, Numbering
from ikeanalyze.analysis.messages import Messages
from ikeanalyze.analysis.methods import type_names
from ikeanalyze.analysis.radius import Radius
from ikeanalyze.analysis.series import address_texts, known_where, make_table, narrowed, where_positive
from ikeanalyze.analysis.units import Units
from ikeanalyze.capture.columns import BoolArray, Int64Array, UInt8Array
from ikeanalyze.capture.datagrams import Protocol
from ikeanalyze.capture.network import NO_IDENT, captures_of
from ikeanalyze.capture.rows import Columns

if TYPE_CHECKING:
    from ikeanalyze.analysis.insides import Insides

Array = npt.NDArray[Any]

_INITIATOR, _RESPONDER, _AAA = 0, 1, 2
_ENDS: Final = ("source", "destination")


@dataclass(frozen=True, slots=True)
class Tables:
    """The four tables of one capture or of several."""

    frames: pl.DataFrame
    messages: pl.DataFrame
    exchanges: pl.DataFrame
    handshakes: pl.DataFrame


def ids_after(tables: Sequence[Tables]) -> FirstIds:
    """The ids that follow those of the captures before."""
    first = FirstIds()
    return FirstIds(
        first.handshake + sum(len(one.handshakes) for one in tables),
        first.message + sum(len(one.messages) for one in tables),
        first.exchange + sum(len(one.exchanges) for one in tables),
    )


class _Names:
    """Names of messages and exchanges, per protocol, as one categorical column to pick from."""

    def __init__(self) -> None:
        self._all = pl.Series(type_names(), dtype=pl.Categorical)

    def pick(self, protocol: UInt8Array, kind: UInt8Array) -> pl.Series:
        return self._all.gather(protocol.astype(np.uint32) * 256 + kind)


def messages_table(
    ids: Ids,
    ike: Messages,
    exchanges: Exchanges,
    exchange: Int64Array,
    radius: Radius,
    insides: "Insides | None" = None,
) -> pl.DataFrame:
    """Messages of IKE, HIP and RADIUS in order of time; `exchange` is that of each message of IKE and HIP."""
    count, extra = len(ike), len(radius.units)
    unassigned = np.zeros(extra, np.int64)
    handshake = np.full(extra, -1, np.int64)
    radius_exchange = np.full(extra, -1, np.int64)
    transmission = np.ones(extra, np.int64)
    response = np.zeros(extra, np.bool_)
    from_client = np.ones(extra, np.bool_)
    for pair in radius.pairs:
        for rows, answers in ((pair.requests, False), (pair.responses, True)):
            for ordinal, row in enumerate(rows):
                transmission[row], response[row] = ordinal + 1, answers
                from_client[row] = pair.from_client != answers
                if pair.handshake is not None and pair.exchange is not None:
                    handshake[row], radius_exchange[row] = pair.handshake, pair.exchange
    units = radius.units

    def both(of_ike: Array, of_radius: Array) -> Array:
        return np.concatenate([of_ike, of_radius]) if extra else of_ike

    first_ns = both(ike.first_ns, units.first_ns)
    order = ids.message.order
    handshakes = both(ike.handshake, handshake)
    exchanges_of = both(exchange, radius_exchange)
    fragments = both(ike.fragments, unassigned)
    seen = both(ike.fragments_seen, unassigned)
    sender = both(np.where(ike.from_initiator, _INITIATOR, _RESPONDER), np.where(from_client, _RESPONDER, _AAA))
    protocol = both(ike.protocol, units.protocol)
    columns: dict[str, Any] = {
        "handshake": (_ids_of(ids.handshake, handshakes), handshakes >= 0),
        "exchange": (_ids_of(ids.exchange, exchanges_of), exchanges_of >= 0),
        "protocol": protocol,
        "type": _Names().pick(protocol, both(packet_types(ike), units.exchange_type)),
        "message_id": both(ike.message_id, units.message_id),
        "sender": sender.astype(np.uint8),
        "kind": both(ike.response, response).astype(np.uint8),
        "set_up": both(exchanges.set_up[exchange], handshake >= 0),
        "transmission": both(ike.transmission, transmission),
        "first_frame": both(ike.first_frame, units.number.astype(np.int64)),
        "first_ns": first_ns,
        "last_ns": both(ike.last_ns, units.last_ns),
        "frames": both(ike.frames, units.frames),
        "bytes": both(ike.bytes, units.bytes),
        "needed_bytes": both(ike.needed_bytes, np.where(transmission == 1, units.bytes, 0)),
        "fragments": where_positive(fragments),
        "fragments_seen": where_positive(seen),
        "ip_fragments": both(ike.ip_fragments, units.ip_fragments),
        "digest": both(ike.digest, units.digest),
    }
    if radius.pairs:
        from ikeanalyze.analysis.content_columns import matched_by

        columns["matched_by"] = matched_by(count, extra, radius)
    if insides is not None:
        from ikeanalyze.analysis.content_columns import message_contents

        columns.update(message_contents(ike, extra, ids.message.of_row, insides))
    ordered: dict[str, Any] = {"message": ids.message.of_row[order]}
    for name, dtype in schema.MESSAGES.items():
        value = columns.pop(name, None)
        if isinstance(value, tuple):
            ordered[name] = (narrowed(value[0], dtype)[order], value[1][order])
        elif isinstance(value, pl.Series):
            ordered[name] = value.gather(order)
        elif value is not None:
            ordered[name] = narrowed(value, dtype)[order]
    return make_table(ordered, schema.MESSAGES, ids.numbering.capture_column(ids.message.capture))


def _ids_of(ids: Array, rows: Array) -> Array:
    """The ids of rows; anything for a row of -1."""
    return ids[rows] if len(ids) else rows


@dataclass(frozen=True, slots=True)
class UnitLabels:
    """What each unit, IKE or RADIUS, is a part of; -1: nothing."""

    message: npt.NDArray[np.int32]  # id
    handshake: npt.NDArray[np.int32]  # row of Handshakes

    def count(self, unit: npt.NDArray[np.uint32], handshakes: int) -> Int64Array:
        """How many of these frames, by their units, each handshake has. (handshakes,)"""
        handshake = self.handshake[unit]
        return np.bincount(handshake[handshake >= 0], minlength=handshakes)


def label_units(
    columns: Columns,
    duplicate: BoolArray,
    ike: Units,
    handshake_of_unit: Int64Array,
    message_of_unit: Int64Array,
    radius: Radius,
    ids: MessageIds,
) -> UnitLabels:
    """Label the units by their numbers; RADIUS must have been assigned.

    `handshake_of_unit` and `message_of_unit` are rows, of the units of IKE.
    """
    unit = columns["unit"]
    units = int(unit.max()) + 1 if len(unit) else 0
    message = np.full(units, -1, np.int32)
    handshake = np.full(units, -1, np.int32)
    message[ike.unit] = ids.of_row[message_of_unit]
    message[radius.units.unit] = ids.of_row[len(ids.of_row) - len(radius.units) :]
    handshake[ike.unit] = handshake_of_unit
    for pair in radius.pairs:
        if pair.handshake is not None:
            handshake[radius.units.unit[pair.requests + pair.responses]] = pair.handshake
    if duplicate.any():
        follow_originals(columns, duplicate, message, handshake)
    return UnitLabels(message, handshake)


def frames_table(
    numbering: Numbering,
    columns: Columns,
    addresses: Sequence[bytes],
    duplicate: BoolArray,
    labels: UnitLabels,
    handshake_ids: Int64Array,
) -> pl.DataFrame:
    """Frames in the order of the captures; `addresses` are the IPv6 addresses of the address codes."""
    unit = columns["unit"]
    message, handshake = labels.message[unit], labels.handshake[unit]
    known_handshake = handshake >= 0
    handshake = _ids_of(handshake_ids.astype(np.uint32), handshake)
    is_ike = columns["protocol"] <= Protocol.IKEV1
    fragmented = columns["fragment"] > 0
    # each distinct address is written once
    source, destination = (address_texts(columns[name], addresses, pl.Categorical) for name in _ENDS)
    several = len(numbering.paths) > 1
    captures = captures_of(columns["source"]) if several else np.zeros(0, np.int64)
    return make_table(
        {
            "number": columns["number"],
            "time_ns": columns["time_ns"],
            "interface": columns["interface"],
            "bytes": columns["bytes"],
            "captured": columns["captured"],
            "protocol": columns["protocol"],
            "encapsulation": columns["encapsulation"],
            "source": source,
            "source_port": (columns["source_port"], columns["encapsulation"] != 4),
            "destination": destination,
            "destination_port": (columns["destination_port"], columns["encapsulation"] != 4),
            "ttl": columns["ttl"],
            "ip_id": (columns["ip_id"], columns["ip_id"] != NO_IDENT),
            "ip_fragment": columns["ip_fragment"],
            "capture_duplicate": duplicate,
            "spi_i": (columns["spi_i"], is_ike),
            "spi_r": (columns["spi_r"], is_ike),
            "next_payload": (columns["next_payload"], is_ike),
            "exchange_type": columns["exchange_type"],
            "flags": (columns["flags"], is_ike),
            "message_id": (columns["message_id"], columns["protocol"] != Protocol.HIP),
            "ike_bytes": columns["ike_bytes"],
            "fragment": (columns["fragment"], fragmented),
            "fragments": (columns["fragments"], columns["fragments"] > 0),
            "digest": columns["digest"],
            "message": (message, message >= 0),
            "handshake": (handshake, known_handshake),
        },
        schema.FRAMES,
        numbering.capture_column(captures),
    )


def exchanges_table(
    ids: Ids,
    exchanges: Exchanges,
    exchange_of_message: Int64Array,
    handshakes: Handshakes,
    insides: "Insides | None" = None,
) -> pl.DataFrame:
    """Exchanges, the ones of a handshake together."""
    count = len(exchanges)
    asked, answered = exchanges.request_messages > 0, exchanges.response_messages > 0
    extra = np.full(count, None, object)
    for row, reason in handshakes.extra_round_trip_of_exchange.items():
        extra[row] = reason
    contents: dict[str, Any] = {}
    if insides is not None:
        from ikeanalyze.analysis.content_columns import exchange_contents

        contents = exchange_contents(count, exchange_of_message, insides.contents)
    return make_table(
        {
            "exchange": ids.exchange,
            "handshake": ids.handshake[exchanges.handshake],
            "type": _Names().pick(exchanges.protocol, exchanges.exchange_type),
            "message_id": exchanges.message_id,
            "attempt": exchanges.attempt + 1,
            "initiated_by": np.where(exchanges.initiator_asked, _INITIATOR, _RESPONDER).astype(np.uint8),
            "set_up": exchanges.set_up,
            "extra_round_trip": pl.Series(extra.tolist(), dtype=pl.String),
            "request_messages": (exchanges.request_messages, asked),
            "request_frames": (exchanges.request_frames, asked),
            "request_bytes": (exchanges.request_bytes, asked),
            "request_ns": known_where(exchanges.request_ns),
            "response_messages": (exchanges.response_messages, answered),
            "response_frames": (exchanges.response_frames, answered),
            "response_bytes": (exchanges.response_bytes, answered),
            "response_ns": known_where(exchanges.response_ns),
            "rtt_ns": known_where(exchanges.rtt_ns),
            "wait_ns": known_where(exchanges.wait_ns),
            "end_ns": known_where(exchanges.end_ns),
            **contents,
        },
        schema.EXCHANGES,
        ids.numbering.capture_column(ids.capture[exchanges.handshake]),
    )


EMPTY: Final = Tables(
    pl.DataFrame(schema=schema.FRAMES),
    pl.DataFrame(schema=schema.MESSAGES),
    pl.DataFrame(schema=schema.EXCHANGES),
    pl.DataFrame(schema=schema.HANDSHAKES),
)
