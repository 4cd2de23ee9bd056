"""Read captures and analyse them: from files to the four tables.

Modules other than those that read files are imported late. Another process reads the second half of a large capture,
and loading the other modules takes a fifth of a second, in which it can continue. Also, polars starts threads, after
which a process cannot safely fork.

A step of the analysis costs about the same for ten frames as for ten thousand. So small captures are analysed
together, in groups that take little memory.
"""

import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from ikeanalyze import core
from ikeanalyze.analysis.options import ReadOptions
from ikeanalyze.analysis.result import (
    Analysis,
    AnalysisWarning,
    CaptureSummary,
    RequestedDetails,
    SkippedFile,
    format_path,
)
from ikeanalyze.capture.formats.records import CaptureError, NoFileError
from ikeanalyze.capture.frames import CaptureFrames, read_frames, read_joined_frames
from ikeanalyze.capture.traffic import CombinedFrames, CombinedFramesBuilder, retained_size, single_capture
from ikeanalyze.io.lab_manifest import LabManifest, describe_unused_manifest, read_lab_manifest
from ikeanalyze.machine import release_free_memory

if TYPE_CHECKING:
    from ikeanalyze.analysis.exchanges.init_messages import InitReadings
    from ikeanalyze.analysis.options import KeyFiles
    from ikeanalyze.analysis.tables.tables import AnalysisTables
    from ikeanalyze.keys.key_set import KeySet, Phase1Key
    from ikeanalyze.keys.key_table import CaptureKeys

#: Largest capture, in bytes, that is analysed together with others: larger ones gain nothing.
SMALL_BYTES = 1 << 20
#: A group is full with this number of bytes or of captures. More of either gains little.
_FULL: Final = 16 << 20
_MOST: Final = 256
#: A capture with fewer frames rarely needs all modules.
_MANY_FRAMES: Final = 1000
_DEFAULT: Final = ReadOptions()
#: Fields of CaptureSummary that CaptureFrames has too.
_SUMMARY_FIELDS: Final = tuple(
    field.name for field in fields(CaptureSummary) if field.name not in ("path", "files", "byte_ns")
)


class AnalysedCaptures(Struct, frozen=True):
    """The result of an analysis, as in `Analysis`. Tables are made when they are read."""

    captures: list[CaptureSummary]
    tables: "AnalysisTables"
    warnings: list[AnalysisWarning]
    skipped: list[SkippedFile]
    details: RequestedDetails

    def make_analysis(self) -> Analysis:
        """The result with all tables."""
        return Analysis(
            captures=self.captures,
            frames=self.tables.frames,
            messages=self.tables.messages,
            exchanges=self.tables.exchanges,
            handshakes=self.tables.handshakes,
            warnings=self.warnings,
            skipped=self.skipped,
            cleartexts=self.details.cleartexts,
            payload_sizes=self.details.payload_sizes,
        )


def read_captures(paths: str | Path | Sequence[str | Path], options: ReadOptions = _DEFAULT) -> Analysis:
    """Analyse captures, and make all tables. See `analyse_captures`."""
    return analyse_captures(paths, options).make_analysis()


def analyse_captures(paths: str | Path | Sequence[str | Path], options: ReadOptions = _DEFAULT) -> AnalysedCaptures:
    """Analyse captures: pcap or pcapng, plain, gzip or zstd; "-" is standard input.

    A capture that cannot be read does not raise: `skipped` has it with the reason. Of several captures, it also has
    those that cause an internal error. In all tables the rows of the captures are in the order of `paths`, and the same
    as if each capture were read alone.

    Args:
        paths: one capture or several. Many small ones take a fraction of the time in one call.
        options: how to read them.
    """
    if isinstance(paths, (str, Path)):
        paths = [paths]
    if options.join and len(paths) > 1:
        return _read_joined([str(path) for path in paths], options)
    work = _ReadState(
        options if len(paths) == 1 else replace(options, on_table=None, on_columns=None, on_first_columns=None),
        isolate=len(paths) > 1,
    )
    common = work.read_keys(options.keys)
    for path in map(str, paths):
        own = (options.own_keys or {}).get(path)
        fitting = common if own is None else work.read_keys(own, common)
        capture = work.read_frames(path, fitting)
        if capture is not None and work.add(path, capture, fitting):
            del capture  # frees the memory that the tables do not share
            if len(paths) > 1 or options.on_columns is None:  # otherwise the result is written already
                release_free_memory()
    return work.result()


def _read_joined(paths: Sequence[str], options: ReadOptions) -> AnalysedCaptures:
    work = _ReadState(options, isolate=False)
    keys = work.read_keys(options.keys)
    spis = keys.get_spis() if keys is not None else ()
    try:
        capture, files, unreadable = read_joined_frames(paths, options.ports, options.progress, spis)
    except NoFileError as error:
        work.skipped += [SkippedFile(format_path(path), reason) for path, reason in error.skipped]
        return work.result()
    except CaptureError:
        return analyse_captures(paths, replace(options, join=False))  # for the reason
    work.skipped += [SkippedFile(format_path(path), reason) for path, reason in unreadable]
    files = [format_path(path) for path in files]
    name = files[0] if len(files) == 1 else f"{files[0]} and {len(files) - 1} more"
    work.add(name, capture, keys, tuple(files))
    return work.result()


def read_manifest(
    name: str, files: Sequence[str], options: ReadOptions
) -> tuple[LabManifest | None, list[tuple[int | None, str]]]:
    """The lab's manifest of a capture, and the warning about one next to it that is not used.

    Several joined `files` have none: a manifest is of one capture.
    """
    if not options.lab_manifests or len(files) > 1:
        return None, []
    manifest = read_lab_manifest(name)
    problem = describe_unused_manifest(name) if manifest is None else None
    return manifest, [] if problem is None else [(None, problem)]


class _PendingCapture(Struct):
    """A capture that has not been analysed."""

    path: str
    summary: CaptureSummary
    keys: "CaptureKeys | None"
    manifest: LabManifest | None  # of the lab that recorded it
    warnings: list[tuple[int | None, str]]  # of reading it
    frames: CaptureFrames | None  # None: nothing else will be analysed with it


class _ReadState:
    """The results for the captures so far, and the captures that are still to be analysed."""

    def __init__(self, options: ReadOptions, *, isolate: bool) -> None:
        """`isolate`: a capture that causes an internal error is skipped."""
        self.skipped: list[SkippedFile] = []
        self._options = options
        self._isolate = isolate
        self._summaries: list[CaptureSummary] = []
        self._warnings: list[AnalysisWarning] = []
        self._tables: list[AnalysisTables] = []
        self._reported: set[str] = set()  # key files whose warnings have been entered
        self._details = RequestedDetails()
        self._begin_group()

    def _name(self, path: str) -> str:
        """The name of a file in tables and messages."""
        return self._options.names.get(path) or format_path(path)

    def _begin_group(self) -> None:
        self._group = CombinedFramesBuilder()
        self._bytes = 0  # that are kept of its captures
        self._pending: list[_PendingCapture] = []

    def read_keys(self, files: "KeyFiles", more: "CaptureKeys | None" = None) -> "CaptureKeys | None":
        """The keys in the files and in `more`; None: neither files nor more keys."""
        if isinstance(files, (str, Path)):
            files = [files]
        if not files:
            return more
        from ikeanalyze.keys.detect import KeyFile, KeyFileError, read_keys
        from ikeanalyze.keys.key_table import CaptureKeys, join_key_sets

        sets: list[Sequence[KeySet]] = [more.sets] if more else []
        phase1: list[Phase1Key] = list(more.phase1) if more else []
        for file in files:
            path = file.path if isinstance(file, KeyFile) else str(file)
            reported = path in self._reported
            self._reported.add(path)
            try:
                key_file = file if isinstance(file, KeyFile) else read_keys(path)
            except KeyFileError as error:
                if not reported:
                    self.skipped.append(SkippedFile(self._name(path), str(error).removeprefix(f"{path}: "), keys=True))
                continue
            sets.append(key_file.key_sets)
            phase1.extend(key_file.phase1)
            for warning in [] if reported else key_file.warnings:
                where = "" if warning.line is None else f"line {warning.line}: "
                self._warnings.append(AnalysisWarning(self._name(path), None, f"{where}{warning.message}"))
        return CaptureKeys(join_key_sets(sets), phase1)

    def read_frames(self, path: str, keys: "CaptureKeys | None") -> CaptureFrames | None:
        """The frames of a capture; None if it is skipped."""
        spis = keys.get_spis() if keys is not None else ()
        try:
            make_readings = None if keys or self._options.payloads else _make_init_readings
            return read_frames(
                path,
                self._options.ports,
                self._options.progress,
                partial(_load_steps, self._options, with_keys=bool(keys)),
                spis,
                make_readings=make_readings,
            )
        except CaptureError as error:
            self.skipped.append(SkippedFile(self._name(path), str(error).removeprefix(f"{path}: ")))
        except Exception as error:
            self._skip_after_internal_error(self._name(path), error)
        return None

    def add(self, file: str, capture: CaptureFrames, keys: "CaptureKeys | None", files: tuple[str, ...] = ()) -> bool:
        """Add a capture; returns whether it was analysed at once, and not kept for a group.

        `file`: its path; `files`: those that were joined.
        """
        path = self._name(file)
        size = retained_size(capture)
        small = size <= SMALL_BYTES and self._options.on_contents is None
        manifest, of_manifest = read_manifest(file, files, self._options)
        pending = _PendingCapture(
            path=path,
            summary=_summarize(path, capture, files, manifest),
            keys=keys,
            manifest=manifest,
            warnings=capture.warnings + of_manifest,
            frames=capture if small else None,
        )
        if not small:
            self._analyse_group()
            self._pending.append(pending)
            self._analyse(single_capture(capture))
        else:
            self._pending.append(pending)
            self._group.add(capture)
            self._bytes += size
            if len(self._group) == _MOST or self._bytes >= _FULL:
                self._analyse_group()
        return not small

    def result(self) -> AnalysedCaptures:
        """All of it."""
        self._analyse_group()
        from ikeanalyze.analysis.pipeline import join_tables

        tables = self._tables
        whole = tables[0] if len(tables) == 1 else join_tables(tables)
        return AnalysedCaptures(self._summaries, whole, self._warnings, self.skipped, self._details)

    def _analyse_group(self) -> None:
        if self._pending:
            self._analyse(self._group.build())
            release_free_memory()

    def _analyse(self, traffic: CombinedFrames) -> None:
        """Analyse the pending captures, whose frames are `traffic`: together, or one by one after an internal error."""
        pending = self._pending
        try:
            self._build_tables(traffic)
        except BaseException as error:
            if not _is_internal_error(error):
                raise
            self._begin_group()
            if len(pending) == 1:
                self._skip_after_internal_error(pending[0].path, error)
            for capture in pending if len(pending) > 1 else ():
                if capture.frames is not None:
                    self._pending.append(capture)
                    self._analyse(single_capture(capture.frames))
        self._begin_group()

    def _build_tables(self, traffic: CombinedFrames) -> None:
        from ikeanalyze.analysis.pipeline import CaptureContext, build_tables
        from ikeanalyze.analysis.tables.row_ids import FROM_THE_START, RowNumbering
        from ikeanalyze.analysis.tables.tables import get_next_ids

        first = FROM_THE_START if self._options.ids_per_capture else get_next_ids(self._tables)
        numbering = RowNumbering([capture.path for capture in self._pending], first, self._options.ids_per_capture)
        captures = CaptureContext(
            [capture.keys for capture in self._pending], [capture.manifest for capture in self._pending]
        )
        tables, warnings = build_tables(numbering, traffic, captures, self._options, self._details)
        self._tables.append(tables)
        for capture, more in zip(self._pending, warnings, strict=True):
            self._summaries.append(capture.summary)
            self._warnings.extend(
                AnalysisWarning(capture.path, frame, message) for frame, message in capture.warnings + more
            )

    def _skip_after_internal_error(self, path: str, error: BaseException) -> None:
        """Skip a capture during whose analysis this was raised; raise it again if the capture is the only one.

        An incomplete installation is not a reason to skip a capture.
        """
        if not self._isolate or isinstance(error, ImportError):
            raise error
        if isinstance(error, MemoryError):
            reason = "not enough memory. Split it (editcap -c)"
        else:
            reason = (
                f"internal error: {type(error).__name__}: {error}. This is a bug in ikeanalyze. Please report it with "
                "the output of the same command with --verbose and this capture alone"
            )
        self.skipped.append(SkippedFile(path, reason, internal_error=True))


def _is_internal_error(error: BaseException) -> bool:
    """Whether this is an exception, or a panic of polars, which is no `Exception`."""
    if isinstance(error, Exception):
        return True
    polars = sys.modules.get("polars")  # if it has not been loaded, it did not raise this
    return polars is not None and isinstance(error, polars.exceptions.PanicException)


def _make_init_readings() -> "InitReadings":
    """For the contents of IKE_SA_INIT messages, whose bytes are needed later only if payloads are decoded."""
    from ikeanalyze.analysis.exchanges.init_messages import InitReadings

    return InitReadings()


def _load_steps(options: ReadOptions, count_frames: Callable[[], int], *, with_keys: bool) -> None:
    """Load what the analysis of a large capture needs, while the capture is read.

    `count_frames` returns the number of frames so far.
    """
    with _defer_interrupt():
        import ikeanalyze.analysis.pipeline

        if with_keys:
            import ikeanalyze.analysis.decryption.decrypt
            import ikeanalyze.analysis.handshakes.contents.handshake_contents
            import ikeanalyze.analysis.tables.content_columns
        if count_frames() < _MANY_FRAMES:
            return
        # few large captures have no handshake to diagnose
        import ikeanalyze.analysis.handshakes.diagnosis.diagnose
        import ikeanalyze.analysis.handshakes.diagnosis.suspects  # noqa: F401

        if not _works_without_polars(options):
            _load_polars()


@contextmanager
def _defer_interrupt() -> Iterator[None]:
    """Raise `KeyboardInterrupt` at the end if Ctrl-C is pressed meanwhile.

    The thread that reads the capture imports a module too. If the main thread were interrupted within an import, it
    could keep a lock of the import system, and the other thread would wait for it for ever.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    interrupts: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: interrupts.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if interrupts:
        raise KeyboardInterrupt


def _works_without_polars(options: ReadOptions) -> bool:
    """Whether the caller takes the columns of the tables, which the core writes."""
    return core.compiled is not None and options.on_columns is not None


def _load_polars() -> None:
    # polars loads numpy.ma for the first large array
    import numpy.ma  # noqa: F401

    import ikeanalyze.analysis.tables.polars_columns  # noqa: F401


def _summarize(
    path: str, capture: CaptureFrames, files: tuple[str, ...], manifest: LabManifest | None
) -> CaptureSummary:
    byte_ns = (0.0, 0.0) if manifest is None else manifest.byte_ns
    values = {name: getattr(capture, name) for name in _SUMMARY_FIELDS}
    return CaptureSummary(path, **values, files=files, byte_ns=byte_ns)
