"""What charon dumps into its log at `ike = 4`, read with nothing of ours."""

import gzip
import json
import re
from functools import cache
from pathlib import Path

from ikeanalyze.keys.key_set import KeySet, Origin
from tests.paths import CAPTURES

DATA = Path(__file__).parent / "data"
_LINE = re.compile(r"^\S+ \d+\[\w+\] (?:<\S+> )?(.*)$")
_DUMP = re.compile(r"^(.*?) => (\d+) bytes @")
_BYTES = re.compile(r"^ *\d+: ((?:[0-9A-F]{2} )+)")

Dumps = tuple[tuple[str, bytes], ...]


@cache
def log(name: str) -> Dumps:
    """Labels and contents of all dumps of a recorded capture's log, in order."""
    result: list[tuple[str, int, bytearray]] = []
    for line in gzip.decompress((CAPTURES / f"{name}.charon.log.gz").read_bytes()).decode().splitlines():
        text = _LINE.match(line)[1]
        if dump := _DUMP.match(text):
            result.append((dump[1], int(dump[2]), bytearray()))
        elif result and (row := _BYTES.match(text)):
            _, size, content = result[-1]
            content += bytes.fromhex(row[1])[: min(16, size - len(content))]
    assert all(size == len(content) for _, size, content in result)
    return tuple((label, bytes(content)) for label, _, content in result)


@cache
def excerpt(name: str) -> Dumps:
    """The same from a file of `data`, a dump a line."""
    lines = (DATA / f"{name}.dumps.txt").read_text().splitlines()
    pairs = (line.split(": ") if ": " in line else (line.rstrip(":"), "") for line in lines if line[0] != "#")
    return tuple((label, bytes.fromhex(content)) for label, content in pairs)


def contents(dumps: Dumps, label: str) -> list[bytes]:
    return [content for name, content in dumps if name == label]


def logged_keys(dumps: Dumps) -> list[dict[str, bytes]]:
    """For each key set that was derived, its dumps by label."""
    result: list[dict[str, bytes]] = []
    current: dict[str, bytes] = {}
    for label, content in dumps:
        if label == "key exchange secret":
            current = {}
        if label in ("nonces", "SKEYSEED") or label.endswith(" secret"):
            current[label] = content
        if label == "Sk_pr secret":
            result.append(current)
    return result


def key_set(values: dict[str, bytes], line: int | None = None, **other: object) -> KeySet:
    """One of `logged_keys` without SPIs and algorithms, which the log lacks."""
    fields = {name: values.get(f"Sk_{name[3:]} secret", b"") for name in KEY_NAMES}
    return KeySet(origin=Origin("charon.log", line), **{"spi_i": None, "spi_r": None, "encryption": None,
                  "integrity": None, **fields, **other})  # fmt: skip


def recorded_key_sets(name: str) -> list[KeySet]:
    """Key sets of a recorded capture in the order in which they were derived."""
    rows = json.loads((CAPTURES / f"{name}.keys.json").read_text())
    hexed = [{f"{label} secret": bytes.fromhex(value) for label, value in row.items()} for row in rows]
    return [key_set(values, line) for line, values in enumerate(hexed, 1)]


KEY_NAMES = ("sk_ei", "sk_er", "sk_ai", "sk_ar", "sk_d", "sk_pi", "sk_pr")
