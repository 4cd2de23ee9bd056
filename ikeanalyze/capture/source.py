"""Where the bytes of a capture come from: a file, a pipe or standard input, plain or compressed."""

import io
import os
import select
import stat
import sys
import zlib
from typing import Any, Final, Protocol, cast

from ikeanalyze.capture.records import CaptureError

_GZIP: Final = b"\x1f\x8b"
_ZSTD: Final = b"\x28\xb5\x2f\xfd"
#: Magic numbers 0x184D2A50 to 0x184D2A5F: skippable frames, which some compressors write first (RFC 8878)
_ZSTD_SKIPPABLE: Final = b"\x2a\x4d\x18"
#: Bytes given to zlib and to zstd at once. What a call of zstd's puts out is lost if it fails: these are few.
_GZIP_PIECE: Final = 1 << 16
_ZSTD_PIECE: Final = 1 << 13


class Source:
    """A stream of capture bytes, decompressed if need be."""

    def __init__(self, name: str, raw: io.RawIOBase | io.BufferedIOBase, size: int | None, head: bytes) -> None:
        self.name: Final = name  #: the path as it was given; "standard input" for "-"
        self.size: Final = size  #: bytes of the underlying file, None where that is not known (pipes)
        self.compression: str | None = None  #: "gzip", "zstd" or None
        self.consumed = len(head)  #: bytes of the underlying file read so far, for progress against `size`
        self.position = 0  #: bytes delivered so far, after decompression
        self.damage: str | None = None  #: why the stream ended before its end: one clause; None: it did not
        self._raw = raw
        self._head = head

    def read_into(self, target: memoryview) -> int:
        """Fill the start of `target`; bytes filled, which may be fewer than fit, and 0 only at the end.

        A stream that breaks off in its middle ends there, and `damage` says why.
        """
        count = min(len(self._head), len(target))
        target[:count] = self._head[:count]
        self._head = self._head[count:]
        if count < len(target):
            count += self._read_raw(target[count:])
        self.position += count
        return count

    def reopened(self, offset: int) -> "Source":
        """The same file from this offset on; only for plain files.

        Raises:
            OSError: it is no longer there, or another file has its name.
        """
        raw = open(self.name, "rb", buffering=0)  # noqa: SIM115
        if not os.path.samestat(os.fstat(raw.fileno()), os.fstat(self._raw.fileno())):
            raw.close()
            raise FileNotFoundError(self.name)
        raw.seek(offset)
        other = Source(self.name, raw, self.size, b"")
        other.consumed = other.position = offset
        return other

    def peek(self, offset: int, size: int) -> bytes:
        """Bytes from anywhere in a plain file, without reading on."""
        return os.pread(self._raw.fileno(), size, offset)

    def is_file(self, other: str | int) -> bool:
        """Whether the bytes come from a regular file, and `other`, a path or a file descriptor, is that file."""
        try:
            ours, theirs = os.fstat(self._raw.fileno()), os.stat(other)
        except (OSError, ValueError):
            return False
        return stat.S_ISREG(ours.st_mode) and os.path.samestat(ours, theirs)

    def close(self) -> None:
        """Close the underlying file, unless it is standard input."""
        if self._raw is not _standard_input():
            self._raw.close()

    def _read_raw(self, target: memoryview) -> int:
        try:
            while (count := self._raw.readinto(target)) is None:  # a pipe that somebody made non-blocking
                select.select([self._raw], [], [])
        except OSError as error:
            self.damage = f"reading fails ({error.strerror or error})"
            return 0
        self.consumed += count
        return count


class _Compressed(Source):
    def __init__(self, plain: Source, decoder: "_Decoder") -> None:
        super().__init__(plain.name, plain._raw, plain.size, plain._head)
        self.compression = decoder.name
        self._decoder = decoder
        self._piece = memoryview(bytearray(decoder.piece))
        self._ready = memoryview(b"")
        self._ended = False

    def read_into(self, target: memoryview) -> int:
        while not self._ready and not self._ended:
            self._ready = memoryview(self._decode())
        count = min(len(self._ready), len(target))
        target[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        self.position += count
        return count

    def _decode(self) -> bytes:
        data, self._head = self._head, b""
        if not data:
            data = bytes(self._piece[: self._read_raw(self._piece)])
        if not data:
            self._ended = True
            if self._decoder.unfinished and not self.damage:
                self.damage = f"the {self.compression} data ends too early"
            return b""
        try:
            return self._decoder.decode(data)
        except _BrokenStreamError as error:
            self._ended = True
            self.damage = f"the {self.compression} data is damaged ({error})"
            return error.salvaged


class _BrokenStreamError(Exception):
    def __init__(self, what: str, salvaged: bytes) -> None:
        super().__init__(what)
        self.salvaged = salvaged


class _Decoder(Protocol):
    name: str
    piece: int

    @property
    def unfinished(self) -> bool:
        """Whether the input so far ends inside a member or frame."""

    def decode(self, data: bytes) -> bytes:
        """What `data` adds to the output; raises _BrokenStreamError with what came before the damage."""


class _Gzip:
    """Members of a gzip file one after another (RFC 1952, 2.2); zero bytes between them are padding."""

    name = "gzip"
    piece = _GZIP_PIECE

    def __init__(self) -> None:
        self._member = _gzip_member()
        self._inside = False

    @property
    def unfinished(self) -> bool:
        return self._inside

    def decode(self, data: bytes) -> bytes:
        out: list[bytes] = []
        while data := data if self._inside else data.lstrip(b"\0"):
            self._inside = True
            before = self._member.copy()
            try:
                out.append(self._member.decompress(data))
            except zlib.error as error:
                raise _BrokenStreamError(_reason(error), b"".join([*out, *_until_error(before, data)])) from None
            data = self._member.unused_data
            if not self._member.eof:
                break
            self._member = _gzip_member()
            self._inside = False
        return b"".join(out)


def _gzip_member() -> "zlib._Decompress":
    return zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)


def _until_error(member: "zlib._Decompress", data: bytes) -> list[bytes]:
    """What comes out before the byte that cannot be right: zlib gives nothing of a call that fails."""
    out: list[bytes] = []
    try:
        for at in range(len(data)):
            out.append(member.decompress(data[at : at + 1]))
    except zlib.error:
        pass
    return out


def _reason(error: Exception) -> str:
    return str(error).rpartition(": ")[2]


class _Zstd:
    """Frames of a zstd file one after another (RFC 8878, 3.1)."""

    name = "zstd"
    piece = _ZSTD_PIECE

    def __init__(self) -> None:
        import zstandard  # a tenth of a second that only a zstd file is worth

        self._error = zstandard.ZstdError
        self._frames = zstandard.ZstdDecompressor()
        self._frame: Any = None

    @property
    def unfinished(self) -> bool:
        return self._frame is not None

    def decode(self, data: bytes) -> bytes:
        out: list[bytes] = []
        while data:
            if self._frame is None:
                self._frame = self._frames.decompressobj()
            try:
                out.append(self._frame.decompress(data))
            except self._error as error:
                raise _BrokenStreamError(_reason(error), b"".join(out)) from None
            if not self._frame.eof:
                break
            data = self._frame.unused_data
            self._frame = None
        return b"".join(out)


def open_source(path: str | os.PathLike[str]) -> Source:
    """Open a capture for reading, once and forward; "-" is standard input.

    gzip (RFC 1952) and zstd (RFC 8878) are known by their first bytes, not by the file's name.

    Raises:
        CaptureError: there is no such file, it is a directory, it may not be read, or it is empty.

    """
    given = os.fspath(path)
    name = "standard input" if given == "-" else given
    try:
        raw = _standard_input() if given == "-" else open(given, "rb", buffering=0)  # noqa: SIM115
    except FileNotFoundError:
        raise CaptureError(f"{name}: no such file") from None
    except IsADirectoryError:
        raise CaptureError(f"{name}: is a directory; name the captures in it") from None
    except PermissionError:
        raise CaptureError(f"{name}: permission denied; read it as a user who may") from None
    except (OSError, ValueError) as error:
        raise CaptureError(f"{name}: cannot be opened ({_why(error)})") from None
    if raw is None:
        raise CaptureError(f"{name}: is closed; name a file instead")
    try:
        source = Source(name, raw, _size(raw), _head(raw))
    except OSError as error:
        raise CaptureError(f"{name}: cannot be read ({_why(error)})") from None
    head = source._head
    if not head:
        source.close()
        raise CaptureError(f"{name}: the file is empty")
    if head.startswith(_GZIP):
        return _Compressed(source, _Gzip())
    if head == _ZSTD or (head[1:] == _ZSTD_SKIPPABLE and head[0] >> 4 == 5):
        return _Compressed(source, _Zstd())
    return source


def _standard_input() -> io.BufferedReader | None:
    return cast(io.BufferedReader, sys.stdin.buffer) if sys.stdin is not None else None


def _size(raw: io.RawIOBase | io.BufferedIOBase) -> int | None:
    try:
        status = os.fstat(raw.fileno())
    except OSError:  # an object in place of standard input, as tests set it
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def _head(raw: io.RawIOBase | io.BufferedIOBase) -> bytes:
    """The first four bytes, fewer only at the end of the file: a pipe may give them one by one."""
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


def _why(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
