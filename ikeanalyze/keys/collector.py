"""Collect the keys of one file, and warnings about entries that cannot be used."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct, field

from ikeanalyze.keys.key_set import EspKey, KeySet, Origin, Phase1Key

if TYPE_CHECKING:
    from ikeanalyze.io.log_entries import LogEntries
    from ikeanalyze.keys.key_table import KeySetTable

#: Warnings of one file that are kept; the others are only counted.
MAX_WARNINGS: Final = 100


class KeyWarning(Struct, frozen=True):
    """An entry of a key file that is not used or incomplete. The text never contains a key."""

    path: str  # as given
    line: int | None  # from 1; None: about the whole file
    message: str  # one clause

    def __str__(self) -> str:
        where = "" if self.line is None else f"line {self.line}: "
        return f"{self.path}: {where}{self.message}"


class KeyCollector(Struct):
    """The keys and warnings of one file, filled by the readers of all formats."""

    path: str
    formats: list[str] = field(default_factory=list)  # names for people, in order of appearance
    key_sets: list[KeySet] = field(default_factory=list)  # those after the last table
    earlier: list[Sequence[KeySet]] = field(default_factory=list)  # those before, and tables
    phase1: list[Phase1Key] = field(default_factory=list)
    esp: list[EspKey] = field(default_factory=list)
    warnings: list[KeyWarning] = field(default_factory=list)
    dropped_warnings: int = 0  # warnings beyond `MAX_WARNINGS`
    entries: "LogEntries | None" = None  # what converted the lines of the file; None: they are read as they are

    def warn(self, line: int | None, message: str) -> None:
        """Add a warning; beyond `MAX_WARNINGS`, only count it."""
        if len(self.warnings) < MAX_WARNINGS:
            self.warnings.append(KeyWarning(self.path, self._find_line(line), message))
        else:
            self.dropped_warnings += 1

    def add_format(self, name: str) -> None:
        """Record that the file contains entries of this format."""
        if name not in self.formats:
            self.formats.append(name)

    def add_table(self, table: "KeySetTable") -> None:
        """Add the key sets of a table."""
        self.earlier += [self.key_sets, table]
        self.key_sets = []

    def join_key_sets(self) -> Sequence[KeySet]:
        """All key sets."""
        if not self.earlier:
            return self.key_sets
        from ikeanalyze.keys.key_table import join_key_sets  # loads numpy, which few key files need

        return join_key_sets([*self.earlier, self.key_sets])

    def make_origin(self, line: int | None) -> Origin:
        """Return the origin of a key in this file."""
        return Origin(self.path, self._find_line(line))

    def _find_line(self, line: int | None) -> int | None:
        return line if line is None or self.entries is None else self.entries.find_line(line)

    @property
    def key_count(self) -> int:
        """Number of keys of all kinds."""
        return sum(map(len, self.earlier)) + len(self.key_sets) + len(self.phase1) + len(self.esp)


def parse_hex(text: str) -> bytes | None:
    """Return the bytes of hexadecimal digits of either case, with an optional 0x prefix; None if invalid."""
    text = text.strip()
    if text[:2] in ("0x", "0X"):
        text = text[2:]
    if text and not (text.isascii() and text.isalnum()):
        return None
    try:
        return bytes.fromhex(text)
    except ValueError:
        return None
