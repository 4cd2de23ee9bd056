"""Compressed streams that may be cut or damaged: everything before the damage is delivered.

gzip and zstd are read anywhere; xz and bzip2, in which logs are rotated, where `log_decoder_for` is called.

zstandard's own `stream_reader` reads frame after frame too, but ends in silence where a frame is cut.
"""

import io
import os
import zlib
from collections.abc import Callable
from typing import Any, Final, Protocol

_GZIP: Final = b"\x1f\x8b"
_ZSTD: Final = b"\x28\xb5\x2f\xfd"
#: Magic numbers 0x184D2A50 to 0x184D2A5F: skippable frames, which some compressors write first (RFC 8878)
_ZSTD_SKIPPABLE: Final = b"\x2a\x4d\x18"
_XZ: Final = b"\xfd7zX"
_BZIP2: Final = b"BZh"

#: Suffixes of the names of files that `compress` writes. Files are recognised by their content instead.
GZIP_SUFFIX: Final = ".gz"
ZSTD_SUFFIX: Final = ".zst"

_INPUT_BYTES: Final = 1 << 16  # read at once
_OUTPUT_BYTES: Final = 1 << 20  # of xz and bzip2, at once
_MAX_XZ_MEMORY: Final = 256 << 20  # bytes; `xz -9` needs 65 MiB


def strip_compression(path: str) -> str:
    """The path without the suffix of gzip or zstd, in whatever case."""
    stem, suffix = os.path.splitext(path)
    return stem if suffix.lower() in (GZIP_SUFFIX, ZSTD_SUFFIX) else path


class DamagedStreamError(Exception):
    """The compressed data is damaged; the message is the library's reason."""


class Decoder(Protocol):
    """A decompressor that is fed with input."""

    name: str
    #: Whether `decode` has more output without more input.
    has_more: bool
    #: Bytes of input to decode at once. A file made for it expands 1,032-fold (gzip) or 32,768-fold (zstd), and the
    #: output for one piece is in memory as a whole: 8 or 32 MiB. zstd loses the output of a piece that is damaged.
    piece: int

    @property
    def unfinished(self) -> bool:
        """Whether the input so far ends inside a member or frame."""

    def decode(self, data: bytes) -> tuple[bytes, DamagedStreamError | None]:
        """The output for more input, and the error that ended it."""


class GzipDecoder:
    """Members of a gzip file one after another (RFC 1952, 2.2); zero bytes between them are padding."""

    name = "gzip"
    piece = 1 << 13
    has_more = False

    def __init__(self) -> None:
        self._member = _make_gzip_member()
        self.unfinished = False

    def decode(self, data: bytes) -> tuple[bytes, DamagedStreamError | None]:
        """See `Decoder`."""
        out: list[bytes] = []
        while data := data if self.unfinished else data.lstrip(b"\0"):
            self.unfinished = True
            before = self._member.copy()
            try:
                out.append(self._member.decompress(data))
            except zlib.error as error:
                return b"".join([*out, *_read_until_error(before, data)]), _make_damage_error(error)
            data = self._member.unused_data
            if not self._member.eof:
                break
            self._member = _make_gzip_member()
            self.unfinished = False
        return b"".join(out), None


def _make_gzip_member() -> "zlib._Decompress":
    return zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)


def _read_until_error(member: "zlib._Decompress", data: bytes) -> list[bytes]:
    """The output before the first impossible byte: zlib returns nothing from a call that fails."""
    out: list[bytes] = []
    try:
        for at in range(len(data)):
            out.append(member.decompress(data[at : at + 1]))
    except zlib.error:
        pass
    return out


class ZstdDecoder:
    """Frames of a zstd file one after another (RFC 8878, 3.1)."""

    name = "zstd"
    piece = 1 << 10
    has_more = False

    def __init__(self) -> None:
        import zstandard  # takes a tenth of a second, which only a zstd file is worth

        self._error = zstandard.ZstdError
        self._frames = zstandard.ZstdDecompressor()
        self._frame: Any = None

    @property
    def unfinished(self) -> bool:
        """See `Decoder`."""
        return self._frame is not None

    def decode(self, data: bytes) -> tuple[bytes, DamagedStreamError | None]:
        """See `Decoder`."""
        out: list[bytes] = []
        while data:
            if self._frame is None:
                self._frame = self._frames.decompressobj()
            try:
                out.append(self._frame.decompress(data))
            except self._error as error:
                return b"".join(out), _make_damage_error(error)
            if not self._frame.eof:
                break
            data = self._frame.unused_data
            self._frame = None
        return b"".join(out), None


class _Decompressor(Protocol):
    """What the decompressors of bz2 and lzma have in common."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, /, max_length: int = -1) -> bytes: ...


class StreamsDecoder:
    """Streams of an xz or bzip2 file one after another; zero bytes between them are padding.

    A few bytes of bzip2 expand to 45 MiB, so the output is limited, and not only the input.
    """

    piece = 1 << 13

    def __init__(self, name: str, make: Callable[[], _Decompressor], errors: tuple[type[Exception], ...]) -> None:
        """`make` returns the decompressor of a stream, which raises `errors`."""
        self.name = name
        self._make = make
        self._errors = errors
        self._stream: _Decompressor | None = None
        self._rest = b""  # input after the end of a stream
        self.has_more = False

    @property
    def unfinished(self) -> bool:
        """See `Decoder`."""
        return self._stream is not None

    def decode(self, data: bytes) -> tuple[bytes, DamagedStreamError | None]:
        """See `Decoder`."""
        data, self._rest = self._rest + data, b""
        if self._stream is None:
            data = data.lstrip(b"\0")
            if not data:
                self.has_more = False
                return b"", None
            self._stream = self._make()
        try:
            out = self._stream.decompress(data, _OUTPUT_BYTES)
        except self._errors as error:
            return b"", _make_damage_error(error)
        if self._stream.eof:
            self._rest, self._stream = self._stream.unused_data, None
            self.has_more = bool(self._rest)
        else:
            self.has_more = not self._stream.needs_input
        return out, None


def _make_damage_error(error: Exception) -> DamagedStreamError:
    return DamagedStreamError(str(error).rpartition(": ")[2])


def decoder_for(head: bytes) -> Decoder | None:
    """The decoder for a stream that begins with these four bytes; None: it is not compressed."""
    if head.startswith(_GZIP):
        return GzipDecoder()
    if head == _ZSTD or (head[1:] == _ZSTD_SKIPPABLE and head[0] >> 4 == 5):
        return ZstdDecoder()
    return None


def log_decoder_for(head: bytes) -> Decoder | None:
    """The decoder for a key file or log that begins with these four bytes; None: it is not compressed.

    Raises:
        ModuleNotFoundError: this Python was built without the library of the compression.
    """
    if head == _XZ:
        import lzma  # not every Python has it

        def make() -> _Decompressor:
            return lzma.LZMADecompressor(lzma.FORMAT_XZ, _MAX_XZ_MEMORY)

        return StreamsDecoder("xz", make, (lzma.LZMAError,))
    if head.startswith(_BZIP2) and head[3:] in b"123456789":
        import bz2  # not every Python has it

        return StreamsDecoder("bzip2", bz2.BZ2Decompressor, (OSError, ValueError))
    return decoder_for(head)


class DecompressedStream(io.RawIOBase):
    """The decompressed bytes of a stream. Closing it leaves that stream open."""

    def __init__(self, decoder: Decoder, read: Callable[[memoryview], int], head: bytes = b"") -> None:
        """`read` fills the start of a buffer as `readinto` does; `head`: input that was read before."""
        super().__init__()
        self._decoder = decoder
        self._read = read
        self._buffer = memoryview(bytearray(_INPUT_BYTES))
        self._input = memoryview(head)
        self._ready = memoryview(b"")
        self._error: DamagedStreamError | None = None

    def readable(self) -> bool:
        """Always true."""
        return True

    def readinto(self, target: Any) -> int:
        """Fill the start of `target`; bytes filled, 0 only at the end.

        Raises:
            EOFError: the stream ends inside a member or frame.
            DamagedStreamError: the data is damaged from here on.
        """
        while not self._ready:
            if self._error is not None:
                raise self._error
            piece = b""
            if not self._decoder.has_more:
                if not self._input:
                    self._input = self._buffer[: self._read(self._buffer)]
                piece, self._input = bytes(self._input[: self._decoder.piece]), self._input[self._decoder.piece :]
                if not piece:
                    if self._decoder.unfinished:
                        raise EOFError
                    return 0
            out, self._error = self._decoder.decode(piece)
            self._ready = memoryview(out)
        count = min(len(target), len(self._ready))
        target[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count
