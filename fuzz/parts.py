"""Inputs that consist of several parts, such as a capture and its keys.

Each part but the last has its length in front, 4 bytes big-endian. Any bytes can be split: a length that is too large
takes all that is left, and missing parts are empty.
"""

from collections.abc import Callable, Sequence
from random import Random

from fuzz.harness import Mutator

_LENGTH_BYTES = 4


def join_parts(parts: Sequence[bytes]) -> bytes:
    """Return the input that `split_parts` splits into these parts."""
    *first, last = parts
    return b"".join(len(part).to_bytes(_LENGTH_BYTES) + part for part in first) + last


def split_parts(data: bytes, count: int) -> list[bytes]:
    """Split an input into `count` parts."""
    parts = []
    for _ in range(count - 1):
        length = int.from_bytes(data[:_LENGTH_BYTES])
        parts.append(data[_LENGTH_BYTES : _LENGTH_BYTES + length])
        data = data[_LENGTH_BYTES + length :]
    return [*parts, data]


def make_parts_mutator(mutators: Sequence[Mutator], weights: Sequence[int]) -> Callable[[bytes, Random], bytes]:
    """Return a mutator that changes one part with its own mutator; `weights`: how often which part."""

    def mutate(data: bytes, rng: Random) -> bytes:
        parts = split_parts(data, len(mutators))
        (index,) = rng.choices(range(len(mutators)), weights)
        parts[index] = mutators[index](parts[index], rng)
        return join_parts(parts)

    return mutate
