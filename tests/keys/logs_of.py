"""The recorded logs, and what they are compared with."""

import gzip
import json
from pathlib import Path

from ikeanalyze.keys.charon.reader import CharonReader
from ikeanalyze.keys.collector import KeyCollector
from tests.paths import CAPTURES

LOGS = Path(__file__).parent / "logs"
RECORDED = ("eap-md5-radius", "invalid-ke", "loss20-classic", "pq-mlkem768-psk", "psk-classic")


def lines(name: str) -> list[bytes]:
    """A recorded log."""
    directory = CAPTURES if name.endswith(".charon") else LOGS
    return gzip.decompress((directory / f"{name}.log.gz").read_bytes()).splitlines()


def expected(name: str) -> list[dict[str, str]]:
    """The key sets of a recorded capture, as they were written down beside it."""
    return json.loads((CAPTURES / f"{name}.keys.json").read_text())


def read(log: list[bytes]):
    """What the reader finds: findings, and the rest of the log."""
    findings = KeyCollector("x.log")
    reader = CharonReader(findings)
    for number, line in enumerate(log, 1):
        reader.feed(number, line)
    return findings, reader.finish()


def plain(key_sets) -> list[dict[str, str]]:
    """Key sets in the form of `expected`."""
    return [
        {
            f"Sk_{name}": value.hex()
            for name in ("d", "ai", "ar", "ei", "er", "pi", "pr")
            if (value := getattr(keys, f"sk_{name}"))
        }
        for keys in key_sets
    ]
