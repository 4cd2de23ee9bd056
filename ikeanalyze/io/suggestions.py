"""Advice in errors: the most similar name that exists, the number without its unit, how to install a package."""

import re
from collections.abc import Iterable
from typing import Final

#: Letters from which on a name counts as the beginning of a longer one.
_BEGINNING: Final = 3
_WITH_UNIT: Final = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))\s*(%|[a-zA-Zµ]+)")


def suggest_name(name: str, names: Iterable[str], prefix: str = "") -> str:
    """Return "did you mean NAME? " for the most similar of `names`, ignoring case; "" if none is similar.

    A name that begins with `name` is preferred: the most similar one to link.los is link.seed, because it is as short.
    `prefix` is written before NAME: the table of a key, for example.
    """
    from difflib import get_close_matches  # for errors alone

    by_lower = {candidate.lower(): candidate for candidate in names}
    lower = name.lower()
    longer = [candidate for candidate in by_lower if candidate.startswith(lower)] if len(lower) >= _BEGINNING else []
    near = get_close_matches(lower, longer, 1, 0) or get_close_matches(lower, by_lower, 1)
    return f"did you mean {prefix}{by_lower[near[0]]}? " if near else ""


def suggest_names(name: str, names: Iterable[str], limit: int = 5) -> str:
    """Return "did you mean A, B or C? " for at most `limit` names that are similar to `name` or contain it, ignoring
    case; "" if there are none.
    """
    from difflib import get_close_matches  # for errors alone

    by_lower = {candidate.lower(): candidate for candidate in names}
    lower = name.lower()
    near = get_close_matches(lower, by_lower, limit)
    near += [candidate for candidate in by_lower if lower and lower in candidate and candidate not in near]
    *others, last = [by_lower[candidate] for candidate in near[:limit]] or [""]
    return f"did you mean {', '.join(others)}{' or ' if others else ''}{last}? " if last else ""


def describe_choices(name: str, names: Iterable[str], listed: str | None = None) -> str:
    """Return "; did you mean NAME? (choose from NAMES)", which follows the problem with a name.

    The question is left out if no name is similar. `listed` is written in place of all names, separated by commas.
    """
    known = list(names)
    hint = suggest_name(name, known)
    return f"{f'; {hint}' if hint else ' '}(choose from {', '.join(known) if listed is None else listed})"


def suggest_number(text: str, *, is_percentage: bool = False) -> str:
    """Return "; write 10 without a unit" for a number with a unit, "" for other texts.

    `is_percentage`: 10 % is written 10, otherwise 0.1.
    """
    match = _WITH_UNIT.fullmatch(text.strip())
    if match is None:
        return ""
    if match[2] == "%" and not is_percentage:
        return f". {match[1]} % is written {float(match[1]) / 100:g}"
    return f"; write {match[1]} without a unit"


def advise_install(package: str, option: str | None = None) -> str:
    """Return the command that installs a package, with the pip of this Python: `pip` is another one where the
    environment of this Python is not activated.

    Never call it for ikeanalyze: an index may have another package of this name.
    """
    import shlex
    import shutil
    import sys
    from pathlib import Path

    found = shutil.which("pip")
    python = Path(sys.executable)
    is_own = found is not None and Path(found).parent == python.parent
    if python.is_relative_to(Path.cwd()):
        python = python.relative_to(Path.cwd())
    pip = "pip" if is_own else f"{shlex.quote(str(python))} -m pip"
    return " ".join([pip, "install", *([] if option is None else [option]), package])
