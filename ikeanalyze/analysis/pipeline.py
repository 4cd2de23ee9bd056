"""Build the four tables from the frames of one capture, or of several small captures together.

`build_tables` runs these steps, the first six of them in `_analyse_frames`:

1. `_group_datagrams`: frames to datagrams; `_build_state`: these to handshakes, messages and exchanges
2. the capture point and the path (`capture_point`), and the response that ended each exchange (`answers`)
3. with keys or the option `payloads`, `_summarise_contents`: decrypt messages and decode payloads
4. RADIUS conversations to handshakes (`radius`), and then the transmission that each response answered (`answers`)
5. the handshakes with outcome, authentication and times (`handshakes`), and the lab's figures (`lab_handshakes`)
6. `_collect_facts`: the facts about the handshakes to diagnose
7. the table of handshakes, and last `_add_diagnoses`: its column `diagnosis`

A second thread makes the tables of frames, messages and exchanges, each as soon as the steps that it depends on are
done: numpy, polars and the core release the GIL.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec import Struct, structs

from ikeanalyze import core
from ikeanalyze.analysis.exchanges.answers import (
    AnsweredTransmissions,
    find_exchange_endings,
    match_responses,
)
from ikeanalyze.analysis.exchanges.capture_point import (
    GIVEN,
    NetworkPath,
    determine_paths,
    infer_capture_sides,
)
from ikeanalyze.analysis.exchanges.datagram_summary import summarise_datagrams
from ikeanalyze.analysis.exchanges.exchanges import pair_exchanges
from ikeanalyze.analysis.exchanges.init_messages import InitReadings, parse_init_messages
from ikeanalyze.analysis.exchanges.radius import (
    RadiusMessages,
    assign_radius,
    find_first_radius_requests,
    group_radius_by_handshake,
    pair_radius_messages,
    share_waiting_handshakes,
    sum_aaa_times,
    warn_of_missing_radius,
)
from ikeanalyze.analysis.exchanges.unprotected import (
    find_clear_messages,
    find_decrypted_requests,
    find_handshakes_made_of,
    find_invalid_spi_notifies,
    find_refused_handshakes,
    find_unprotected_exchanges,
    find_version_refusals,
    select_ignored_messages,
    warn_of_decrypted_captures,
)
from ikeanalyze.analysis.handshakes.diagnosis.candidates import (
    ShortResponses,
    find_short_responses,
    find_suspects,
)
from ikeanalyze.analysis.handshakes.handshakes import HandshakeColumns, HandshakeSources, group_handshakes
from ikeanalyze.analysis.handshakes.lab_handshakes import match_lab_handshakes
from ikeanalyze.analysis.handshakes.repeated_set_ups import warn_of_repeated_set_ups
from ikeanalyze.analysis.messages.association import (
    SaAssociation,
    associate_datagrams,
    find_redirects,
    find_wrong_flags,
)
from ikeanalyze.analysis.messages.capture_facts import WHOLE_CAPTURE, CaptureFacts, CaptureWarning
from ikeanalyze.analysis.messages.datagrams import Datagrams, group_datagrams
from ikeanalyze.analysis.messages.duplicates import (
    DuplicateFrames,
    find_duplicates,
    find_translated_endpoints,
    warn_of_doubled_captures,
)
from ikeanalyze.analysis.messages.ikev1_fragments import find_ikev1_fragments, reassemble_clear_messages
from ikeanalyze.analysis.messages.messages import find_incomplete_messages, group_messages
from ikeanalyze.analysis.messages.tunnels import name_tunnels
from ikeanalyze.analysis.options import ReadOptions
from ikeanalyze.analysis.result import RequestedDetails
from ikeanalyze.analysis.state import AnalysisState
from ikeanalyze.analysis.tables import layouts
from ikeanalyze.analysis.tables.columns import AddressColumn, TableColumns, make_empty_columns
from ikeanalyze.analysis.tables.handshake_table import (
    HandshakeTableSources,
    add_up_messages,
    build_handshake_columns,
)
from ikeanalyze.analysis.tables.row_ids import RowIds, RowNumbering
from ikeanalyze.analysis.tables.tables import (
    AnalysisTables,
    ExchangeTableSources,
    MessageTableSources,
    build_exchange_columns,
    build_frame_labels,
    build_message_columns,
    build_packet_columns,
    join_frame_columns,
    label_datagrams,
    make_address_columns,
    make_empty_tables,
)
from ikeanalyze.capture.arrays import Int64Array, sort_distinct
from ikeanalyze.capture.buffers import MessageBytes
from ikeanalyze.capture.decode.classify import Protocol
from ikeanalyze.capture.decode.ip import get_capture_numbers
from ikeanalyze.capture.traffic import CombinedFrames
from ikeanalyze.io.lab_manifest import LabManifest
from ikeanalyze.machine import release_free_memory

if TYPE_CHECKING:
    import polars as pl

    from ikeanalyze.analysis.handshakes.contents.handshake_contents import CaptureContents
    from ikeanalyze.analysis.handshakes.diagnosis.suspects import SuspectFacts
    from ikeanalyze.keys.key_table import CaptureKeys

#: Columns that the result has of a table that the caller takes: commands count handshakes.
_KEPT: Final = {"handshakes": ("handshake", "rekeyed")}


def join_tables(tables: list[AnalysisTables]) -> AnalysisTables:
    """Concatenate the tables of several captures."""
    if not tables:
        return make_empty_tables()
    import polars as pl

    names = ("frames", "messages", "exchanges", "handshakes")
    return AnalysisTables(*(pl.concat([getattr(part, name) for part in tables]) for name in names))


class CaptureContext(Struct, frozen=True):
    """Other files that belong to captures. (captures,) each"""

    keys: "Sequence[CaptureKeys | None]"
    manifests: Sequence[LabManifest | None]


class _PipelineRun(Struct, frozen=True):
    """The input of one run of the pipeline."""

    numbering: RowNumbering
    traffic: CombinedFrames
    captures: CaptureContext
    options: ReadOptions
    facts: CaptureFacts
    pool: ThreadPoolExecutor  # the second thread

    @property
    def polars_makes_tables(self) -> bool:
        """Whether polars makes the tables, or else the caller takes their columns and writes them with the core."""
        return core.compiled is None or self.options.on_columns is None

    def release_memory(self) -> None:
        """Return free memory for polars, which has an allocator of its own, if it makes the tables.

        Otherwise the memory is used again: numpy and the core have the same allocator.
        """
        if self.polars_makes_tables:
            release_free_memory()

    def make_table(self, name: str, columns: TableColumns) -> "pl.DataFrame | TableColumns":
        """Make a table, unless the caller takes its columns; then those of `_KEPT` remain."""
        if self.options.on_columns is not None and self.options.on_columns(name, columns):
            return self._keep_some(name, columns)
        from ikeanalyze.analysis.tables.polars_columns import make_table  # loads polars

        table = make_table(columns)
        if self.options.on_table is not None:
            self.options.on_table(name, table)
        return table

    def begin_table(self, name: str, columns: TableColumns, later: str) -> bool:
        """Let the caller take the columns of a table, except for one that is not known yet; whether it does."""
        take = self.options.on_first_columns
        layout = {column: kind for column, kind in columns.layout.items() if column != later}
        known = structs.replace(columns, columns=dict(columns.columns), layout=layout)
        return take is not None and take(name, known)

    def complete_table(
        self, name: str, columns: TableColumns, later: str, *, begun: bool
    ) -> "pl.DataFrame | TableColumns":
        """Make a table as `make_table` does, after `begin_table` with the same columns."""
        if not begun:
            return self.make_table(name, columns)
        assert self.options.on_columns is not None  # it takes what follows the first columns
        layout = {later: columns.layout[later]}
        self.options.on_columns(
            name, structs.replace(columns, columns={later: columns.columns.get(later)}, layout=layout)
        )
        return self._keep_some(name, columns)

    @staticmethod
    def _keep_some(name: str, columns: TableColumns) -> TableColumns:
        """What remains of a table that the caller has taken."""
        kept = {column: columns.columns[column] for column in _KEPT.get(name, ()) if columns.height}
        columns.columns.clear()
        return TableColumns(kept, columns.layout, columns.capture, columns.height if kept else 0)


class _CaptureDatagrams(Struct, frozen=True):
    """The datagrams of the captures, without duplicates."""

    duplicates: DuplicateFrames
    translated: Mapping[int, int]  # endpoints that a NAT changed within the capture
    ike: Datagrams  # IKE and HIP
    radius: RadiusMessages


class _PipelineResult(Struct, frozen=True):
    """The tables but that of handshakes, what this one is made of, and the warnings."""

    handshakes: HandshakeTableSources
    frames: "Future[_FramesTable]"
    messages: "Future[pl.DataFrame | TableColumns] | None"  # None: not wanted
    exchanges: "Future[pl.DataFrame | TableColumns] | None"  # None: not wanted
    suspects: "SuspectFacts | None"  # facts about the handshakes to diagnose; None: all are clean
    warnings: list[tuple[int, CaptureWarning]]  # number of the capture, warning


def build_tables(
    numbering: RowNumbering,
    traffic: CombinedFrames,
    captures: CaptureContext,
    options: ReadOptions,
    details: RequestedDetails,
    facts: CaptureFacts = WHOLE_CAPTURE,
) -> tuple[AnalysisTables, list[list[CaptureWarning]]]:
    """Build the tables of captures, and the warnings of each capture.

    Args:
        numbering: paths of the captures and first ids.
        traffic: their frames, which are taken out of it.
        captures: their keys and manifests.
        options: how to analyse them.
        details: receives the decrypted messages and the sizes of payloads, if the options ask for them.
        facts: the facts of the whole capture, if the frames are a part of one.
    """
    with ThreadPoolExecutor(1) as pool:
        run = _PipelineRun(numbering, traffic, captures, options, facts, pool)
        result = _analyse_frames(run)
        run.release_memory()  # building the tables needs the most memory
        sources = result.handshakes
        _collect_details(sources, options, details)
        warnings: list[list[CaptureWarning]] = [[] for _ in traffic.last_ns]
        for number, warning in result.warnings:
            warnings[number].append(warning)
        frames, messages, exchanges, suspects = result.frames, result.messages, result.exchanges, result.suspects
        del result
        if options.on_columns is None:
            # the table of handshakes is the largest of a flood, and the others stay in memory
            futures: tuple[Future[Any] | None, ...] = (frames, messages, exchanges)
            wait([future for future in futures if future is not None])
            release_free_memory()
        columns = build_handshake_columns(sources)
        del sources
        run.release_memory()
        begun = run.begin_table("handshakes", columns, "diagnosis")
        _add_diagnoses(columns, suspects)
        handshakes = run.complete_table("handshakes", columns, "diagnosis", begun=begun)
        frames_table = frames.result().table
        messages_table = make_empty_columns(layouts.MESSAGES) if messages is None else messages.result()
        exchanges_table = make_empty_columns(layouts.EXCHANGES) if exchanges is None else exchanges.result()
        return AnalysisTables(
            make_empty_columns(layouts.FRAMES) if frames_table is None else frames_table,
            messages_table,
            exchanges_table,
            handshakes,
        ), warnings


def _collect_details(sources: HandshakeTableSources, options: ReadOptions, details: RequestedDetails) -> None:
    """Add the decrypted messages and the sizes of payloads that the options ask for."""
    if sources.handshakes.contents is None:
        return
    contents, ids = sources.handshakes.contents.contents, sources.ids.message.of_row
    if options.cleartext:
        from ikeanalyze.analysis.decryption.export import collect_cleartexts

        details.cleartexts.update(collect_cleartexts(contents, ids))
    if options.payload_sizes:
        from ikeanalyze.analysis.decryption.payloads.byte_counts import collect_payload_sizes

        details.payload_sizes.update(collect_payload_sizes(contents, ids))


def survey_frames(
    numbering: RowNumbering,
    traffic: CombinedFrames,
    captures: CaptureContext,
    options: ReadOptions,
    facts: CaptureFacts,
) -> None:
    """Analyse a part of a capture for the facts that it shares, without building tables. See `build_tables`."""
    options = structs.replace(options, frames_table=False, messages_table=False)
    with ThreadPoolExecutor(1) as pool:
        _analyse_frames(_PipelineRun(numbering, traffic, captures, options, facts, pool), tables=False)


def _add_diagnoses(handshakes: TableColumns, suspects: "SuspectFacts | None") -> None:
    """Add the column `diagnosis`; `suspects`: facts about the handshakes to diagnose, None: all are clean."""
    if suspects is None:
        return
    # not needed for most captures
    from ikeanalyze.analysis.handshakes.diagnosis.diagnose import diagnose_suspects

    diagnoses = diagnose_suspects(handshakes, suspects)
    if diagnoses is not None:
        handshakes.columns["diagnosis"] = diagnoses


def _number_rows(numbering: RowNumbering, state: AnalysisState, radius: RadiusMessages) -> RowIds:
    handshakes, exchanges = numbering.number_handshakes(state), numbering.number_exchanges(state)
    messages = numbering.number_messages(state, radius.datagrams)
    return RowIds(numbering, state.capture, handshakes, exchanges, messages)


def _start_messages_table(
    run: _PipelineRun,
    state: AnalysisState,
    radius: RadiusMessages,
    ids: Future[RowIds],
    contents: "CaptureContents | None",
) -> "Future[pl.DataFrame | TableColumns] | None":
    """Start to make the table of messages in the other thread; None: it is not wanted."""
    if not run.options.messages_table:
        return None

    def build() -> "pl.DataFrame | TableColumns":
        sources = MessageTableSources(
            ids.result(), state.messages, state.exchange_of_message, state.exchanges, radius, contents
        )
        return run.make_table("messages", build_message_columns(sources))

    return run.pool.submit(build)


def _build_exchanges_table(run: _PipelineRun, sources: ExchangeTableSources) -> "pl.DataFrame | TableColumns":
    return run.make_table("exchanges", build_exchange_columns(sources))


def _analyse_frames(run: _PipelineRun, *, tables: bool = True) -> _PipelineResult:
    """Analyse the frames; `tables`: for tables of exchanges and handshakes."""
    numbering, traffic, options = run.numbering, run.traffic, run.options
    clear, facts = traffic.clear, run.facts
    frames_writer = _FramesTableWriter(run)
    grouped = _group_datagrams(traffic, facts)
    state = _build_state(run, grouped)
    capture, messages, exchanges = state.capture, state.messages, state.exchanges
    radius = grouped.radius
    # The other thread makes the tables while this one continues. RADIUS must be assigned and messages decrypted before;
    # and a table of polars would take memory that the analysis needs.
    ids = run.pool.submit(_number_rows, numbering, state, radius)
    frames = None if radius.pairs else frames_writer.start(state, grouped, ids)
    start_messages = partial(_start_messages_table, run, state, radius, ids)
    is_early = not (radius.pairs or _wants_contents(run) or run.polars_makes_tables)
    messages_table = start_messages(None) if is_early else None
    handshake, from_initiator = state.association.handshake, state.association.from_initiator
    side = infer_capture_sides(handshake, from_initiator, state.datagrams.ttl, len(capture), options.vantage)
    path = determine_paths(side, capture, run.captures.manifests, options.rtt_ns)
    endings = find_exchange_endings(state, path, facts)
    if facts.partial:
        share_waiting_handshakes(state, endings, radius, facts)
    warnings = _warn_of_messages(run, grouped, state)
    contents = None
    if _wants_contents(run):
        contents, findings = _summarise_contents(run, state, ids.result().handshake)
        warnings += findings
        traffic.encrypted.clear()
    # the only clear messages of IKEv2 are IKE_SA_INIT, which are parsed; fragments of IKEv1 are reassembled
    datagrams = state.datagrams
    needed = (datagrams.protocol != Protocol.IKEV2) & ~find_ikev1_fragments(datagrams)
    clear.keep(np.concatenate([datagrams.datagram[needed], radius.datagrams.datagram]))
    if radius.pairs:
        if contents is not None:
            from ikeanalyze.analysis.decryption.eap_matching import EapMatcher

            contents = structs.replace(contents, same_eap=EapMatcher(contents.contents, capture).match(radius.pairs))
        warnings += assign_radius(state, endings, radius, ids.result().handshake)
    answers = match_responses(state, path, endings, find_first_radius_requests(radius, len(exchanges)))
    frames = frames or frames_writer.start(state, grouped, ids)
    messages_table = messages_table or start_messages(contents)
    short = find_short_responses(traffic.columns)
    run.pool.submit(traffic.columns.clear)  # when the table of frames is made
    del endings  # `answers` have what the other steps need
    pairs = group_radius_by_handshake(radius)
    aaa_times = sum_aaa_times(radius, pairs, exchanges)
    of_message, count = state.exchange_of_message, state.association.count
    add_up = partial(add_up_messages, messages, exchanges, of_message, count)
    # while this thread groups handshakes, unless a table of polars in the other one needs the memory
    adding = run.pool.submit(add_up) if tables and not run.polars_makes_tables else None
    handshakes = group_handshakes(HandshakeSources(state, answers, path, pairs, aaa_times, contents, facts))
    warnings += _warn_of_times(state, handshakes, path, facts)
    warnings += warn_of_missing_radius(aaa_times, handshakes.breakdown, capture)
    lab = match_lab_handshakes(run.captures.manifests, capture, handshakes.spi_i, handshakes.spi_r, facts)
    warnings += [(number, (None, text)) for number, text in lab.missing]
    run.release_memory()
    extra = handshakes.extra_round_trip_of_exchange
    exchange_sources = ExchangeTableSources(ids.result(), exchanges, of_message, answers, extra, contents)
    exchanges_table = run.pool.submit(_build_exchanges_table, run, exchange_sources) if tables else None
    suspects = _collect_facts(run, handshakes, state, answers, short)
    clear.clear()
    volumes: dict[str, Any] = {}
    if tables:
        volumes = add_up() if adding is None else adding.result()
    handshake_sources = HandshakeTableSources(
        ids=ids.result(),
        addresses=traffic.addresses,
        volumes=volumes,
        radius=radius,
        handshakes=handshakes,
        capture_duplicates=frames.result().capture_duplicates,
        tunnels=frames.result().tunnels,
        lab=lab,
    )
    return _PipelineResult(handshake_sources, frames, messages_table, exchanges_table, suspects, warnings)


def _collect_facts(
    run: _PipelineRun,
    handshakes: HandshakeColumns,
    state: AnalysisState,
    answers: AnsweredTransmissions,
    short: ShortResponses,
) -> "SuspectFacts | None":
    """The facts about the handshakes to diagnose; None: all are clean."""
    suspects = find_suspects(handshakes, state, answers, short)
    if not suspects.any() and not run.facts.partial:  # a part of a capture shares facts with the other parts
        return None
    # not needed for most captures
    from ikeanalyze.analysis.handshakes.diagnosis.suspects import collect_facts

    return collect_facts(suspects, handshakes, state, answers, short, run.traffic.icmp_errors, run.facts)


def _group_datagrams(traffic: CombinedFrames, facts: CaptureFacts) -> _CaptureDatagrams:
    """Group frames into datagrams, and pair those of RADIUS."""
    duplicates = _find_relayed_packets(traffic, find_duplicates(traffic.columns, facts))
    translated = find_translated_endpoints(traffic.columns, duplicates, facts)
    datagrams = group_datagrams(traffic.columns, duplicates.mask, facts)
    is_radius = datagrams.protocol == Protocol.RADIUS
    radius = datagrams.select(np.flatnonzero(is_radius))
    return _CaptureDatagrams(
        duplicates=duplicates,
        translated=translated,
        ike=datagrams.select(~is_radius) if len(radius) else datagrams,
        radius=RadiusMessages(radius, pair_radius_messages(radius, traffic.clear)),
    )


def _find_relayed_packets(traffic: CombinedFrames, duplicates: DuplicateFrames) -> DuplicateFrames:
    """Add the HIP packets that a rendezvous server relayed within the capture to the duplicates."""
    columns = traffic.columns
    if not (columns["protocol"] == Protocol.HIP).any():
        return duplicates
    # rarely needed
    from ikeanalyze.analysis.handshakes.hip.relayed_packets import find_relayed_packets

    relayed = find_relayed_packets(columns, duplicates.mask, traffic.clear)
    if not relayed:
        return duplicates
    mask = duplicates.mask | np.isin(columns["datagram"], np.fromiter(relayed, np.uint32, len(relayed)))
    return structs.replace(duplicates, mask=mask, relayed=relayed)


def _build_state(run: _PipelineRun, grouped: _CaptureDatagrams) -> AnalysisState:
    """Assign datagrams to handshakes, and group them into messages and exchanges.

    Meanwhile the other thread parses IKE_SA_INIT messages and summarises the datagrams of each handshake.
    """
    traffic, datagrams = run.traffic, grouped.ike
    clear = traffic.clear
    clear.entries()  # sorts them before two threads read them
    hits: Mapping[int, tuple[bytes, bytes]] = {}
    early = traffic.readings if isinstance(traffic.readings, InitReadings) else None
    if (datagrams.protocol == Protocol.HIP).any():
        datagrams, association, hits = _associate_hip(datagrams, clear, grouped.translated)
        inits = run.pool.submit(parse_init_messages, datagrams, clear, traffic.addresses, early)
    else:
        # in parallel: the association and the messages do not depend on this step
        inits = run.pool.submit(parse_init_messages, datagrams, clear, traffic.addresses, early)
        association = _associate_ike(datagrams, clear, grouped.translated)
    summary = run.pool.submit(summarise_datagrams, datagrams, association)
    capture = np.zeros(association.count, np.int64)
    if len(run.numbering.paths) > 1:
        capture[association.handshake] = get_capture_numbers(datagrams.source)
    incomplete = np.isin(datagrams.datagram, np.fromiter(traffic.incomplete, np.uint32, len(traffic.incomplete)))
    # TCP delivers the segments that the capture lacks; the number of IKEv1's fragments is unknown
    undelivered = incomplete & (datagrams.ip_fragments > 0) & ~datagrams.is_ikev1
    messages, message_of_datagram = group_messages(datagrams, association, undelivered)
    exchanges, exchange_of_message = pair_exchanges(messages)
    clear_datagrams = np.isin(datagrams.datagram, find_clear_messages(traffic.columns, clear))
    in_clear = sort_distinct(message_of_datagram[clear_datagrams]).astype(np.int64)
    ignored = select_ignored_messages(exchanges, messages, exchange_of_message, in_clear)
    about_esp = find_invalid_spi_notifies(datagrams, clear_datagrams, clear)
    wrong_version = find_version_refusals(datagrams, clear_datagrams, clear)
    parsed = inits.result()
    traffic.readings = None  # its memory is free then
    if not _wants_contents(run):
        # the only clear messages of IKEv2 are IKE_SA_INIT, which are parsed
        others = datagrams.datagram[datagrams.protocol != Protocol.IKEV2]
        clear.keep(np.concatenate([others, grouped.radius.datagrams.datagram]))
    return AnalysisState(
        datagrams=datagrams,
        association=association,
        summary=summary.result(),
        messages=messages,
        message_of_datagram=message_of_datagram,
        exchanges=exchanges,
        exchange_of_message=exchange_of_message,
        inits=parsed,
        clear=clear,
        reassembled=reassemble_clear_messages(datagrams, messages, message_of_datagram, clear),
        addresses=traffic.addresses,
        capture=capture,
        lacking_fragments=find_incomplete_messages(messages),
        in_clear=ignored,
        decrypted_requests=find_decrypted_requests(messages, in_clear, ignored),
        about_esp=find_handshakes_made_of(about_esp, association),
        wrong_version=find_refused_handshakes(wrong_version, datagrams, association),
        unprotected=find_unprotected_exchanges(exchanges, messages, exchange_of_message, ignored),
        incomplete=incomplete,
        undelivered=undelivered,
        last_ns=traffic.last_ns,
        translated=grouped.translated,
        hits=hits,
    )


def _wants_contents(run: _PipelineRun) -> bool:
    """Whether messages are decoded: all with the option `payloads`, encrypted ones with keys."""
    return run.options.payloads or any(run.captures.keys)


def _associate_ike(datagrams: Datagrams, clear: MessageBytes, translated: Mapping[int, int]) -> SaAssociation:
    """Associate IKE datagrams with handshakes, which a gateway may have redirected to another one."""
    association = associate_datagrams(datagrams, clear, translated)
    redirects = find_redirects(datagrams, clear)
    if not redirects:
        return association
    from ikeanalyze.analysis.messages.redirects import follow_redirects  # few captures have some

    return follow_redirects(datagrams, association, clear, redirects)


def _associate_hip(
    datagrams: Datagrams, clear: MessageBytes, translated: Mapping[int, int]
) -> tuple[Datagrams, SaAssociation, Mapping[int, tuple[bytes, bytes]]]:
    """Associate IKE and HIP; return the datagrams with exchange types for HIP, the associations and the HITs."""
    # rarely needed
    from ikeanalyze.analysis.handshakes.hip.association import associate_hip, merge_associations

    is_hip = datagrams.protocol == Protocol.HIP
    ike = datagrams.select(~is_hip)
    association = _associate_ike(ike, clear, translated)
    hip, hosts = associate_hip(datagrams.select(is_hip), clear)
    columns = {name: getattr(datagrams, name).copy() for name in ("exchange_type", "flags", "message_id")}
    for name, column in columns.items():
        column[is_hip] = getattr(hip, name)
    joined = merge_associations(datagrams, association, hosts)
    return structs.replace(datagrams, **columns), joined.association, joined.hits


class _FramesTable(Struct, frozen=True):
    """The table of frames, and what its labels tell about the handshakes."""

    table: "pl.DataFrame | TableColumns | None"  # None: not wanted
    capture_duplicates: Int64Array  # duplicate frames of each handshake. (handshakes,)
    tunnels: Mapping[int, str]  # of the handshakes that are in some


class _FramesTableWriter:
    """Makes the table of frames in the other thread. A frame alone decides about most of its columns."""

    def __init__(self, run: _PipelineRun) -> None:
        """Start with these columns."""
        self._run = run
        self._columns = run.traffic.columns
        self._packets = run.pool.submit(self._write_packets) if run.options.frames_table else None

    def start(self, state: AnalysisState, grouped: _CaptureDatagrams, ids: Future[RowIds]) -> "Future[_FramesTable]":
        """Start with the other columns. RADIUS must be assigned before."""
        return self._run.pool.submit(self._write_labels, state, grouped, ids)

    def _write_labels(self, state: AnalysisState, grouped: _CaptureDatagrams, ids: Future[RowIds]) -> "_FramesTable":
        run, columns, duplicate = self._run, self._columns, grouped.duplicates.mask
        labels = label_datagrams(columns, grouped.duplicates, state, grouped.radius, ids.result().message)
        table: pl.DataFrame | TableColumns | None = None
        if self._packets is not None:
            packets = self._packets.result()
            others = build_frame_labels(columns, labels, ids.result().handshake, duplicate)
            table = run.make_table("frames", others if packets is None else join_frame_columns(packets, others))
        names, tunnels = run.traffic.tunnels, dict[int, str]()
        if names:
            tunnels = name_tunnels(columns, labels.handshake[columns["datagram"]], names)
        duplicates = labels.count(columns["datagram"][duplicate], state.association.count)
        return _FramesTable(table, duplicates, tunnels)

    def _write_packets(self) -> TableColumns | None:
        """The columns that a frame alone decides about; None: the caller of the pipeline has taken them."""
        run = self._run
        columns = build_packet_columns(run.numbering, self._columns, self._make_addresses(), run.traffic.tunnels)
        take = run.options.on_first_columns
        return None if take is not None and take("frames", columns) else columns

    def _make_addresses(self) -> "Mapping[str, AddressColumn | pl.Series]":
        columns = make_address_columns(self._columns, self._run.traffic.addresses)
        if core.compiled is not None:
            return columns
        # polars makes texts of them, for which this thread has time until it parses IKE_SA_INIT messages
        from ikeanalyze.analysis.tables.polars_columns import convert_column  # loads polars

        return {name: convert_column(column, layouts.FRAMES[name]) for name, column in columns.items()}


def _warn_of_messages(
    run: _PipelineRun, grouped: _CaptureDatagrams, state: AnalysisState
) -> list[tuple[int, CaptureWarning]]:
    """Return the warnings about the messages of the captures."""
    warnings: list[tuple[int, CaptureWarning]] = []
    if len(state.lacking_fragments) or run.facts.partial:
        from ikeanalyze.analysis.messages.missing_fragments import warn_of_missing_fragments  # rarely needed

        warnings += warn_of_missing_fragments(state, run.facts)
    warnings += warn_of_doubled_captures(run.traffic.columns, grouped.duplicates, run.facts)
    wrong_flags = find_wrong_flags(state.datagrams, state.association)
    if len(wrong_flags) or run.facts.partial:
        from ikeanalyze.analysis.messages.wrong_flags import warn_of_wrong_flags  # rarely needed

        warnings += warn_of_wrong_flags(state, wrong_flags, run.facts)
    warnings += warn_of_decrypted_captures(state, run.facts)
    return warnings + warn_of_repeated_set_ups(state, run.facts)


def _warn_of_times(
    state: AnalysisState, handshakes: HandshakeColumns, path: NetworkPath, facts: CaptureFacts
) -> list[tuple[int, CaptureWarning]]:
    """Return the warnings about set-up times and the given round-trip time."""
    if not (facts.partial or handshakes.uncertain.any() or (path.rtt_source == GIVEN).any()):
        return []
    from ikeanalyze.analysis.handshakes.uncertain_times import warn_of_times  # rarely needed

    return warn_of_times(state, handshakes, path, facts)


def _summarise_contents(
    run: _PipelineRun, state: AnalysisState, handshake_ids: Int64Array
) -> "tuple[CaptureContents, list[tuple[int, CaptureWarning]]]":
    """Decrypt messages, and decode clear ones with the option `payloads`; return their contents and the warnings."""
    # not needed for most captures, and takes a tenth of a second to load
    from ikeanalyze.analysis.decryption.decrypt import decrypt_messages
    from ikeanalyze.analysis.decryption.unfit_keys import describe_unfit_keys
    from ikeanalyze.analysis.handshakes.contents.handshake_contents import summarise_contents
    from ikeanalyze.keys.key_table import NO_KEYS

    all_keys = [keys or NO_KEYS for keys in run.captures.keys]
    encrypted = run.traffic.encrypted
    clear = _select_clear_handshakes(run.options, state, handshake_ids) if run.options.payloads else None
    decoded = decrypt_messages(state, encrypted, all_keys, clear)
    parameters: dict[int, list[str]] = {}
    if run.options.payloads and state.hits:
        from ikeanalyze.analysis.handshakes.hip.parameters import describe_hip_messages

        parameters = describe_hip_messages(state, decoded.findings)
    contents = summarise_contents(state, encrypted, decoded, parameters)
    if run.options.on_contents is not None:
        run.options.on_contents(state, encrypted, decoded)
    capture = state.capture[state.messages.handshake]
    warnings: list[tuple[int, CaptureWarning]] = []
    for number, keys in enumerate(all_keys):
        warnings.extend((number, (frame or None, text)) for frame, text in contents.findings[number])
        in_capture = capture == number
        if keys and not decoded.decrypted[in_capture].any():
            text = describe_unfit_keys(state, encrypted, decoded.encrypted & in_capture, keys)
            if text is not None:
                warnings.append((number, (None, text)))
    return contents, warnings


def _select_clear_handshakes(options: ReadOptions, state: AnalysisState, handshake_ids: Int64Array) -> Sequence[int]:
    """The rows of the handshakes whose clear messages are decoded with the option `payloads`."""
    match options.payloads_of:
        case None:
            return range(len(handshake_ids))
        case "first":
            set_up = state.exchanges.handshake[state.exchanges.set_up]
            return range(int(set_up.min()) + 1 if len(set_up) else len(handshake_ids))
        case wanted:
            rows: list[int] = np.flatnonzero(handshake_ids == wanted).tolist()
            return rows
