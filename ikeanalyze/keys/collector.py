"""What one file with keys turns out to have in it, and what of it cannot be used."""

from dataclasses import dataclass, field
from typing import Final

from ikeanalyze.keys.key_set import EspKey, KeySet, Origin, Phase1Key

#: Warnings kept of one file; of more there is but the number.
MOST_WARNINGS: Final = 100


@dataclass(frozen=True, slots=True)
class KeyWarning:
    """Something in a key file that is not used, or that one should know of. Never with a key in it."""

    path: str  # as it was given
    line: int | None  # from 1; None: about the whole file
    what: str  # one clause

    def __str__(self) -> str:
        where = "" if self.line is None else f"line {self.line}: "
        return f"{self.path}: {where}{self.what}"


@dataclass(slots=True)
class KeyCollector:
    """Where the readers of all formats put what they find in one file."""

    path: str
    formats: list[str] = field(default_factory=list)  # names for people, in order of appearance
    key_sets: list[KeySet] = field(default_factory=list)
    phase1: list[Phase1Key] = field(default_factory=list)
    esp: list[EspKey] = field(default_factory=list)
    warnings: list[KeyWarning] = field(default_factory=list)
    unsaid: int = 0  # warnings beyond `MOST_WARNINGS`

    def warn(self, line: int | None, what: str) -> None:
        """Note what is wrong in a line."""
        if len(self.warnings) < MOST_WARNINGS:
            self.warnings.append(KeyWarning(self.path, line, what))
        else:
            self.unsaid += 1

    def add_format(self, name: str) -> None:
        """Note that something of this format is in the file."""
        if name not in self.formats:
            self.formats.append(name)

    def make_origin(self, line: int | None) -> Origin:
        """Where a key stands."""
        return Origin(self.path, line)

    @property
    def keys(self) -> int:
        """How many there are, of whatever kind."""
        return len(self.key_sets) + len(self.phase1) + len(self.esp)


def parse_hex(text: str) -> bytes | None:
    """Bytes of hexadecimal digits, of either case, with or without 0x in front; None: these are none."""
    text = text.strip()
    if text[:2] in ("0x", "0X"):
        text = text[2:]
    if not text.isascii() or not text.isalnum():
        return None if text else b""
    try:
        return bytes.fromhex(text)
    except ValueError:
        return None
