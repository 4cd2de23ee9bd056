"""Advice for a name that does not exist: the most similar one that does."""

from collections.abc import Iterable


def suggest_name(name: str, names: Iterable[str], prefix: str = "") -> str:
    """Return "did you mean NAME? " for the most similar of `names`, ignoring case; "" if none is similar.

    `prefix` is written before NAME: the table of a key, for example.
    """
    from difflib import get_close_matches  # for errors alone

    by_lower = {candidate.lower(): candidate for candidate in names}
    near = get_close_matches(name.lower(), by_lower, 1)
    return f"did you mean {prefix}{by_lower[near[0]]}? " if near else ""


def describe_choices(name: str, names: Iterable[str], listed: str | None = None) -> str:
    """Return "; did you mean NAME? (choose from NAMES)", which follows the problem with a name.

    The question is left out if no name is similar. `listed` is written in place of all names, separated by commas.
    """
    known = list(names)
    hint = suggest_name(name, known)
    return f"{f'; {hint}' if hint else ' '}(choose from {', '.join(known) if listed is None else listed})"
