"""Recorded logs of charon and libreswan, ways to damage and change them, and everything that is read from them."""

import gzip
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict

from msgspec import structs

from ikeanalyze.keys.collector import KeyCollector
from ikeanalyze.keys.text_reader import TextReader
from tests.keys.logs_of import LOGS
from tests.paths import CAPTURES

ROW = b'904a132d2b087803,f2748b73dae9f971,00112233445566778899aabbccddeeff,00,"NULL [RFC2410]",,,"NONE [RFC4306]"\n'
PATHS = sorted([*CAPTURES.glob("*.log.gz"), *LOGS.glob("*.log.gz")])
LAB_PATHS = sorted((CAPTURES / "lab").glob("*.log.gz"))


class Blocks:
    """Blocks of whole lines, without a file."""

    def __init__(self, blocks: list[list[bytes]]) -> None:
        self.blocks = blocks
        self.recognised = False
        self.is_plain_file = False

    def read_blocks(self):
        number = 1
        for block in self.blocks:
            yield number, b"".join(block)
            number += len(block)


def read(blocks: list[list[bytes]]):
    """Everything that is read from lines, and which daemons they are of."""
    collector = KeyCollector("x.log")
    reader = TextReader(collector)
    log = reader.read(Blocks(blocks))
    return {"log": log and asdict(log), "charon": reader.charon, "pluto": reader.pluto, **structs.asdict(collector)}


def cut(lines: list[bytes], chance: random.Random) -> list[list[bytes]]:
    """Blocks of lines, at most four."""
    cuts = sorted({0, *(chance.randrange(len(lines) + 1) for _ in range(chance.randrange(4)))})
    return [lines[start:end] for start, end in zip(cuts, [*cuts[1:], len(lines)], strict=True)]


def load(path) -> list[bytes]:
    return gzip.decompress(path.read_bytes()).splitlines(keepends=True)


def with_prefix(prefix: bytes) -> Callable[[list[bytes], random.Random], list[bytes]]:
    """Another prefix instead of the time."""
    return lambda lines, _: [prefix + line.split(b" ", 1)[-1] for line in lines]


def as_journal(lines: list[bytes], _: random.Random) -> list[bytes]:
    """A journal, without threads; lines of dumps are indented."""
    texts = [line.split(b"] ", 1)[-1] for line in lines]
    prefix = b"Nov 21 12:00:00 host charon-systemd[812]: "
    return [(b" " * len(prefix) if text[:1] == b" " or b": " in text[:7] else prefix) + text for text in texts]


def flip(lines: list[bytes], chance: random.Random) -> list[bytes]:
    text = bytearray(b"".join(lines))
    for _ in range(max(1, len(text) // 2000)):
        text[chance.randrange(len(text))] = chance.choice(b" \n\r\t:[]<>|,@0aZ=\xff")
    return [line + b"\n" for line in bytes(text).split(b"\n")]


def swap(lines: list[bytes], chance: random.Random) -> list[bytes]:
    """Lines of several threads in another order."""
    for _ in range(len(lines) // 50):
        index = chance.randrange(len(lines) - 1)
        lines[index : index + 2] = lines[index + 1], lines[index]
    return lines


def interleave(
    lines: list[bytes],
    chance: random.Random,
    prefixes: Sequence[bytes] = (b"Nov 21 12:00:00 host charon[1]: ", b"Nov 21 12:00:00 host charon[2]: "),
) -> list[bytes]:
    """Two daemons in one log."""
    queues = [[prefix + line for line in lines] for prefix in prefixes]
    merged = []
    while all(queues):
        queue = chance.choice(queues)
        count = chance.choice((1, 2, 3, 40, 400))
        merged += queue[:count]
        del queue[:count]
    return merged + queues[0] + queues[1]


def of_one_thread(lines: list[bytes]) -> list[bytes]:
    return [re.sub(rb"^(?:\S+ )?\d\d\[", b"11[", line) for line in lines]


def interleave_one_thread(*prefixes: bytes) -> Callable[[list[bytes], random.Random], list[bytes]]:
    """Two daemons in one log, whose messages are of threads of the same number."""
    return lambda lines, chance: interleave(of_one_thread(lines), chance, prefixes)


def repeat_messages(lines: list[bytes], _: random.Random) -> list[bytes]:
    """Each message twice, with its dump."""
    messages: list[list[bytes]] = []
    for line in lines:
        if messages and re.search(rb"\]\s+\d+: [0-9A-F]{2} ", line):
            messages[-1].append(line)
        else:
            messages.append([line])
    return [line for message in messages for line in message * 2]


#: What precedes the lines of two daemons in a log.
TWO_DAEMONS: dict[str, tuple[bytes, bytes]] = {
    "docker compose": (b"left-1   | ", b"right-1  | "),
    "docker compose with times": (b"left-1   | 2026-11-21T12:00:00.5Z ", b"right-1  | 2026-11-21T12:00:00.25Z "),
    "kubectl": (b"[pod/left-0/charon] ", b"[pod/right-0/charon] "),
    "RFC 5424": (b"<30>1 2026-11-21T12:00:00Z host charon 1 - - ", b"<30>1 2026-11-21T12:00:00Z host charon 2 - - "),
    "two hosts": (b"Nov 21 12:00:00 left charon: ", b"Nov 21 12:00:00 right charon: "),
    "two hosts with a process": (b"Nov 21 12:00:00 left charon[1]: ", b"Nov 21 12:00:00 right charon[1]: "),
    "two addresses": (b"Nov 21 12:00:00 10.0.0.1 charon[1]: ", b"Nov 21 12:00:00 10.0.0.2 charon[1]: "),
}

MUTATIONS: dict[str, Callable[[list[bytes], random.Random], list[bytes]]] = {
    "none": lambda lines, _: lines,
    "no newline at the end": lambda lines, _: [*lines[:-1], lines[-1].rstrip(b"\n")],
    "cut": lambda lines, chance: lines[chance.randrange(len(lines)) : chance.randrange(1, len(lines) + 1)],
    "lost lines": lambda lines, chance: [line for line in lines if chance.random() > 0.01],
    "repeated lines": lambda lines, chance: [x for line in lines for x in [line] * (1 + (chance.random() < 0.01))],
    "swapped lines": swap,
    "flipped bytes": flip,
    "CRLF": lambda lines, _: [line.rstrip(b"\n") + b"\r\n" for line in lines],
    "syslog": with_prefix(b"Nov 21 12:00:00 host charon[812]: "),
    "milliseconds": with_prefix(b"2026-11-21T12:00:00+0000.126 "),
    "no time": with_prefix(b""),
    "journal": as_journal,
    "two daemons": interleave,
    **{name: interleave_one_thread(*prefixes) for name, prefixes in TWO_DAEMONS.items()},
    "repeated messages": repeat_messages,
    "all lines twice": lambda lines, _: [line for line in lines for line in (line, line)],
    "rows in between": lambda lines, chance: [x for line in lines for x in [ROW] * (chance.random() < 0.01) + [line]],
    "junk before": lambda lines, _: [b"some, text\n"] * 150 + lines,
}
