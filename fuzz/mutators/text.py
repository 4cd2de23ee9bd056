"""Mutations of text files: lines dropped, doubled, swapped or joined, numbers and words replaced, and bytes."""

import re
from collections.abc import Sequence
from random import Random
from typing import Final

from fuzz.mutators.binary import mutate_bytes

_NUMBER: Final = re.compile(rb"\d+")
#: Numbers and words that programs often mishandle.
_NUMBERS: Final = (
    b"0",
    b"-1",
    b"1",
    b"65535",
    b"65536",
    b"4294967296",
    b"18446744073709551616",
    b"1e308",
    b"nan",
    b"1e-400",
)
_WORDS: Final = (
    b"", b"\0", b"\xff\xfe", b"\xef\xbb\xbf", b"\xe2\x80\xae", b"\x1b]0;x\x07", b"%s%n", b"{}", b"[]", b"null", b"true",
    b'"', b"'", b",", b"=", b"#", b"\\", b"\n[table]\n", b"[[", b"9" * 5000, b"[" * 200, b"\xc2\x85", b"../",
)  # fmt: skip


def mutate_text(data: bytes, rng: Random) -> bytes:
    """Change lines, numbers, words or bytes in one or a few places."""
    for _ in range(rng.choice((1, 1, 2, 3))):
        data = rng.choice((_mutate_lines, _mutate_lines, _replace_number, _insert_word, mutate_bytes))(data, rng)
    return data


def _mutate_lines(data: bytes, rng: Random) -> bytes:
    lines = data.splitlines(keepends=True)
    if not lines:
        return _insert_word(data, rng)
    first, second = rng.randrange(len(lines)), rng.randrange(len(lines))
    match rng.randrange(5):
        case 0:
            del lines[first : first + rng.choice((1, 1, 2, 8))]
        case 1:
            lines.insert(second, lines[first])
        case 2:
            lines[first], lines[second] = lines[second], lines[first]
        case 3:
            lines[first] = lines[first].rstrip(b"\r\n")
        case _:
            lines[first] = _cross(lines[first], lines[second], rng)
    return b"".join(lines)


def _cross(first: bytes, second: bytes, rng: Random) -> bytes:
    """The beginning of one line and the end of another."""
    return first[: rng.randrange(len(first) + 1)] + second[rng.randrange(len(second) + 1) :]


def _replace_number(data: bytes, rng: Random) -> bytes:
    numbers = [match.span() for match in _NUMBER.finditer(data)]
    if not numbers:
        return _insert_word(data, rng)
    start, end = rng.choice(numbers)
    return data[:start] + _choose(_NUMBERS, rng) + data[end:]


def _insert_word(data: bytes, rng: Random) -> bytes:
    place = rng.randrange(len(data) + 1)
    return data[:place] + _choose(_WORDS, rng) + data[place:]


def _choose(words: Sequence[bytes], rng: Random) -> bytes:
    return rng.choice(words)
