"""Compressed streams that were made to expand: what they cost, and that nothing is lost or added."""

import bz2
import gzip
import io
import lzma
import tracemalloc

import pytest
import zstandard

from ikeanalyze.io.decompress import DamagedStreamError, DecompressedStream, decoder_for, log_decoder_for

MIB = 1 << 20
COMPRESSORS = {
    "gzip": gzip.compress,
    "zstd": zstandard.ZstdCompressor(level=19).compress,
    "xz": lzma.compress,
    "bzip2": bz2.compress,
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", COMPRESSORS)
def test_a_bomb_is_never_in_memory_as_a_whole(name):
    """256 MiB of zeros in 8 KiB (zstd), 40 KiB (xz), 256 KiB (gzip), or 200 bytes (bzip2)."""
    bomb = COMPRESSORS[name](bytes(256 * MIB))
    assert len(bomb) < 300_000
    decoder = log_decoder_for(bomb[:4])
    assert decoder is not None
    tracemalloc.start()
    try:
        stream = DecompressedStream(decoder, io.BytesIO(bomb).readinto)
        target, size = memoryview(bytearray(MIB)), 0
        while count := stream.readinto(target):
            size += count
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert size == 256 * MIB
    # the output of one piece of input, and its parts before they are joined
    assert peak < 80 * MIB


@pytest.mark.parametrize("name", COMPRESSORS)
def test_pieces_of_any_size_are_joined(name):
    """Two members, and more input than is read at once."""
    data = [bytes(range(256)) * 2000, b"end"]
    packed = b"".join(map(COMPRESSORS[name], data))
    incompressible = COMPRESSORS[name](zstandard.ZstdCompressor().compress(bytes(100)) * 3000)
    for content, expected in ((packed, b"".join(data)), (incompressible, None)):
        decoder = log_decoder_for(content[:4])
        assert decoder is not None
        got = io.BufferedReader(DecompressedStream(decoder, io.BytesIO(content).readinto)).read()
        assert got == (expected or zstandard.ZstdCompressor().compress(bytes(100)) * 3000)


@pytest.mark.parametrize("name", COMPRESSORS)
def test_a_cut_stream_says_so_after_everything_before(name):
    packed = COMPRESSORS[name](bytes(range(256)) * 2000)[:-10]
    decoder = log_decoder_for(packed[:4])
    assert decoder is not None
    reader = io.BufferedReader(DecompressedStream(decoder, io.BytesIO(packed).readinto))
    with pytest.raises(EOFError):
        reader.read()


@pytest.mark.parametrize("name", ["xz", "bzip2"])
def test_captures_are_not_read_from_the_compressions_of_logs(name):
    assert decoder_for(COMPRESSORS[name](b"x")[:4]) is None


def test_an_xz_file_that_takes_much_memory_is_refused():
    """A dictionary of a gigabyte, which only the header of the block declares."""
    packed = bytearray(lzma.compress(b"x", filters=[{"id": lzma.FILTER_LZMA2, "dict_size": 1 << 30}]))
    decoder = log_decoder_for(packed[:4])
    assert decoder is not None
    with pytest.raises(DamagedStreamError, match=r"[Mm]emory"):
        io.BufferedReader(DecompressedStream(decoder, io.BytesIO(packed).readinto)).read()
