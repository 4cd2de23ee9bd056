"""The names that tshark knows."""

import subprocess
from functools import cache


@cache
def values() -> dict[str, dict[int, list[str]]]:
    """By field: names of single numbers; a field of both IKE versions has two for some."""
    run = subprocess.run(["tshark", "-G", "values"], capture_output=True, text=True, check=True)
    found: dict[str, dict[int, list[str]]] = {}
    for line in run.stdout.split("\n"):
        if not line[2:].startswith(("isakmp.", "radius.code", "eap.")):
            continue
        kind, *rest = line.split("\t")
        # V: a value; R: a range of values
        if (
            kind not in ("V", "R")
            or len(rest) < 3
            or not rest[1].isdigit()
            or (kind == "R" and rest[1] != rest[2])
        ):
            continue
        field, low, name = rest[0], rest[1], rest[-1]
        found.setdefault(field, {}).setdefault(int(low), []).append(name.strip())
    return found


def normal(name: str) -> str:
    """Without the differences of spelling: case, punctuation."""
    return "".join(character for character in name.upper() if character.isalnum())
