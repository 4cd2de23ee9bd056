"""The analysis of one capture as the four tables of `schema`: names for numbers, null for what is not known."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import polars as pl

from ikeanalyze.analysis import schema
from ikeanalyze.analysis.exchanges import UNKNOWN
from ikeanalyze.analysis.handshakes import Conversation, Handshakes
from ikeanalyze.analysis.methods import exchange_name, phase_name, radius_code_name
from ikeanalyze.analysis.nat import WORDS
from ikeanalyze.analysis.ordering import distinct
from ikeanalyze.analysis.radius import RadiusPair
from ikeanalyze.analysis.units import Units
from ikeanalyze.capture.datagrams import Protocol
from ikeanalyze.capture.frames import CaptureFrames, address_text
from ikeanalyze.capture.network import FIRST_IPV6, NO_IDENT

Numbers = npt.NDArray[np.int64]
Array = npt.NDArray[Any]

_INITIATOR, _RESPONDER, _AAA = 0, 1, 2
_ENDS: Final = ("source", "destination")


@dataclass(frozen=True, slots=True)
class FirstIds:
    """What the ids of this capture's rows begin with, so that they are unique in a report of several."""

    handshake: int = 1
    message: int = 0
    exchange: int = 0


@dataclass(slots=True)
class Radius:
    """A capture's RADIUS units and what was made of them."""

    units: Units
    pairs: list[RadiusPair]


@dataclass(frozen=True, slots=True)
class Tables:
    """One capture's four tables."""

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


def make_tables(
    path: str,
    capture: CaptureFrames,
    duplicate: npt.NDArray[np.bool_],
    conversation: Conversation,
    radius: Radius,
    handshakes: Handshakes,
    first: FirstIds,
) -> Tables:
    """All four tables of one capture."""
    messages, unit_message = _messages(path, conversation, radius, first)
    # numpy and polars let the two run side by side
    with ThreadPoolExecutor(1) as pool:
        frames = pool.submit(_frames, path, capture, duplicate, conversation, radius, unit_message, first)
        exchanges = _exchanges(path, conversation, handshakes, first)
        whole = _handshakes(path, capture, duplicate, conversation, radius, handshakes, first)
        return Tables(frames=frames.result(), messages=messages, exchanges=exchanges, handshakes=whole)


def _table(columns: Mapping[str, Any], layout: schema.Schema, path: str) -> pl.DataFrame:
    """A frame in the layout's order and types. A pair (values, known) becomes a column with nulls."""
    height = next(len(value[0]) if isinstance(value, tuple) else len(value) for value in columns.values())
    plain: dict[str, Any] = {}
    masks: dict[str, Array] = {}
    for name, value in columns.items():
        if isinstance(value, tuple):
            plain[name], known = value
            if not known.all():  # else polars takes the column as it is, without a copy
                masks[f"known {name}"] = known
        else:
            plain[name] = value
        dtype = layout.get(name)
        if isinstance(dtype, pl.Enum) and isinstance(plain[name], np.ndarray):
            # physical values become names
            plain[name] = pl.Series(dtype.categories, dtype=dtype).gather(plain[name])
    table = pl.DataFrame({**plain, **masks})
    expressions = []
    for name, dtype in layout.items():
        if name == "capture":
            expressions.append(pl.lit(path, dtype=pl.String).cast(pl.Categorical).alias(name))
            continue
        column = pl.col(name)
        if f"known {name}" in masks:
            column = pl.when(pl.col(f"known {name}")).then(column)
        if table.schema[name] != dtype:
            column = column.cast(dtype)
        expressions.append(column.alias(name))
    if not height:
        return pl.DataFrame(schema=layout)
    return table.select(expressions)


def _known(values: Array) -> tuple[Array, Array]:
    """Null where UNKNOWN."""
    return values, values != UNKNOWN


def _positive(values: Array) -> tuple[Array, Array]:
    """Null where 0."""
    return values, values > 0


class _Names:
    """Names of exchange types, per protocol, as one categorical column to pick from."""

    def __init__(self) -> None:
        names = [exchange_name(version, kind) for version in (2, 1) for kind in range(256)]
        names += [radius_code_name(code) for code in range(256)]
        self._all = pl.Series(names, dtype=pl.Categorical)

    def pick(self, protocol: npt.NDArray[np.uint8], kind: npt.NDArray[np.uint8]) -> pl.Series:
        return self._all.gather(protocol.astype(np.uint32) * 256 + kind)


def _messages(
    path: str, conversation: Conversation, radius: Radius, first: FirstIds
) -> tuple[pl.DataFrame, tuple[Numbers, Numbers]]:
    """Messages of IKE and RADIUS in order of time, and for each unit of either the message's id."""
    ike, exchanges = conversation.messages, conversation.exchanges
    count, extra = len(ike), len(radius.units)
    exchange = conversation.exchange_of_message
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
    order = np.argsort(first_ns, kind="stable")
    rank = np.empty(count + extra, np.int64)
    rank[order] = np.arange(count + extra) + first.message
    handshakes = both(ike.handshake, handshake)
    exchange_ids = both(exchange, radius_exchange)
    fragments = both(ike.fragments, unassigned)
    seen = both(ike.fragments_seen, unassigned)
    sender = both(np.where(ike.from_initiator, _INITIATOR, _RESPONDER), np.where(from_client, _RESPONDER, _AAA))
    protocol = both(ike.protocol, units.protocol)
    columns: dict[str, Any] = {
        "message": rank,
        "handshake": (handshakes + first.handshake, handshakes >= 0),
        "exchange": (exchange_ids + first.exchange, exchange_ids >= 0),
        "protocol": protocol,
        "type": _Names().pick(protocol, both(ike.exchange_type, units.exchange_type)),
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
        "fragments": _positive(fragments),
        "fragments_seen": _positive(seen),
        "ip_fragments": both(ike.ip_fragments, units.ip_fragments),
        "digest": both(ike.digest, units.digest),
        "decrypted": (np.zeros(count + extra, np.bool_), np.zeros(count + extra, np.bool_)),
    }
    ordered: dict[str, Any] = {
        name: (value[0][order], value[1][order])
        if isinstance(value, tuple)
        else (value.gather(order) if isinstance(value, pl.Series) else value[order])
        for name, value in columns.items()
    }
    table = _table(ordered, schema.MESSAGES, path)
    return table, (rank[conversation.message_of_unit], rank[count:])


def _frames(
    path: str,
    capture: CaptureFrames,
    duplicate: npt.NDArray[np.bool_],
    conversation: Conversation,
    radius: Radius,
    unit_message: tuple[Numbers, Numbers],
    first: FirstIds,
) -> pl.DataFrame:
    columns = capture.columns
    unit = columns["unit"].astype(np.int64)
    units = int(unit.max()) + 1 if len(unit) else 0
    message = np.full(units, -1, np.int64)
    handshake = np.full(units, -1, np.int64)
    message[conversation.units.unit], message[radius.units.unit] = unit_message
    handshake[conversation.units.unit] = conversation.association.handshake
    for pair in radius.pairs:
        if pair.handshake is not None:
            handshake[radius.units.unit[pair.requests + pair.responses]] = pair.handshake
    if duplicate.any():
        _follow_originals(columns, duplicate, message, handshake)
    is_ike = columns["protocol"] <= Protocol.IKEV1
    fragmented = columns["fragment"] > 0
    source, destination = _addresses(capture)
    return _table(
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
            "message": (message[unit], message[unit] >= 0),
            "handshake": (handshake[unit] + first.handshake, handshake[unit] >= 0),
        },
        schema.FRAMES,
        path,
    )


def _follow_originals(columns: Mapping[str, Array], duplicate: Array, message: Numbers, handshake: Numbers) -> None:
    """Duplicates of the capture belong to the message and handshake of the frame that they repeat."""
    time, digest = columns["time_ns"], columns["digest"]
    originals: dict[int, list[tuple[int, int]]] = {}
    rows = np.flatnonzero(np.isin(digest, digest[duplicate]) & ~duplicate)
    for row in rows[np.argsort(time[rows], kind="stable")].tolist():
        originals.setdefault(int(digest[row]), []).append((int(time[row]), int(columns["unit"][row])))
    for row in np.flatnonzero(duplicate).tolist():
        unit = int(columns["unit"][row])
        # a duplicate of one IP fragment is of the unit of all of them
        if message[unit] < 0 and handshake[unit] < 0:
            same = originals.get(int(digest[row]), [])
            when = int(time[row])
            place = bisect_left(same, (when, 0))
            around = same[max(place - 1, 0) : place + 1]
            if around:
                _, found = min(around, key=lambda one: abs(one[0] - when))
                message[unit], handshake[unit] = message[found], handshake[found]


def _addresses(capture: CaptureFrames) -> tuple[pl.Series, pl.Series]:
    """Source and destination of the frames as text, each distinct address written once."""
    source, destination = (_texts(capture.columns[name], capture.addresses, pl.Categorical) for name in _ENDS)
    return source, destination


def _exchanges(path: str, conversation: Conversation, handshakes: Handshakes, first: FirstIds) -> pl.DataFrame:
    exchanges = conversation.exchanges
    count = len(exchanges)
    asked, answered = exchanges.request_messages > 0, exchanges.response_messages > 0
    extra = np.full(count, None, object)
    for row, reason in handshakes.extra_round_trip_of_exchange.items():
        extra[row] = reason
    nothing = (np.zeros(count, np.uint32), np.zeros(count, np.bool_))
    return _table(
        {
            "exchange": np.arange(count) + first.exchange,
            "handshake": exchanges.handshake + first.handshake,
            "type": _Names().pick(exchanges.protocol, exchanges.exchange_type),
            "message_id": exchanges.message_id,
            "attempt": exchanges.attempt + 1,
            "initiated_by": np.where(exchanges.initiator_asked, _INITIATOR, _RESPONDER).astype(np.uint8),
            "set_up": exchanges.set_up,
            "extra_round_trip": pl.Series(extra.tolist(), dtype=pl.String),
            "request_messages": (exchanges.request_messages, asked),
            "request_frames": (exchanges.request_frames, asked),
            "request_bytes": (exchanges.request_bytes, asked),
            "request_ns": _known(exchanges.request_ns),
            "response_messages": (exchanges.response_messages, answered),
            "response_frames": (exchanges.response_frames, answered),
            "response_bytes": (exchanges.response_bytes, answered),
            "response_ns": _known(exchanges.response_ns),
            "rtt_ns": _known(exchanges.rtt_ns),
            "wait_ns": _known(exchanges.wait_ns),
            "end_ns": _known(exchanges.end_ns),
            "epoch": nothing,
            "decrypted": (np.zeros(count, np.bool_), np.zeros(count, np.bool_)),
        },
        schema.EXCHANGES,
        path,
    )


def _handshakes(
    path: str,
    capture: CaptureFrames,
    duplicate: npt.NDArray[np.bool_],
    conversation: Conversation,
    radius: Radius,
    handshakes: Handshakes,
    first: FirstIds,
) -> pl.DataFrame:
    count = len(handshakes)
    if not count:
        return pl.DataFrame(schema=schema.HANDSHAKES)
    messages, breakdown = conversation.messages, handshakes.breakdown
    of = messages.handshake
    set_up = conversation.exchanges.set_up[conversation.exchange_of_message]

    def total(values: Array | None, where: Array) -> Numbers:
        weights = None if values is None else values[where]
        # sums of bytes stay far below 2**53, where float64 weights are exact
        return np.bincount(of[where], weights, minlength=count).astype(np.int64)

    columns: dict[str, Any] = {
        "handshake": np.arange(count) + first.handshake,
        "protocol": handshakes.protocol,
        "spi_i": _hex(handshakes.spi_i),
        "spi_r": _hex(handshakes.spi_r),
        "initiator_address": _texts(handshakes.initiator, capture.addresses),
        "initiator_port": handshakes.initiator_port,
        "responder_address": _texts(handshakes.responder, capture.addresses),
        "responder_port": handshakes.responder_port,
        "nat": pl.Series(WORDS, dtype=pl.String).gather(handshakes.nat),
        "start_ns": conversation.units.first_ns[handshakes.head],
        "end_ns": _known(breakdown.end_ns),
        "outcome": handshakes.outcome,
        "reason": _sparse(handshakes.reason, count),
        **_methods(handshakes, count),
    }
    sides = (("initiator", messages.from_initiator), ("responder", ~messages.from_initiator))
    for prefix, phase in (("", set_up), ("after_setup_", ~set_up)):
        for side, sent in sides:
            columns[f"{prefix}{side}_messages"] = total(None, sent & phase)
            columns[f"{prefix}{side}_frames"] = total(messages.frames, sent & phase)
            columns[f"{prefix}{side}_bytes"] = total(messages.bytes, sent & phase)
    columns.update(_aaa(capture, radius, handshakes, count))
    columns["phases"] = _phases(conversation, set_up, count)
    for name in ("setup", "network", "initiator", "responder", "aaa"):
        columns[f"{name}_ns"] = _known(getattr(breakdown, f"{name}_ns"))
    has_aaa = np.zeros(count, np.bool_)
    has_aaa[list(handshakes.pairs)] = True
    columns["aaa_ns"] = (breakdown.aaa_ns, (breakdown.aaa_ns != UNKNOWN) & has_aaa)
    columns["retransmission_wait_ns"] = _known(breakdown.wait_ns)
    columns["vantage"] = handshakes.vantage
    columns["path_rtt_ns"] = _known(breakdown.path_rtt_ns)
    source = pl.Series([None, "given" if handshakes.rtt_given else "smallest seen"], dtype=pl.String)
    columns["path_rtt_source"] = source.gather((breakdown.path_rtt_ns != UNKNOWN).astype(np.uint8))
    again = set_up & (messages.transmission > 1)
    columns["retransmitted_messages"] = total(None, again)
    columns["retransmitted_frames"] = total(messages.frames, again)
    columns["retransmitted_bytes"] = total(messages.bytes, again)
    sent, needed = total(messages.bytes, set_up), total(messages.needed_bytes, set_up)
    columns["blowup"] = (sent / np.maximum(needed, 1), needed > 0)
    columns["ike_messages_fragmented"] = total(None, set_up & (messages.fragments_seen > 0))
    columns["ike_fragments"] = total(messages.fragments_seen, set_up)
    columns["ip_fragments"] = total(messages.ip_fragments, set_up)
    columns["extra_round_trips"] = _lists(
        [handshakes.extra_round_trips.get(row, []) for row in range(count)]
        if handshakes.extra_round_trips
        else [[]]
    ).gather(np.arange(count) if handshakes.extra_round_trips else np.zeros(count, np.int64))
    columns["capture_duplicates"] = _duplicates(capture, duplicate, conversation, count)
    columns["one_sided"] = (np.maximum(handshakes.one_sided, 0), handshakes.one_sided >= 0)
    return _table(columns, schema.HANDSHAKES, path)


def _hex(values: npt.NDArray[np.uint64]) -> pl.Series:
    digits = values.astype(">u8").tobytes().hex().encode()
    return pl.Series(np.frombuffer(digits, "S16").astype("U16"), dtype=pl.String)


def _texts(codes: npt.NDArray[np.uint64], ipv6: Sequence[bytes], dtype: type[pl.DataType] = pl.String) -> pl.Series:
    """Addresses as text, each distinct one written once."""
    different, place = distinct(codes)
    old = different < np.uint64(FIRST_IPV6)
    # each of the four numbers of an IPv4 address is picked from 256 texts
    numbers = different[old].astype(">u4").view(np.uint8).reshape(-1, 4)
    decimal = pl.Series([str(number) for number in range(256)], dtype=pl.String)
    parts = [decimal.gather(numbers[:, index]).alias(str(index)) for index in range(4)]
    texts = pl.select(pl.concat_str(parts, separator=".")).to_series()
    if not old.all():
        new = pl.Series([address_text(code, ipv6) for code in different[~old].tolist()], dtype=pl.String)
        order = np.concatenate([np.flatnonzero(old), np.flatnonzero(~old)])
        where = np.empty(len(order), np.uint32)
        where[order] = np.arange(len(order), dtype=np.uint32)
        place, texts = where[place], pl.concat([texts, new])
    return texts.cast(dtype).gather(place)


def _sparse(values: Mapping[int, str | None], count: int) -> pl.Series:
    if not values:
        return pl.Series([None], dtype=pl.String).gather(np.zeros(count, np.int64))
    return pl.Series([values.get(row) for row in range(count)], dtype=pl.String)


def _lists(values: Sequence[Sequence[str]]) -> pl.Series:
    return pl.Series(values, dtype=pl.List(pl.String))


def _methods(handshakes: Handshakes, count: int) -> dict[str, Any]:
    """Proposals, what the peers support, and how they authenticated."""
    facts = handshakes.facts
    request, response = handshakes.request_form, handshakes.response_form
    # one row for each form and an empty one for "not seen", which -1 picks
    chosen = [fact.chosen for fact in facts]

    def texts(values: list[str | None], form: Numbers) -> pl.Series:
        return pl.Series([*values, None], dtype=pl.String).gather(np.where(form < 0, len(values), form))

    def lists(values: list[list[str]], form: Numbers) -> pl.Series:
        return _lists([*values, []]).gather(np.where(form < 0, len(values), form))

    additional = schema.HANDSHAKES["additional_key_exchanges"]
    slots = [
        [{"slot": slot, "method": method, "id": number} for slot, method, number in one.additional] if one else []
        for one in chosen
    ]
    methods: dict[str, Any] = {
        "encryption": texts([one.encryption if one else None for one in chosen], response),
        "prf": texts([one.prf if one else None for one in chosen], response),
        "integrity": texts([one.integrity if one else None for one in chosen], response),
        "key_exchange": texts([one.key_exchange if one else None for one in chosen], response),
        "additional_key_exchanges": pl.Series([*slots, []], dtype=additional).gather(
            np.where(response < 0, len(slots), response)
        ),
        "offered": lists([fact.proposals for fact in facts], request),
        "initiator_supports": lists([fact.supports for fact in facts], request),
        "responder_supports": lists([fact.supports for fact in facts], response),
    }
    if handshakes.phase1:
        _add_phase1(methods, handshakes)
    auths, which = handshakes.auths, handshakes.auth
    methods["auth_initiator"] = texts([one.initiator for one in auths], which)
    methods["auth_responder"] = texts([one.responder for one in auths], which)
    methods["auth_eap"] = texts([one.eap for one in auths], which)
    methods["auth_guessed"] = np.array([one.guessed for one in auths] + [False])[which]
    return methods


def _add_phase1(methods: dict[str, Any], handshakes: Handshakes) -> None:
    """The same columns for IKEv1's handshakes, which have them in other messages."""
    columns = {name: series.to_list() for name, series in methods.items()}
    for row, fact in handshakes.phase1.items():
        if fact.chosen is not None:
            columns["encryption"][row], columns["prf"][row] = fact.chosen.encryption, fact.chosen.prf
            columns["integrity"][row], columns["key_exchange"][row] = fact.chosen.integrity, fact.chosen.key_exchange
        columns["offered"][row] = fact.offered
        columns["initiator_supports"][row] = fact.initiator_supports
        columns["responder_supports"][row] = fact.responder_supports
    for name, values in columns.items():
        methods[name] = pl.Series(values, dtype=methods[name].dtype)


def _phases(conversation: Conversation, set_up: Array, count: int) -> pl.Series:
    """Messages, frames and bytes by exchange type, of the set-up, in order of time."""
    messages = conversation.messages
    rows = np.flatnonzero(set_up)
    layout = schema.HANDSHAKES["phases"]
    names = [phase_name(version, kind) for version in (2, 1) for kind in range(256)]
    kind = messages.protocol[rows].astype(np.int64) * 256 + messages.exchange_type[rows]
    # several exchange types may be one phase: IKE_SESSION_RESUME stands for IKE_SA_INIT only under its own name
    present = np.unique(kind)
    place = np.searchsorted(present, kind)
    width = len(present)
    cell = messages.handshake[rows] * width + place
    size = count * width
    sent = np.bincount(cell, minlength=size)
    frames = np.bincount(cell, messages.frames[rows], minlength=size).astype(np.int64)
    volume = np.bincount(cell, messages.bytes[rows], minlength=size).astype(np.int64)
    begin = np.full(size, np.iinfo(np.int64).max)
    np.minimum.at(begin, cell, messages.first_ns[rows])
    used = np.flatnonzero(sent)
    used = used[np.lexsort((begin[used], used // max(width, 1)))]
    kinds = pl.Series([names[one] for one in present.tolist()], dtype=pl.String)
    # as many phases make one kind of list, which is cut out of all phases in one piece
    length = np.bincount(used // max(width, 1), minlength=count)
    of = np.repeat(length, length)
    pieces: list[pl.Series] = []
    for phases in np.unique(length).tolist():
        rows = used[of == phases]
        flat = pl.DataFrame(
            {
                "type": kinds.gather(rows % max(width, 1)),
                "messages": sent[rows].astype(np.uint32),
                "frames": frames[rows].astype(np.uint32),
                "bytes": volume[rows].astype(np.uint64),
            }
        )
        if phases:
            pieces.append(flat.to_struct().reshape((-1, phases)).arr.to_list())
        else:
            pieces.append(pl.Series([[]], dtype=layout).gather(np.zeros((length == 0).sum(), np.int64)))
    if len(pieces) == 1:
        return pieces[0]
    place = np.empty(count, np.int64)
    place[np.argsort(length, kind="stable")] = np.arange(count)
    return pl.concat(pieces).gather(place)


def _aaa(capture: CaptureFrames, radius: Radius, handshakes: Handshakes, count: int) -> dict[str, Any]:
    """The link to the AAA server."""
    names = [f"aaa_{kind}_{what}" for kind in ("request", "response") for what in ("messages", "frames", "bytes")]
    sums = {name: np.zeros(count, np.int64) for name in names}
    nas: dict[int, str | None] = {}
    aaa: dict[int, str | None] = {}
    for handshake, pairs in handshakes.pairs.items():
        nas[handshake] = address_text(pairs[0].client, capture.addresses)
        aaa[handshake] = address_text(pairs[0].server, capture.addresses)
        for pair in pairs:
            for kind, rows in (("request", pair.requests), ("response", pair.responses)):
                sums[f"aaa_{kind}_messages"][handshake] += len(rows)
                sums[f"aaa_{kind}_frames"][handshake] += int(radius.units.frames[rows].sum())
                sums[f"aaa_{kind}_bytes"][handshake] += int(radius.units.bytes[rows].sum())
    known = np.zeros(count, np.bool_)
    known[list(handshakes.pairs)] = True
    return {
        "nas_address": _sparse(nas, count),
        "aaa_address": _sparse(aaa, count),
        **{name: (values, known) for name, values in sums.items()},
    }


def _duplicates(capture: CaptureFrames, duplicate: Array, conversation: Conversation, count: int) -> Numbers:
    result = np.zeros(count, np.int64)
    if duplicate.any():
        units = int(capture.columns["unit"].max()) + 1
        message, handshake = np.full(units, -1, np.int64), np.full(units, -1, np.int64)
        handshake[conversation.units.unit] = conversation.association.handshake
        _follow_originals(capture.columns, duplicate, message, handshake)
        found = handshake[capture.columns["unit"][duplicate]]
        np.add.at(result, found[found >= 0], 1)
    return result


EMPTY: Final = Tables(
    pl.DataFrame(schema=schema.FRAMES),
    pl.DataFrame(schema=schema.MESSAGES),
    pl.DataFrame(schema=schema.EXCHANGES),
    pl.DataFrame(schema=schema.HANDSHAKES),
)
