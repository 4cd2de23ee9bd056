"""Compressed streams that were made to expand: what they cost, and that nothing is lost or added."""

import gzip
import io
import tracemalloc

import pytest
import zstandard

from ikeanalyze.io.decompress import DecompressedStream, decoder_for

MIB = 1 << 20
COMPRESSORS = {"gzip": gzip.compress, "zstd": zstandard.ZstdCompressor(level=19).compress}


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", COMPRESSORS)
def test_a_bomb_is_never_in_memory_as_a_whole(name):
    """256 MiB of zeros in 8 KiB (zstd) or 256 KiB (gzip)."""
    bomb = COMPRESSORS[name](bytes(256 * MIB))
    assert len(bomb) < 300_000
    decoder = decoder_for(bomb[:4])
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
        decoder = decoder_for(content[:4])
        assert decoder is not None
        got = io.BufferedReader(DecompressedStream(decoder, io.BytesIO(content).readinto)).read()
        assert got == (expected or zstandard.ZstdCompressor().compress(bytes(100)) * 3000)


@pytest.mark.parametrize("name", COMPRESSORS)
def test_a_cut_stream_says_so_after_everything_before(name):
    packed = COMPRESSORS[name](bytes(range(256)) * 2000)[:-10]
    decoder = decoder_for(packed[:4])
    assert decoder is not None
    reader = io.BufferedReader(DecompressedStream(decoder, io.BytesIO(packed).readinto))
    with pytest.raises(EOFError):
        reader.read()
