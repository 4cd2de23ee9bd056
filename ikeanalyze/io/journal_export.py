r"""The export format of journald, which `journalctl -o export` writes.

    __CURSOR=s=...
    SYSLOG_IDENTIFIER=charon-systemd
    MESSAGE
    \x29\0\0\0\0\0\0\0Sk_ei secret => 16 bytes @ 0x7f0a
       0: 9F 7E ...
    THREAD=9

A field is a line; one that has line feeds or other control characters in its value has the length of the value in 64
bits, little-endian, before it. An empty line ends an entry (https://systemd.io/JOURNAL_EXPORT_FORMATS/).
"""

from typing import Final

from ikeanalyze.io.log_entries import SOURCE_FIELDS, LogEntries

#: How a file begins: with the first field of its first entry.
BEGINNING: Final = b"__CURSOR="
_LENGTH_BYTES: Final = 8
#: Of a value; a longer one is damaged. journald takes up to 768 MiB, as of core dumps, but no line of a log is so long.
_MAX_VALUE_BYTES: Final = 16 << 20


class JournalExport(LogEntries):
    """Converts entries of journald's export format to lines."""

    is_binary = True

    def __init__(self) -> None:
        super().__init__()
        self._rest = b""  # of the file, from the beginning of a field on
        self._entry: dict[str, str | bytes] = {}
        self._text_line = 0  # where its text begins

    def convert(self, block: bytes) -> bytes:
        """Return the text of the entries that end in the next bytes of the file."""
        out: list[bytes] = []
        data, at = self._rest + block, 0
        while (end := self._find_end(data, at)) is not None:
            at = self._read_field(data, at, end, out)
        self._rest = data[at:]
        return b"".join(out)

    def finish(self) -> bytes:
        """Return the rest of the text at the end of the file, also of a value that is cut off there."""
        out: list[bytes] = []
        if self._rest:
            self._read_field(self._rest + b"\n", 0, len(self._rest), out)
        self._end_entry(out)
        return b"".join(out)

    def _find_end(self, data: bytes, at: int) -> int | None:
        """Where the line feed after a field is; None: not in these bytes."""
        end = data.find(b"\n", at)
        if end < 0:
            return None
        if end == at or b"=" in data[at:end]:
            return end
        begin = end + 1 + _LENGTH_BYTES
        if begin > len(data):
            return None
        size = int.from_bytes(data[end + 1 : begin], "little")
        if size > _MAX_VALUE_BYTES:
            return end  # no field; the next line may be one
        return begin + size if begin + size < len(data) else None

    def _read_field(self, data: bytes, at: int, end: int, out: list[bytes]) -> int:
        """Add the field in `data[at:end]`; return where the next one begins."""
        line, _, rest = data[at:end].partition(b"\n")
        name, has_value, value = line.partition(b"=")
        begin = at
        if len(rest) >= _LENGTH_BYTES:
            has_value, value = b"=", rest[_LENGTH_BYTES:]
            begin = end - len(value)
        if not line or line.startswith(BEGINNING):
            self._end_entry(out)
        if not has_value:
            pass  # the end of an entry, or damaged
        elif name == b"MESSAGE":
            self._entry["MESSAGE"] = value
            self._text_line = self._read + data.count(b"\n", at, begin) + 1
        elif (field := name.decode("ascii", "replace")) in SOURCE_FIELDS:
            self._entry[field] = value.decode("utf-8", "replace")
        self._read += data.count(b"\n", at, end + 1)
        return end + 1

    def _end_entry(self, out: list[bytes]) -> None:
        entry, self._entry = self._entry, {}
        if "MESSAGE" in entry:
            self._write_entry(entry, self._text_line, out)
