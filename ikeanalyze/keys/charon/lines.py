"""Lines of a charon log to messages of its threads, and hex dumps put together.

A line of a file or of syslog has the thread and the group of the message, and where `ike_name` is set its IKE SA:

    Nov 21 12:00:00 host charon[812]: 09[IKE] <name|1> Sk_ei secret => 16 bytes @ 0x7f0a
    Nov 21 12:00:00 host charon[812]: 09[IKE] <name|1>    0: 9F 7E 89 CE B0 B5 CA 04 FE 0E 5C 4B 30 C0 18 4E  ..........

charon-systemd's messages in the journal have neither; a dump's further lines are indented there. What stands in front
depends on `time_format`, syslog or journalctl and is not looked at, but for the process.
"""

import re
from collections.abc import Container
from dataclasses import dataclass, field
from typing import Final

#: A thread: the process as syslog names it, and its number; empty, None: not told.
Thread = tuple[bytes, int | None]

_PREFIX: Final = re.compile(rb"(?:^|[\s:])(\d{2,5})\[([A-Z]{3})\d?\](?: <(?:[^>]*\|)?(\d{1,10})>)? ?")
_PROCESS: Final = re.compile(rb"([A-Za-z][\w.@-]*(?:\[\d+\])?):\s*$")
_JOURNAL: Final = re.compile(rb"^\S.*? [A-Za-z][\w.@-]*\[\d+\]: ")
_LABEL: Final = re.compile(rb"(.{1,100}?) => (\d{1,7}) bytes @ (?:0x[0-9a-fA-F]+|\(nil\))\s*$")
_HEX: Final = re.compile(rb"\s*(\d{1,7}): ((?:[0-9A-Fa-f]{2}[ ]*){1,16})")

_PER_LINE: Final = 16
#: A dump is no longer than an IKE message; what says it is, is not ours.
_LONGEST: Final = 1 << 17
#: Threads that are remembered. charon has 16; a log of logs may have more.
_MOST_THREADS: Final = 4096


@dataclass(slots=True)
class LogMessage:
    """A message of charon, complete."""

    thread: Thread
    group: bytes | None  # b"IKE"; None: not told
    sa: int | None  # unique ID of the IKE SA; None: not told
    line: int  # where it begins
    text: bytes  # of a dump: what stands before the arrow
    data: bytes | None = field(default=None, repr=False)  # of a dump; None: none, or not complete
    dump: bool = False


@dataclass(slots=True)
class _Dump:
    message: LogMessage
    size: int
    data: bytearray = field(default_factory=bytearray, repr=False)


class LogMessageReader:
    """Takes lines, gives messages. A dump is given when its last line has come, or is clear not to come."""

    def __init__(self, wanted: Container[bytes]) -> None:
        """Take these dumps only, by what stands before the arrow."""
        self._wanted = wanted
        self._unnumbered: Thread = (b"", None)  # the last thread without number
        self._open: dict[Thread, _Dump] = {}

    def feed(self, number: int, line: bytes) -> tuple[bool, list[LogMessage]]:
        """Whether the line is charon's, and the messages that it completes."""
        prefix = _PREFIX.search(line)
        if prefix is not None:
            before = _PROCESS.search(line, 0, prefix.start(1))
            thread: Thread = (before[1] if before else b"", int(prefix[1]))
            sa = None if prefix[3] is None else int(prefix[3])
            return True, self._message(thread, prefix[2], sa, number, line[prefix.end() :])
        journal = _JOURNAL.match(line)
        if journal is not None:
            process = _PROCESS.search(line, 0, journal.end())
            thread = (process[1] if process else b"", None)
            text = line[journal.end() :]
            self._unnumbered = thread
        else:
            thread, text = self._unnumbered, line  # of whose dump it may be a line
        if thread in self._open or _LABEL.fullmatch(text.strip()):
            return True, self._message(thread, None, None, number, text)
        return False, [LogMessage(thread, None, None, number, text.strip())] if text.strip() else []

    def finish(self) -> list[LogMessage]:
        """What is left open when the log ends."""
        left = [dump.message for dump in self._open.values()]
        self._open.clear()
        return left

    def _message(
        self, thread: Thread, group: bytes | None, sa: int | None, number: int, text: bytes
    ) -> list[LogMessage]:
        done = []
        dump = self._open.get(thread)
        if dump is not None:
            if self._goes_on(dump, text):
                if len(dump.data) < dump.size:
                    return []
                del self._open[thread]
                dump.message.data = bytes(dump.data)
                return [dump.message]
            del self._open[thread]
            done.append(dump.message)  # without data: the log lacks lines
        if text[:1] == b" ":  # of a dump that is not wanted, or a detail of the message before
            return done
        stripped = text.strip()
        label = _LABEL.fullmatch(stripped) if b" => " in stripped else None
        if label is None:
            if stripped:
                done.append(LogMessage(thread, group, sa, number, stripped))
            return done
        if label[1] not in self._wanted:
            return done
        message = LogMessage(thread, group, sa, number, label[1], dump=True)
        size = int(label[2])
        if size == 0:
            message.data = b""
            done.append(message)
        elif size <= _LONGEST:
            if len(self._open) >= _MOST_THREADS:
                done.append(self._open.pop(next(iter(self._open))).message)
            self._open[thread] = _Dump(message, size)
        return done

    def _goes_on(self, dump: _Dump, text: bytes) -> bool:
        """Take a line of hexadecimal digits, if it is the next one of the dump."""
        line = _HEX.match(text)
        if line is None or int(line[1]) != len(dump.data):
            return False
        count = min(_PER_LINE, dump.size - len(dump.data))
        # behind the digits stand the same bytes as text, which may look like digits
        octets = bytes.fromhex(line[2].decode())[:count]
        if len(octets) < count:
            return False
        dump.data += octets
        return True
