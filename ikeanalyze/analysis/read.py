"""Read captures and analyse them: from files to the four tables.

Modules other than those that read files are imported late. Another process reads the second half of a large capture,
and loading the other modules takes a fifth of a second, in which it can continue. Also, polars starts threads, after
which a process cannot safely fork.

A step of the analysis costs about the same for ten frames as for ten thousand. So small captures are analysed
together, in groups that take little memory.
"""

from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ikeanalyze.analysis.options import ReadOptions
from ikeanalyze.analysis.result import Analysis, AnalysisWarning, CaptureSummary, SkippedFile, format_path
from ikeanalyze.capture.buffers import release_free_memory
from ikeanalyze.capture.formats.records import CaptureError
from ikeanalyze.capture.frames import CaptureFrames, read_frames
from ikeanalyze.capture.traffic import CombinedFrames, CombinedFramesBuilder, retained_size, single_capture
from ikeanalyze.io.lab_manifest import LabManifest, read_lab_manifest

if TYPE_CHECKING:
    from ikeanalyze.analysis.decryption.decrypt import CaptureKeys
    from ikeanalyze.analysis.decryption.export import Cleartext
    from ikeanalyze.analysis.options import KeyFiles
    from ikeanalyze.analysis.tables.tables import AnalysisTables
    from ikeanalyze.keys.key_set import KeySet, Phase1Key

#: Largest capture, in bytes, that is analysed together with others: larger ones gain nothing.
_SMALL: Final = 1 << 20
#: A group is full with so many bytes, or so many captures. More of either gains little.
_FULL: Final = 16 << 20
_MOST: Final = 256
_DEFAULT: Final = ReadOptions()


def read_captures(paths: str | Path | Sequence[str | Path], options: ReadOptions = _DEFAULT) -> Analysis:
    """Analyse captures: pcap or pcapng, plain, gzip or zstd; "-" is standard input.

    A capture that cannot be read does not raise: `skipped` has it with the reason. In all tables the rows of the
    captures are in the order of `paths`, and the same as if each capture were read alone.

    Args:
        paths: one capture or several. Many small ones take a fraction of the time in one call.
        options: how to read them.
    """
    if isinstance(paths, (str, Path)):
        paths = [paths]
    work = _ReadState(options if len(paths) == 1 else replace(options, on_table=None))
    common = work.read_keys(options.keys)
    for path in map(str, paths):
        own = (options.own_keys or {}).get(path)
        fitting = common if own is None else work.read_keys(own, common)
        spis = fitting.get_spis() if fitting is not None else ()
        try:
            capture = read_frames(path, options.ports, options.progress, _load_steps, spis)
        except CaptureError as error:
            work.skipped.append(SkippedFile(format_path(path), str(error).removeprefix(f"{path}: ")))
            continue
        if work.add(path, capture, fitting):
            del capture  # frees the memory that the tables do not share
            release_free_memory()
    return work.result()


class _ReadState:
    """The results for the captures so far, and the captures that are still to be analysed."""

    def __init__(self, options: ReadOptions) -> None:
        self.skipped: list[SkippedFile] = []
        self._options = options
        self._summaries: list[CaptureSummary] = []
        self._warnings: list[AnalysisWarning] = []
        self._tables: list[AnalysisTables] = []
        self._reported: set[str] = set()  # key files whose warnings were added
        self._cleartexts: dict[int, Cleartext] = {}
        self._begin_group()

    def _begin_group(self) -> None:
        self._group = CombinedFramesBuilder()
        self._bytes = 0  # retained of its captures
        self._paths: list[str] = []
        self._manifests: list[LabManifest | None] = []
        self._keys: list[CaptureKeys | None] = []
        self._capture_warnings: list[list[tuple[int | None, str]]] = []

    def read_keys(self, files: "KeyFiles", more: "CaptureKeys | None" = None) -> "CaptureKeys | None":
        """The keys in the files and in `more`; None: neither files nor more keys."""
        if isinstance(files, (str, Path)):
            files = [files]
        if not files:
            return more
        from ikeanalyze.analysis.decryption.decrypt import CaptureKeys
        from ikeanalyze.keys.detect import KeyFile, KeyFileError, read_keys

        sets: list[KeySet] = list(more.sets) if more else []
        phase1: list[Phase1Key] = list(more.phase1) if more else []
        for file in files:
            path = file.path if isinstance(file, KeyFile) else str(file)
            reported = path in self._reported
            self._reported.add(path)
            try:
                key_file = file if isinstance(file, KeyFile) else read_keys(path)
            except KeyFileError as error:
                if not reported:
                    self.skipped.append(SkippedFile(format_path(path), str(error).removeprefix(f"{path}: "), keys=True))
                continue
            sets.extend(key_file.key_sets)
            phase1.extend(key_file.phase1)
            for warning in [] if reported else key_file.warnings:
                where = "" if warning.line is None else f"line {warning.line}: "
                self._warnings.append(AnalysisWarning(format_path(path), None, f"{where}{warning.message}"))
        return CaptureKeys(sets, phase1)

    def add(self, file: str, capture: CaptureFrames, keys: "CaptureKeys | None") -> bool:
        """Add the capture at `file`; returns whether it was analysed at once, and not kept for a group."""
        path = format_path(file)
        common = (field.name for field in fields(CaptureSummary) if field.name != "path")
        self._summaries.append(CaptureSummary(path, **{name: getattr(capture, name) for name in common}))
        size = retained_size(capture)
        small = size <= _SMALL and self._options.on_contents is None
        if not small:
            self._analyse_group()
        self._paths.append(path)
        self._manifests.append(read_lab_manifest(file) if self._options.lab_manifests else None)
        self._keys.append(keys)
        self._capture_warnings.append(capture.warnings)
        if not small:
            self._analyse(single_capture(capture))
        else:
            self._group.add(capture)
            self._bytes += size
            if len(self._group) == _MOST or self._bytes >= _FULL:
                self._analyse_group()
        return not small

    def result(self) -> Analysis:
        """The analysis of all captures."""
        self._analyse_group()
        from ikeanalyze.analysis.pipeline import join_tables

        tables = self._tables
        whole = tables[0] if len(tables) == 1 else join_tables(tables)
        return Analysis(
            captures=self._summaries,
            frames=whole.frames,
            messages=whole.messages,
            exchanges=whole.exchanges,
            handshakes=whole.handshakes,
            warnings=self._warnings,
            skipped=self.skipped,
            cleartexts=self._cleartexts,
        )

    def _analyse_group(self) -> None:
        if self._paths:
            self._analyse(self._group.build())
            release_free_memory()

    def _analyse(self, traffic: CombinedFrames) -> None:
        from ikeanalyze.analysis.pipeline import CaptureContext, build_tables
        from ikeanalyze.analysis.tables.row_ids import FROM_THE_START, RowNumbering
        from ikeanalyze.analysis.tables.tables import get_next_ids

        first = FROM_THE_START if self._options.ids_per_capture else get_next_ids(self._tables)
        numbering = RowNumbering(self._paths, first, self._options.ids_per_capture)
        captures = CaptureContext(self._keys, self._manifests)
        tables, warnings = build_tables(numbering, traffic, captures, self._options, self._cleartexts)
        self._tables.append(tables)
        for path, before, more in zip(self._paths, self._capture_warnings, warnings, strict=True):
            self._warnings.extend(AnalysisWarning(path, frame, message) for frame, message in before + more)
        self._begin_group()


def _load_steps() -> None:
    import ikeanalyze.analysis.pipeline  # noqa: F401
