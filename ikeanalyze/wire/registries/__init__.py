"""Names of protocol numbers from IANA's registries and, where noted, from vendors.

A registry is an enumeration of assigned numbers. Unassigned numbers are not errors: `get_name` returns them as text.
"""

from enum import IntEnum
from typing import Self


class Registry(IntEnum):
    """Numbers with names: the second value of a member, or else the name of the member."""

    _text: str | None

    def __new__(cls, value: int, text: str | None = None) -> Self:
        """Create a member from a number, or a number and its name."""
        member = int.__new__(cls, value)
        member._value_ = value
        member._text = text
        return member

    @property
    def label(self) -> str:
        """Name for output."""
        return self._text or self._name_


class DashedRegistry(Registry):
    """A registry whose names have dashes in place of the underscores of the member."""

    @property
    def label(self) -> str:
        """Name for output."""
        return self._text or self._name_.replace("_", "-")


def get_name(registry: type[Registry], value: int) -> str:
    """Name of a number in a registry; the number as text if it has no name."""
    member = registry._value2member_map_.get(value)
    return str(value) if member is None else member.label  # type: ignore[attr-defined]
