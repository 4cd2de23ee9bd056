"""Byte sources of captures: a file, a pipe or standard input, plain or compressed."""

import io
import os
import select
import stat
import sys
from typing import BinaryIO, Final, cast

from ikeanalyze.capture.formats.records import CaptureError
from ikeanalyze.io.decompress import DamagedStreamError, Decoder, DecompressedStream, decoder_for


class CaptureSource:
    """The bytes of a capture, decompressed if necessary."""

    def __init__(self, name: str, raw: io.RawIOBase | io.BufferedIOBase, size: int | None, head: bytes) -> None:
        self.name: Final = name  #: the path; "standard input" for "-"
        self.size: Final = size  #: bytes of the underlying file, None if unknown (pipes)
        self.compression: str | None = None  #: "gzip", "zstd" or None
        self.consumed = len(head)  #: bytes of the underlying file read so far, for progress against `size`
        self.position = 0  #: bytes delivered so far, after decompression
        self.damage: str | None = None  #: why the stream ended early, one clause; None: it did not
        self._raw = raw
        self._head = head
        self._ahead = b""

    def read_into(self, target: memoryview) -> int:
        """Fill the start of `target`; the number of bytes, which may be less than its size, and is 0 only at the end.

        If reading fails, the stream ends and `damage` is set.
        """
        if count := min(len(self._ahead), len(target)):
            target[:count] = self._ahead[:count]
            self._ahead = self._ahead[count:]
        else:
            count = self._read(target)
        self.position += count
        return count

    def read_ahead(self, size: int) -> bytes:
        """The next `size` bytes, or all that are left, which are still to be read."""
        buffer, end = bytearray(size), 0
        with memoryview(buffer) as target:
            while end < size and (count := self._read(target[end:])):
                end += count
        self._ahead = bytes(buffer[:end])
        return self._ahead

    def _read(self, target: memoryview) -> int:
        count = min(len(self._head), len(target))
        target[:count] = self._head[:count]
        self._head = self._head[count:]
        if count < len(target):
            count += self._read_raw(target[count:])
        return count

    def reopen(self, offset: int) -> "CaptureSource":
        """The same uncompressed file from this offset on.

        Raises:
            OSError: the file was removed or replaced.
        """
        raw = open(self.name, "rb", buffering=0)  # noqa: SIM115
        if not os.path.samestat(os.fstat(raw.fileno()), os.fstat(self._raw.fileno())):
            raw.close()
            raise FileNotFoundError(self.name)
        raw.seek(offset)
        other = CaptureSource(self.name, raw, self.size, b"")
        other.consumed = other.position = offset
        return other

    def seek(self, offset: int) -> None:
        """Continue an uncompressed file at this offset."""
        self._raw.seek(offset)
        self._head = self._ahead = b""
        self.consumed = self.position = offset

    def identify(self) -> tuple[int, int]:
        """Device and inode of the file: another file may have its name by now."""
        status = os.fstat(self._raw.fileno())
        return status.st_dev, status.st_ino

    @property
    def descriptor(self) -> int:
        """The file descriptor."""
        return self._raw.fileno()

    def peek(self, offset: int, size: int) -> bytes:
        """Bytes at an offset of an uncompressed file, without changing the position."""
        return os.pread(self._raw.fileno(), size, offset)

    def refuse_as_output(self, out: str | BinaryIO) -> None:
        """Check that an output is not the file that is read: a path, "-" for standard output, or a stream.

        Raises:
            CaptureError: it is.
        """
        try:
            if isinstance(out, str) and out != "-":
                theirs = os.stat(out)
            else:
                theirs = os.fstat((sys.stdout if isinstance(out, str) else out).fileno())
            ours = os.fstat(self._raw.fileno())
        except (AttributeError, OSError, ValueError):  # no such file yet, or a stream that is not one of the system's
            return
        if stat.S_ISREG(ours.st_mode) and os.path.samestat(ours, theirs):
            raise CaptureError(f"{self.name}: is also the output. Name another file")

    def close(self) -> None:
        """Close the underlying file, unless it is standard input."""
        if self._raw is not _get_standard_input():
            self._raw.close()

    def _read_raw(self, target: memoryview) -> int:
        try:
            while (count := self._raw.readinto(target)) is None:  # a non-blocking pipe
                select.select([self._raw], [], [])
        except OSError as error:
            self.damage = f"reading failed ({error.strerror or error})"
            return 0
        self.consumed += count
        return count


class _Compressed(CaptureSource):
    def __init__(self, plain: CaptureSource, decoder: Decoder) -> None:
        super().__init__(plain.name, plain._raw, plain.size, plain._head)
        self.compression = decoder.name
        self._stream = DecompressedStream(decoder, self._read_raw, plain._head)
        self._ended = False

    def _read(self, target: memoryview) -> int:
        if self._ended:
            return 0
        count = 0
        try:
            count = self._stream.readinto(target)
        except EOFError:
            self.damage = self.damage or f"the {self.compression} data ends too early"
        except DamagedStreamError as error:
            self.damage = f"the {self.compression} data is damaged ({error})"
        self._ended = not count
        return count


def open_source(path: str | os.PathLike[str]) -> CaptureSource:
    """Open a capture for reading, once and forward; "-" is standard input.

    gzip (RFC 1952) and zstd (RFC 8878) are recognized by their first bytes, not by the file's name.

    Raises:
        CaptureError: the file does not exist, is a directory, cannot be read, or is empty.
    """
    path = os.fspath(path)
    name = "standard input" if path == "-" else path or '""'
    try:
        raw = _get_standard_input() if path == "-" else open(path, "rb", buffering=0)  # noqa: SIM115
    except FileNotFoundError:
        raise CaptureError(f"{name}: no such file") from None
    except IsADirectoryError:
        raise CaptureError(f"{name}: is a directory; name the captures in it") from None
    except PermissionError:
        raise CaptureError(f"{name}: permission denied; read it as a user who may") from None
    except (OSError, ValueError) as error:
        raise CaptureError(f"{name}: cannot be opened ({_get_reason(error)})") from None
    if raw is None:
        raise CaptureError(f"{name}: is closed; name a file instead")
    try:
        source = CaptureSource(name, raw, _get_size(raw), _read_head(raw))
    except OSError as error:
        raise CaptureError(f"{name}: cannot be read ({_get_reason(error)})") from None
    head = source._head
    if not head:
        source.close()
        raise CaptureError(f"{name}: the file is empty")
    decoder = decoder_for(head)
    return source if decoder is None else _Compressed(source, decoder)


def _get_standard_input() -> io.BufferedReader | None:
    return cast(io.BufferedReader, sys.stdin.buffer) if sys.stdin is not None else None


def _get_size(raw: io.RawIOBase | io.BufferedIOBase) -> int | None:
    try:
        status = os.fstat(raw.fileno())
    except OSError:  # standard input is replaced by an object without file descriptor
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def _read_head(raw: io.RawIOBase | io.BufferedIOBase) -> bytes:
    """The first four bytes, fewer only at the end of the file."""
    head = b""
    while len(head) < 4:
        more = raw.read(4 - len(head))
        if more is None:
            select.select([raw], [], [])
        elif not more:
            break
        else:
            head += more
    return head


def _get_reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
