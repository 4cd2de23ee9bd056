"""Labels out of a path: `{config}/loss{loss:float}/{run:int}.pcapng`.

A pattern is a format string as Python has them, read backwards: what stands in the path where the field does is the label.
Its fields never reach over a `/`, and it is laid to the path's end, as many folders of it as the pattern has.
"""

import math
import re
import string
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

Kind = Literal["int", "float", "str", "bool"]
Value = int | float | str | bool

#: What a label of each kind looks like in a path.
_FORMS: Final[Mapping[str, str]] = {
    "int": r"[+-]?\d+",
    "float": r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?",
    "str": r"[^/]+?",
}
_READ: Final = {"int": int, "float": float, "str": str}
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_GREATEST: Final = 2**63


class PatternError(Exception):
    """A pattern that cannot be meant: one line for the user."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """One `--label`."""

    text: str  # as it was given
    kinds: Mapping[str, Kind]  # by label name, in order
    _form: re.Pattern[str]
    _depth: int  # parts of the path that it is laid to

    def labels(self, path: str) -> dict[str, Value] | None:
        """The labels of an absolute path; None: the pattern does not fit it."""
        match = self._form.fullmatch("/".join(path.split("/")[-self._depth :]))
        if match is None:
            return None
        found = {name: _READ[kind](match[name]) for name, kind in self.kinds.items()}
        if not all(map(_fits, found.values())):
            return None
        return found


def is_name(text: str) -> bool:
    """Whether a label may have this name."""
    return _NAME.fullmatch(text) is not None


def _fits(value: Value) -> bool:
    """Whether a column can have it: integers have 64 bits, and what is beyond the range of floats is no number."""
    match value:
        case int():
            return -_GREATEST <= value < _GREATEST
        case float():
            return math.isfinite(value)
        case str():
            return True


def read_pattern(text: str) -> Pattern:
    """Read a pattern.

    Raises:
        PatternError: it is no pattern; what is wrong and what is allowed.

    """
    kinds: dict[str, Kind] = {}
    form = ""
    try:
        fields = list(string.Formatter().parse(text))
    except ValueError as error:
        raise PatternError(f"{text!r}: {error}. A label stands in braces: {{config}}, {{run:int}}") from None
    for literal, name, kind, conversion in fields:
        form += re.escape(literal)
        if name is None:
            continue
        kind = kind or "str"
        if conversion:
            raise PatternError(f"{text!r}: !{conversion} means nothing behind {name!r}; a label is int, float or str")
        if kind not in _FORMS:
            raise PatternError(f"{text!r}: there is no {kind!r}; a label is int, float or str")
        if not name:
            form += f"(?:{_FORMS[kind]})"
            continue
        if not is_name(name):
            raise PatternError(f"{text!r}: {name!r} is no name; it has letters, digits and _ in it")
        if name in kinds:
            raise PatternError(f"{text!r}: {name} stands in it twice; {{}} matches what is no label")
        kinds[name] = kind  # type: ignore[assignment]
        form += f"(?P<{name}>{_FORMS[kind]})"
    if not kinds:
        raise PatternError(f"{text!r}: no label in it, such as {{config}} or {{run:int}}")
    return Pattern(text, kinds, re.compile(form, re.DOTALL), text.count("/") + 1)
