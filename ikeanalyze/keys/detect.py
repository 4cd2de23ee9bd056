"""Read key files. The format is detected by content, and a file may mix several formats.

A log may have hundreds of megabytes, so files are read line by line and decompressed on the fly.
"""

import io
import json
import os
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any, BinaryIO, Final, cast

from ikeanalyze.io.decompress import DamagedStreamError, DecompressedStream, decoder_for
from ikeanalyze.keys.charon.model import CharonLog
from ikeanalyze.keys.charon.reader import CharonReader
from ikeanalyze.keys.collector import KeyCollector, KeyWarning
from ikeanalyze.keys.key_set import EspKey, KeySet, Phase1Key
from ikeanalyze.keys.libreswan import LOG, LibreswanReader
from ikeanalyze.keys.wireshark import TableReader

#: First bytes of pcap, in both byte orders and resolutions, and of pcapng.
_CAPTURES: Final = (b"\xd4\xc3\xb2\xa1", b"\xa1\xb2\xc3\xd4", b"\x4d\x3c\xb2\xa1", b"\xa1\xb2\x3c\x4d", b"\n\r\r\n")
_UTF16_BOMS: Final = (b"\xff\xfe", b"\xfe\xff")
_UTF8_BOM: Final = b"\xef\xbb\xbf"

_MAX_LINE_BYTES: Final = 1 << 16  # more than ten times the longest line of any format
_MAX_JSON_BYTES: Final = 64 << 20  # a hundred thousand key sets
#: What a device or pipe, which may never end, may have before its first line of a known format.
_MAX_UNKNOWN_BYTES: Final = 256 << 20
_MAX_UNKNOWN_LINES: Final = 4_000_000
_HEAD_BYTES: Final = 4096
_MAX_UNREAD: Final = 100  # lines that are not rows and whose numbers are kept


_SUPPORTED: Final = "Supported are Wireshark's key tables, logs of charon and libreswan, secret files of tcpdump -E, and ikeanalyze JSON"


class KeyFileError(Exception):
    """A file has no usable key; one line for the user with the path, the reason and the remedy."""


@dataclass(frozen=True, slots=True)
class KeyFile:
    """The content of a key file."""

    path: str  # as given
    formats: tuple[str, ...]  # names for people: "charon log"
    key_sets: list[KeySet] = field(repr=False)  # those of an IKE SA in the order of its epochs
    phase1: list[Phase1Key] = field(repr=False)
    esp: list[EspKey] = field(repr=False)
    warnings: list[KeyWarning]  # entries that were not used
    log: CharonLog | None = field(repr=False)  # the other values of a charon log; None: not a charon log


def read_keys(path: str) -> KeyFile:
    """Read the keys of a file, or of standard input for "-". Entries that cannot be used become warnings.

    Raises:
        KeyFileError: the file cannot be read, or has no usable key.
    """
    name = "standard input" if path == "-" else path
    collector = KeyCollector(name)
    with _open(path, name) as raw:
        try:
            text = _LineReader(_decompress(raw, name), collector, ends=_is_file(raw))
            head = text.head()
            if head.startswith(_CAPTURES):
                raise KeyFileError(f"{name}: this is a capture, not a key file")
            if head.lstrip()[:1] in (b"{", b"[") and (document := _load_json(text, collector)) is not None:
                log, hint = None, _read_json(document, collector)
            else:
                log, hint = _read_lines(text, collector)
        except OSError as error:
            raise KeyFileError(f"{name}: cannot be read ({error.strerror or error})") from None
    if not collector.key_count:
        if collector.warnings:
            first = collector.warnings[0]
            line = "" if first.line is None else f"Line {first.line}: "
            raise KeyFileError(f"{name}: contains no usable key. {line}{first.message}")
        raise KeyFileError(f"{name}: contains no key. {hint}")
    if collector.dropped_warnings:
        collector.warnings.append(KeyWarning(name, None, f"{collector.dropped_warnings:,} more warnings"))
    return KeyFile(
        name, tuple(collector.formats), collector.key_sets, collector.phase1, collector.esp, collector.warnings, log
    )


def _open(path: str, name: str) -> AbstractContextManager[BinaryIO]:
    if path == "-":
        if sys.stdin is None:
            raise KeyFileError(f"{name}: is closed; name a file instead")
        return nullcontext(sys.stdin.buffer)  # not closed
    try:
        stream = open(path, "rb")  # noqa: SIM115 - the caller closes it
        if stat.S_ISDIR(os.fstat(stream.fileno()).st_mode):
            raise IsADirectoryError
        return stream
    except FileNotFoundError:
        raise KeyFileError(f"{name}: no such file") from None
    except IsADirectoryError:
        raise KeyFileError(f"{name}: is a directory; name the files in it") from None
    except PermissionError:
        raise KeyFileError(f"{name}: permission denied; read it as a user who may") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise KeyFileError(f"{name}: cannot be opened ({reason})") from None


def _is_file(raw: BinaryIO) -> bool:
    """Whether a stream reads a regular file, which ends."""
    try:
        return stat.S_ISREG(os.fstat(raw.fileno()).st_mode)
    except OSError:
        return False


def _decompress(raw: BinaryIO, name: str) -> BinaryIO:
    """Return the stream, wrapped in a decompressing one if necessary."""
    head = cast(io.BufferedReader, raw).peek(4)[:4]
    if not head:
        raise KeyFileError(f"{name}: the file is empty")
    decoder = decoder_for(head)
    if decoder is None:
        return raw
    return io.BufferedReader(DecompressedStream(decoder, cast(io.BufferedReader, raw).readinto))


class _LineReader:
    """Reads the lines of a stream, cut at a maximum length. Damaged compressed data ends the stream with a warning."""

    def __init__(self, stream: BinaryIO, collector: KeyCollector, *, ends: bool) -> None:
        """`ends`: the stream is a file, and not a device or pipe that may never end."""
        self._stream = stream
        self._ends = ends
        self._collector = collector
        self._number = 0
        self._size = 0  # bytes or characters of the lines so far
        self.recognised = False  # the lines so far have one of a known format

    def head(self) -> bytes:
        """Return the first bytes, at most `_HEAD_BYTES`, without advancing."""
        return self._read(lambda: cast(io.BufferedReader, self._stream).peek(_HEAD_BYTES))[:_HEAD_BYTES]

    def read_all(self, limit: int) -> bytes | None:
        """Return the rest of the stream; None if it exceeds the limit."""
        pieces, size = [], 0
        while piece := self._read(lambda: self._stream.read(1 << 16)):
            size += len(piece)
            if size > limit:
                return None
            pieces.append(piece)
        return b"".join(pieces)

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Yield the number, from 1, and the bytes of each line, without NUL bytes and line ending.

        Raises:
            KeyFileError: the stream is a long device or pipe, and none of its lines has been recognised.
        """
        if self.head().startswith(_UTF16_BOMS):
            yield from self._utf16_lines()
            return
        continues = False  # the last line was cut at the limit
        read = partial(self._stream.readline, _MAX_LINE_BYTES)
        while line := self._read(read):
            self._count(line)
            if not continues:
                self._number += 1
                if self._number == 1 and line.startswith(_UTF8_BOM):
                    line = line[len(_UTF8_BOM) :]
                if b"\0" in line:
                    line = line.replace(b"\0", b"")
                yield self._number, line.rstrip(b"\r\n")
            continues = not line.endswith(b"\n")

    def _utf16_lines(self) -> Iterator[tuple[int, bytes]]:
        """The lines of a UTF-16 file, which shells of Windows write when output is redirected."""
        text = io.TextIOWrapper(cast(Any, self._stream), "utf-16", errors="replace")
        try:
            while line := text.readline(_MAX_LINE_BYTES):
                self._count(line)
                self._number += 1
                yield self._number, line.rstrip("\r\n").encode()
        except (EOFError, DamagedStreamError, UnicodeError):
            self._collector.warn(self._number, "the file is damaged after this line")
        finally:
            text.detach()

    def _count(self, line: str | bytes) -> None:
        self._size += len(line)
        if self._ends or self.recognised:
            return
        if self._size > _MAX_UNKNOWN_BYTES or self._number >= _MAX_UNKNOWN_LINES:
            begin = f"{self._size >> 20:,} MiB ({self._number:,} lines)"
            raise KeyFileError(f"{self._collector.path}: no key in its first {begin}. {_SUPPORTED}")

    def _read(self, read: Callable[[], bytes]) -> bytes:
        try:
            return read()
        except EOFError:
            message = "the compressed data ends too early after this line"
        except DamagedStreamError:
            message = "the compressed data is damaged after this line"
        self._collector.warn(self._number or None, message)
        return b""


def _load_json(text: _LineReader, collector: KeyCollector) -> object | None:
    """Return the JSON document in the file; None, without advancing, if its beginning is not JSON."""
    head = text.head().lstrip()
    second = head[1:].lstrip()[:1]
    if second not in ((b'"', b"}") if head[:1] == b"{" else (b"{", b"]", b"[")):
        return None
    data = text.read_all(_MAX_JSON_BYTES)
    if data is None:
        collector.warn(None, f"JSON of more than {_MAX_JSON_BYTES >> 20} MiB is not read")
        return {}
    try:
        return cast(object, json.loads(data))
    except json.JSONDecodeError as error:  # the message has no content of the file
        collector.warn(error.lineno, f"invalid JSON from here on ({error.msg})")
    except (UnicodeDecodeError, RecursionError, ValueError):
        collector.warn(None, "begins as JSON, but is not valid")
    return {}


def _read_json(document: object, collector: KeyCollector) -> str:
    """Collect the keys of a document; returns the hint for the user if it has none."""
    from ikeanalyze.keys import json_keys  # late: msgspec takes 25 ms to import, and most key files are not JSON

    json_keys.parse_key_document(document, collector)
    return f'JSON with keys has the schema "{json_keys.SCHEMA}", or is a list of objects with "Sk_ei" and "Sk_er"'


def _read_lines(text: _LineReader, collector: KeyCollector) -> tuple[CharonLog | None, str]:
    """Collect the keys of lines; returns the other values of a charon log, and the hint if the file contains no key."""
    charon, libreswan, tables = CharonReader(collector), LibreswanReader(collector), TableReader(collector)
    unread: list[int] = []
    more_unread = 0
    charon_lines = pluto = rows = False
    readable = _is_text(text.head())
    for number, line in text.lines():
        text.recognised = charon_lines or rows or pluto or bool(collector.formats)
        if charon.feed(number, line):
            charon_lines = True
            continue
        if (b"ikev" in line or b"@" in line) and libreswan.feed(number, line):
            continue
        stripped = line.strip()
        if not stripped or stripped.startswith(b"#"):
            continue
        if b"," in stripped and tables.feed(number, stripped.decode("utf-8", "replace")):
            rows = True
        elif len(unread) < _MAX_UNREAD:
            unread.append(number)
            pluto = pluto or b"Pluto" in line or b"pluto" in line
        else:
            more_unread += 1
    log = charon.finish()
    libreswan.finish()
    is_log = charon_lines or pluto or LOG in collector.formats
    if not is_log and (rows or collector.formats):
        for number in unread:
            collector.warn(number, "not a row of a key table; not used")
        collector.dropped_warnings += more_unread
    return log, _hint(charon=charon_lines, pluto=pluto, readable=readable)


def _hint(*, charon: bool, pluto: bool, readable: bool) -> str:
    if charon:
        return "This is a log of strongSwan's charon; it has keys if its filelog section sets ike = 4"
    if pluto:
        return "This is a log of libreswan's pluto; it has keys with plutodebug=private (all does not include it)"
    if not readable:
        return "The file is not text"
    return _SUPPORTED


def _is_text(head: bytes) -> bool:
    """Whether the beginning of a file looks like text."""
    if head.startswith(_UTF16_BOMS):
        return True
    control = sum(byte < 32 and byte not in b"\t\n\r\x1b\0" for byte in head)
    return control * 20 <= len(head)
