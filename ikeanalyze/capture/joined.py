"""Several files of one recording as one capture: those of a ring buffer (`dumpcap -b`, `tcpdump -C` or `-G`)."""

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Final, Self

import numpy as np
from msgspec.structs import astuple, replace

from ikeanalyze.capture.formats.records import (
    CaptureDamage,
    CaptureError,
    CaptureNote,
    Interface,
    NoFileError,
    RecordBatch,
)
from ikeanalyze.capture.reader import CaptureReader, open_capture


class JoinedReader:
    """Reads the packets of several files one after the other; a context manager that closes the files.

    Packets are numbered through all files, as `mergecap -a` writes them. Equal interfaces of different files are one.
    """

    def __init__(self, readers: Sequence[tuple[str, CaptureReader]]) -> None:
        """`readers`: path and reader of each file, in the order of their packets."""
        self._readers: Final = readers
        self._files = ExitStack()
        for _, reader in readers:
            self._files.enter_context(reader)
        self.interfaces: Final[list[Interface]] = []  #: of all files; those of a file are added while it is read
        self.damages: Final[
            list[tuple[str, CaptureDamage]]
        ] = []  #: with the path of the file; reading goes on with the next
        self.notes: Final[list[CaptureNote]] = []
        self._index: dict[tuple[object, ...], int] = {}  # of an interface in `interfaces`, by its fields and occurrence

    @property
    def paths(self) -> list[str]:
        """The paths of the files, in the order of their packets."""
        return [path for path, _ in self._readers]

    @property
    def format(self) -> str:
        """The file format, if it is that of all files; otherwise all formats with a plus sign between them."""
        return "+".join(sorted({reader.format for _, reader in self._readers}))

    @property
    def size(self) -> int | None:
        """Bytes of all files as stored; None: unknown."""
        sizes = [reader.source.size for _, reader in self._readers]
        return None if None in sizes else sum(size or 0 for size in sizes)

    @property
    def consumed(self) -> int:
        """Bytes of all files that have been read."""
        return sum(reader.source.consumed for _, reader in self._readers)

    def iterate_batches(self) -> Iterator[RecordBatch]:
        """The packets of all files, in batches that are not empty; each is valid until the next is read."""
        packets = 0
        for path, reader in self._readers:
            before = packets
            for batch in reader.iterate_batches():
                packets += len(batch)
                index = np.array(self._add_interfaces(reader.interfaces), np.uint32)
                yield replace(batch, interface=index[batch.interface])
            if reader.damage is not None:
                self.damages.append((path, reader.damage))
            self.notes.extend(replace(note, first=note.first + before) for note in reader.notes)

    def _add_interfaces(self, interfaces: Sequence[Interface]) -> list[int]:
        """Return the index of each of a file's interfaces in `interfaces`."""
        result: list[int] = []
        seen: dict[tuple[object, ...], int] = {}
        for interface in interfaces:
            fields = astuple(interface)
            occurrence = seen[fields] = seen.get(fields, -1) + 1
            if (key := (*fields, occurrence)) not in self._index:
                self._index[key] = len(self.interfaces)
                self.interfaces.append(interface)
            result.append(self._index[key])
        return result

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._files.__exit__(kind, error, trace)


def open_joined(paths: Sequence[str]) -> tuple[JoinedReader, list[tuple[str, str]]]:
    """Open files of one recording in the order of their first packets.

    Returns the reader, and path and reason of each file that cannot be read.

    Raises:
        NoFileError: no file can be read; pipes, which cannot be read twice, are such files.
        CaptureError: one of several is standard input.
    """
    if "-" in paths and len(paths) > 1:
        raise CaptureError("standard input cannot be joined with files: name files only")
    opened: list[tuple[int, str, CaptureReader]] = []
    skipped: list[tuple[str, str]] = []
    for path in paths:
        try:
            if len(paths) > 1 and _is_pipe_or_device(path):
                raise CaptureError(
                    f"{path}: not a file, and cannot be read twice, as --join does; write it to a file first"
                )
            first_ns = _read_first_time(path) if len(paths) > 1 else 0
            opened.append((first_ns, path, open_capture(path)))
        except CaptureError as error:
            skipped.append((path, str(error).removeprefix(f"{path}: ")))
    if not opened:
        raise NoFileError(skipped)
    opened.sort(key=lambda file: file[0])
    return JoinedReader([(path, reader) for _, path, reader in opened]), skipped


def _is_pipe_or_device(path: str) -> bool:
    return os.path.exists(path) and not (os.path.isfile(path) or os.path.isdir(path))


def _read_first_time(path: str) -> int:
    """The time of a file's first packet in nanoseconds; 0 without packets."""
    with open_capture(path, chunk=1 << 16) as reader:
        batch = next(reader.iterate_batches(), None)
        return 0 if batch is None else int(batch.time_ns.min())
