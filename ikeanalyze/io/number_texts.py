"""Advice for a text that should be a number."""

import re
from typing import Final

_WITH_UNIT: Final = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))\s*(%|[a-zA-Zµ]+)")


def suggest_number(text: str) -> str:
    """Return "; write 10 without a unit" for a number with a unit, "" for other texts."""
    match = _WITH_UNIT.fullmatch(text.strip())
    if match is None:
        return ""
    if match[2] == "%":
        return f". {match[1]} % is written {float(match[1]) / 100:g}"
    return f"; write {match[1]} without a unit"
