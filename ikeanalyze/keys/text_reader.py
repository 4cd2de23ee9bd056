"""Read the lines of a key file, which may mix logs of charon and libreswan, Wireshark's tables and tcpdump's secrets.

Until the file is known to be a log, each line is offered to the readers of all formats. A log may have millions of
lines, of which few matter: in a log, the patterns of each reader find those to read, in a block at once.
They may match lines that do not matter, too. Hex dumps are the exception: while one is incomplete, each line is read.
"""

import re
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import TYPE_CHECKING, Final

from ikeanalyze import core
from ikeanalyze.keys.collector import KeyCollector
from ikeanalyze.keys.libreswan import LOG, LibreswanReader
from ikeanalyze.keys.text_blocks import MAX_LINE_BYTES, TextBlocks
from ikeanalyze.keys.wireshark import TableReader

if TYPE_CHECKING:
    from ikeanalyze._core import FoundLine
    from ikeanalyze.keys.charon.model import CharonLog
    from ikeanalyze.keys.charon.reader import CharonReader

_MAX_UNREAD: Final = 100  # lines that are not rows and whose numbers are kept


class TextReader:
    """Reads blocks of lines, and adds their keys to a collector."""

    def __init__(self, collector: KeyCollector) -> None:
        self._collector = collector
        self._charon_reader: CharonReader | None = None  # None: all lines so far are rows of a table
        self._libreswan = LibreswanReader(collector)
        self._tables = TableReader(collector)
        self._unread: list[int] = []
        self._more_unread = 0
        self._rows = False
        self.charon = False  # some lines are of charon
        self.pluto = False  # some lines are of libreswan's pluto

    @property
    def recognised(self) -> bool:
        """Whether some lines have a known format."""
        return self._is_log or self._rows or bool(self._collector.formats)

    @property
    def _is_log(self) -> bool:
        return self.charon or self.pluto or LOG in self._collector.formats

    def read(self, blocks: TextBlocks) -> "CharonLog | None":
        """Read all blocks; returns the values of a charon log other than keys, if it is one."""
        remaining = blocks.read_blocks()
        for number, data in remaining:
            block = _Block(data, number)
            while block.position < len(data) and not self._is_log:
                self._read_line(block)
            if block.position < len(data):
                self._read_relevant_lines(block)
            blocks.recognised = self.recognised
            if core.compiled is not None and self._is_log and blocks.is_plain_file:
                self._read_in_two_threads(remaining)
        log = None if self._charon_reader is None else self._charon_reader.finish()
        self._libreswan.finish()
        if not self._is_log and self.recognised:
            for number in self._unread:
                self._collector.warn(number, "not a row of a key table; not used")
            self._collector.dropped_warnings += self._more_unread
        return log

    @property
    def _charon(self) -> "CharonReader":
        if self._charon_reader is None:
            # late: a table mostly has no other lines than rows
            from ikeanalyze.keys.charon.reader import CharonReader

            self._charon_reader = CharonReader(self._collector)
        return self._charon_reader

    @cached_property
    def _relevant(self) -> tuple[re.Pattern[bytes], ...]:
        """The patterns that find the lines of a log that matter. None has groups, except those of `text_pattern`."""
        text = self._charon.text_pattern
        # Two spaces after a prefix begin a line of a dump, which is the most frequent kind of line.
        message = rb"\](?!  )(?: <(?:[^>\n]*\|)?\d{1,10}>|:)?+[^\S\n]*+%b" % text
        # So does a number, except in a table.
        line = rb"\n(?!\d+ [^\s\",])[^\S\n]*+(?:%b|%b|(?!\d)%b)" % (
            TableReader.LINE_PATTERN,
            LibreswanReader.LINE_PATTERN,
            text,
        )
        words = LibreswanReader.WORD_PATTERN
        return tuple(re.compile(pattern, re.MULTILINE) for pattern in (message, line, words))

    def _read_relevant_lines(self, block: "_Block") -> None:
        """Read the lines of a log from the position of a block to its end, without those that do not matter."""
        self._read_message(block)  # the first line, because the patterns of lines match the newline before
        self._read_found(block, block.number, self._find_lines(block.data, block.position))

    def _find_lines(self, data: bytes, start: int) -> "Iterable[FoundLine]":
        """Find the lines that matter; see `find_log_lines` of the compiled core."""
        labels, messages = self._charon.wanted
        if core.compiled is not None:
            return core.compiled.find_log_lines(data, start, labels, messages)
        # late: only logs without the compiled core need it, and numpy
        from ikeanalyze.keys.charon.matched_lines import describe_matches

        # a pattern of lines matches the newline before
        matches = [match for pattern in self._relevant for match in pattern.finditer(data, max(start - 1, 0))]
        matches.sort(key=re.Match.start)
        return describe_matches(data, start, matches, labels)

    def _read_in_two_threads(self, blocks: "Iterator[tuple[int, bytes]]") -> None:
        """Read blocks of a log with the compiled core: one thread finds the lines, the other uses those found."""

        def find_next() -> "tuple[_Block, Iterable[FoundLine]] | None":
            for number, data in blocks:
                return _Block(data, number), self._find_lines(data, 0)
            return None

        with ThreadPoolExecutor(1) as pool:
            result = pool.submit(find_next).result()
            while result is not None:
                following = pool.submit(find_next)
                block, lines = result
                first = block.number
                self._read_message(block)  # the first line, as in `_read_relevant_lines`
                self._read_found(block, first, lines)
                result = following.result()

    def _read_found(self, block: "_Block", first: int, lines: "Iterable[FoundLine]") -> None:
        """Read the lines that were found, from the position of a block on; the search began at line `first`."""
        data = block.data
        for start, text, end, lines_before, is_message, dump in lines:
            if start >= block.position:
                number = first + lines_before
                if is_message:
                    used = self._charon.use_text(number, data[start:text], data[text:end])
                else:
                    used = dump is not None and self._charon.use_dump(number, data[start:text], *dump)
                if used:
                    self.charon = True
                    block.position = end
                    continue
                block.go_to(start, number)
            while block.position < end:  # unless it was read with a dump before
                self._read_message(block)

    def _read_message(self, block: "_Block") -> None:
        """Read a line and, if it begins a dump, the lines up to the end of the dump or of the block."""
        self._read_line(block)
        while self._charon.expects_lines and block.position < len(block.data):
            self._read_line(block)

    def _read_line(self, block: "_Block") -> None:
        """Read a line, or all rows of a table that follow each other."""
        if self._charon_reader is None or not self._charon_reader.expects_lines:
            number = block.number
            position, rows = self._tables.feed_plain_rows(block.data, block.position, number)
            if rows:
                self._rows = True
                block.go_to(position, number + rows)
                return
        number, line = block.read_line()
        if self._charon.feed(number, line):
            self.charon = True
            return
        if (b"ikev" in line or b"@" in line) and self._libreswan.feed(number, line):
            return
        stripped = line.strip()
        if not stripped or stripped.startswith(b"#"):
            return
        if b"," in stripped and self._tables.feed(number, stripped.decode("utf-8", "replace")):
            self._rows = True
        elif len(self._unread) < _MAX_UNREAD:
            self._unread.append(number)
            self.pluto = self.pluto or b"Pluto" in line or b"pluto" in line
        else:
            self._more_unread += 1


class _Block:
    """Whole lines, and the position of the next one to read."""

    __slots__ = ("_counted", "_number", "data", "position")

    def __init__(self, data: bytes, number: int) -> None:
        self.data = data
        self.position = 0
        self._number = number  # of the line at `_counted`
        self._counted = 0

    @property
    def number(self) -> int:
        """Number of the line at the position."""
        self._number += self.data.count(b"\n", self._counted, self.position)
        self._counted = self.position
        return self._number

    def go_to(self, position: int, number: int) -> None:
        """Continue with the line of this number at the position."""
        self.position = self._counted = position
        self._number = number

    def read_line(self) -> tuple[int, bytes]:
        """Return the number and the bytes of the line at the position, and go to the next one."""
        number, start = self.number, self.position
        self.position = self.data.find(b"\n", start) + 1 or len(self.data)
        return number, self.data[start : min(self.position, start + MAX_LINE_BYTES)].rstrip(b"\r\n")
