"""Read key files. The format is detected by content, and a file may mix several formats.

A log may have hundreds of megabytes, so files are read in blocks and decompressed on the fly.
"""

import io
import json
import os
import stat
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO, Final, cast

from ikeanalyze.io.decompress import DecompressedStream, log_decoder_for
from ikeanalyze.keys.collector import KeyCollector, KeyWarning
from ikeanalyze.keys.key_set import EspKey, KeySet, Phase1Key
from ikeanalyze.keys.text_blocks import ENTRY_HEAD_BYTES, EndlessTextError, TextBlocks
from ikeanalyze.keys.text_reader import TextReader

if TYPE_CHECKING:
    from ikeanalyze.keys.charon.model import CharonLog

#: First bytes of pcap, in both byte orders and resolutions, and of pcapng.
_CAPTURES: Final = (b"\xd4\xc3\xb2\xa1", b"\xa1\xb2\xc3\xd4", b"\x4d\x3c\xb2\xa1", b"\xa1\xb2\x3c\x4d", b"\n\r\r\n")
#: First bytes of zip, 7-Zip, LZ4, rar and LZMA files, which are not decompressed.
_COMPRESSED: Final = (b"PK\x03\x04", b"7z\xbc\xaf\x27\x1c", b"\x04\x22\x4d\x18", b"Rar!\x1a\x07", b"\x5d\0\0\x80\0")
#: The first character of JSON with keys, and those that may follow.
_JSON_BEGINNINGS: Final = {b"{": (b'"', b"}"), b"[": (b"{", b"]", b"[")}
_MAX_JSON_BYTES: Final = 64 << 20  # a hundred thousand key sets
_SUPPORTED: Final = "Supported are Wireshark's key tables, logs of charon and libreswan, secret files of tcpdump -E, and ikeanalyze JSON"


class KeyFileError(Exception):
    """A file has no usable key; one line for the user with the path, the reason and the remedy."""


@dataclass(frozen=True, slots=True)
class KeyFile:
    """The content of a key file."""

    path: str  # as given
    formats: tuple[str, ...]  # names for people: "charon log"
    key_sets: Sequence[KeySet] = field(repr=False)  # those of an IKE SA in the order of its epochs
    phase1: list[Phase1Key] = field(repr=False)
    esp: list[EspKey] = field(repr=False)
    warnings: list[KeyWarning]  # entries that were not used
    log: "CharonLog | None" = field(repr=False)  # the other values of a charon log; None: not a charon log


def read_keys(path: str) -> KeyFile:
    """Read the keys of a file, or of standard input for "-". Entries that cannot be used become warnings.

    Raises:
        KeyFileError: the file cannot be read, or has no usable key.
    """
    name = "standard input" if path == "-" else path or '""'
    collector = KeyCollector(name)
    with _open(path, name) as raw:
        try:
            stream = _decompress(raw, name)
            text = TextBlocks(stream, collector, ends=_is_file(raw))
            head = text.head()
            if head.startswith(_CAPTURES):
                log, hint = None, _read_capture(stream, collector)
            elif not text.detect_entries() and (document := _load_json(text, collector)) is not None:
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
    key_sets = collector.join_key_sets()
    return KeyFile(name, tuple(collector.formats), key_sets, collector.phase1, collector.esp, collector.warnings, log)


def _open(path: str, name: str) -> AbstractContextManager[BinaryIO]:
    if path == "-":
        if sys.stdin is None:
            raise KeyFileError(f"{name}: is closed; name a file instead")
        return nullcontext(sys.stdin.buffer)  # not closed
    try:
        stream = open(path, "rb", ENTRY_HEAD_BYTES)  # noqa: SIM115 - the caller closes it
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
    try:
        decoder = log_decoder_for(head)
    except ModuleNotFoundError as error:
        raise KeyFileError(f"{name}: compressed, and this Python has no {error.name}; decompress it first") from None
    if decoder is None:
        return raw
    return io.BufferedReader(DecompressedStream(decoder, cast(io.BufferedReader, raw).readinto), ENTRY_HEAD_BYTES)


def _load_json(text: TextBlocks, collector: KeyCollector) -> object | None:
    """Return the JSON document in the file; None, without advancing, if its beginning is not JSON."""
    head = text.text_head().lstrip()
    if head[1:].lstrip()[:1] not in _JSON_BEGINNINGS.get(head[:1], ()):
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
    from ikeanalyze.keys import json_keys  # late: most key files are not JSON

    json_keys.parse_key_document(document, collector)
    return f'JSON with keys has the schema "{json_keys.SCHEMA}", or is a list of objects with "Sk_ei" and "Sk_er"'


def _read_capture(stream: BinaryIO, collector: KeyCollector) -> str:
    """Collect the keys that are embedded in a capture; returns the hint for the user if none is usable."""
    from ikeanalyze.keys.embedded import find_embedded_keys  # late, because captures are rarely named as keys

    embedded = find_embedded_keys(stream)
    if embedded is None:
        raise KeyFileError(f"{collector.path}: this is a capture, not a key file")
    try:
        document = json.loads(embedded)
    except (RecursionError, ValueError):  # the message might have a part of the keys
        collector.warn(None, "the embedded keys are not valid JSON")
        document = {}
    return _read_json(document, collector)


def _read_lines(text: TextBlocks, collector: KeyCollector) -> "tuple[CharonLog | None, str]":
    """Collect the keys of lines; returns the other values of a charon log, and the hint if the file contains no key."""
    reader, readable, head = TextReader(collector), text.is_text, text.head()
    try:
        log = reader.read(text)
    except EndlessTextError as error:
        raise KeyFileError(f"{collector.path}: no key in its first {error}. {_SUPPORTED}") from None
    if head.startswith(_COMPRESSED):
        return log, "The file is compressed or an archive, but not with gzip, zstd, xz or bzip2; unpack it first"
    return log, _suggest_log_settings(charon=reader.charon, pluto=reader.pluto, readable=readable)


def _suggest_log_settings(*, charon: bool, pluto: bool, readable: bool) -> str:
    if charon:
        return "This is a log of strongSwan's charon; it has keys if its filelog section sets ike = 4"
    if pluto:
        return (
            "This is a log of libreswan's pluto; it has keys of IKEv2 with plutodebug=private (all does not include it); "
            "libreswan 5.2 logs none of IKEv1"
        )
    if not readable:
        return "The file is not text"
    return _SUPPORTED
