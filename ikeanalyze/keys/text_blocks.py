"""Read a key file of lines in blocks of whole lines, whatever its encoding and compression."""

import io
import re
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, Final, cast

from ikeanalyze.io.decompress import DamagedStreamError
from ikeanalyze.io.journal_export import BEGINNING, JournalExport
from ikeanalyze.io.log_entries import LogEntries, detect_entries
from ikeanalyze.keys.collector import KeyCollector

_UTF16_BOMS: Final = (b"\xff\xfe", b"\xfe\xff")
_UTF8_BOM: Final = b"\xef\xbb\xbf"
#: Sequences that colour text or clear a line on terminals (ECMA-48, 5.4): tools colour what they write to a log.
_ESCAPE: Final = b"\x1b"
_CONTROL_SEQUENCE: Final = re.compile(rb"\x1b\[[0-?]*[ -/]*[@-~]")

#: Bytes of a line that count; more than ten times the longest line of any format.
MAX_LINE_BYTES: Final = 1 << 16
_BLOCK_BYTES: Final = 4 << 20
_HEAD_BYTES: Final = 4096
#: The first bytes of JSON, and of marks before entries in JSON.
_ENTRY_BEGINNINGS: Final = (b"{", b"[", b"\x1e", b"d")
#: First bytes with an entry of a container engine or of journald, if the file has entries.
ENTRY_HEAD_BYTES: Final = 1 << 16
#: What a device or pipe, which may never end, may have before its first line of a known format.
_MAX_UNKNOWN_BYTES: Final = 256 << 20
_MAX_UNKNOWN_LINES: Final = 4_000_000


class EndlessTextError(Exception):
    """The first lines of a device or pipe have no known format; the message has their bytes and number."""


class TextBlocks:
    """Reads a stream. Damaged compressed data ends it with a warning."""

    def __init__(self, stream: BinaryIO, collector: KeyCollector, *, ends: bool) -> None:
        """`ends`: the stream is a file, and not a device or pipe that may never end."""
        self._stream = cast(io.BufferedReader, stream)
        self._ends = ends
        self._collector = collector
        self._lines = 0  # so far
        self._size = 0  # bytes or characters so far
        self._ahead = b""  # bytes that were read, but not yet given
        self._entries: LogEntries | None = None  # converts the lines; None: they are text
        self.recognised = False  # the lines so far have one of a known format
        #: The stream is a file of text that is neither compressed nor UTF-16, so that reading blocks adds no warnings.
        self.is_plain_file = False

    @property
    def is_text(self) -> bool:
        """Whether the beginning looks like text."""
        head = self.head()
        if head.startswith(_UTF16_BOMS):
            return True
        control = sum(byte < 32 and byte not in b"\t\n\r\x1b\0" for byte in head)
        return control * 20 <= len(head)

    def head(self, size: int = _HEAD_BYTES) -> bytes:
        """Return the first bytes, at most `size`, without advancing."""
        return (self._ahead or self._read(lambda: self._stream.peek(size)))[:size]

    def text_head(self, size: int = _HEAD_BYTES) -> bytes:
        """Return the first bytes without a byte order mark, and of UTF-16 without NUL bytes, without advancing."""
        head = self.head(size)
        if head.startswith(_UTF16_BOMS):
            return head[2:].replace(b"\0", b"")
        return head.removeprefix(_UTF8_BOM)

    def detect_entries(self) -> bool:
        """Whether the lines are wrapped in the entries of a container engine or of journald; they are converted."""
        if self.text_head().lstrip()[:1] in _ENTRY_BEGINNINGS and not self.head().startswith(_UTF16_BOMS):
            self._read_first_line()
        if self.head().startswith(BEGINNING):
            self._entries = JournalExport()
        else:
            self._entries = detect_entries(self.text_head(ENTRY_HEAD_BYTES))
        self._collector.entries = self._entries
        return self._entries is not None

    def _read_first_line(self) -> None:
        """Read ahead: the first piece of a pipe may be shorter than an entry."""
        while b"\n" not in self._ahead and len(self._ahead) < ENTRY_HEAD_BYTES:
            if not (piece := self._read(lambda: self._stream.read1(ENTRY_HEAD_BYTES))):
                return
            self._ahead += piece

    def read_all(self, limit: int) -> bytes | None:
        """Return the rest of the stream; None if it exceeds the limit."""
        pieces, size = [self._ahead], len(self._ahead)
        while piece := self._read(lambda: self._stream.read(1 << 16)):
            size += len(piece)
            if size > limit:
                return None
            pieces.append(piece)
        return b"".join(pieces)

    def read_blocks(self) -> Iterator[tuple[int, bytes]]:
        """Yield blocks of whole lines, and the number of their first lines, from 1.

        They have neither NUL bytes nor the control sequences of terminals.

        Lines end with a newline, except possibly the last one of the stream.

        Raises:
            EndlessTextError: the stream is a long device or pipe, and none of its lines has been recognised.
        """
        is_utf16 = self.head().startswith(_UTF16_BOMS)
        is_plain = not is_utf16 and self._entries is None
        self.is_plain_file = self._ends and is_plain and isinstance(self._stream.raw, io.FileIO)
        is_binary = self._entries is not None and self._entries.is_binary
        blocks = self._decode_utf16() if is_utf16 else self._read_bytes() if is_binary else self._split()
        for text in blocks if self._entries is None else self._convert(blocks, self._entries):
            block = _CONTROL_SEQUENCE.sub(b"", text) if _ESCAPE in text else text
            number = self._lines + 1
            self._lines += block.count(b"\n") + (not block.endswith(b"\n"))
            yield number, block
            self._check_unknown()

    def _convert(self, blocks: Iterator[bytes], entries: LogEntries) -> Iterator[bytes]:
        """The text of entries."""
        for block in blocks:
            if text := entries.convert(block):
                yield _remove_nul_bytes(text, first=False)
        if text := entries.finish():
            yield _remove_nul_bytes(text, first=False)
        if entries.left_out:
            problem = "journalctl left out messages of more than 4,096 bytes; it writes them with --all"
            self._collector.warn(None, f"{problem} ({entries.left_out:,})")

    def _read_bytes(self) -> Iterator[bytes]:
        """The bytes of the stream as they are."""
        ended = False
        while not ended:
            data, ended, damage = self._read_block()
            self._size += len(data)
            yield data
            self._check_unknown()
            if damage is not None:
                self._warn_of_damage(damage)

    def _split(self) -> Iterator[bytes]:
        """The text, cut after the last newline of each block."""
        rest, first, ended = b"", True, False
        while not ended:
            data, ended, damage = self._read_block()
            self._size += len(data)
            end = data.rfind(b"\n") + 1
            if end:
                block, rest = b"".join((rest, memoryview(data)[:end])), data[end:]
                yield _remove_nul_bytes(block, first=first)
                first = False
            else:
                rest = (rest + data)[: MAX_LINE_BYTES + len(_UTF8_BOM)]
                self._check_unknown()
            if damage is not None:
                self._warn_of_damage(damage)
                return
        if rest:
            yield _remove_nul_bytes(rest, first=first)

    def _read_block(self) -> tuple[bytes, bool, Exception | None]:
        """A block of the stream, whether it is the last one, and the damage after it."""
        pieces = [self._ahead]
        size, self._ahead = len(self._ahead), b""
        try:
            while size < _BLOCK_BYTES:
                piece = self._stream.read1(_BLOCK_BYTES)
                if not piece:
                    return b"".join(pieces), True, None
                pieces.append(piece)
                size += len(piece)
        except (EOFError, DamagedStreamError) as error:
            return b"".join(pieces), True, error
        return b"".join(pieces), False, None

    def _decode_utf16(self) -> Iterator[bytes]:
        """The lines of a UTF-16 file, which shells of Windows write when output is redirected."""
        text = io.TextIOWrapper(cast(Any, self._stream), "utf-16", errors="replace")
        try:
            while line := text.readline(MAX_LINE_BYTES):
                self._size += len(line)
                yield line.rstrip("\r\n").encode() + b"\n"
        except (EOFError, DamagedStreamError, UnicodeError):
            self._collector.warn(self._lines, "the file is damaged after this line")
        finally:
            text.detach()

    def _check_unknown(self) -> None:
        if self._ends or self.recognised:
            return
        if self._size > _MAX_UNKNOWN_BYTES or self._lines >= _MAX_UNKNOWN_LINES:
            raise EndlessTextError(f"{self._size >> 20:,} MiB ({self._lines:,} lines)")

    def _read(self, read: Callable[[], bytes]) -> bytes:
        """Bytes of the stream; none if it is damaged from here on."""
        try:
            return read()
        except (EOFError, DamagedStreamError) as error:
            self._warn_of_damage(error)
            return b""

    def _warn_of_damage(self, error: Exception) -> None:
        problem = "ends too early" if isinstance(error, EOFError) else "is damaged"
        self._collector.warn(self._lines or None, f"the compressed data {problem} after this line")


def _remove_nul_bytes(block: bytes, *, first: bool) -> bytes:
    """Remove NUL bytes, and the byte order mark of the first block."""
    if first:
        block = block.removeprefix(_UTF8_BOM)
    return block.replace(b"\0", b"") if b"\0" in block else block
