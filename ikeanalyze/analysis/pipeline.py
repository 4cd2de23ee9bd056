"""The way from frames to the four tables, step by step: of one capture, or of small ones together."""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from ikeanalyze.analysis.exchanges.answers import ExchangeEndings, find_exchange_endings, match_responses
from ikeanalyze.analysis.exchanges.capture_point import UNKNOWN_VANTAGE, NetworkPath, infer_capture_sides
from ikeanalyze.analysis.exchanges.exchanges import UNKNOWN, pair_exchanges
from ikeanalyze.analysis.exchanges.init_messages import parse_capture_init_messages
from ikeanalyze.analysis.exchanges.radius import (
    PeerAddresses,
    RadiusExchange,
    RadiusMessages,
    ResponderIntervals,
    assign_radius_exchanges,
    pair_radius_messages,
)
from ikeanalyze.analysis.exchanges.timing import AaaTimes
from ikeanalyze.analysis.handshakes.handshakes import HandshakeSources, group_handshakes
from ikeanalyze.analysis.messages.association import SaAssociation, associate_datagrams, follow_redirects
from ikeanalyze.analysis.messages.datagrams import Datagrams, group_datagrams
from ikeanalyze.analysis.messages.duplicates import DuplicateFrames, find_duplicates, find_translated_endpoints
from ikeanalyze.analysis.messages.messages import find_incomplete_messages, group_messages
from ikeanalyze.analysis.options import ReadOptions
from ikeanalyze.analysis.state import AnalysisState
from ikeanalyze.analysis.tables.handshake_table import build_handshakes_table
from ikeanalyze.analysis.tables.row_ids import MessageRowIds, RowIds, RowNumbering, number_messages
from ikeanalyze.analysis.tables.tables import (
    EMPTY,
    AnalysisTables,
    TableSources,
    build_exchanges_table,
    build_frames_table,
    build_messages_table,
    label_datagrams,
)
from ikeanalyze.capture.arrays import Int64Array
from ikeanalyze.capture.buffers import MessageBytes, release_free_memory
from ikeanalyze.capture.decode.classify import Protocol
from ikeanalyze.capture.decode.ip import get_capture_numbers
from ikeanalyze.capture.frames import format_address_code
from ikeanalyze.capture.traffic import CombinedFrames

if TYPE_CHECKING:
    from ikeanalyze.analysis.decryption.decrypt import CaptureKeys
    from ikeanalyze.analysis.decryption.export import Cleartext
    from ikeanalyze.analysis.decryption.handshake_contents import CaptureContents

#: A warning: number of the frame, None for the capture as a whole; text.
Told = tuple[int | None, str]


def join_tables(tables: list[AnalysisTables]) -> AnalysisTables:
    """The tables of several captures as one."""
    if not tables:
        return EMPTY
    return AnalysisTables(
        *(pl.concat([getattr(part, name) for part in tables]) for name in AnalysisTables.__dataclass_fields__)
    )


@dataclass(frozen=True, slots=True)
class _PipelineInput:
    """One run of the analysis."""

    numbering: RowNumbering
    traffic: CombinedFrames
    keys: "Sequence[CaptureKeys | None]"  # of each capture
    options: ReadOptions
    pool: ThreadPoolExecutor  # numpy and polars let two threads run side by side

    def finish(self, name: str, table: pl.DataFrame) -> pl.DataFrame:
        """Report a table that is complete."""
        if self.options.finished is not None:
            self.options.finished(name, table)
        return table


@dataclass(frozen=True, slots=True)
class _DatagramStep:
    """The datagrams of a capture, without those that it has more than once."""

    duplicates: DuplicateFrames
    translated: Mapping[int, int]  # endpoints that a NAT changed within the capture
    ike: Datagrams  # of HIP too
    radius: RadiusMessages


@dataclass(frozen=True, slots=True)
class _PipelineResult:
    """Everything that the tables are made of."""

    sources: TableSources
    frames: "Future[pl.DataFrame]"
    warnings: list[tuple[int, Told]]  # number of the capture, warning


def build_tables(
    numbering: RowNumbering,
    traffic: CombinedFrames,
    keys: "Sequence[CaptureKeys | None]",
    options: ReadOptions,
    cleartexts: "dict[int, Cleartext]",
) -> tuple[AnalysisTables, list[list[Told]]]:
    """The tables of captures, whose paths `numbering` has, and the warnings of each.

    `keys` are those of each capture or None. Decrypted messages are put into `cleartexts`, by their ids, if the options ask
    for them.
    """
    with ThreadPoolExecutor(1) as pool:
        job = _PipelineInput(numbering, traffic, keys, options, pool)
        analysed = _analyse_frames(job)
        release_free_memory()  # the tables take the most of it, and do not need what they were made of
        sources = analysed.sources
        messages = pool.submit(lambda: job.finish("messages", build_messages_table(sources)))
        exchanges = job.finish("exchanges", build_exchanges_table(sources))
        frames = analysed.frames.result()
        handshakes = build_handshakes_table(sources)
        tables = AnalysisTables(frames, messages.result(), exchanges, job.finish("handshakes", handshakes))
        if options.cleartext and sources.insides is not None:
            from ikeanalyze.analysis.decryption.export import collect_cleartexts

            cleartexts.update(collect_cleartexts(sources.insides.contents, sources.ids.message.of_row))
    warnings: list[list[Told]] = [[] for _ in traffic.last_ns]
    for number, told in analysed.warnings:
        warnings[number].append(told)
    return tables, warnings


def _analyse_frames(job: _PipelineInput) -> _PipelineResult:
    numbering, traffic, options = job.numbering, job.traffic, job.options
    clear = traffic.clear
    packets = _group_datagrams(traffic)
    state = _build_state(job, packets)
    capture, messages, exchanges = state.capture, state.messages, state.exchanges
    radius = packets.radius
    handshake_ids = numbering.get_ids(capture, numbering.first.handshake)
    message_ids = number_messages(numbering, capture, messages, radius.datagrams)
    # where no RADIUS has to be assigned first, the frames can be written while the rest goes on
    frames = None if radius.pairs else _write_frames(job, packets, state, handshake_ids, message_ids)
    side = infer_capture_sides(
        state.association.handshake,
        state.association.from_initiator,
        state.datagrams.ttl,
        len(capture),
        options.vantage,
    )
    path = NetworkPath(side, options.rtt_ns)
    endings = find_exchange_endings(state, path)
    warnings = _warn_of_missing_fragments(state)
    insides = None
    if options.payloads or any(job.keys):
        insides, findings = _summarise_contents(job, state)
        warnings += findings
        traffic.sealed.clear()
    # of IKEv2, IKE_SA_INIT is all that is clear, and it has been read
    datagrams = state.datagrams
    clear.keep(np.concatenate([datagrams.datagram[datagrams.protocol != Protocol.IKEV2], radius.datagrams.datagram]))
    if radius.pairs:
        if insides is not None:
            from ikeanalyze.analysis.decryption.eap_matching import EapMatcher

            insides = replace(insides, same_eap=EapMatcher(insides.contents, capture).match(radius.pairs))
        warnings += _assign_radius(state, endings, radius, handshake_ids)
    answers = match_responses(state, path, endings, _aaa_asked(radius, len(exchanges)))
    frames = frames or _write_frames(job, packets, state, handshake_ids, message_ids)
    aaa_times = _aaa_times(radius, len(exchanges))
    pairs = _pairs_of_handshakes(radius)
    handshakes = group_handshakes(HandshakeSources(state, answers, path, pairs, aaa_times, insides))
    warnings += _warn_of_unused_rtt(state, path)
    clear.clear()
    exchange_ids = numbering.get_ids(capture[exchanges.handshake], numbering.first.exchange)
    sources = TableSources(
        ids=RowIds(numbering, capture, handshake_ids, exchange_ids, message_ids),
        addresses=traffic.addresses,
        messages=messages,
        exchanges=exchanges,
        exchange_of_message=state.exchange_of_message,
        answers=answers,
        radius=radius,
        handshakes=handshakes,
        capture_duplicates=frames.capture_duplicates,
        insides=insides,
    )
    return _PipelineResult(sources, frames.table, warnings)


def _group_datagrams(traffic: CombinedFrames) -> _DatagramStep:
    """The datagrams of IKE and HIP, and those of RADIUS in pairs."""
    duplicates = find_duplicates(traffic.columns)
    datagrams = group_datagrams(traffic.columns, duplicates.mask)
    is_radius = datagrams.protocol == Protocol.RADIUS
    asking = datagrams.select(np.flatnonzero(is_radius))
    return _DatagramStep(
        duplicates=duplicates,
        translated=find_translated_endpoints(traffic.columns, duplicates),
        ike=datagrams.select(~is_radius) if len(asking) else datagrams,
        radius=RadiusMessages(asking, pair_radius_messages(asking, traffic.clear)),
    )


def _build_state(job: _PipelineInput, packets: _DatagramStep) -> AnalysisState:
    """Datagrams to handshakes, messages and exchanges."""
    traffic, datagrams = job.traffic, packets.ike
    clear = traffic.clear
    clear.entries()  # so that both threads find them in order
    hits: Mapping[int, tuple[bytes, bytes]] = {}
    if (datagrams.protocol == Protocol.HIP).any():
        datagrams, association, hits = _associate_hip(datagrams, clear, packets.translated)
        inits = job.pool.submit(parse_capture_init_messages, datagrams, clear, traffic.addresses)
    else:
        # the one step that needs no other
        inits = job.pool.submit(parse_capture_init_messages, datagrams, clear, traffic.addresses)
        association = follow_redirects(datagrams, associate_datagrams(datagrams, clear, packets.translated), clear)
    capture = np.zeros(association.count, np.int64)
    if len(job.numbering.paths) > 1:
        capture[association.handshake] = get_capture_numbers(datagrams.source)
    messages, message_of_datagram = group_messages(datagrams, association)
    exchanges, exchange_of_message = pair_exchanges(messages)
    return AnalysisState(
        datagrams=datagrams,
        association=association,
        messages=messages,
        message_of_datagram=message_of_datagram,
        exchanges=exchanges,
        exchange_of_message=exchange_of_message,
        inits=inits.result(),
        clear=clear,
        addresses=traffic.addresses,
        capture=capture,
        last_ns=traffic.last_ns,
        translated=packets.translated,
        hits=hits,
    )


def _associate_hip(
    datagrams: Datagrams, clear: MessageBytes, translated: Mapping[int, int]
) -> tuple[Datagrams, SaAssociation, Mapping[int, tuple[bytes, bytes]]]:
    """The datagrams with the exchange types that HIP has here, the associations of IKE and HIP together, and the HITs."""
    # HIP is rare
    from ikeanalyze.analysis.handshakes.hip.association import associate_hip, merge_associations

    is_hip = datagrams.protocol == Protocol.HIP
    ike = datagrams.select(~is_hip)
    association = follow_redirects(ike, associate_datagrams(ike, clear, translated), clear)
    hip, hosts = associate_hip(datagrams.select(is_hip), clear)
    columns = {name: getattr(datagrams, name).copy() for name in ("exchange_type", "flags", "message_id")}
    for name, column in columns.items():
        column[is_hip] = getattr(hip, name)
    joined = merge_associations(datagrams, association, hosts)
    return replace(datagrams, **columns), joined.association, joined.hits


@dataclass(frozen=True, slots=True)
class _FramesStep:
    table: "Future[pl.DataFrame]"
    capture_duplicates: Int64Array  # of each handshake


def _write_frames(
    job: _PipelineInput,
    packets: _DatagramStep,
    state: AnalysisState,
    handshake_ids: Int64Array,
    message_ids: MessageRowIds,
) -> _FramesStep:
    """Begin the table of frames; RADIUS must have been assigned."""
    columns, duplicate = job.traffic.columns, packets.duplicates.mask
    association = state.association
    labels = label_datagrams(
        columns,
        duplicate,
        state.datagrams,
        association.handshake,
        state.message_of_datagram,
        packets.radius,
        message_ids,
    )

    def write() -> pl.DataFrame:
        table = build_frames_table(job.numbering, columns, job.traffic.addresses, duplicate, labels, handshake_ids)
        return job.finish("frames", table)

    return _FramesStep(job.pool.submit(write), labels.count(columns["unit"][duplicate], association.count))


def _warn_of_missing_fragments(state: AnalysisState) -> list[tuple[int, Told]]:
    """A warning for each capture about messages that lack fragments."""
    messages = state.messages
    warnings: list[tuple[int, Told]] = []
    lacking = find_incomplete_messages(messages)
    captures = state.capture[messages.handshake[lacking]]
    for number in np.unique(captures).tolist():
        frames = messages.first_frame[lacking[captures == number]]
        some = f"{len(frames)} messages lack" if len(frames) > 1 else "a message lacks"
        text = f"{some} fragments that are not in the capture: counted with those that are"
        warnings.append((number, (int(frames.min()), text)))
    return warnings


def _summarise_contents(job: _PipelineInput, state: AnalysisState) -> "tuple[CaptureContents, list[tuple[int, Told]]]":
    """What is in the messages that the keys open, with `payloads` in the clear ones too; and the warnings about them."""
    # what most captures are read without: it takes a tenth of a second to load
    from ikeanalyze.analysis.decryption.decrypt import NO_KEYS, decrypt_messages
    from ikeanalyze.analysis.decryption.handshake_contents import summarise_contents

    given = [keys or NO_KEYS for keys in job.keys]
    sealed = job.traffic.sealed
    contents = decrypt_messages(state, sealed, given, every=job.options.payloads)
    parameters: dict[int, list[str]] = {}
    if job.options.payloads and state.hits:
        from ikeanalyze.analysis.handshakes.hip.parameters import describe_hip_messages

        parameters = describe_hip_messages(state, contents.findings)
    insides = summarise_contents(state, sealed, contents, parameters)
    if job.options.looked is not None:
        job.options.looked(state, sealed, contents)
    capture = state.capture[state.messages.handshake]
    warnings: list[tuple[int, Told]] = []
    for number, keys in enumerate(given):
        warnings.extend((number, (frame or None, text)) for frame, text in insides.findings[number])
        its = capture == number
        if keys and not contents.decrypted[its].any() and contents.encrypted[its].any():
            warnings.append((number, (None, "none of the keys fits any of its encrypted messages")))
    return insides, warnings


def _warn_of_unused_rtt(state: AnalysisState, path: NetworkPath) -> list[tuple[int, Told]]:
    """A warning for each capture with handshakes for which a given round-trip time is not used."""
    if path.rtt_ns is None:
        return []
    text = "the round-trip time given is not used where the side of the capture is unknown: give that too"
    captures = np.unique(state.capture[path.vantage == UNKNOWN_VANTAGE])
    return [(number, (None, text)) for number in captures.tolist()]


def _pairs_of_handshakes(radius: RadiusMessages) -> dict[int, list[RadiusExchange]]:
    """The RADIUS pairs of each handshake that has some, in order of time."""
    pairs: dict[int, list[RadiusExchange]] = {}
    for pair in radius.pairs:
        if pair.handshake is not None:
            pairs.setdefault(pair.handshake, []).append(pair)
    return pairs


def _aaa_asked(radius: RadiusMessages, exchanges: int) -> Int64Array:
    """When the responder first asked its AAA server in each of so many exchanges; UNKNOWN: it did not."""
    asked = np.full(exchanges, UNKNOWN)
    for pair in radius.pairs:
        if pair.exchange is not None and pair.requests:
            when = radius.datagrams.first_ns[pair.requests[0]]
            if asked[pair.exchange] == UNKNOWN or when < asked[pair.exchange]:
                asked[pair.exchange] = when
    return asked


def _aaa_times(radius: RadiusMessages, exchanges: int) -> AaaTimes:
    """How long the responder waited for its AAA server in each of so many exchanges."""
    times = AaaTimes(np.zeros(exchanges, np.int64), np.zeros(exchanges, np.int64))
    for pair in radius.pairs:
        if pair.exchange is not None:
            answering, wait = pair.get_wait(radius.datagrams)
            times.answering_ns[pair.exchange] += answering
            times.wait_ns[pair.exchange] += wait
    return times


def _assign_radius(
    state: AnalysisState, endings: ExchangeEndings, radius: RadiusMessages, ids: Int64Array
) -> list[tuple[int, Told]]:
    """Give the conversations of RADIUS to the handshakes of their captures; returns warnings, each with its capture.

    `ids` are those of the handshakes.
    """
    exchanges, datagrams, association = state.exchanges, state.datagrams, state.association
    asking = exchanges.set_up & exchanges.initiator_asked & (exchanges.request_messages > 0)
    # HIP has no EAP that a gateway would ask an AAA server for
    asked = np.flatnonzero(asking & (exchanges.protocol != Protocol.HIP))
    own_port = np.where(association.from_initiator, datagrams.source_port, datagrams.destination_port)
    capture = state.capture[association.handshake]
    warnings: list[tuple[int, Told]] = []
    for number, pairs in groupby(radius.pairs, key=lambda pair: pair.capture):
        rows = asked[state.capture[exchanges.handshake[asked]] == number]
        rows = rows[np.argsort(exchanges.request_ns[rows], kind="stable")]
        end = np.where(endings.end_ns[rows] == UNKNOWN, state.last_ns[number], endings.end_ns[rows])
        turns = ResponderIntervals(exchanges.request_ns[rows], end, exchanges.handshake[rows], rows)
        its = np.flatnonzero(capture == number)
        ports: dict[int, set[int]] = {}
        for handshake, port in set(zip(association.handshake[its].tolist(), own_port[its].tolist(), strict=True)):
            ports.setdefault(handshake, set()).add(port)
        peers: dict[int, PeerAddresses] = {}
        _, heads = np.unique(association.handshake[its], return_index=True)
        for head in its[heads].tolist():
            ends = [
                format_address_code(int(column[head]), state.addresses)
                for column in (datagrams.source, datagrams.destination)
            ]
            initiator, responder = ends if association.from_initiator[head] else ends[::-1]
            handshake = int(association.handshake[head])
            peers[handshake] = PeerAddresses(initiator, responder, frozenset(ports[handshake]))
        warnings.extend(
            (number, warning) for warning in assign_radius_exchanges(list(pairs), radius.datagrams, turns, peers, ids)
        )
    return warnings
