"""The names that tshark knows."""

from functools import cache
from pathlib import Path

from tests.tsharks import HOST, Tshark


@cache
def values(tshark: Tshark = Tshark(HOST, Path("/"))) -> dict[str, dict[int, list[str]]]:  # noqa: B008 - frozen
    """By field: names of single numbers; a field of both IKE versions has two for some."""
    result: dict[str, dict[int, list[str]]] = {}
    for line in tshark.run("-G", "values").lines:
        if not line[2:].startswith(("isakmp.", "radius.code", "eap.")):
            continue
        kind, *rest = line.split("\t")
        # V: a value; R: a range of values
        if kind not in ("V", "R") or len(rest) < 3 or not rest[1].isdigit() or (kind == "R" and rest[1] != rest[2]):
            continue
        field, low, name = rest[0], rest[1], rest[-1]
        result.setdefault(field, {}).setdefault(int(low), []).append(name.strip())
    return result


def normal(name: str) -> str:
    """Without the differences of spelling: case, punctuation."""
    return "".join(character for character in name.upper() if character.isalnum())
