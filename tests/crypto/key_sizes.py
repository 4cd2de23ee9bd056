"""Key sizes to test a cipher with."""

from collections.abc import Sequence


def select_key_sizes(sizes: Sequence[int]) -> list[int]:
    """The shortest key, the usual one of 16 bytes and the longest, if any size between them is allowed (RFC 2451)."""
    return list(sizes) if len(sizes) <= 3 else sorted({sizes[0], 16, sizes[-1]})
