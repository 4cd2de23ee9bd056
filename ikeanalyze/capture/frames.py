"""Reads a capture into its frames table: counts all packets, and keeps those with IKE, RADIUS or HIP as rows."""

import builtins
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec import Struct, field

from ikeanalyze import core
from ikeanalyze.capture.buffers import (
    LAYOUT,
    Columns,
    FileMessages,
    FrameRows,
    MessageBytes,
    MessageReadings,
    MessageStore,
)
from ikeanalyze.capture.collector import FrameCollector
from ikeanalyze.capture.decode.icmp import make_no_icmp_errors
from ikeanalyze.capture.decode.ip import format_address_code
from ikeanalyze.capture.decode.plain import can_read_file, is_mostly_plain, open_compiled_reader
from ikeanalyze.capture.formats.records import CaptureDamage, Interface
from ikeanalyze.capture.parallel import ParallelReader, start_parallel_reader
from ikeanalyze.capture.reader import CaptureReader, open_capture
from ikeanalyze.machine import tune_malloc

if TYPE_CHECKING:
    from ikeanalyze._core import PcapReader
    from ikeanalyze.capture.joined import JoinedReader

#: Seconds between two reports of progress.
_PROGRESS_S: Final = 0.05

Progress = Callable[[int, int | None], None]
"""Called with the number of bytes read from the file, and the size of the file (None if unknown)."""

Meanwhile = Callable[[Callable[[], int]], object]
"""Other work while a large capture is read; called with a function that returns the number of frames kept so far."""


class CaptureFrames(Struct):
    """The contents of a capture: the input of the analysis."""

    format: str
    packets: int
    bytes: int
    first_ns: int | None
    last_ns: int | None
    snaplen_truncated: int
    damaged: bool
    accounting: dict[str, int]
    accounting_bytes: dict[str, int]
    #: A row for each frame that carries a message or a part of one. The columns are those of `schema.FRAMES` with
    #: numbers instead of names: `source` and `destination` are AddressBook codes, `datagram` numbers the UDP datagrams
    #: and the messages in TCP (the frames of one that was split have the same number).
    columns: Columns
    clear: MessageBytes  # bytes of the messages that can (fragments of IKEv1: may) be read without keys, by datagram
    encrypted: MessageBytes  # bytes of the requested encrypted messages, by datagram
    addresses: list[builtins.bytes]  # IPv6 addresses of the AddressBook codes
    tunnels: list[str]  # name of each tunnel: number n of the column `tunnel`, from 1, is `tunnels[n - 1]`
    interfaces: list[Interface]
    incomplete: set[int]  # datagrams with an IP fragment or TCP segment that is not in the capture
    warnings: list[tuple[int | None, str]] = field(default_factory=list)
    readings: MessageReadings | None = None  # of the messages in `clear.in_file`
    #: Columns of `decode.icmp.ICMP_LAYOUT`: the ICMP errors that quote a datagram of IKE, in order of their packets.
    icmp_errors: Columns = field(default_factory=make_no_icmp_errors)

    def address(self, code: int) -> str:
        """An address as text (RFC 5952 for IPv6)."""
        return format_address_code(code, self.addresses)


class FrameStorage(Struct, frozen=True):
    """Where the frames and messages of a capture go."""

    rows: FrameRows
    messages: MessageStore


def read_frames(
    path: str,
    ports: Collection[int] = (),
    progress: Progress | None = None,
    meanwhile: Meanwhile | None = None,
    spis: Collection[int] | None = (),
    storage: FrameStorage | None = None,
    make_readings: Callable[[], MessageReadings] | None = None,
) -> CaptureFrames:
    """Read a capture file, or standard input for "-".

    Args:
        path: of a pcap or pcapng file, plain or compressed.
        ports: UDP and TCP ports that carry IKE in addition to 500 and 4500.
        progress: called after each batch.
        meanwhile: called once for other work: while the compiled core reads a large capture, or without it when this
            process has read its part and waits for the parallel reader.
        spis: initiators' SPIs of the IKE SAs whose encrypted messages are kept; None: of all IKE SAs.
        storage: keeps the frames and messages instead of the result; None: the result has them.
        make_readings: makes what keeps the contents of clear messages that the core has read, whose bytes then remain
            in a large file; called in another thread. None: all clear messages are kept in memory.

    Raises:
        CaptureError: the file cannot be opened, or its header is invalid. Damage after the header is a warning, and the
            packets before it are returned.
    """
    tune_malloc()
    with open_capture(path) as reader:
        parallel = None
        kept = storage is None
        core_reader = None
        if storage is None:
            core_reader = _open_core_reader(reader, ports, spis, read_inits=make_readings is not None)
        core.discard_reading()  # one of another file, or in another way
        if storage is None:
            started = start_parallel_reader(reader, ports, spis) if core_reader is None else None
            parallel, messages = started or (None, MessageStore(spis))
            storage = FrameStorage(FrameRows(LAYOUT), messages)
        messages = storage.messages
        collector = FrameCollector(ports, reader.interfaces, storage.rows, messages)
        try:
            if core_reader is not None:
                _CompiledReading(reader, core_reader, collector, make_readings).collect(progress, meanwhile)
            _collect(reader, collector, parallel, progress, meanwhile)
        finally:
            if parallel is not None:
                parallel.stop()
        damages = [] if reader.damage is None else [describe_damage(reader.damage)]
        return _finish(collector, messages, reader, damages, kept=kept)


def read_joined_frames(
    paths: Sequence[str],
    ports: Collection[int] = (),
    progress: Progress | None = None,
    spis: Collection[int] | None = (),
    storage: FrameStorage | None = None,
) -> tuple[CaptureFrames, list[str], list[tuple[str, str]]]:
    """Read files of one recording as one capture, in the order of their first packets.

    Arguments are those of `read_frames`. Returns the capture, the paths in this order, and path and reason of each file
    that cannot be read.

    Raises:
        CaptureError: no file can be read, or one of several is standard input.
    """
    # rarely needed
    from ikeanalyze.capture.joined import open_joined

    tune_malloc()
    core.discard_reading()  # it was of one file alone
    reader, skipped = open_joined(paths)
    with reader:
        kept = storage is None
        if storage is None:
            storage = FrameStorage(FrameRows(LAYOUT), MessageStore(spis))
        messages = storage.messages
        collector = FrameCollector(ports, reader.interfaces, storage.rows, messages)
        size = reader.size
        for batch in reader.iterate_batches():
            collector.add(batch, reader.consumed / size if size else None)
            if progress is not None:
                progress(reader.consumed, size)
        damages = [f"{path}: {describe_damage(damage)}" for path, damage in reader.damages]
        return _finish(collector, messages, reader, damages, kept=kept), reader.paths, skipped


def describe_damage(damage: CaptureDamage) -> str:
    """Where and why reading a file stopped, as a warning."""
    return f"damaged at byte {damage.offset}: {damage.what}; read up to there"


def _finish(
    collector: FrameCollector,
    messages: MessageStore,
    reader: "CaptureReader | JoinedReader",
    damages: list[str],
    *,
    kept: bool,
) -> CaptureFrames:
    """The result; `kept`: with all frames, in the memory of the collector."""
    collector.finish()
    columns = collector.columns()
    if kept:
        if np.array_equal(columns["captured"], columns["bytes"]):
            columns["captured"] = columns["bytes"]  # as usual; without memory of its own
        collector.number_by_appearance(columns)
    warnings = collector.warnings()
    warnings.extend((None, damage) for damage in damages)
    warnings.extend((note.first, note.what) for note in reader.notes)
    return CaptureFrames(
        format=reader.format,
        packets=collector.packets,
        bytes=collector.bytes,
        first_ns=collector.first_ns,
        last_ns=collector.last_ns,
        snaplen_truncated=collector.truncated,
        damaged=bool(damages),
        accounting=collector.accounting.packets(),
        accounting_bytes=collector.accounting.bytes(),
        columns=columns,
        clear=messages.clear,
        encrypted=messages.encrypted,
        addresses=collector.book.ipv6,
        tunnels=collector.tunnels.names,
        interfaces=reader.interfaces,
        incomplete=collector.incomplete,
        warnings=warnings,
        readings=collector.readings,
        icmp_errors=collector.icmp_errors,
    )


def _open_core_reader(
    reader: CaptureReader, ports: Collection[int], spis: Collection[int] | None, *, read_inits: bool
) -> "PcapReader | None":
    """Open a large pcap file with the compiled core; None: Python reads the file. See `open_compiled_reader`.

    Python decodes what the core hands back, in one process; so it reads captures of tunnels itself, in two.
    """
    layout = reader.plain_pcap
    if layout is None or (reader.source.size or 0) < core.MIN_FILE_BYTES or not can_read_file(layout):
        return None
    if not is_mostly_plain(reader.source, layout, reader.position, ports):
        return None
    return open_compiled_reader(reader.source, layout, ports, spis, read_inits=read_inits)


class _CompiledReading:
    """Collects the packets of a pcap file, which the compiled core reads."""

    def __init__(
        self,
        reader: CaptureReader,
        core_reader: "PcapReader",
        collector: FrameCollector,
        make_readings: Callable[[], MessageReadings] | None,
    ) -> None:
        self._reader, self._collector, self._make_readings = reader, collector, make_readings
        self._size = reader.source.size or 0
        self._begin = reader.position
        self._core: Final = core_reader

    def collect(self, progress: Progress | None, meanwhile: Meanwhile | None) -> None:
        """Collect the packets in other threads, and leave the reader at the first record that Python must read.

        The core does not hold Python's lock while it reads, so that `meanwhile` runs in parallel.
        """
        with ThreadPoolExecutor(1) as pool:
            work = pool.submit(self._collect_all)
            try:
                if meanwhile is not None:
                    meanwhile(lambda: self._collector.count_frames() + self._core.rows)
                while not wait([work], timeout=None if progress is None else _PROGRESS_S).done:
                    if progress is not None:
                        progress(max(self._begin, self._core.position), self._size)
            finally:
                self._core.stop()
        position = work.result()
        self._reader.skip_to(position)
        if progress is not None:
            progress(position, self._size)

    def _collect_all(self) -> int:
        """Collect all packets up to the first record that Python must read, and return its offset."""
        position = self._begin
        while True:
            bounds, first = (position, self._size), self._collector.packets + 1
            part = self._core.read(bounds, first, core.count_threads(), core.BLOCK_BYTES, core.REST_BYTES)
            if self._make_readings is not None and self._collector.readings is None:
                self._collector.readings = self._make_readings()
                self._collector.messages.clear.in_file = FileMessages(self._reader.source.descriptor)
            self._collector.add_part(part, part.stop / self._size)
            is_full = len(part.rest[0]) > core.REST_BYTES
            position = part.stop
            del part
            if not is_full:
                break
        if self._collector.readings is not None:
            self._collector.readings.samples = self._core.list_samples()
        return position


def _collect(
    reader: CaptureReader,
    collector: FrameCollector,
    parallel: ParallelReader | None,
    progress: Progress | None,
    meanwhile: Meanwhile | None,
) -> None:
    """Collect all batches; those of the second part come from the parallel reader if its result can be used."""
    size = reader.source.size
    for batch in reader.iterate_batches():
        remaining = batch
        if parallel is not None:
            index = reader.find_packet_at(batch, parallel.begin)
            usable = index is not None and not collector.has_open_fragments
            if usable and index is not None and index < len(batch):
                collector.add(batch.select(slice(index)), None)
                remaining = batch.select(slice(index, None))
                if meanwhile is not None:
                    meanwhile(collector.count_frames)
                result = None if collector.has_open_fragments else parallel.result()
                if result is not None:
                    collector.merge_partial_result(*result)
                    reader.damage = result[0].damage
                    if progress is not None:
                        progress(size or 0, size)
                    return
                usable = False
            if not usable:
                parallel.stop()
                parallel = None
        consumed = reader.source.consumed
        collector.add(remaining, consumed / size if size else None)
        if progress is not None:
            progress(consumed + (parallel.consumed if parallel else 0), size)
