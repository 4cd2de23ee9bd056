import gzip
import io
import random

import pytest

from ikeanalyze.io.decompress import DecompressedStream, decoder_for
from ikeanalyze.keys.collector import KeyCollector
from ikeanalyze.keys.text_blocks import EndlessTextError, TextBlocks


class SmallReads(io.RawIOBase):
    """A pipe, which returns a few bytes at a time."""

    def __init__(self, data: bytes, size: int) -> None:
        self.stream = io.BytesIO(data)
        self.size = size

    def readable(self):
        return True

    def readinto(self, target):
        return self.stream.readinto(memoryview(target)[: self.size])


def read(stream, *, ends=True):
    collector = KeyCollector("x")
    blocks = list(TextBlocks(stream, collector, ends=ends).read_blocks())
    return blocks, [(warning.line, warning.message) for warning in collector.warnings]


def make_lines(count):
    chance = random.Random(1)
    return [b"%d %s\n" % (number, b"x" * chance.randrange(100)) for number in range(1, count + 1)]


@pytest.mark.parametrize("size", [100, 65_536, 10_000_000])
def test_blocks_are_whole_lines_with_their_numbers(size):
    data = b"".join(make_lines(100_000))
    blocks, warnings = read(io.BufferedReader(SmallReads(data, size)))
    assert b"".join(block for _, block in blocks) == data
    assert len(blocks) > 1
    assert all(block.startswith(b"%d " % number) and block.endswith(b"\n") for number, block in blocks)
    assert warnings == []


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", []),
        (b"a\nb", [(1, b"a\n"), (2, b"b")]),
        (b"\xef\xbb\xbfa", [(1, b"a")]),
        (b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n", [(1, b"a\n\xef\xbb\xbfb\n")]),
        (b"\0a\0\n\0", [(1, b"a\n"), (2, b"")]),
        ("a\r\nb\rc".encode("utf-16"), [(1, b"a\n"), (2, b"b\n"), (3, b"c\n")]),
    ],
)
def test_text_is_cleaned(data, expected):
    assert read(io.BufferedReader(io.BytesIO(data))) == (expected, [])


def test_long_lines_are_cut():
    data = b"x" * 5_000_000 + b"\ny\n"
    blocks, _ = read(io.BufferedReader(io.BytesIO(data)))
    ((number, block),) = blocks
    assert number == 1
    assert 65_536 <= block.index(b"\n") < 2_000_000
    assert block.endswith(b"x\ny\n")


def test_lines_before_damage_are_delivered():
    text = b"".join(make_lines(60_000))
    compressed = gzip.compress(text)[:-100]
    decoder = decoder_for(compressed[:4])
    assert decoder is not None
    raw = io.BytesIO(compressed)
    blocks, warnings = read(io.BufferedReader(DecompressedStream(decoder, raw.readinto)))
    joined = b"".join(block for _, block in blocks)
    assert text.startswith(joined)
    assert len(joined) > len(text) - 2000
    assert warnings == [(joined.count(b"\n"), "the compressed data ends too early after this line")]


def test_pipes_without_known_lines_end():
    with pytest.raises(EndlessTextError, match=r"^\d+ MiB \(4,\d{3},\d{3} lines\)$"):
        read(io.BufferedReader(SmallReads(b"\n" * 9_000_000, 1 << 20)), ends=False)
