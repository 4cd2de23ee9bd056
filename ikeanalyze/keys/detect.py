"""Files with keys: which format it is, is found by what is in them. One may mix several.

A log may have hundreds of megabytes, so a file is read line by line, decompressed on the way.
"""

import io
import json
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any, BinaryIO, Final, cast

from ikeanalyze.io.decompress import DamagedStreamError, DecompressedStream, decoder_for
from ikeanalyze.keys import json_keys
from ikeanalyze.keys.charon.model import CharonLog
from ikeanalyze.keys.charon.reader import CharonReader
from ikeanalyze.keys.collector import KeyCollector, KeyWarning
from ikeanalyze.keys.key_set import EspKey, KeySet, Phase1Key
from ikeanalyze.keys.libreswan import LOG, LibreswanReader
from ikeanalyze.keys.wireshark import TableReader

#: First bytes of pcap, in both byte orders and resolutions, and of pcapng.
_CAPTURES: Final = (
    b"\xd4\xc3\xb2\xa1",
    b"\xa1\xb2\xc3\xd4",
    b"\x4d\x3c\xb2\xa1",
    b"\xa1\xb2\x3c\x4d",
    b"\n\r\r\n",
)
_UTF16: Final = (b"\xff\xfe", b"\xfe\xff")
_UTF8_MARK: Final = b"\xef\xbb\xbf"

_LONGEST_LINE: Final = 1 << 16  # bytes; no line that we know has a tenth of it
_LARGEST_JSON: Final = 64 << 20  # bytes: a hundred thousand key sets
_HEAD: Final = 4096
_MOST_UNREAD: Final = 100  # lines that are no row, of which the numbers are kept


class KeyFileError(Exception):
    """No key comes out of this file; one line for the user: what is wrong, where, what to do."""


@dataclass(frozen=True, slots=True)
class KeyFile:
    """What was in a file."""

    path: str  # as it was given
    formats: tuple[str, ...]  # names for people: "charon log"
    key_sets: list[KeySet] = field(repr=False)  # those of one IKE SA in the order of its epochs
    phase1: list[Phase1Key] = field(repr=False)
    esp: list[EspKey] = field(repr=False)
    warnings: list[KeyWarning]  # what was not used
    log: CharonLog | None = field(repr=False)  # what stands beside keys in a charon log; None: it is none


def read_keys(path: str) -> KeyFile:
    """Read the keys of a file, "-" is standard input; what of it cannot be used is among the warnings.

    Raises:
        KeyFileError: it cannot be read, or nothing in it is a key.

    """
    name = "standard input" if path == "-" else path
    findings = KeyCollector(name)
    with _opened(path, name) as raw:
        try:
            text = _LineReader(_decompressed(raw, name), findings)
            head = text.head()
            if head.startswith(_CAPTURES):
                raise KeyFileError(f"{name}: is a capture and no file with keys")
            if head.lstrip()[:1] in (b"{", b"[") and (document := _json(text, findings)) is not None:
                log, hint = None, _read_json(document, findings)
            else:
                log, hint = _read_lines(text, findings)
        except OSError as error:
            raise KeyFileError(f"{name}: cannot be read ({error.strerror or error})") from None
    if not findings.key_count:
        if findings.warnings:
            raise KeyFileError(f"{name}: no usable key in it. {_first(findings.warnings[0])}")
        raise KeyFileError(f"{name}: no key in it. {hint}")
    if findings.dropped_warnings:
        findings.warnings.append(KeyWarning(name, None, f"{findings.dropped_warnings:,} more warnings"))
    return KeyFile(
        name,
        tuple(findings.formats),
        findings.key_sets,
        findings.phase1,
        findings.esp,
        findings.warnings,
        log,
    )


def _first(warning: KeyWarning) -> str:
    where = "" if warning.line is None else f"Line {warning.line}: "
    return f"{where}{warning.message}"


def _opened(path: str, name: str) -> AbstractContextManager[BinaryIO]:
    if path == "-":
        if sys.stdin is None:
            raise KeyFileError(f"{name}: is closed; name a file instead")
        return nullcontext(sys.stdin.buffer)  # stays open
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
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise KeyFileError(f"{name}: cannot be opened ({why})") from None


def _decompressed(raw: BinaryIO, name: str) -> BinaryIO:
    """The stream itself, or a decompressing one on top of it."""
    head = cast(io.BufferedReader, raw).peek(4)[:4]
    if not head:
        raise KeyFileError(f"{name}: the file is empty")
    decoder = decoder_for(head)
    if decoder is None:
        return raw
    return io.BufferedReader(DecompressedStream(decoder, cast(io.BufferedReader, raw).readinto))


class _LineReader:
    """Lines of a stream, none longer than a limit. Damage of a compressed stream ends it, with a warning."""

    def __init__(self, stream: BinaryIO, findings: KeyCollector) -> None:
        self._stream = stream
        self._findings = findings
        self._number = 0

    def head(self) -> bytes:
        """The first bytes, at most some thousand, without reading on."""
        return self._guarded(lambda: cast(io.BufferedReader, self._stream).peek(_HEAD))[:_HEAD]

    def all(self, limit: int) -> bytes | None:
        """Everything; None if that is more than the limit."""
        pieces, size = [], 0
        while piece := self._guarded(lambda: self._stream.read(1 << 16)):
            size += len(piece)
            if size > limit:
                return None
            pieces.append(piece)
        return b"".join(pieces)

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Number, from 1, and bytes of each line, without NUL bytes and the end of line."""
        if self.head().startswith(_UTF16):
            yield from self._utf16()
            return
        inside = False  # a line that is longer than the limit
        read = partial(self._stream.readline, _LONGEST_LINE)
        while line := self._guarded(read):
            if not inside:
                self._number += 1
                if self._number == 1 and line.startswith(_UTF8_MARK):
                    line = line[len(_UTF8_MARK) :]
                if b"\0" in line:
                    line = line.replace(b"\0", b"")
                yield self._number, line.rstrip(b"\r\n")
            inside = not line.endswith(b"\n")

    def _utf16(self) -> Iterator[tuple[int, bytes]]:
        """What Windows' shells write when output is sent to a file."""
        text = io.TextIOWrapper(cast(Any, self._stream), "utf-16", errors="replace")
        try:
            while line := text.readline(_LONGEST_LINE):
                self._number += 1
                yield self._number, line.rstrip("\r\n").encode()
        except (EOFError, DamagedStreamError, UnicodeError):
            self._findings.warn(self._number, "the file is damaged behind this line")
        finally:
            text.detach()

    def _guarded(self, read: Any) -> bytes:
        try:
            return cast(bytes, read())
        except EOFError:
            what = "the compressed data ends too early behind this line"
        except DamagedStreamError:
            what = "the compressed data is damaged behind this line"
        self._findings.warn(self._number or None, what)
        return b""


def _json(text: _LineReader, findings: KeyCollector) -> object | None:
    """The JSON document that the file is; None, with nothing read of it: it is text that begins like one."""
    head = text.head().lstrip()
    second = head[1:].lstrip()[:1]
    if second not in ((b'"', b"}") if head[:1] == b"{" else (b"{", b"]", b"[")):
        return None
    data = text.all(_LARGEST_JSON)
    if data is None:
        findings.warn(None, f"JSON of more than {_LARGEST_JSON >> 20} MiB is not read")
        return {}
    try:
        return cast(object, json.loads(data))
    except json.JSONDecodeError as error:  # its message has no content of the file
        findings.warn(error.lineno, f"is no JSON from here on ({error.msg})")
    except (UnicodeDecodeError, RecursionError, ValueError):
        findings.warn(None, "begins as JSON, and is none")
    return {}


def _read_json(document: object, findings: KeyCollector) -> str:
    """Take keys out of a document; what to say if there are none."""
    json_keys.parse_key_document(document, findings)
    return f'JSON with keys has the schema "{json_keys.SCHEMA}", or is a list of objects with "Sk_ei" and "Sk_er"'


def _read_lines(text: _LineReader, findings: KeyCollector) -> tuple[CharonLog | None, str]:
    """Take keys out of lines; what a charon log has beside them, and what to say if there are none."""
    charon, libreswan, tables = CharonReader(findings), LibreswanReader(findings), TableReader(findings)
    unread: list[int] = []
    more_unread = 0
    charon_lines = pluto = rows = False
    readable = _readable(text.head())
    for number, line in text.lines():
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
        elif len(unread) < _MOST_UNREAD:
            unread.append(number)
            pluto = pluto or b"Pluto" in line or b"pluto" in line
        else:
            more_unread += 1
    log = charon.finish()
    libreswan.finish()
    is_log = charon_lines or pluto or LOG in findings.formats
    if not is_log and (rows or findings.formats):
        for number in unread:
            findings.warn(number, "is no row of a key table; not used")
        findings.dropped_warnings += more_unread
    return log, _hint(charon=charon_lines, pluto=pluto, readable=readable)


def _hint(*, charon: bool, pluto: bool, readable: bool) -> str:
    if charon:
        return "It is a log of strongSwan's charon, which has keys where ike = 4 is set in its filelog section"
    if pluto:
        return "It is a log of libreswan's pluto, which has keys with plutodebug=private (all does not include that)"
    if not readable:
        return "It is no text"
    return "Known are Wireshark's key tables, logs of charon and of libreswan, secret files of tcpdump -E, and our JSON"


def _readable(head: bytes) -> bool:
    """Whether a file begins as text does."""
    if head.startswith(_UTF16):
        return True
    control = sum(byte < 32 and byte not in b"\t\n\r\x1b\0" for byte in head)
    return control * 20 <= len(head)
