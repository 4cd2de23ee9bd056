"""One capture's way from frames to the four tables, step by step."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from ikeanalyze.analysis.association import associate
from ikeanalyze.analysis.conversation import Conversation
from ikeanalyze.analysis.duplicates import find_duplicates, translated_endpoints
from ikeanalyze.analysis.exchanges import UNKNOWN, Exchanges, make_exchanges
from ikeanalyze.analysis.handshake_table import make_handshakes_table
from ikeanalyze.analysis.handshakes import Handshakes, make_handshakes
from ikeanalyze.analysis.inits import read_unit_inits
from ikeanalyze.analysis.messages import Messages, lacking_fragments, make_messages
from ikeanalyze.analysis.radius import Peers, Radius, RadiusPair, Turns, assign, pair_up
from ikeanalyze.analysis.redirects import follow_redirects
from ikeanalyze.analysis.tables import (
    EMPTY,
    FirstIds,
    MessageIds,
    Tables,
    exchanges_table,
    frames_table,
    ids_after,
    label_units,
    messages_table,
    number_messages,
)
from ikeanalyze.analysis.timing import UNKNOWN_VANTAGE
from ikeanalyze.analysis.units import Units, make_units
from ikeanalyze.capture.datagrams import Protocol
from ikeanalyze.capture.frames import CaptureFrames, address_text
from ikeanalyze.capture.kept import MessageBytes
from ikeanalyze.capture.memory import give_back_memory

if TYPE_CHECKING:
    from ikeanalyze.analysis.cleartexts import Cleartext
    from ikeanalyze.analysis.contents import Contents
    from ikeanalyze.analysis.insides import Insides
    from ikeanalyze.analysis.opening import Keys

Vantage = Literal["initiator", "responder"]
Numbers = npt.NDArray[np.int64]
Finished = Callable[[str, pl.DataFrame], object]
#: Called with a capture's traffic, the bytes of its encrypted messages and what is in them, while these are there.
Looked = Callable[[Conversation, MessageBytes, "Contents"], object]


def join_tables(tables: list[Tables]) -> Tables:
    """The tables of several captures as one."""
    if not tables:
        return EMPTY
    return Tables(
        *(pl.concat([getattr(one, name) for one in tables]) for name in Tables.__dataclass_fields__)
    )


@dataclass(frozen=True, slots=True)
class _Apart:
    """A capture's traffic taken apart: all that the tables are made of, beside the frames."""

    frames: "Future[pl.DataFrame]"
    ids: MessageIds
    messages: Messages
    exchanges: Exchanges
    exchange_of_message: Numbers
    radius: Radius
    handshakes: Handshakes
    insides: "Insides | None"
    warnings: list[tuple[int | None, str]]


def analyse(
    path: str,
    capture: CaptureFrames,
    vantage: Vantage | None,
    rtt_ns: int | None,
    before: list[Tables],
    keys: "Keys | None" = None,
    finished: Finished | None = None,
    *,
    payloads: bool = False,
    cleartexts: "dict[int, Cleartext] | None" = None,
    looked: Looked | None = None,
) -> tuple[Tables, list[tuple[int | None, str]]]:
    """The tables of one capture, and warnings (frame, what); `before` are those of the captures before it.

    What was decrypted is put into `cleartexts`, if there is one, by the ids of its messages.
    `keys` open what they fit; `payloads`: what is clear is named too, whether there are keys or not. `finished` is
    called with each table as soon as it is complete, from any thread; `looked` once, if messages were looked into.
    """
    first = ids_after(before)

    def done(name: str, table: pl.DataFrame) -> pl.DataFrame:
        if finished is not None:
            finished(name, table)
        return table

    # numpy and polars let two threads run side by side
    with ThreadPoolExecutor(1) as pool:
        apart = _take_apart(path, capture, vantage, rtt_ns, first, pool, done, keys, payloads, looked)
        give_back_memory()  # the tables take the most of it, and need nothing of what they were made of
        rest = apart.messages, apart.exchanges, apart.exchange_of_message, apart.radius
        messages = pool.submit(
            lambda: done("messages", messages_table(path, *rest, apart.ids, first, apart.insides))
        )
        exchanges = done(
            "exchanges", exchanges_table(path, *rest[1:3], apart.handshakes, first, apart.insides)
        )
        frames = apart.frames.result()
        handshakes = make_handshakes_table(
            path, capture.addresses, frames, *rest, apart.handshakes, first.handshake, first.exchange
        )
        tables = Tables(frames, messages.result(), exchanges, done("handshakes", handshakes))
        if cleartexts is not None and apart.insides is not None:
            from ikeanalyze.analysis.cleartexts import write_clear

            cleartexts.update(write_clear(apart.insides.contents, apart.ids.of_row(len(apart.messages))))
    return tables, apart.warnings


def _take_apart(
    path: str,
    capture: CaptureFrames,
    vantage: Vantage | None,
    rtt_ns: int | None,
    first: FirstIds,
    pool: ThreadPoolExecutor,
    done: Callable[[str, pl.DataFrame], pl.DataFrame],
    keys: "Keys | None",
    payloads: bool,
    looked: Looked | None,
) -> _Apart:
    duplicates = find_duplicates(capture.columns)
    translated = translated_endpoints(capture.columns, duplicates)
    units = make_units(capture.columns, duplicates.mask)
    others = bool((units.protocol > Protocol.IKEV1).any())
    ike = units.take(np.flatnonzero(units.protocol <= Protocol.IKEV1)) if others else units
    asking = units.take(np.flatnonzero(units.protocol == Protocol.RADIUS) if others else units.unit[:0])
    radius = Radius(asking, pair_up(asking, capture.clear))
    capture.clear.entries()  # so that both threads find them in order
    # the one step that needs no other
    reading = pool.submit(read_unit_inits, ike, capture.clear, capture.addresses)
    association = follow_redirects(ike, associate(ike, capture.clear, translated), capture.clear)
    messages, message_of_unit = make_messages(ike, association)
    ids = number_messages(messages, message_of_unit, asking, first)

    def begin_frames() -> "Future[pl.DataFrame]":
        labels = label_units(capture, duplicates.mask, ike, association.handshake, radius, ids)
        return pool.submit(
            lambda: done("frames", frames_table(path, capture, duplicates.mask, labels, first))
        )

    # where no RADIUS has to be assigned first, the frames know all now, and can be written while the rest goes on
    frames = None if len(asking) else begin_frames()
    exchanges, exchange_of_message = make_exchanges(messages)
    conversation = Conversation(
        ike, association, messages, message_of_unit, exchanges, exchange_of_message, reading.result(),
        capture.clear, capture.addresses, capture.last_ns or 0, translated,
    )  # fmt: skip
    warnings = _lacking(messages)
    insides = None
    if keys or payloads:
        # what most captures are read without: it takes a tenth of a second to load
        from ikeanalyze.analysis.eap import EapMessages
        from ikeanalyze.analysis.insides import look_inside
        from ikeanalyze.analysis.opening import NO_KEYS, open_messages

        contents = open_messages(conversation, capture.sealed, keys or NO_KEYS, every=payloads)
        insides = look_inside(conversation, capture.sealed, contents)
        if looked is not None:
            looked(conversation, capture.sealed, contents)
        warnings.extend((frame or None, what) for frame, what in insides.findings)
        if keys and not contents.opened.any() and contents.sealed.any():
            warnings.append((None, "none of the keys fits any of its encrypted messages"))
        capture.sealed.forget()
    # of IKEv2, IKE_SA_INIT is all that is clear, and it has been read
    capture.clear.keep(units.unit[units.protocol != Protocol.IKEV2])
    aaa_ns = np.zeros(len(exchanges), np.int64)
    if radius.pairs:
        if insides is not None:
            insides.same_eap.extend(EapMessages(insides.contents).assign(radius.pairs))
        warnings.extend(_assign_radius(conversation, radius, capture, first.handshake))
        for pair in radius.pairs:
            if pair.exchange is not None and pair.requests and pair.responses:
                aaa_ns[pair.exchange] += _waited(pair, asking)
    frames = frames or begin_frames()
    handshakes = make_handshakes(conversation, radius.pairs, aaa_ns, vantage, rtt_ns, insides)
    if rtt_ns is not None and (handshakes.vantage == UNKNOWN_VANTAGE).any():
        unknown = "where the side of the capture is unknown: give that too"
        warnings.append((None, f"the round-trip time given is not used {unknown}"))
    capture.clear.forget()
    return _Apart(
        frames, ids, messages, exchanges, exchange_of_message, radius, handshakes, insides, warnings
    )


def _lacking(messages: Messages) -> list[tuple[int | None, str]]:
    lacking, frame = lacking_fragments(messages)
    if not lacking:
        return []
    some = f"{lacking} messages lack" if lacking > 1 else "a message lacks"
    return [(frame, f"{some} fragments that are not in the capture: counted with those that are")]


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
