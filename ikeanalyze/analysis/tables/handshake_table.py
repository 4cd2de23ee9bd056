"""Builds the handshakes table: one row per IKE SA or HIP association."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from msgspec import Struct

from ikeanalyze import core
from ikeanalyze.analysis.exchanges.answers import UNCERTAIN
from ikeanalyze.analysis.exchanges.exchanges import UNKNOWN, ExchangeColumns
from ikeanalyze.analysis.exchanges.nat import WORDS
from ikeanalyze.analysis.exchanges.radius import RadiusMessages
from ikeanalyze.analysis.handshakes.auth_methods import InitFacts, build_type_names
from ikeanalyze.analysis.handshakes.handshakes import HandshakeColumns
from ikeanalyze.analysis.handshakes.lab_handshakes import LabMatches
from ikeanalyze.analysis.messages.messages import MessageColumns
from ikeanalyze.analysis.tables import layouts
from ikeanalyze.analysis.tables.columns import (
    AddressColumn,
    Array,
    FlatListColumn,
    SpiColumn,
    StructColumn,
    TableColumns,
    TextColumn,
    make_null_column,
    null_unknown,
    scatter_lists,
    scatter_texts,
    share_values,
)
from ikeanalyze.analysis.tables.lab_columns import build_lab_columns
from ikeanalyze.analysis.tables.row_ids import RowIds
from ikeanalyze.capture.arrays import BoolArray, Int32Array, Int64Array, UInt32Array, UInt64Array
from ikeanalyze.capture.decode.ip import format_address_code
from ikeanalyze.wire.text import format_address

#: Parts of the set-up time, and the time itself.
_TIMES: Final = ("setup", "initiator_setup", "network", "initiator", "initiator_and_network", "responder")
#: Values of `path_rtt_source`, by `HandshakeColumns.rtt_source`.
_RTT_SOURCES: Final = ("smallest seen", "given", "manifest", None)
_ALGORITHMS: Final = ("encryption", "prf", "integrity", "key_exchange")


class HandshakeTableSources(Struct, frozen=True):
    """The input of the table of handshakes."""

    ids: RowIds
    addresses: Sequence[bytes]  # IPv6 addresses of the address codes
    volumes: dict[str, Any]  # columns of what the messages add up to: see `add_up_messages`
    radius: RadiusMessages
    handshakes: HandshakeColumns
    capture_duplicates: Int64Array  # number of duplicate frames of each handshake
    tunnels: Mapping[int, str]  # tunnels of the handshakes (rows) that are in some
    lab: LabMatches


def build_handshake_columns(sources: HandshakeTableSources) -> TableColumns:
    """The handshakes, without their diagnoses."""
    ids, handshakes, addresses = sources.ids, sources.handshakes, sources.addresses
    count = len(handshakes)
    if not count:
        return TableColumns({}, layouts.HANDSHAKES, "", 0)
    ends, breakdown = handshakes.ends, handshakes.breakdown
    has_aaa = np.zeros(count, np.bool_)
    has_aaa[list(handshakes.pairs)] = True
    rtt_source = np.where(breakdown.path_rtt_ns == UNKNOWN, len(_RTT_SOURCES) - 1, handshakes.rtt_source)
    columns: dict[str, Any] = {
        "handshake": ids.handshake,
        "protocol": handshakes.protocol,
        **_make_identifier_columns(handshakes),
        "initiator_address": AddressColumn(ends.initiator, addresses),
        "initiator_port": _make_port_column(handshakes, ends.initiator_port),
        "responder_address": AddressColumn(ends.responder, addresses),
        "responder_port": _make_port_column(handshakes, ends.responder_port),
        "nat": TextColumn(WORDS, handshakes.nat),
        "tunnel": scatter_texts(sources.tunnels, count),
        "start_ns": handshakes.start_ns,
        "end_ns": null_unknown(breakdown.end_ns),
        "rekeyed": handshakes.rekeyed,
        "outcome": (handshakes.outcome, _has_outcome(handshakes)),
        "reason": scatter_texts(handshakes.reason, count),
        **_make_method_columns(handshakes),
        **sources.volumes,
        **_make_aaa_columns(addresses, sources.radius, handshakes, has_aaa),
        **{f"{name}_ns": null_unknown(getattr(breakdown, f"{name}_ns")) for name in _TIMES},
        "aaa_ns": (breakdown.aaa_ns, (breakdown.aaa_ns != UNKNOWN) & has_aaa),
        "retransmission_wait_ns": null_unknown(breakdown.wait_ns),
        "vantage": handshakes.vantage,
        "path_rtt_ns": null_unknown(breakdown.path_rtt_ns),
        "path_rtt_source": TextColumn(_RTT_SOURCES, rtt_source),
        "uncertain": scatter_texts(dict.fromkeys(np.flatnonzero(handshakes.uncertain).tolist(), UNCERTAIN), count),
        "extra_round_trips": scatter_lists(handshakes.extra_round_trips, count),
        "capture_duplicates": sources.capture_duplicates,
        "one_sided": (np.maximum(handshakes.one_sided, 0), handshakes.one_sided >= 0),
        **build_lab_columns(sources.lab, ids.capture),
    }
    sources.volumes.clear()
    if handshakes.contents is not None:
        # here, because the modules that describe payloads are loaded only with keys
        from ikeanalyze.analysis.tables.content_columns import build_handshake_content_columns

        columns.update(
            build_handshake_content_columns(
                count, handshakes.contents, handshakes.replaces, ids.handshake, ids.exchange
            )
        )
    return TableColumns(columns, layouts.HANDSHAKES, ids.numbering.select_paths(ids.capture), count)


def add_up_messages(
    messages: MessageColumns, exchanges: ExchangeColumns, exchange_of_message: Int32Array, count: int
) -> dict[str, Any]:
    """Messages, frames and bytes of each of `count` handshakes, and those of retransmissions, by column."""
    if not count:
        return {}
    set_up = exchanges.set_up[exchange_of_message]
    sums = sum_volumes(messages, set_up, count)
    volume, needed = sums["initiator_bytes"] + sums["responder_bytes"], sums.pop("needed_bytes")
    return {
        **sums,
        "phases": _make_phase_column(messages, set_up, count),
        "blowup": (volume / np.maximum(needed, 1), needed > 0),
    }


def sum_volumes(messages: MessageColumns, set_up: Array, count: int) -> dict[str, Any]:
    """What the messages of each handshake add up to, by name; `set_up`: whether each sets up its IKE SA."""
    if core.compiled is not None:
        return core.compiled.sum_volumes(messages, set_up, count)
    # messages are counted in four classes at once: of either side, before and after the set-up
    classes = messages.handshake.astype(np.int64) << 2
    classes |= set_up.astype(np.int64) << 1
    classes |= messages.from_initiator

    def total(values: Array | None) -> Int64Array:
        # sums of bytes stay far below 2**53, where float64 weights are exact
        sums: Int64Array = np.bincount(classes, values, minlength=4 * count).astype(np.int64)
        return sums.reshape(count, 4)

    def total_of_set_up(values: Array) -> Int64Array:
        sums = total(values) if values.any() else np.zeros((count, 4), np.int64)
        return sums[:, 2] + sums[:, 3]

    columns: dict[str, Any] = {}
    # half the memory: of a flood, a column has millions of rows
    sums = {"messages": total(None).astype(np.uint32), "frames": total(messages.frames).astype(np.uint32)}
    sums["bytes"] = total(messages.bytes)
    for place, prefix in enumerate(("after_setup_responder", "after_setup_initiator", "responder", "initiator")):
        columns.update({f"{prefix}_{unit}": np.ascontiguousarray(values[:, place]) for unit, values in sums.items()})
    again = np.flatnonzero(set_up & (messages.transmission > 1))  # few
    handshake = messages.handshake[again]
    columns["retransmitted_messages"] = np.bincount(handshake, minlength=count).astype(np.uint32)
    frames, size = messages.frames[again], messages.bytes[again]
    columns["retransmitted_frames"] = np.bincount(handshake, frames, minlength=count).astype(np.uint32)
    columns["retransmitted_bytes"] = np.bincount(handshake, size, minlength=count).astype(np.int64)
    fragmented = (messages.fragments > 0) | (messages.fragments_seen > 0)
    return columns | {
        "needed_bytes": total_of_set_up(messages.needed_bytes),
        "ike_messages_fragmented": total_of_set_up(fragmented).astype(np.uint32),
        "ike_fragments": total_of_set_up(messages.fragments_seen).astype(np.uint32),
        "ip_fragments": total_of_set_up(messages.ip_fragments).astype(np.uint32),
    }


def _has_outcome(handshakes: HandshakeColumns) -> BoolArray:
    """Whether the outcome is known: not of rekeyed IKE SAs whose rekeying was not decrypted."""
    known = ~handshakes.rekeyed
    known[list(handshakes.replaces)] = True
    return known


def _make_identifier_columns(handshakes: HandshakeColumns) -> dict[str, Any]:
    """SPIs of IKE handshakes, HITs of HIP handshakes."""
    hits = handshakes.hits
    if not hits:
        return {"spi_i": SpiColumn(handshakes.spi_i), "spi_r": SpiColumn(handshakes.spi_r)}
    spis = {"spi_i": SpiColumn(handshakes.spi_i), "spi_r": SpiColumn(handshakes.spi_r)}
    count = len(handshakes)
    is_ike = np.ones(count, np.bool_)
    is_ike[list(hits)] = False
    sides = (("initiator", 0), ("responder", 1))
    return {
        **{name: (spi, is_ike) for name, spi in spis.items()},
        **{
            f"{side}_hit": scatter_texts(
                {row: format_address(both[index]) for row, both in hits.items() if any(both[index])}, count
            )
            for side, index in sides
        },
    }


def _make_port_column(handshakes: HandshakeColumns, ports: Array) -> Array | tuple[Array, Array]:
    """Ports; null for HIP without UDP."""
    return (ports, ports > 0) if handshakes.hits else ports


def _make_method_columns(handshakes: HandshakeColumns) -> dict[str, Any]:
    """Negotiated and offered algorithms, supported extensions, and authentication methods."""
    facts = handshakes.facts
    request, response = handshakes.request_facts, handshakes.response_facts
    # one value for all handshakes with the same facts; -1, not seen, becomes null or an empty list
    chosen = [fact.chosen for fact in facts]

    def choose(name: str, values: list[Any], place: Int64Array, missing: list[Any] | None = None) -> Any:
        if missing is None and (place < 0).all():
            return make_null_column(len(place))
        return share_values([*values, missing], np.where(place < 0, len(values), place), layouts.HANDSHAKES[name])

    def list_known(fact: InitFacts, values: Sequence[Any]) -> Sequence[Any] | None:
        """Nothing is known about values that a truncated message does not have."""
        return values or (None if fact.truncated else [])

    def list_additional(fact: InitFacts) -> Sequence[Any] | None:
        if fact.chosen is None:
            return list_known(fact, [])
        return [{"slot": slot, "method": method, "id": number} for slot, method, number in fact.chosen.additional]

    slots = [list_additional(fact) for fact in facts]
    offered = [list_known(fact, fact.proposals) for fact in facts]
    supports = [list_known(fact, fact.supports) for fact in facts]
    truncated = [fact.truncated for fact in facts]
    columns: dict[str, Any] = {
        **{name: choose(name, [suite and getattr(suite, name) for suite in chosen], response) for name in _ALGORITHMS},
        "additional_key_exchanges": choose("additional_key_exchanges", slots, response, []),
        "offered": choose("offered", offered, request, []),
        "initiator_supports": choose("initiator_supports", supports, request, []),
        "responder_supports": choose("responder_supports", supports, response, []),
        "initiator_init_truncated": choose("initiator_init_truncated", truncated, request),
        "responder_init_truncated": choose("responder_init_truncated", truncated, response),
    }
    auths, auth = handshakes.auths, handshakes.auth
    for name in ("initiator", "responder", "eap"):
        columns[f"auth_{name}"] = choose(f"auth_{name}", [getattr(methods, name) for methods in auths], auth)
    columns["auth_guessed"] = np.array([methods.guessed for methods in auths] + [False])[auth]
    return columns


def _make_phase_column(messages: MessageColumns, set_up: Array, count: int) -> FlatListColumn:
    """Messages, frames and bytes of the set-up by exchange type, in order of time."""
    phases = sum_phases(messages, set_up, count)
    fields = {
        "type": TextColumn(build_type_names(), phases.exchange_type),
        "messages": phases.messages,
        "frames": phases.frames,
        "bytes": phases.bytes,
    }
    return FlatListColumn(StructColumn(fields), phases.length)


class PhaseVolumes(Struct, frozen=True):
    """The exchange types of the set-up of each handshake, in order of handshake and time. (phases,) but `length`"""

    exchange_type: Int64Array  # the protocol in the high bits
    messages: UInt32Array
    frames: UInt32Array
    bytes: UInt64Array
    length: Int64Array  # number of phases of each handshake. (handshakes,)


def sum_phases(messages: MessageColumns, set_up: Array, count: int) -> PhaseVolumes:
    """Add up the messages of the set-ups of `count` handshakes by exchange type."""
    if core.compiled is not None:
        return PhaseVolumes(*core.compiled.sum_phases(messages, set_up, count))
    rows = np.flatnonzero(set_up)
    exchange_type = messages.protocol[rows].astype(np.int64) * 256 + messages.exchange_type[rows]
    present = np.flatnonzero(np.bincount(exchange_type))
    width = max(len(present), 1)
    cell = messages.handshake[rows].astype(np.int64) * width + np.searchsorted(present, exchange_type)
    size = count * width
    sent = np.bincount(cell, minlength=size)
    frames = np.bincount(cell, messages.frames[rows], minlength=size)
    volume = np.bincount(cell, messages.bytes[rows], minlength=size)
    begin = np.full(size, np.iinfo(np.int64).max)
    np.minimum.at(begin, cell, messages.first_ns[rows])
    used = np.flatnonzero(sent)
    owner = used // width
    late = (owner[1:] == owner[:-1]) & (begin[used[1:]] < begin[used[:-1]])
    if late.any():  # in few handshakes: the order of types is nearly always the order of time
        is_late = np.zeros(count, np.bool_)
        is_late[owner[1:][late]] = True
        places = np.flatnonzero(is_late[owner])
        unordered = used[places]
        used[places] = unordered[np.lexsort((begin[unordered], owner[places]))]
    return PhaseVolumes(
        exchange_type=present[used % width] if len(present) else used,
        messages=sent[used].astype(np.uint32),
        frames=frames[used].astype(np.uint32),
        bytes=volume[used].astype(np.uint64),
        length=np.bincount(owner, minlength=count),
    )


def _make_aaa_columns(
    addresses: Sequence[bytes], radius: RadiusMessages, handshakes: HandshakeColumns, has_aaa: BoolArray
) -> dict[str, Any]:
    """Addresses and volumes of the link to the AAA server."""
    if not handshakes.pairs:
        return {}  # null in all rows
    count = len(has_aaa)
    sums = {
        f"aaa_{role}_{unit}": np.zeros(count, np.int64)
        for role in ("request", "response", "retransmitted")
        for unit in ("messages", "frames", "bytes")
    }
    nas: dict[int, str | None] = {}
    aaa: dict[int, str | None] = {}
    datagrams = radius.datagrams
    for handshake, pairs in handshakes.pairs.items():
        nas[handshake] = format_address_code(pairs[0].client, addresses)
        aaa[handshake] = format_address_code(pairs[0].server, addresses)
        for pair in pairs:
            retransmitted = pair.requests[1:] + pair.responses[1:]
            parts = (("request", pair.requests), ("response", pair.responses), ("retransmitted", retransmitted))
            for role, rows in parts:
                sums[f"aaa_{role}_messages"][handshake] += len(rows)
                sums[f"aaa_{role}_frames"][handshake] += int(datagrams.frames[rows].sum())
                sums[f"aaa_{role}_bytes"][handshake] += int(datagrams.bytes[rows].sum())
    return {
        "nas_address": scatter_texts(nas, count),
        "aaa_address": scatter_texts(aaa, count),
        **{name: (values, has_aaa) for name, values in sums.items()},
    }
