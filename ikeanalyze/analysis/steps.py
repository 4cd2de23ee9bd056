"""One capture's way from frames to the four tables, step by step."""

from concurrent.futures import ThreadPoolExecutor
from typing import Literal

import numpy as np
import polars as pl

from ikeanalyze.analysis.association import associate
from ikeanalyze.analysis.duplicates import find_duplicates, translated_endpoints
from ikeanalyze.analysis.exchanges import UNKNOWN, make_exchanges
from ikeanalyze.analysis.handshakes import Conversation, make_handshakes
from ikeanalyze.analysis.inits import read_unit_inits
from ikeanalyze.analysis.messages import lacking_fragments, make_messages
from ikeanalyze.analysis.radius import Peers, Radius, RadiusPair, Turns, assign, pair_up
from ikeanalyze.analysis.redirects import follow_redirects
from ikeanalyze.analysis.tables import EMPTY, Tables, ids_after, make_tables
from ikeanalyze.analysis.timing import UNKNOWN_VANTAGE
from ikeanalyze.analysis.units import Units, make_units
from ikeanalyze.capture.datagrams import Protocol
from ikeanalyze.capture.frames import CaptureFrames, address_text
from ikeanalyze.capture.memory import give_back_memory

Vantage = Literal["initiator", "responder"]


def join_tables(tables: list[Tables]) -> Tables:
    """The tables of several captures as one."""
    if not tables:
        return EMPTY
    return Tables(
        *(pl.concat([getattr(one, name) for one in tables]) for name in Tables.__dataclass_fields__)
    )


def analyse(
    path: str, capture: CaptureFrames, vantage: Vantage | None, rtt_ns: int | None, before: list[Tables]
) -> tuple[Tables, list[tuple[int | None, str]]]:
    """The tables of one capture, and warnings (frame, what); `before` are those of the captures before it."""
    duplicates = find_duplicates(capture.columns)
    duplicate = duplicates.mask
    translated = translated_endpoints(capture.columns, duplicates)
    units = make_units(capture.columns, duplicate)
    ike = units.take(np.flatnonzero(units.protocol <= Protocol.IKEV1)) if _has_others(units) else units
    capture.clear.entries()  # so that both threads find them in order
    with ThreadPoolExecutor(1) as pool:
        # the one step that needs no other; numpy lets the threads run side by side
        reading = pool.submit(read_unit_inits, ike, capture.clear, capture.addresses)
        association = follow_redirects(ike, associate(ike, capture.clear, translated), capture.clear)
        messages, message_of_unit = make_messages(ike, association)
        exchanges, exchange_of_message = make_exchanges(messages)
        inits = reading.result()
    conversation = Conversation(
        ike, association, messages, message_of_unit, exchanges, exchange_of_message, inits,
        capture.clear, capture.addresses, capture.last_ns or 0, translated,
    )  # fmt: skip
    asking = (
        units.take(np.flatnonzero(units.protocol == Protocol.RADIUS))
        if _has_others(units)
        else units.take(units.unit[:0])
    )
    radius = Radius(asking, pair_up(asking, capture.clear))
    more: list[tuple[int | None, str]] = []
    lacking, frame = lacking_fragments(messages)
    if lacking:
        some = f"{lacking} messages lack" if lacking > 1 else "a message lacks"
        more.append((frame, f"{some} fragments that are not in the capture: counted with those that are"))
    aaa_ns = np.zeros(len(exchanges), np.int64)
    if radius.pairs:
        more.extend(_assign_radius(conversation, radius, capture, ids_after(before).handshake))
        for pair in radius.pairs:
            if pair.exchange is not None and pair.responses:
                aaa_ns[pair.exchange] += _waited(pair, asking)
    handshakes = make_handshakes(conversation, radius.pairs, aaa_ns, vantage, rtt_ns)
    if rtt_ns is not None and (handshakes.vantage == UNKNOWN_VANTAGE).any():
        more.append(
            (
                None,
                "the round-trip time given is not used where the side of the capture is unknown: give that too",
            )
        )
    capture.clear.forget()  # the tables take the most memory, and need none of it
    give_back_memory()
    return make_tables(path, capture, duplicate, conversation, radius, handshakes, ids_after(before)), more


def _has_others(units: Units) -> bool:
    return bool((units.protocol > Protocol.IKEV1).any())


def _waited(pair: RadiusPair, units: Units) -> int:
    """From the first transmission of the request to the response."""
    return max(int(units.last_ns[pair.responses[0]] - units.first_ns[pair.requests[0]]), 0)


def _assign_radius(
    conversation: Conversation, radius: Radius, capture: CaptureFrames, first_id: int
) -> list[tuple[int | None, str]]:
    exchanges, units, association = conversation.exchanges, conversation.units, conversation.association
    rows = np.flatnonzero(exchanges.set_up & exchanges.initiator_asked & (exchanges.request_messages > 0))
    rows = rows[np.argsort(exchanges.request_ns[rows], kind="stable")]
    end = np.where(exchanges.end_ns[rows] == UNKNOWN, conversation.last_ns, exchanges.end_ns[rows])
    turns = Turns(exchanges.request_ns[rows], end, exchanges.handshake[rows], rows)
    ports: dict[int, set[int]] = {}
    own_port = np.where(association.from_initiator, units.source_port, units.destination_port)
    for handshake, port in set(zip(association.handshake.tolist(), own_port.tolist(), strict=True)):
        ports.setdefault(handshake, set()).add(port)
    peers: dict[int, Peers] = {}
    _, heads = np.unique(association.handshake, return_index=True)
    for handshake, head in enumerate(heads.tolist()):
        ends = [
            address_text(int(column[head]), capture.addresses) for column in (units.source, units.destination)
        ]
        initiator, responder = ends if association.from_initiator[head] else ends[::-1]
        peers[handshake] = Peers(initiator, responder, frozenset(ports[handshake]))
    return list(assign(radius.pairs, radius.units, turns, peers, first_id))
