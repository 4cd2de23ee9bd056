"""Compresses output files whose names end in .gz or .zst, as users of these names expect."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, cast

from ikeanalyze.io.decompress import GZIP_SUFFIX, ZSTD_SUFFIX


@contextmanager
def compress(path: str, stream: BinaryIO) -> Iterator[BinaryIO]:
    """A stream that compresses as the name `path` says and writes to `stream`, or `stream` itself.

    The same data give the same file: it has neither a name nor a time inside. `stream` stays open.

    Raises:
        OSError: the last compressed data cannot be written.
    """
    suffix = os.path.splitext(path)[1].lower()
    if suffix == GZIP_SUFFIX:
        import gzip  # few outputs are compressed

        with gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=stream, mtime=0) as compressed:
            yield cast(BinaryIO, compressed)
    elif suffix == ZSTD_SUFFIX:
        import zstandard  # takes a tenth of a second

        with zstandard.ZstdCompressor().stream_writer(stream, closefd=False) as compressed_zstd:
            yield cast(BinaryIO, compressed_zstd)
    else:
        yield stream
