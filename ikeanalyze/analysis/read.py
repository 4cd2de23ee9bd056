"""Captures to an analysis: the way from files to the four tables.

Only what reads files is loaded at once: the second half of a large capture is read by another process, and loading the
rest takes a fifth of a second, in which that can go on. And polars starts threads, after which no process can safely
be forked.

A step of the analysis costs about the same for ten frames as for ten thousand. So small captures are analysed
together, in groups that take little memory.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from ikeanalyze.analysis.result import Analysis, CaptureSummary, Skipped, Warning  # noqa: A004 - the word of the report's schema
from ikeanalyze.capture.frames import CaptureFrames, read_frames
from ikeanalyze.capture.memory import give_back_memory
from ikeanalyze.capture.records import CaptureError
from ikeanalyze.capture.traffic import Group, Traffic, alone, kept_bytes

if TYPE_CHECKING:
    from ikeanalyze.analysis.cleartexts import Cleartext
    from ikeanalyze.analysis.opening import Keys
    from ikeanalyze.analysis.steps import Finished, Looked
    from ikeanalyze.analysis.tables import Tables
    from ikeanalyze.keys.files import KeyFile
    from ikeanalyze.keys.keyset import KeySet, Phase1Key

    KeyFiles = str | Path | Sequence[str | Path | KeyFile]

Progress = Callable[[int, int | None], None]
Vantage = Literal["initiator", "responder"]

#: What is kept of a capture that is small, in bytes: more takes so long that it may as well be alone.
_SMALL: Final = 1 << 20
#: A group is full with so many bytes, or so many captures. More of either gains little.
_FULL: Final = 16 << 20
_MOST: Final = 256


def read(
    paths: str | Path | Sequence[str | Path],
    *,
    ports: Sequence[int] = (),
    vantage: Vantage | None = None,
    rtt_ms: float | None = None,
    keys: "KeyFiles" = (),
    own_keys: "Mapping[str, KeyFiles] | None" = None,
    own_ids: bool = False,
    payloads: bool = False,
    cleartext: bool = False,
    progress: Progress | None = None,
    finished: "Finished | None" = None,
    looked: "Looked | None" = None,
) -> Analysis:
    """Analyse captures: pcap or pcapng, plain, gzip or zstd; "-" is standard input.

    A capture of which nothing can be read does not raise: it is in `skipped`, with the reason. In all tables the rows of one
    capture stand behind those of another, in the order of `paths`, and say what they would if it were read alone.

    Args:
        paths: one capture or several. Many small ones take a fraction of the time in one call.
        ports: UDP and TCP ports that carry IKE besides 500 and 4500.
        vantage: the side that the captures were taken on, where the TTLs do not tell.
        rtt_ms: round-trip time of the path, to be used in place of the shortest one seen.
        keys: files with keys, of any kind that `keys.files` reads, or what was read of them; what they fit is
            decrypted.
        own_keys: by path, as it is in `paths`: more of the same, for that capture alone.
        own_ids: ids in the tables begin anew in each capture; else they count through all of them.
        payloads: name the payloads of clear messages too, whether there are keys or not.
        cleartext: keep what was decrypted: `Analysis.cleartexts` has it by the ids of its messages. Not with `own_ids`.
        progress: called with the bytes read of a file and its size (None: not known).
        finished: called with the name of a table and the table when it is complete, from any thread and before the
            rest is; with several captures, each has tables of its own, so it is not called.
        looked: called for each capture of which messages were looked into, with all that `steps` knows of them.

    Raises:
        ValueError: `cleartext` and `own_ids`: what was decrypted is told by ids that are of one message each.
    """
    if cleartext and own_ids:
        raise ValueError("cleartext needs ids that count through all captures, own_ids asks for others")
    if isinstance(paths, (str, Path)):
        paths = [paths]
    found = _Work(
        vantage,
        None if rtt_ms is None else round(rtt_ms * 1e6),
        own_ids=own_ids,
        payloads=payloads,
        cleartext=cleartext,
        finished=finished if len(paths) == 1 else None,
        looked=looked,
    )
    common = found.read_keys(keys)
    for path in map(str, paths):
        own = (own_keys or {}).get(path)
        fitting = common if own is None else found.read_keys(own, common)
        spis = fitting.spis() if fitting is not None else ()
        try:
            capture = read_frames(path, ports, progress, _load_steps, spis)
        except CaptureError as error:
            found.skipped.append(Skipped(_text(path), str(error).removeprefix(f"{path}: ")))
            continue
        if found.add(_text(path), capture, fitting):
            del capture  # what the tables do not share of it is free now
            give_back_memory()
    return found.result()


class _Work:
    """What was found in the captures so far, and those that are still to be analysed."""

    def __init__(
        self,
        vantage: Vantage | None,
        rtt_ns: int | None,
        *,
        own_ids: bool,
        payloads: bool,
        cleartext: bool,
        finished: "Finished | None",
        looked: "Looked | None",
    ) -> None:
        self.skipped: list[Skipped] = []
        self._summaries: list[CaptureSummary] = []
        self._warnings: list[Warning] = []
        self._tables: list[Tables] = []
        self._told_of: set[str] = set()  # files with keys: what is to be said of one is said once
        self._cleartexts: dict[int, Cleartext] = {}
        self._vantage, self._rtt_ns, self._own_ids = vantage, rtt_ns, own_ids
        self._payloads, self._cleartext = payloads, cleartext
        self._finished, self._looked = finished, looked
        self._begin_group()

    def _begin_group(self) -> None:
        self._group = Group()
        self._bytes = 0  # that are kept of its captures
        self._paths: list[str] = []
        self._keys: list[Keys | None] = []
        self._told: list[list[tuple[int | None, str]]] = []

    def read_keys(self, files: "KeyFiles", more: "Keys | None" = None) -> "Keys | None":
        """What is in files with keys, and `more`. None: there are no files, and no more."""
        if isinstance(files, (str, Path)):
            files = [files]
        if not files:
            return more
        from ikeanalyze.analysis.opening import Keys
        from ikeanalyze.keys.files import KeyFile, KeyFileError, read_keys

        sets: list[KeySet] = list(more.sets) if more else []
        phase1: list[Phase1Key] = list(more.phase1) if more else []
        for file in files:
            path = file.path if isinstance(file, KeyFile) else str(file)
            told = path in self._told_of
            self._told_of.add(path)
            try:
                found = file if isinstance(file, KeyFile) else read_keys(path)
            except KeyFileError as error:
                if not told:
                    what = str(error).removeprefix(f"{path}: ")
                    self.skipped.append(Skipped(_text(path), what, keys=True))
                continue
            sets.extend(found.key_sets)
            phase1.extend(found.phase1)
            for one in [] if told else found.warnings:
                where = "" if one.line is None else f"line {one.line}: "
                self._warnings.append(Warning(_text(path), None, f"{where}{one.what}"))
        return Keys(sets, phase1)

    def add(self, path: str, capture: CaptureFrames, keys: "Keys | None") -> bool:
        """Take a capture; whether it has been analysed, and not put aside for a group."""
        self._summaries.append(_summary(path, capture))
        size = kept_bytes(capture)
        small = size <= _SMALL and self._looked is None
        if not small:
            self._analyse_group()
        self._paths.append(path)
        self._keys.append(keys)
        self._told.append(capture.warnings)
        if not small:
            self._analyse(alone(capture))
        else:
            self._group.add(capture)
            self._bytes += size
            if len(self._group) == _MOST or self._bytes >= _FULL:
                self._analyse_group()
        return not small

    def result(self) -> Analysis:
        """All of it."""
        self._analyse_group()
        from ikeanalyze.analysis.steps import join_tables

        tables = self._tables
        whole = tables[0] if len(tables) == 1 else join_tables(tables)
        return Analysis(
            self._summaries,
            whole.frames,
            whole.messages,
            whole.exchanges,
            whole.handshakes,
            self._warnings,
            self.skipped,
            self._cleartexts,
        )

    def _analyse_group(self) -> None:
        if self._paths:
            self._analyse(self._group.traffic())
            give_back_memory()

    def _analyse(self, traffic: Traffic) -> None:
        from ikeanalyze.analysis.ids import FROM_THE_START, Numbering
        from ikeanalyze.analysis.steps import analyse
        from ikeanalyze.analysis.tables import ids_after

        first = FROM_THE_START if self._own_ids else ids_after(self._tables)
        tables, warnings = analyse(
            Numbering(self._paths, first, self._own_ids),
            traffic,
            self._vantage,
            self._rtt_ns,
            self._keys,
            self._finished,
            payloads=self._payloads,
            cleartexts=self._cleartexts if self._cleartext else None,
            looked=self._looked,
        )
        self._tables.append(tables)
        for path, before, more in zip(self._paths, self._told, warnings, strict=True):
            self._warnings.extend(Warning(path, frame, what) for frame, what in before + more)
        self._begin_group()


def _text(path: str) -> str:
    """A path as text: bytes of it that are no UTF-8 are written out, as no table and no document can have them."""
    return os.fsencode(path).decode(errors="backslashreplace")


def _load_steps() -> None:
    import ikeanalyze.analysis.steps  # noqa: F401


def _summary(path: str, capture: CaptureFrames) -> CaptureSummary:
    return CaptureSummary(
        path=path,
        format=capture.format,
        packets=capture.packets,
        bytes=capture.bytes,
        first_ns=capture.first_ns,
        last_ns=capture.last_ns,
        snaplen_truncated=capture.snaplen_truncated,
        damaged=capture.damaged,
        accounting=capture.accounting,
        accounting_bytes=capture.accounting_bytes,
    )
