"""Captures to an analysis: the way from files to the four tables.

Only what reads files is loaded at once: the second half of a large capture is read by another process, and
loading the rest takes
a fifth of a second, in which that can go on. And polars starts threads, after which no process can safely be
forked.
"""

from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ikeanalyze.analysis.result import Analysis, CaptureSummary, Skipped, Warning  # noqa: A004 - the word of the report's schema
from ikeanalyze.capture.frames import CaptureFrames, read_frames
from ikeanalyze.capture.memory import give_back_memory
from ikeanalyze.capture.records import CaptureError

if TYPE_CHECKING:
    from ikeanalyze.analysis.cleartexts import Cleartext
    from ikeanalyze.analysis.opening import Keys
    from ikeanalyze.analysis.steps import Finished, Looked
    from ikeanalyze.analysis.tables import Tables
    from ikeanalyze.keys.files import KeyFile
    from ikeanalyze.keys.keyset import KeySet, Phase1Key

Progress = Callable[[int, int | None], None]
Vantage = Literal["initiator", "responder"]


def read(
    paths: str | Path | Sequence[str | Path],
    *,
    ports: Sequence[int] = (),
    vantage: Vantage | None = None,
    rtt_ms: float | None = None,
    keys: "str | Path | Sequence[str | Path | KeyFile]" = (),
    payloads: bool = False,
    cleartext: bool = False,
    progress: Progress | None = None,
    finished: "Finished | None" = None,
    looked: "Looked | None" = None,
) -> Analysis:
    """Analyse captures: pcap or pcapng, plain, gzip or zstd; "-" is standard input.

    A capture of which nothing can be read does not raise: it is in `skipped`, with the reason.

    Args:
        paths: one capture or several; ids in the tables count through all of them.
        ports: UDP and TCP ports that carry IKE besides 500 and 4500.
        vantage: the side that the captures were taken on, where the TTLs do not tell.
        rtt_ms: round-trip time of the path, to be used in place of the shortest one seen.
        keys: files with keys, of any kind that `keys.files` reads, or what was read of them; what they fit is
            decrypted.
        payloads: name the payloads of clear messages too, whether there are keys or not.
        cleartext: keep what was decrypted: `Analysis.cleartexts` has it by the ids of its messages.
        progress: called with the bytes read of a file and its size (None: not known).
        finished: called with the name of a table and the table when it is complete, from any thread and before the
            rest is; with several captures, each has tables of its own, so it is not called.
        looked: called for each capture of which messages were looked into, with all that `steps` knows of them.
    """
    if isinstance(paths, (str, Path)):
        paths = [paths]
    summaries: list[CaptureSummary] = []
    tables: list[Tables] = []
    warnings: list[Warning] = []
    skipped: list[Skipped] = []
    cleartexts: dict[int, Cleartext] = {}
    if isinstance(keys, (str, Path)):
        keys = [keys]
    loaded, spis = _load_keys(keys, warnings, skipped)
    early = finished if len(paths) == 1 else None
    for path in map(str, paths):
        try:
            capture = read_frames(path, ports, progress, _load_steps, spis)
        except CaptureError as error:
            skipped.append(Skipped(path, str(error).removeprefix(f"{path}: ")))
            continue
        from ikeanalyze.analysis.steps import analyse

        path_rtt_ns = None if rtt_ms is None else round(rtt_ms * 1e6)
        found, more = analyse(
            path, capture, vantage, path_rtt_ns, tables, loaded, early,
            payloads=payloads, cleartexts=cleartexts if cleartext else None, looked=looked,
        )  # fmt: skip
        summaries.append(_summary(path, capture))
        warnings.extend(Warning(path, frame, what) for frame, what in capture.warnings + more)
        tables.append(found)
        del capture  # what the tables do not share of it is free now
        give_back_memory()
    from ikeanalyze.analysis.steps import join_tables

    whole = tables[0] if len(tables) == 1 else join_tables(tables)
    return Analysis(
        summaries,
        whole.frames,
        whole.messages,
        whole.exchanges,
        whole.handshakes,
        warnings,
        skipped,
        cleartexts,
    )


def _load_keys(
    files: "Sequence[str | Path | KeyFile]", warnings: list[Warning], skipped: list[Skipped]
) -> "tuple[Keys | None, Collection[int] | None]":
    """What is in key files, and the SPIs of the IKE SAs whose encrypted messages are wanted (None: of all)."""
    if not files:
        return None, ()
    from ikeanalyze.analysis.opening import Keys
    from ikeanalyze.keys.files import KeyFile, KeyFileError, read_keys

    sets: list[KeySet] = []
    phase1: list[Phase1Key] = []
    for file in files:
        path = file.path if isinstance(file, KeyFile) else str(file)
        try:
            found = file if isinstance(file, KeyFile) else read_keys(path)
        except KeyFileError as error:
            skipped.append(Skipped(path, str(error).removeprefix(f"{path}: ")))
            continue
        sets.extend(found.key_sets)
        phase1.extend(found.phase1)
        for one in found.warnings:
            where = "" if one.line is None else f"line {one.line}: "
            warnings.append(Warning(path, None, f"{where}{one.what}"))
    loaded = Keys(sets, phase1)
    return loaded, loaded.spis()


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
