"""Names of numbers, as the registries of IANA (and, where it says so, vendors) give them.

A registry is an enumeration of the numbers that are assigned; any other number stays a number. Nothing fails
because of tomorrow's assignment: `get_name` gives the number as text.
"""

from enum import IntEnum
from typing import Self


class Registry(IntEnum):
    """Numbers with names. The name is the member's, unless a second value gives another spelling."""

    _text: str | None

    def __new__(cls, value: int, text: str | None = None) -> Self:
        """Make a member of one row: a number, or a number and its spelling."""
        member = int.__new__(cls, value)
        member._value_ = value
        member._text = text
        return member

    @property
    def label(self) -> str:
        """Name for output."""
        return self._text or self._name_


class DashedRegistry(Registry):
    """A registry whose names have dashes where an identifier has underscores."""

    @property
    def label(self) -> str:
        """Name for output."""
        return self._text or self._name_.replace("_", "-")


def get_name(registry: type[Registry], value: int) -> str:
    """Name of a number in a registry; the number as text where it has none."""
    member = registry._value2member_map_.get(value)
    return str(value) if member is None else member.label  # type: ignore[attr-defined]
