"""Advice for a name that does not exist: the most similar one that does."""

from collections.abc import Iterable
from difflib import get_close_matches


def suggest_name(name: str, names: Iterable[str], prefix: str = "") -> str:
    """Return "did you mean NAME? " for the most similar of `names`, ignoring case; "" if none is similar.

    `prefix` is written before NAME: the table of a key, for example.
    """
    by_lower = {candidate.lower(): candidate for candidate in names}
    near = get_close_matches(name.lower(), by_lower, 1)
    return f"did you mean {prefix}{by_lower[near[0]]}? " if near else ""
