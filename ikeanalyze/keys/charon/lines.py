"""Split a charon log into messages of its threads, and assemble hex dumps.

A line of a file or of syslog names the thread and the group of the message and, with `ike_name`, the IKE SA:

    Nov 21 12:00:00 host charon[812]: 09[IKE] <name|1> Sk_ei secret => 16 bytes @ 0x7f0a
    Nov 21 12:00:00 host charon[812]: 09[IKE] <name|1>    0: 9F 7E 89 CE B0 B5 CA 04 FE 0E 5C 4B 30 C0 18 4E  ..........

The messages of charon-systemd in the journal have neither; there, the further lines of a dump are indented. The text
before depends on `time_format`, syslog, journalctl or a container engine and is ignored, except for the process, its
host and its container: the daemons of a merged log have the same numbers of threads.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import ClassVar, Final

from msgspec.structs import replace

from ikeanalyze.crypto.sk_payload import WithSecrets

#: A thread: its daemon (container, host and process), empty if not logged, and the thread number, None if missing.
Thread = tuple[bytes, int | None]

_PREFIX: Final = re.compile(rb"(?:^|[\s:])(\d{2,5})\[([A-Z]{3})\d?\](?: <(?:[^>]*\|)?(\d{1,10})>)? ?")
_PROCESS: Final = re.compile(rb"((?:(?<!\S)(?:[A-Za-z][\w.-]*|\d+(?:\.\d+){3}) )?[A-Za-z][\w.@-]*(?:\[\d+\])?):\s*$")
#: The beginning of lines of `docker compose logs`, of `kubectl logs --prefix`, and of syslog by RFC 5424, section 6.
_SOURCE: Final = re.compile(rb"([\w.-]+) +\| |\[(pod/[^]\s]+)\] |<\d{1,3}>1 \S+ (\S+ \S+ \S+) ")
_JOURNAL: Final = re.compile(rb"^\S.*? [A-Za-z][\w.@-]*\[\d+\]: ")
_LABEL: Final = re.compile(rb"(.{1,100}?) => (\d{1,7}) bytes @ (?:0x[0-9a-fA-F]+|\(nil\))\s*$")
#: A space follows each byte: in a log whose last line was cut, the next line may go on with digits of a time.
_HEX: Final = re.compile(rb"\s*(\d{1,7}): ((?:[0-9A-Fa-f]{2}(?: +|\s*$)){1,16})")

_BYTES_PER_LINE: Final = 16
#: No dump is longer than an IKE message; longer ones are ignored.
_MAX_DUMP_BYTES: Final = 1 << 17
#: Threads with an incomplete dump. charon has 16 threads; a merged log may have more.
_MAX_THREADS: Final = 4096


class LogMessage(WithSecrets, frozen=True):
    """A complete message of charon, or a hex dump."""

    SHOWN: ClassVar[tuple[str, ...]] = ("thread", "group", "sa", "line", "text", "dump")
    thread: Thread
    group: bytes | None  # b"IKE"; None: not logged
    sa: int | None  # unique ID of the IKE SA; None: not logged
    line: int  # number of its first line, from 1
    text: bytes  # of a dump: the label before the arrow
    data: bytes | None = None  # of a dump; None: not a dump, or incomplete
    dump: bool = False


@dataclass(frozen=True, slots=True)
class _Prefix:
    """The beginning of a line before the text."""

    thread: Thread
    group: bytes | None  # None: a line of the journal
    sa: int | None
    size: int  # bytes


@lru_cache(maxsize=1024)
def _parse_prefix(line: bytes) -> _Prefix | None:
    """Parse the prefix of a line; many lines have the same one."""
    numbered = _PREFIX.search(line)
    prefix = numbered or _JOURNAL.match(line)
    if prefix is None:
        return None
    process = _PROCESS.search(line, 0, prefix.start(1) if numbered else prefix.end())
    source = _SOURCE.match(line)
    name = process[1] if process else b""
    if source is not None:
        name = b" ".join([source[source.lastindex or 0], name])
    if numbered is None:
        return _Prefix((name, None), None, None, prefix.end())
    sa = None if numbered[3] is None else int(numbered[3])
    return _Prefix((name, int(numbered[1])), numbered[2], sa, numbered.end())


@dataclass(slots=True)
class _Dump:
    message: LogMessage
    size: int
    latest: bytes = field(repr=False)  # the last line
    data: bytearray = field(default_factory=bytearray, repr=False)


class LogMessageReader:
    """Converts lines to messages. A dump is returned after its last line, or when that is known to be missing."""

    def __init__(self, wanted: Sequence[bytes], messages: bytes = b"(?!)") -> None:
        """`wanted`: labels of the dumps to read; `messages`: pattern of other messages to find in a block."""
        self._wanted = frozenset(wanted)
        self._messages = messages
        self._unnumbered: Thread = (b"", None)  # the last thread without number
        self._open: dict[Thread, _Dump] = {}

    @property
    def has_incomplete_dumps(self) -> bool:
        """Whether any line may continue a dump."""
        return bool(self._open)

    @cached_property
    def text_pattern(self) -> bytes:
        """Pattern of the wanted dumps and other messages.

        The groups are the label and the size of a dump, or the beginning of another message.
        """
        labels = b"|".join(map(re.escape, sorted(self._wanted)))
        return rb"(?:(%b) => (\d{1,7}) bytes @ (?:0x[0-9a-fA-F]+|\(nil\))[^\S\n]*$|(%b))" % (labels, self._messages)

    def make_dump(
        self, number: int, before: bytes, label: bytes, data: bytes, indented: bool | None
    ) -> LogMessage | None:
        """Make the message of a whole dump; None: its lines must be read one by one.

        `before` precedes the label in its line, and each further line; or, `indented`, as many spaces do. None: there
        are no further lines.
        """
        prefix = _parse_prefix(before)
        if self._open or prefix is None or prefix.size != len(before):
            return None
        if indented is not None and indented != (prefix.group is None):
            return None
        if prefix.group is None:
            self._unnumbered = prefix.thread
        return LogMessage(prefix.thread, prefix.group, prefix.sa, number, label, data, True)

    def make_text(self, number: int, before: bytes, text: bytes) -> LogMessage | None:
        """Make the message of a line with `text` after `before`; None: the line must be read."""
        prefix = _parse_prefix(before)
        if self._open or prefix is None or prefix.group is None or prefix.size != len(before) or b" bytes @ " in text:
            return None
        return LogMessage(prefix.thread, prefix.group, prefix.sa, number, text.strip())

    def feed(self, number: int, line: bytes) -> tuple[bool, list[LogMessage]]:
        """Read a line; returns whether charon wrote it, and the messages that it completes."""
        match = _PREFIX.search(line) or _JOURNAL.match(line)
        prefix = None if match is None else _parse_prefix(line[: match.end()])
        text = line if prefix is None else line[prefix.size :]
        if prefix is not None and prefix.group is not None:
            return True, self._complete_messages(prefix.thread, prefix.group, prefix.sa, number, text)
        if prefix is not None:
            self._unnumbered = prefix.thread
        thread = self._unnumbered  # without a prefix: may continue a dump of this thread
        if thread in self._open or _LABEL.fullmatch(text.strip()):
            return True, self._complete_messages(thread, None, None, number, text)
        return False, [LogMessage(thread, None, None, number, text.strip())] if text.strip() else []

    def finish(self) -> list[LogMessage]:
        """Return the dumps that are incomplete at the end of the log."""
        incomplete = [dump.message for dump in self._open.values()]
        self._open.clear()
        return incomplete

    def _complete_messages(
        self, thread: Thread, group: bytes | None, sa: int | None, number: int, text: bytes
    ) -> list[LogMessage]:
        completed = []
        dump = self._open.get(thread)
        if dump is not None:
            if text == dump.latest:  # logged twice, such as to standard output and standard error of a container
                return []
            if self._append(dump, text):
                if len(dump.data) < dump.size:
                    return []
                del self._open[thread]
                return [replace(dump.message, data=bytes(dump.data))]
            del self._open[thread]
            completed.append(dump.message)  # without data: lines are missing
        if text[:1] == b" ":  # belongs to a skipped dump or to the message before
            return completed
        stripped = text.strip()
        label = _LABEL.fullmatch(stripped) if b" => " in stripped else None
        if label is None:
            if stripped:
                completed.append(LogMessage(thread, group, sa, number, stripped))
            return completed
        if label[1] not in self._wanted:
            return completed
        message = LogMessage(thread, group, sa, number, label[1], dump=True)
        size = int(label[2])
        if size == 0:
            completed.append(replace(message, data=b""))
        elif size <= _MAX_DUMP_BYTES:
            if len(self._open) >= _MAX_THREADS:
                completed.append(self._open.pop(next(iter(self._open))).message)
            self._open[thread] = _Dump(message, size, text)
        return completed

    def _append(self, dump: _Dump, text: bytes) -> bool:
        """Append a line of hexadecimal digits; returns whether it is the next one of the dump."""
        line = _HEX.match(text)
        if line is None or int(line[1]) != len(dump.data):
            return False
        count = min(_BYTES_PER_LINE, dump.size - len(dump.data))
        # The same bytes follow as text, which may look like digits.
        octets = bytes.fromhex(line[2].decode())[:count]
        if len(octets) < count:
            return False
        dump.data += octets
        dump.latest = text
        return True
