"""Mutations of bytes without known structure: bits, boundary integers, and pieces that are cut, inserted or copied."""

from random import Random
from typing import Final

#: Most mutations of one call.
_MOST: Final = (1, 1, 1, 2, 2, 4, 8)
#: Headers are in the first bytes, so half of the mutations happen there.
_HEAD_BYTES: Final = 130
_LONGEST_PIECE: Final = 64

_Bytes = bytearray


def mutate_bytes(data: bytes, rng: Random, *, same_size: bool = False) -> bytes:
    """Change bytes in one or a few places; `same_size`: without changing their number."""
    changed = bytearray(data)
    mutations = (_flip_bit, _set_byte, _set_integer) + (() if same_size else (_cut, _insert, _copy, _truncate))
    for _ in range(rng.choice(_MOST)):
        if not changed:
            if same_size:
                break
            changed += rng.randbytes(rng.randrange(1, _LONGEST_PIECE))
        rng.choice(mutations)(changed, rng)
    return bytes(changed)


def choose_boundary(rng: Random, size: int) -> bytes:
    """Return an integer of `size` bytes at or near a boundary, in either byte order."""
    bits = 8 * size
    value = rng.choice((0, 1, 2, 3, 4, 1 << (bits - 1), (1 << bits) - 1, 1 << rng.randrange(bits)))
    value = (value + rng.choice((-4, -1, 0, 0, 0, 1, 4))) % (1 << bits)
    return value.to_bytes(size, rng.choice(("big", "little")))


def _choose_place(data: _Bytes, rng: Random) -> int:
    return rng.randrange(min(len(data), _HEAD_BYTES) if rng.random() < 0.5 else len(data))


def _flip_bit(data: _Bytes, rng: Random) -> None:
    data[_choose_place(data, rng)] ^= 1 << rng.randrange(8)


def _set_byte(data: _Bytes, rng: Random) -> None:
    data[_choose_place(data, rng)] = rng.randrange(256)


def _set_integer(data: _Bytes, rng: Random) -> None:
    size = min(rng.choice((1, 2, 4, 8)), len(data))
    place = min(_choose_place(data, rng), len(data) - size)
    data[place : place + size] = choose_boundary(rng, size)


def _cut(data: _Bytes, rng: Random) -> None:
    place = _choose_place(data, rng)
    del data[place : place + rng.randrange(1, _LONGEST_PIECE)]


def _insert(data: _Bytes, rng: Random) -> None:
    place = _choose_place(data, rng)
    data[place:place] = rng.randbytes(rng.randrange(1, _LONGEST_PIECE))


def _copy(data: _Bytes, rng: Random) -> None:
    start, place = _choose_place(data, rng), _choose_place(data, rng)
    data[place:place] = data[start : start + rng.randrange(1, _LONGEST_PIECE)]


def _truncate(data: _Bytes, rng: Random) -> None:
    del data[_choose_place(data, rng) :]
