r"""Logs whose lines are wrapped in entries: by container engines, and by journalctl in JSON or with all fields.

`journal_export` has the format of `journalctl -o export`.

    {"log":"09[IKE] Sk_ei secret => 16 bytes @ 0x7f0a\n","stream":"stderr","time":"2026-11-21T12:00:00.000000000Z"}
    {"MESSAGE":"Sk_ei secret => 16 bytes @ 0x7f0a\n   0: 9F 7E ...","THREAD":"9","GROUP":"IKE","_PID":"812", ...}

A line of JSON is an entry, and so are the lines from "{" to "}" of JSON that was written for people. `journalctl
-o verbose` writes a field in each line, after a line with the time and the cursor of the entry.
"""

import re
from array import array
from bisect import bisect_right
from collections.abc import Mapping
from typing import Any, Final

import msgspec

#: The text of an entry: of Docker, of journald, and of collectors of logs.
_TEXT_FIELDS: Final = ("log", "MESSAGE", "message", "line")
#: The fields of an entry of journald that name the daemon, the thread, the group and the IKE SA.
SOURCE_FIELDS: Final = frozenset(
    {"SYSLOG_IDENTIFIER", "_COMM", "_PID", "SYSLOG_PID", "THREAD", "GROUP", "IKE_SA_UNIQUE_ID"}
)
#: What precedes the JSON of an entry in `journalctl -o json-seq` and `-o json-sse`.
_MARKS: Final = (b"\x1e", b"data: ")
_CURSOR_LINE: Final = re.compile(rb"\S.{1,80} \[s=[0-9a-f]{32};i=[0-9a-f]+;b=[0-9a-f]{32};")
_FIELD_LINE: Final = re.compile(rb"    ([A-Z_][A-Z0-9_]*)=")
#: Lines of an entry of several lines; the longest of charon have a few hundred.
_MAX_ENTRY_LINES: Final = 4096

_PROCESS: Final = re.compile(r"[A-Za-z][\w.@-]{0,60}", re.ASCII)
_NUMBER: Final = re.compile(r"\d{1,10}", re.ASCII)
_GROUP: Final = re.compile(r"[A-Z]{3}")

_decode_json: Final = msgspec.json.Decoder(dict[str, Any]).decode


class LogEntries:
    """Converts entries to lines. Lines that belong to no entry are kept."""

    is_binary = False  #: whether `convert` takes bytes of the file as they are, cut anywhere, and not its lines

    def __init__(self) -> None:
        self.has_entries = False
        self.left_out = 0  #: messages that journalctl left out because they are long
        self._read = 0  # lines of the file
        self._written = 0  # lines of the text
        #: Where the numbers of consecutive lines differ by another amount than before, in the text and in the file.
        self._here, self._there = array("q"), array("q")
        self._json: list[bytes] = []  # lines of an entry that is written for people
        self._fields: dict[str, str] | None = None  # of an entry of `journalctl -o verbose`, except its text
        self._message: list[str] = []  # lines of its text
        self._last_field = ""
        self._message_line = 0

    def convert(self, block: bytes) -> bytes:
        """Return the text of whole lines of the file."""
        out: list[bytes] = []
        for line in block.removesuffix(b"\n").split(b"\n"):
            self._read += 1
            self._convert_line(line.rstrip(b"\r"), out)
        return b"".join(out)

    def finish(self) -> bytes:
        """Return the rest of the text at the end of the file."""
        out: list[bytes] = []
        self._end_fields(out)
        self._give_back(out)
        return b"".join(out)

    def find_line(self, number: int) -> int:
        """Return the line of the file that a line of the text comes from; both from 1."""
        at = bisect_right(self._here, number) - 1
        return number if at < 0 else self._there[at] + number - self._here[at]

    def _convert_line(self, line: bytes, out: list[bytes]) -> None:
        if self._json:
            self._json.append(line)
            if line == b"}":
                entry = _decode(b"".join(self._json))
                if entry is None:
                    self._give_back(out)
                else:
                    first, self._json = self._read - len(self._json) + 1, []
                    self._write_entry(entry, first, out)
            elif len(self._json) > _MAX_ENTRY_LINES:
                self._give_back(out)
            return
        for mark in _MARKS:
            line = line.removeprefix(mark)
        if line[:1] == b"{":
            if line == b"{":
                self._json = [line]
                return
            entry = _decode(line)
            if entry is not None:
                self._write_entry(entry, self._read, out)
                return
        elif _CURSOR_LINE.match(line):
            self._end_fields(out)
            self._fields = {}
            return
        elif self._fields is not None and line[:4] == b"    ":
            self._add_field(self._fields, line)
            return
        self._end_fields(out)
        self._write(line, self._read, out)

    def _add_field(self, fields: dict[str, str], line: bytes) -> None:
        """Add a line of `journalctl -o verbose`. Further lines of a text are indented by the length of the name."""
        match = _FIELD_LINE.match(line)
        if match is not None:
            name = self._last_field = match[1].decode()
            value = line[match.end() :].decode("utf-8", "replace")
            if name == "MESSAGE":
                self._message, self._message_line = [value], self._read
            elif name in SOURCE_FIELDS:
                fields[name] = value
        elif self._last_field == "MESSAGE" and len(self._message) < _MAX_ENTRY_LINES:
            self._message.append(line[len("    MESSAGE=") :].decode("utf-8", "replace"))

    def _end_fields(self, out: list[bytes]) -> None:
        fields, self._fields = self._fields, None
        if fields is not None and self._message:
            self._write_entry(fields | {"MESSAGE": "\n".join(self._message)}, self._message_line, out)
        self._message, self._message_line, self._last_field = [], 0, ""

    def _give_back(self, out: list[bytes]) -> None:
        """Write lines of JSON that are no entries of a log, unchanged."""
        lines, self._json = self._json, []
        for number, line in enumerate(lines, self._read - len(lines) + 1):
            self._write(line, number, out)

    def _write_entry(self, entry: Mapping[str, Any], number: int, out: list[bytes]) -> None:
        name = next((name for name in _TEXT_FIELDS if name in entry), None)
        if name is None:
            return
        text = _read_text(entry[name])
        if text is None:
            self.left_out += entry[name] is None
            return
        self.has_entries = True
        first = repeated = b""
        if name == "MESSAGE":
            first, repeated = _make_prefix(entry)
        for count, line in enumerate(text.rstrip(b"\n").split(b"\n")):
            self._write((repeated if count else first) + line, number + min(count, self._read - number), out)

    def _write(self, line: bytes, number: int, out: list[bytes]) -> None:
        out.append(line + b"\n")
        self._written += 1
        if not self._here or number - self._written != self._there[-1] - self._here[-1]:
            self._here.append(self._written)
            self._there.append(number)


def detect_entries(head: bytes) -> LogEntries | None:
    """Return what converts a log with this beginning; None: its lines are not wrapped."""
    begin = head.lstrip()
    is_json = begin.removeprefix(_MARKS[0]).removeprefix(_MARKS[1]).startswith(b"{")
    if not is_json and not _CURSOR_LINE.match(begin):
        return None
    trial = LogEntries()
    trial.convert(begin)
    trial.finish()
    return LogEntries() if trial.has_entries or trial.left_out else None


def _decode(data: bytes) -> dict[str, Any] | None:
    """The fields of an entry; None: it is not valid JSON."""
    try:
        return _decode_json(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _read_text(value: Any) -> bytes | None:
    """The bytes of a text, which journald writes as a list of numbers if they are not UTF-8; None: it is neither."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace")
    if isinstance(value, bytes):
        return value
    try:
        return bytes(value) if isinstance(value, list) else None
    except (TypeError, ValueError):
        return None


def _make_prefix(entry: Mapping[str, Any]) -> tuple[bytes, bytes]:
    """What syslog writes before the first line, and before further lines.

    charon-systemd logs the thread and the group in fields, which its log files have in each line.
    """
    process = _match(_PROCESS, entry.get("SYSLOG_IDENTIFIER")) or _match(_PROCESS, entry.get("_COMM")) or "journal"
    pid = _match(_NUMBER, entry.get("_PID")) or _match(_NUMBER, entry.get("SYSLOG_PID")) or "0"
    before = f"journal {process}[{pid}]: "
    thread, group = _match(_NUMBER, entry.get("THREAD")), _match(_GROUP, entry.get("GROUP"))
    if thread is None or group is None:
        return before.encode(), b" " * len(before)
    sa = _match(_NUMBER, entry.get("IKE_SA_UNIQUE_ID"))
    prefix = f"{before}{int(thread):02}[{group}] {f'<{sa}> ' if sa else ''}".encode()
    return prefix, prefix


def _match(pattern: re.Pattern[str], value: object) -> str | None:
    return value if isinstance(value, str) and pattern.fullmatch(value) else None
