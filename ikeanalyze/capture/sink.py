"""Where the bytes of a written capture go: a file that appears under its name only when it is complete, or a stream."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, Final

from ikeanalyze.whole_file import is_special, replaced

_BUFFER: Final = 1 << 20


@contextmanager
def open_sink(target: str | BinaryIO) -> Iterator[BinaryIO]:
    """A stream to write to: a path, "-" for standard output, or a stream, which is flushed and stays open.

    A link is written through, an existing file's permissions stay, and a device or a pipe is written to directly. If
    the block raises, nothing of a file stays behind.

    Raises:
        OSError: the system refuses.

    """
    if not isinstance(target, str):
        yield target
        target.flush()
    elif target == "-":
        if sys.stdout is None:
            raise OSError("standard output is closed")
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
    elif is_special(target):
        with open(target, "wb", buffering=_BUFFER) as stream:
            yield stream
    else:
        with replaced(target) as temporary, open(temporary, "wb", buffering=_BUFFER) as stream:
            yield stream
