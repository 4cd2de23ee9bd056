"""Collects packets, decides which handshakes have ended, and analyses them as a report does."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import polars as pl
from msgspec import structs

from ikeanalyze.analysis.grouping import find_group_starts
from ikeanalyze.analysis.messages.capture_facts import WHOLE_CAPTURE
from ikeanalyze.analysis.options import ReadOptions
from ikeanalyze.analysis.pipeline import CaptureContext, build_tables
from ikeanalyze.analysis.result import Analysis, AnalysisWarning, RequestedDetails, SkippedFile
from ikeanalyze.analysis.tables.layouts import SUCCESSES
from ikeanalyze.analysis.tables.row_ids import RowNumbering
from ikeanalyze.analysis.tables.tables import AnalysisTables, make_empty_tables
from ikeanalyze.capture.accounting import Accounting
from ikeanalyze.capture.arrays import BoolArray, Int64Array, UInt32Array, UInt64Array
from ikeanalyze.capture.collector import FrameCollector
from ikeanalyze.capture.formats.records import Interface, RecordBatch
from ikeanalyze.capture.frames import FrameStorage
from ikeanalyze.live.ended_sas import EndedSas
from ikeanalyze.live.frame_window import RADIUS_KEY, FrameWindow, SaTimes, WindowSelection
from ikeanalyze.live.growing_keys import GrowingKeys
from ikeanalyze.live.packet_ring import PacketRing
from ikeanalyze.live.path_facts import KnownFacts, PathFacts
from ikeanalyze.live.rules import TICK_NS, EndingRules
from ikeanalyze.machine import tune_malloc

_NO_KEYS: Final[UInt64Array] = np.zeros(0, np.uint64)
_COMPLETE: Final = (*SUCCESSES, "failed")
#: Seconds by which a packet may be earlier than another one before it.
_DISORDER: Final = 10
#: RADIUS is kept for so long before the first message of the oldest IKE SA.
_RADIUS_BEFORE_NS: Final = 5 * TICK_NS


@dataclass(frozen=True, slots=True)
class LiveCounts:
    """What the engine has seen and keeps."""

    packets: int
    bytes: int
    last_ns: int | None  # time of the last packet; None: no packets
    accounting: dict[str, int]  # packets by the categories of a report
    handshakes: int  # reported
    rekeyed: int  # IKE SAs that replaced another one, which are not handshakes
    open: int  # IKE SAs that have not ended
    frames: int  # kept, of IKE SAs that have not ended and of RADIUS
    late_frames: int  # of IKE SAs that had ended


@dataclass(frozen=True, slots=True)
class _CollectorCounts:
    """The counts of the collectors that were renewed."""

    packets: int = 0
    bytes: int = 0
    accounting: Accounting = field(default_factory=Accounting)

    def add(self, collector: FrameCollector) -> "_CollectorCounts":
        """Return the sum with those of another collector."""
        accounting = Accounting()
        accounting.merge(self.accounting)
        accounting.merge(collector.accounting)
        return _CollectorCounts(self.packets + collector.packets, self.bytes + collector.bytes, accounting)

    def subtract_packets(self, count: int) -> "_CollectorCounts":
        """Return the counts without packets that the next collector has in its numbers."""
        return replace(self, packets=self.packets - count)


@dataclass(frozen=True, slots=True)
class _AnalysedSas:
    """The result of one run of the analysis."""

    tables: AnalysisTables
    handshake: UInt32Array  # id of the handshake of each frame; 0: none. (frames,)
    frame_key: UInt64Array  # key of each frame. (frames,)
    warnings: list[AnalysisWarning]
    facts: KnownFacts | None  # with those of these IKE SAs; None: not to be kept
    ended: UInt64Array  # keys of the IKE SAs to report
    keys: UInt64Array  # ascending
    complete: BoolArray  # whether all handshakes of a key are complete


class LiveEngine:
    """Finds the handshakes in packets that arrive one after the other. `on_ended` gets them when they have ended."""

    def __init__(
        self,
        name: str,
        interfaces: list[Interface],
        on_ended: Callable[[Analysis], object],
        options: ReadOptions,
        rules: EndingRules,
        keys: GrowingKeys | None = None,
        packets: PacketRing | None = None,
    ) -> None:
        """Prepare an engine without packets.

        Args:
            name: the name of the capture in the results.
            interfaces: the interfaces that the reader of the packets has found.
            on_ended: called with handshakes that ended at the same time, in order of their first messages. Their ids
                count the handshakes of this engine.
            options: ports, vantage and round-trip time, as for a report.
            rules: when handshakes end.
            keys: keys for decryption.
            packets: keeps the packets of IKE SAs until `on_ended` returns.
        """
        tune_malloc()
        self._name = name
        self._on_ended = on_ended
        self._options = structs.replace(options, frames_table=True, messages_table=True)
        self._rules = rules
        self._window = FrameWindow(encrypted=keys is not None)
        self._ended = EndedSas(rules.remembered)
        self._interfaces = interfaces
        self._packets = packets
        self._collector = self._make_collector(self._window.storage)
        self._before = _CollectorCounts()
        self._keys = keys
        self._facts: KnownFacts = {}
        self._unfinished = SaTimes(_NO_KEYS, *(np.zeros(0, np.int64) for _ in range(3)))  # as they were analysed
        self._with_radius: UInt64Array = _NO_KEYS  # keys that were reported and are kept because of RADIUS
        self._tick: int | None = None  # time of the last decision, in units of TICK_NS
        self._handshakes = self._rekeyed = self._open = 0

    @property
    def counts(self) -> LiveCounts:
        """The counts so far."""
        seen = self._before.add(self._collector)
        return LiveCounts(
            packets=seen.packets,
            bytes=seen.bytes,
            last_ns=self._collector.last_ns,
            accounting=seen.accounting.packets(),
            handshakes=self._handshakes,
            rekeyed=self._rekeyed,
            open=self._open,
            frames=len(self._window),
            late_frames=self._window.late_frames,
        )

    def add(self, batch: RecordBatch) -> None:
        """Add packets, and report the handshakes that end before the last of them.

        Packets are divided by time, so that the result does not depend on how many arrive together.
        """
        clock = _follow_clock(batch.time_ns // TICK_NS, self._tick)
        starts = np.flatnonzero(find_group_starts(clock)).tolist()
        for start, stop in zip(starts, [*starts[1:], len(batch)], strict=True):
            self._decide_at(int(clock[start]))
            part = batch.select(slice(start, stop))
            if self._packets is not None:
                self._packets.add(part, self._collector.packets + 1)
            self._collector.add(part, None)

    def advance(self, now_ns: int) -> None:
        """Report the handshakes that have ended at a time of the capture, at which no packet has come."""
        tick = now_ns // TICK_NS
        if self._tick is not None and tick > self._tick:
            self._decide_at(tick)

    def finish(self) -> None:
        """Report all other handshakes at the end of the capture."""
        self._collector.finish()
        now_ns = self._collector.last_ns or 0
        self._receive(now_ns)
        key = self._get_open_times().key
        if len(key):
            self._report(key, key, now_ns)
        self._open = 0

    def _make_collector(self, storage: FrameStorage, packets: int = 0, datagrams: int = 0) -> FrameCollector:
        return FrameCollector(
            self._options.ports, self._interfaces, storage.rows, storage.messages, packets=packets, datagrams=datagrams
        )

    def _renew(self) -> None:
        """Begin to number frames, messages and addresses again, before the numbers take too much memory or bits."""
        old = self._collector
        self._receive(old.last_ns or 0)
        old.finish()
        self._receive(old.last_ns or 0)
        self._before = self._before.add(old)
        self._collector = self._window.renew(old, self._make_collector)
        self._before = self._before.subtract_packets(self._collector.packets)
        if self._packets is not None:
            self._packets.renumber(old.packets - self._collector.packets)
        if old.book.ipv6:  # the numbers of IPv4 addresses are the addresses
            self._facts = {}

    def _decide_at(self, tick: int) -> None:
        if tick == self._tick:
            return
        collector, rules = self._collector, self._rules
        if collector.packets > rules.renewal_packets or len(collector.book.ipv6) > rules.renewal_addresses:
            self._renew()
        self._tick = tick
        now_ns = tick * TICK_NS
        self._receive(now_ns)
        times = self._get_open_times()
        self._open = len(times.key)
        if self._window.has_radius or len(self._with_radius):
            self._expire_radius(now_ns)
        if not self._open:
            return
        over = self._find_over(times, now_ns)
        quiet = (np.abs(now_ns - times.last_ns) > self._rules.settle_ns) & ~over & ~self._are_unfinished(times)
        # fragments of a message may be waiting for others, which never come
        quiet &= ~np.isin(times.key, self._window.find_keys(self._collector.pending_ends))
        if over.any() or quiet.any():
            self._report(times.key[over | quiet], times.key[over], now_ns)
            left = np.isin(times.key, self._window.select(None).key)
            self._note_unfinished(times, quiet & left)

    def _get_open_times(self) -> SaTimes:
        times = self._window.measure()
        return times.select(~np.isin(times.key, self._with_radius)) if len(self._with_radius) else times

    def _find_over(self, times: SaTimes, now_ns: int) -> BoolArray:
        """Which IKE SAs end whether they are complete or not. (keys,)"""
        rules = self._rules
        over = np.abs(now_ns - times.last_ns) > rules.timeout_ns
        over |= np.abs(now_ns - times.first_ns) > rules.longest_ns
        excess = int(times.frames[~over].sum()) - rules.most_frames
        if excess > 0:
            rest = np.flatnonzero(~over)
            rest = rest[np.argsort(times.last_ns[rest], kind="stable")]
            enough = int(np.searchsorted(np.cumsum(times.frames[rest]), excess)) + 1
            over[rest[:enough]] = True
        return np.asarray(over)

    def _are_unfinished(self, times: SaTimes) -> BoolArray:
        """Which IKE SAs were analysed before, were not complete, and had no message since. (keys,)"""
        known = self._unfinished
        if not len(known.key):
            return np.zeros(len(times.key), np.bool_)
        place = np.minimum(np.searchsorted(known.key, times.key), len(known.key) - 1)
        return np.asarray((known.key[place] == times.key) & (known.frames[place] == times.frames))

    def _note_unfinished(self, times: SaTimes, checked: BoolArray) -> None:
        known = checked | self._are_unfinished(times)
        self._unfinished = times.select(known)

    def _receive(self, now_ns: int) -> None:
        self._collector.expire_fragments(now_ns)
        late = self._window.late_frames
        added = self._window.receive(self._ended)
        if self._window.late_frames > late:
            self._release()
        if self._packets is not None and added:
            self._packets.keep(added["number"])

    def _report(self, candidates: UInt64Array, over: UInt64Array, now_ns: int) -> None:
        """Analyse IKE SAs, and report those that are complete or in `over`.

        IKE SAs that cause an internal error are given up alone.
        """
        try:
            result = self._analyse_ended(candidates, over, now_ns)
        except (Exception, pl.exceptions.PanicException) as error:
            if isinstance(error, ImportError):
                raise
            if len(candidates) == 1:
                self._give_up(candidates, error)
                return
            for half in np.array_split(candidates, 2):
                self._report(half, over[np.isin(over, half)], now_ns)
            return
        if result is not None:
            self._emit(result)
            self._forget(result.ended, now_ns)

    def _give_up(self, keys: UInt64Array, error: BaseException) -> None:
        """Give up the only IKE SA of `keys`, whose analysis raised an error."""
        spis = ", ".join(f"{spi:016x}" for spi in self._window.get_spis(keys).tolist())
        text = f"internal error: {type(error).__name__}: {error}. This is a bug in ikeanalyze. Please report it"
        tables = make_empty_tables()
        reason = f"the IKE SA with SPIi {spis} is not reported: {text}"
        self._on_ended(
            Analysis(
                [],
                tables.frames,
                tables.messages,
                tables.exchanges,
                tables.handshakes,
                skipped=[SkippedFile(self._name, reason, internal_error=True)],
            )
        )
        self._ended.add(np.union1d(keys, self._window.get_spis(keys)))
        self._window.remove(keys)
        self._release()

    def _analyse_ended(self, candidates: UInt64Array, over: UInt64Array, now_ns: int) -> "_AnalysedSas | None":
        """The analysis with the IKE SAs that have ended; None: none has.

        With RADIUS, all IKE SAs are analysed together, because its packets may belong to any of them.
        """
        if self._window.has_radius:
            result = self._analyse(self._window.select(None), now_ns, keep=False)
            ended = np.union1d(np.intersect1d(candidates, result.keys[result.complete]), over)
            return replace(result, ended=ended) if len(ended) else None
        result = self._analyse(self._window.select(candidates), now_ns, keep=True)
        ended = result.keys[result.complete | np.isin(result.keys, over)]
        if not len(ended):
            return None
        if len(ended) < len(result.keys):
            # facts of IKE SAs that have not ended would count twice
            result = self._analyse(self._window.select(ended), now_ns, keep=True)
        return replace(result, ended=ended)

    def _forget(self, ended: UInt64Array, now_ns: int) -> None:
        """Give up the frames of IKE SAs that have ended; with RADIUS, when none of its packets is from their time."""
        self._ended.add(np.union1d(ended, self._window.get_spis(ended)))
        if self._window.has_radius:
            self._with_radius = np.union1d(self._with_radius, ended)
            self._expire_radius(now_ns)
        else:
            self._window.remove(ended)
            self._release()

    def _expire_radius(self, now_ns: int) -> None:
        """Give up RADIUS packets from before all IKE SAs that have not ended, and IKE SAs from before these packets."""
        times = self._window.measure()
        is_open = ~np.isin(times.key, self._with_radius)
        oldest_ns = int(times.first_ns[is_open].min(initial=now_ns)) - _RADIUS_BEFORE_NS
        oldest_ns = max(oldest_ns, now_ns - self._rules.timeout_ns)
        self._window.remove_radius(oldest_ns)
        is_past = times.last_ns < oldest_ns if self._window.has_radius else True
        gone = times.key[~is_open & is_past]
        self._window.remove(gone)
        self._with_radius = np.setdiff1d(self._with_radius, gone)
        self._release()

    def _release(self) -> None:
        """Free the memory of what the window does not have any more."""
        self._window.release()
        incomplete = self._collector.incomplete
        if incomplete:
            incomplete.intersection_update(self._window.datagrams.tolist())
        self._collector.forget_icmp_errors(self._window.first_ns)
        if self._packets is not None:
            self._packets.release(self._window.numbers)

    def _analyse(self, selection: WindowSelection, now_ns: int, *, keep: bool) -> _AnalysedSas:
        traffic = selection.make_traffic(self._collector, now_ns)
        facts = PathFacts(self._facts) if keep else None
        numbering = RowNumbering([self._name])
        context = CaptureContext([None if self._keys is None else self._keys.select(selection.spis)], [None])
        tables, (warnings,) = build_tables(
            numbering,
            traffic,
            context,
            self._options,
            RequestedDetails(),
            facts or WHOLE_CAPTURE,
        )
        handshake = tables.frames["handshake"].fill_null(0).to_numpy()
        done = tables.handshakes.filter(pl.col("outcome").cast(pl.String).is_in(_COMPLETE) | pl.col("rekeyed"))
        is_done = np.isin(handshake, done["handshake"].to_numpy())
        keys = np.unique(selection.key[selection.key != RADIUS_KEY])
        unfinished = selection.key[~is_done]
        return _AnalysedSas(
            tables=tables,
            handshake=handshake,
            frame_key=selection.key,
            warnings=[AnalysisWarning(self._name, frame, text) for frame, text in warnings],
            facts=None if facts is None else facts.known,
            ended=_NO_KEYS,
            keys=keys,
            complete=~np.isin(keys, unfinished),
        )

    def _emit(self, result: _AnalysedSas) -> None:
        """Pass on the handshakes of the IKE SAs that have ended, with new ids."""
        if result.facts is not None:
            self._facts = result.facts
        old = np.unique(result.handshake[np.isin(result.frame_key, result.ended)])
        table = result.tables.handshakes.filter(pl.col("handshake").is_in(old))
        self._rekeyed += int(table["rekeyed"].sum())
        table = table.filter(~pl.col("rekeyed"))
        if table.is_empty():
            return
        first = self._handshakes + 1
        self._handshakes += table.height
        new = pl.DataFrame({"handshake": table["handshake"], "id": range(first, first + table.height)})
        tables = result.tables
        parts = (table, tables.exchanges, tables.messages, tables.frames)
        handshakes, exchanges, messages, frames = (_renumber(part, new) for part in parts)
        self._on_ended(
            Analysis(
                captures=[],
                frames=frames,
                messages=messages,
                exchanges=exchanges,
                handshakes=handshakes,
                warnings=result.warnings,
            )
        )


def _follow_clock(tick: Int64Array, before: int | None) -> Int64Array:
    """The time of the capture at each packet, from the times of the packets and the time before. (n,)

    Packets may be out of order by a few seconds. An earlier time than that means that the clock was set back.
    """
    clock = np.empty(len(tick), np.int64)
    start, now = 0, int(tick[0]) if before is None else before
    while start < len(tick):
        rest = tick[start:]
        latest = np.maximum.accumulate(np.maximum(rest, now))
        back = np.flatnonzero(rest < latest - _DISORDER)
        stop = start + int(back[0]) if len(back) else len(tick)
        clock[start:stop] = latest[: stop - start]
        start, now = stop, int(tick[min(stop, len(tick) - 1)])
    return clock


def _renumber(table: pl.DataFrame, ids: pl.DataFrame) -> pl.DataFrame:
    """The rows of some handshakes, with other ids."""
    chosen = table.join(ids, on="handshake", how="inner", maintain_order="left")
    return chosen.with_columns(pl.col("id").cast(table.schema["handshake"]).alias("handshake")).drop("id")
