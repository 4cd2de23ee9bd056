"""Captures to an analysis: the way from files to the four tables.

Only what reads files is loaded at once: the second half of a large capture is read by another process, and
loading the rest takes
a fifth of a second, in which that can go on. And polars starts threads, after which no process can safely be
forked.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ikeanalyze.analysis.result import Analysis, CaptureSummary, Skipped, Warning  # noqa: A004 - the word of the report's schema
from ikeanalyze.capture.frames import CaptureFrames, read_frames
from ikeanalyze.capture.memory import give_back_memory
from ikeanalyze.capture.records import CaptureError

if TYPE_CHECKING:
    from ikeanalyze.analysis.steps import Finished
    from ikeanalyze.analysis.tables import Tables

Progress = Callable[[int, int | None], None]
Vantage = Literal["initiator", "responder"]


def read(
    paths: str | Path | Sequence[str | Path],
    *,
    ports: Sequence[int] = (),
    vantage: Vantage | None = None,
    rtt_ms: float | None = None,
    progress: Progress | None = None,
    finished: "Finished | None" = None,
) -> Analysis:
    """Analyse captures: pcap or pcapng, plain, gzip or zstd; "-" is standard input.

    A capture of which nothing can be read does not raise: it is in `skipped`, with the reason.

    Args:
        paths: one capture or several; ids in the tables count through all of them.
        ports: UDP and TCP ports that carry IKE besides 500 and 4500.
        vantage: the side that the captures were taken on, where the TTLs do not tell.
        rtt_ms: round-trip time of the path, to be used in place of the shortest one seen.
        progress: called with the bytes read of a file and its size (None: not known).
        finished: called with the name of a table and the table when it is complete, from any thread and before the
            rest is; with several captures, each has tables of its own, so it is not called.
    """
    if isinstance(paths, (str, Path)):
        paths = [paths]
    summaries: list[CaptureSummary] = []
    tables: list[Tables] = []
    warnings: list[Warning] = []
    skipped: list[Skipped] = []
    early = finished if len(paths) == 1 else None
    for path in map(str, paths):
        try:
            capture = read_frames(path, ports, progress, _load_steps)
        except CaptureError as error:
            skipped.append(Skipped(path, str(error).removeprefix(f"{path}: ")))
            continue
        from ikeanalyze.analysis.steps import analyse

        found, more = analyse(
            path, capture, vantage, None if rtt_ms is None else round(rtt_ms * 1e6), tables, early
        )
        summaries.append(_summary(path, capture))
        warnings.extend(Warning(path, frame, what) for frame, what in capture.warnings + more)
        tables.append(found)
        del capture  # what the tables do not share of it is free now
        give_back_memory()
    from ikeanalyze.analysis.steps import join_tables

    whole = tables[0] if len(tables) == 1 else join_tables(tables)
    return Analysis(
        summaries, whole.frames, whole.messages, whole.exchanges, whole.handshakes, warnings, skipped
    )


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
