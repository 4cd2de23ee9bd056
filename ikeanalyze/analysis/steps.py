"""The way from frames to the four tables, step by step: of one capture, or of small ones together."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from ikeanalyze.analysis.association import associate
from ikeanalyze.analysis.conversation import Conversation
from ikeanalyze.analysis.duplicates import find_duplicates, translated_endpoints
from ikeanalyze.analysis.exchanges import UNKNOWN, Exchanges, had_by, make_exchanges
from ikeanalyze.analysis.handshake_table import make_handshakes_table
from ikeanalyze.analysis.handshakes import Handshakes, make_handshakes
from ikeanalyze.analysis.ids import Ids, Numbering, number_messages
from ikeanalyze.analysis.inits import read_unit_inits
from ikeanalyze.analysis.messages import Messages, lacking_fragments, make_messages
from ikeanalyze.analysis.radius import Peers, Radius, Turns, assign, pair_up
from ikeanalyze.analysis.redirects import follow_redirects
from ikeanalyze.analysis.tables import (
    EMPTY,
    Tables,
    UnitLabels,
    exchanges_table,
    frames_table,
    label_units,
    messages_table,
)
from ikeanalyze.analysis.taken_responses import settle
from ikeanalyze.analysis.timing import UNKNOWN_VANTAGE, AaaTimes, Vantage
from ikeanalyze.analysis.units import Units, make_units
from ikeanalyze.capture.columns import Int64Array
from ikeanalyze.capture.datagrams import Protocol
from ikeanalyze.capture.frames import address_text
from ikeanalyze.capture.kept import MessageBytes
from ikeanalyze.capture.memory import give_back_memory
from ikeanalyze.capture.network import captures_of
from ikeanalyze.capture.traffic import Traffic

if TYPE_CHECKING:
    from ikeanalyze.analysis.cleartexts import Cleartext
    from ikeanalyze.analysis.contents import Contents
    from ikeanalyze.analysis.hip import HostAssociations
    from ikeanalyze.analysis.insides import Insides
    from ikeanalyze.analysis.opening import Keys

Finished = Callable[[str, pl.DataFrame], object]
#: A warning: number of the frame, None for the capture as a whole; what.
Told = tuple[int | None, str]
#: Called with a capture's traffic, the bytes of its encrypted messages and what is in them, while these are there.
Looked = Callable[[Conversation, MessageBytes, "Contents"], object]


def join_tables(tables: list[Tables]) -> Tables:
    """The tables of several captures as one."""
    if not tables:
        return EMPTY
    return Tables(*(pl.concat([getattr(one, name) for one in tables]) for name in Tables.__dataclass_fields__))


@dataclass(frozen=True, slots=True)
class _Apart:
    """Traffic taken apart: all that the tables are made of, beside the frames."""

    frames: "Future[pl.DataFrame]"
    ids: Ids
    messages: Messages
    exchanges: Exchanges
    exchange_of_message: Int64Array
    radius: Radius
    handshakes: Handshakes
    capture_duplicates: Int64Array  # frames of each handshake that the capture has more than once
    insides: "Insides | None"
    warnings: list[list[Told]]


def analyse(
    numbering: Numbering,
    traffic: Traffic,
    vantage: Vantage | None,
    rtt_ns: int | None,
    keys: "Sequence[Keys | None]",
    finished: Finished | None = None,
    *,
    payloads: bool = False,
    cleartexts: "dict[int, Cleartext] | None" = None,
    looked: Looked | None = None,
) -> tuple[Tables, list[list[Told]]]:
    """The tables of captures, whose paths `numbering` has, and the warnings of each.

    What was decrypted is put into `cleartexts`, if there is one, by the ids of its messages.
    `keys`, those of each capture or None, open what they fit; `payloads`: what is clear is named too, whether there are keys or not.
    `finished` is called with each table as soon as it is complete, from any thread; `looked` once, if messages were looked
    into.
    """

    def done(name: str, table: pl.DataFrame) -> pl.DataFrame:
        if finished is not None:
            finished(name, table)
        return table

    # numpy and polars let two threads run side by side
    with ThreadPoolExecutor(1) as pool:
        apart = _take_apart(numbering, traffic, vantage, rtt_ns, pool, done, keys, payloads, looked)
        give_back_memory()  # the tables take the most of it, and need nothing of what they were made of
        ids, rest = apart.ids, (apart.messages, apart.exchanges, apart.exchange_of_message, apart.radius)
        messages = pool.submit(lambda: done("messages", messages_table(ids, *rest, apart.insides)))
        exchanges = done("exchanges", exchanges_table(ids, *rest[1:3], apart.handshakes, apart.insides))
        frames = apart.frames.result()
        handshakes = make_handshakes_table(ids, traffic.addresses, apart.capture_duplicates, *rest, apart.handshakes)
        tables = Tables(frames, messages.result(), exchanges, done("handshakes", handshakes))
        if cleartexts is not None and apart.insides is not None:
            from ikeanalyze.analysis.cleartexts import write_clear

            cleartexts.update(write_clear(apart.insides.contents, ids.message.of_row))
    return tables, apart.warnings


def _take_apart(
    numbering: Numbering,
    traffic: Traffic,
    vantage: Vantage | None,
    rtt_ns: int | None,
    pool: ThreadPoolExecutor,
    done: Callable[[str, pl.DataFrame], pl.DataFrame],
    keys: "Sequence[Keys | None]",
    payloads: bool,
    looked: Looked | None,
) -> _Apart:
    columns, clear = traffic.columns, traffic.clear
    duplicates = find_duplicates(columns)
    translated = translated_endpoints(columns, duplicates)
    units = make_units(columns, duplicates.mask)
    others = bool((units.protocol > Protocol.IKEV1).any())
    # those of HIP are told what IKE's say themselves, and are then one with them
    ike = units.take(np.flatnonzero(units.protocol != Protocol.RADIUS)) if others else units
    asking = units.take(np.flatnonzero(units.protocol == Protocol.RADIUS) if others else units.unit[:0])
    radius = Radius(asking, pair_up(asking, clear))
    clear.entries()  # so that both threads find them in order
    hosts = _associate_hip(ike, clear, translated) if (ike.protocol == Protocol.HIP).any() else None
    # the one step that needs no other
    reading = pool.submit(read_unit_inits, ike, clear, traffic.addresses)
    if hosts is not None:
        association = hosts.association
    else:
        association = follow_redirects(ike, associate(ike, clear, translated), clear)
    capture = np.zeros(association.count, np.int64)
    if len(numbering.paths) > 1:
        capture[association.handshake] = captures_of(ike.source)
    handshake_ids = numbering.ids(capture, numbering.first.handshake)
    messages, message_of_unit = make_messages(ike, association)
    message_ids = number_messages(numbering, capture, messages, asking)

    def label() -> UnitLabels:
        return label_units(columns, duplicates.mask, ike, association.handshake, message_of_unit, radius, message_ids)

    def begin_frames(labels: UnitLabels) -> "Future[pl.DataFrame]":
        parts = numbering, columns, traffic.addresses, duplicates.mask, labels, handshake_ids
        return pool.submit(lambda: done("frames", frames_table(*parts)))

    # where no RADIUS has to be assigned first, the frames know all now, and can be written while the rest goes on
    labels, frames = None, None
    if not len(asking):
        labels = label()
        frames = begin_frames(labels)
    exchanges, exchange_of_message = make_exchanges(messages)
    exchange_ids = numbering.ids(capture[exchanges.handshake], numbering.first.exchange)
    conversation = Conversation(
        ike, association, messages, message_of_unit, exchanges, exchange_of_message, reading.result(),
        clear, traffic.addresses, capture, traffic.last_ns, translated, hosts.hits if hosts else {},
    )  # fmt: skip
    settle(conversation, vantage, rtt_ns)
    warnings = _lacking(conversation)
    insides = None
    if payloads or any(keys):
        insides = _look_inside(conversation, traffic.sealed, keys, payloads, looked, warnings)
        traffic.sealed.forget()
    # of IKEv2, IKE_SA_INIT is all that is clear, and it has been read
    clear.keep(units.unit[units.protocol != Protocol.IKEV2])
    if radius.pairs:
        if insides is not None:
            from ikeanalyze.analysis.eap import EapMessages

            insides.same_eap.extend(EapMessages(insides.contents, capture).assign(radius.pairs))
        for number, one in _assign_radius(conversation, radius, handshake_ids):
            warnings[number].append(one)
        had_by(exchanges, messages, exchange_of_message, _asked(radius))
    aaa = _waits(radius, len(exchanges))
    labels = labels or label()
    frames = frames or begin_frames(labels)
    repeated = labels.count(columns["unit"][duplicates.mask], association.count)
    handshakes = make_handshakes(conversation, radius.pairs, aaa, vantage, rtt_ns, insides)
    if rtt_ns is not None:
        unknown = "where the side of the capture is unknown: give that too"
        for number in np.unique(capture[handshakes.vantage == UNKNOWN_VANTAGE]).tolist():
            warnings[number].append((None, f"the round-trip time given is not used {unknown}"))
    clear.forget()
    ids = Ids(numbering, capture, handshake_ids, exchange_ids, message_ids)
    return _Apart(
        frames, ids, messages, exchanges, exchange_of_message, radius, handshakes, repeated, insides, warnings
    )


def _associate_hip(units: Units, clear: MessageBytes, translated: Mapping[int, int]) -> "HostAssociations":
    """The associations of IKE and HIP together; what units of HIP are is written into them."""
    # what most captures are read without
    from ikeanalyze.analysis.hip import associate_hip, join

    is_hip = units.protocol == Protocol.HIP
    ike, hip = units.take(~is_hip), units.take(is_hip)
    association = follow_redirects(ike, associate(ike, clear, translated), clear)
    hosts = associate_hip(hip, clear)
    for name in ("exchange_type", "flags", "message_id"):
        getattr(units, name)[is_hip] = getattr(hip, name)
    return join(units, association, hosts)


def _lacking(conversation: Conversation) -> list[list[Told]]:
    """The warnings of each capture about messages that lack fragments."""
    messages = conversation.messages
    warnings: list[list[Told]] = [[] for _ in conversation.last_ns]
    lacking = lacking_fragments(messages)
    captures = conversation.capture[messages.handshake[lacking]]
    for number in np.unique(captures).tolist():
        frames = messages.first_frame[lacking[captures == number]]
        some = f"{len(frames)} messages lack" if len(frames) > 1 else "a message lacks"
        what = f"{some} fragments that are not in the capture: counted with those that are"
        warnings[number].append((int(frames.min()), what))
    return warnings


def _look_inside(
    conversation: Conversation,
    sealed: MessageBytes,
    keys: "Sequence[Keys | None]",
    payloads: bool,
    looked: Looked | None,
    warnings: list[list[Told]],
) -> "Insides":
    """What is in the messages that `keys` open, and with `payloads` in the clear ones too.

    What is wrong there is put into `warnings`, a list for each capture.
    """
    # what most captures are read without: it takes a tenth of a second to load
    from ikeanalyze.analysis.insides import look_inside
    from ikeanalyze.analysis.opening import NO_KEYS, open_messages

    given = [one or NO_KEYS for one in keys]
    contents = open_messages(conversation, sealed, given, every=payloads)
    parameters: dict[int, list[str]] = {}
    if payloads and conversation.hits:
        from ikeanalyze.analysis.hip_contents import look_into_hip

        parameters = look_into_hip(conversation, contents.findings)
    insides = look_inside(conversation, sealed, contents, parameters)
    if looked is not None:
        looked(conversation, sealed, contents)
    capture = conversation.capture[conversation.messages.handshake]
    for number, (own, told) in enumerate(zip(given, warnings, strict=True)):
        told.extend((frame or None, what) for frame, what in insides.findings[number])
        its = capture == number
        if own and not contents.opened[its].any() and contents.sealed[its].any():
            told.append((None, "none of the keys fits any of its encrypted messages"))
    return insides


def _asked(radius: Radius) -> dict[int, int]:
    """When the responder first asked its AAA server in each exchange where it did."""
    asked: dict[int, int] = {}
    for pair in radius.pairs:
        if pair.exchange is not None and pair.requests:
            when = int(radius.units.first_ns[pair.requests[0]])
            asked[pair.exchange] = min(asked.get(pair.exchange, when), when)
    return asked


def _waits(radius: Radius, exchanges: int) -> AaaTimes:
    """How long the responder waited for its AAA server in each of so many exchanges."""
    times = AaaTimes(np.zeros(exchanges, np.int64), np.zeros(exchanges, np.int64))
    for pair in radius.pairs:
        if pair.exchange is not None:
            answering, wait = pair.waited(radius.units)
            times.answering_ns[pair.exchange] += answering
            times.wait_ns[pair.exchange] += wait
    return times


def _assign_radius(conversation: Conversation, radius: Radius, ids: Int64Array) -> list[tuple[int, Told]]:
    """Give the conversations of RADIUS to the handshakes of their captures; returns warnings, each with its capture.

    `ids` are those of the handshakes.
    """
    exchanges, units, association = conversation.exchanges, conversation.units, conversation.association
    asking = exchanges.set_up & exchanges.initiator_asked & (exchanges.request_messages > 0)
    # HIP has no EAP that a gateway would ask an AAA server for
    asked = np.flatnonzero(asking & (exchanges.protocol != Protocol.HIP))
    own_port = np.where(association.from_initiator, units.source_port, units.destination_port)
    capture = conversation.capture[association.handshake]
    warnings: list[tuple[int, Told]] = []
    for number, pairs in groupby(radius.pairs, key=lambda pair: pair.capture):
        rows = asked[conversation.capture[exchanges.handshake[asked]] == number]
        rows = rows[np.argsort(exchanges.request_ns[rows], kind="stable")]
        end = np.where(exchanges.end_ns[rows] == UNKNOWN, conversation.last_ns[number], exchanges.end_ns[rows])
        turns = Turns(exchanges.request_ns[rows], end, exchanges.handshake[rows], rows)
        its = np.flatnonzero(capture == number)
        ports: dict[int, set[int]] = {}
        for handshake, port in set(zip(association.handshake[its].tolist(), own_port[its].tolist(), strict=True)):
            ports.setdefault(handshake, set()).add(port)
        peers: dict[int, Peers] = {}
        _, heads = np.unique(association.handshake[its], return_index=True)
        for head in its[heads].tolist():
            ends = [
                address_text(int(column[head]), conversation.addresses) for column in (units.source, units.destination)
            ]
            initiator, responder = ends if association.from_initiator[head] else ends[::-1]
            handshake = int(association.handshake[head])
            peers[handshake] = Peers(initiator, responder, frozenset(ports[handshake]))
        told = assign(list(pairs), radius.units, turns, peers, ids)
        warnings.extend((number, one) for one in told)
    return warnings
