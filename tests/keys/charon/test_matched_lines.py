"""Without the compiled core, whole dumps are read at once, in columns."""

import re

import numpy as np
import pytest

from ikeanalyze.keys.charon.dumps import find_line_ends, read_dumps
from ikeanalyze.keys.charon.matched_lines import describe_matches

PATTERN = re.compile(rb"\] (?:(key|nonces) => (\d+) bytes @ \(nil\)$|(parsed ))", re.MULTILINE)
FIRST = b"09[IKE]    0: 9F 7E 89 CE B0 B5 CA 04 FE 0E 5C 4B 30 C0 18 4E  ............K0..N\n"
DATA = bytes.fromhex("9F7E89CEB0B5CA04FE0E5C4B30C0184E5B3D")


def describe(block: bytes, start: int = 0):
    return list(describe_matches(block, start, list(PATTERN.finditer(block)), [b"nonces", b"key"]))


def test_dumps_and_messages_are_described():
    dump = b"09[IKE] key => 18 bytes @ (nil)\n" + FIRST + b"09[IKE]   16: 5B 3D  [=\n"
    block = b"\n09[IKE] other\n" + dump + b"09[ENC] parsed it\n" + b"09[IKE] nonces => 0 bytes @ (nil)\n"
    after = 15 + len(dump)
    assert describe(block) == [
        (15, 23, after, 2, False, (1, DATA, False)),
        (after, after + 8, after + 18, 5, True, None),
        (after + 18, after + 26, len(block), 6, False, (0, b"", None)),
    ]
    assert describe(block, after)[0] == (after, after + 8, after + 18, 0, True, None)


def test_lines_of_the_journal_are_indented():
    block = b"x] key => 2 bytes @ (nil)\n      0: 5b 3D  [=\n"
    assert describe(block) == [(0, 3, len(block), 0, False, (1, DATA[16:], True))]


@pytest.mark.parametrize(
    "lines",
    [
        b"",
        FIRST[:-1],
        FIRST,
        FIRST + b"08[IKE]   16: 5B 3D  [=\n",
        FIRST + b"09[IKE]   17: 5B 3D  [=\n",
        FIRST + b"09[IKE]   16: 5B-3D  [=\n",
        FIRST + b"09[IKE]   16: 5B 3G  [=\n",
        FIRST + b"09[IKE]   16: 5B 3D",
        FIRST + b"09[IKE]   16: 5B 3\n",
        FIRST + b"              16: 5B 3D  [=\n",
        b"\n" + FIRST + b"09[IKE]   16: 5B 3D  [=\n",
    ],
)
def test_other_dumps_are_read_line_by_line(lines):
    block = b"09[IKE] key => 18 bytes @ (nil)\n" + lines
    ((start, _, end, number, is_message, dump),) = describe(block)
    assert (start, end, number, is_message, dump) == (0, 32, 0, False, None)


def test_offsets_of_five_digits_are_read_line_by_line():
    block = b"] key => 10001 bytes @ (nil)\n"
    for offset in range(0, 10_001, 16):
        block += b"] %4d: " % offset + b"00 " * min(16, 10_001 - offset) + b"\n"
    assert describe(block)[0][5] is None
    block = block.replace(b"10001", b"10000").replace(b"] 10000: 00 \n", b"")
    assert describe(block)[0][5] == (1, bytes(10_000), False)


def test_dumps_are_never_shown():
    none = np.zeros(0, np.int64)
    block = b"x] key => 2 bytes @ (nil)\nx]    0: 5B 3D  [=\n"
    columns = (np.array([number], np.int64) for number in (0, 3, 26, 2))
    dumps = read_dumps(block, find_line_ends(block), *columns)
    assert dumps.octets[:2] == b"[="
    assert "[=" not in repr(dumps)
    assert read_dumps(b"", none, none, none, none, none).stop == []
