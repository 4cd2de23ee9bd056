"""Reads the hex dumps in a block of a log at once, where each line of a dump follows the one before.

What charon writes for a dump of more than 16 bytes, with the prefix of the line with the label:

    09[IKE] Sk_ei secret => 20 bytes @ 0x7f0a
    09[IKE]    0: 9F 7E 89 CE B0 B5 CA 04 FE 0E 5C 4B 30 C0 18 4E  ............K0..N
    09[IKE]   16: 5B 3D 0A 11                                      [=..

In the journal, the further lines have as many spaces instead of the prefix.
"""

from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

_BYTES_PER_LINE: Final = 16
_OFFSET_CHARACTERS: Final = 6
_BYTE_CHARACTERS: Final = 3
_DIGIT_CHARACTERS: Final = _BYTES_PER_LINE * _BYTE_CHARACTERS
#: The layout of offsets changes at five digits.
_MAX_BYTES: Final = 10_000
#: No daemon's prefix is as long.
_MAX_PREFIX: Final = 1 << 9
_WORD: Final = 8
#: Zeros after a block, so that a whole line of a dump can be read anywhere in it.
_MARGIN: Final = bytes(_OFFSET_CHARACTERS + _DIGIT_CHARACTERS + _WORD)
_NEWLINE, _SPACE = ord("\n"), ord(" ")
_SPACES: Final = np.uint64(int.from_bytes(b" " * _WORD))
#: Bytes of a word that are compared, by their number.
_MASKS: Final = np.array([(1 << 8 * count) - 1 for count in range(_WORD + 1)], np.uint64)
#: The number of each line of a dump as a word: "  16: ".
_OFFSETS: Final = np.array(
    [int.from_bytes(b"%4d: " % offset, "little") for offset in range(0, _MAX_BYTES, _BYTES_PER_LINE)], np.uint64
)
_INVALID: Final = 0x100


def _make_octet_table() -> npt.NDArray[np.uint16]:
    """The value of two hexadecimal digits, by these as a little-endian number."""
    table = np.full(1 << 16, _INVALID, np.uint16)
    digits = b"0123456789ABCDEFabcdef"
    for high in digits:
        for low in digits:
            table[low << 8 | high] = int(bytes((high, low)), 16)
    return table


_OCTETS: Final = _make_octet_table()

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Dumps:
    """Dumps, in columns. (dumps,) each"""

    octets: bytes = field(repr=False)  # of all dumps; they may be keys
    begin: list[int]  # offset of each dump in the octets
    size: list[int]  # bytes
    indented: list[bool]  # its further lines are
    stop: list[int]  # offset in the block after its last line; -1: its lines must be read one by one


def find_line_ends(block: bytes) -> Numbers:
    """Offsets of the newlines."""
    return np.flatnonzero(np.frombuffer(block, np.uint8) == _NEWLINE)


def read_dumps(block: bytes, ends: Numbers, start: Numbers, text: Numbers, begin: Numbers, size: Numbers) -> Dumps:
    """Read dumps whose further lines follow each other.

    Args:
        block: lines of a log.
        ends: see `find_line_ends`.
        start: offset of each line with a label.
        text: offset of the label.
        begin: offset of the line after it.
        size: bytes of the dump.
    """
    count, first, prefix = -(-size // _BYTES_PER_LINE), np.searchsorted(ends, begin), text - start
    is_possible = (size <= _MAX_BYTES) & (prefix <= _MAX_PREFIX) & (first + count <= len(ends))
    count[~is_possible] = 0
    lines = np.cumsum(count)
    begins, total = lines - count, int(lines[-1]) if len(lines) else 0
    last = np.append(ends, len(block))[first + count - 1]
    stop = np.where(is_possible, np.where(count > 0, last + 1, begin), -1)
    of_line = np.repeat(np.arange(len(size)), count)
    number = np.arange(total) - begins[of_line]  # of each line in its dump
    line = first[of_line] + number
    line_start = ends[line - 1] + 1  # the line with the label precedes
    words = _view_words(block)
    octets, is_right = _read_octets(words, line_start + prefix[of_line], number, size[of_line], ends[line])
    is_repeated, is_indented = _compare_prefixes(words, start[of_line], line_start, prefix[of_line])
    indented = np.zeros(len(size), np.bool_)
    indented[of_line[number == 0]] = ~is_repeated[number == 0]
    is_right &= np.where(indented[of_line], is_indented, is_repeated)
    stop[of_line[~is_right]] = -1
    columns = (begins * _BYTES_PER_LINE, size, indented, stop)
    return Dumps(octets.tobytes(), *(column.tolist() for column in columns))


def _view_words(block: bytes) -> npt.NDArray[np.uint64]:
    """The eight bytes at each offset as a little-endian number."""
    padded = block + _MARGIN
    return np.ndarray((len(padded) - _WORD + 1,), "<u8", padded, strides=(1,))


def _read_octets(
    words: npt.NDArray[np.uint64], at: Numbers, number: Numbers, size: Numbers, end: Numbers
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.bool_]]:
    """The bytes of each line, 16 each, and whether the line has charon's layout.

    Args:
        words: see `_view_words`.
        at: offset of the text of each line, after the prefix.
        number: the number of the line in its dump.
        size: bytes of the dump.
        end: offset of the line's newline.
    """
    count = np.minimum(size - number * _BYTES_PER_LINE, _BYTES_PER_LINE)
    is_right = at + _OFFSET_CHARACTERS + count * _BYTE_CHARACTERS <= end
    at = np.where(is_right, at, 0)
    is_right &= words[at] & _MASKS[_OFFSET_CHARACTERS] == _OFFSETS[number]
    places = np.arange(0, _DIGIT_CHARACTERS, _WORD) + _OFFSET_CHARACTERS
    text = words[at[:, None] + places].view(np.uint8)
    pairs = np.ndarray((len(at), _BYTES_PER_LINE), "<u2", text, strides=(_DIGIT_CHARACTERS, _BYTE_CHARACTERS))
    octets = _OCTETS[pairs]
    is_valid = (octets < _INVALID) & (text[:, _BYTE_CHARACTERS - 1 :: _BYTE_CHARACTERS] == _SPACE)
    is_valid |= np.arange(_BYTES_PER_LINE) >= count[:, None]
    return octets.astype(np.uint8), is_right & is_valid.all(axis=1)


def _compare_prefixes(
    words: npt.NDArray[np.uint64], start: Numbers, line_start: Numbers, size: Numbers
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Whether each line has the prefix of the line at `start`, and whether it has spaces instead.

    `size`: bytes of the prefix.
    """
    changed, not_space = np.zeros(len(size), np.uint64), np.zeros(len(size), np.uint64)
    for offset in range(0, int(size.max(initial=0)), _WORD):
        mask = _MASKS[np.clip(size - offset, 0, _WORD)]
        # a prefix that ends before has the mask 0, wherever is read
        place = np.minimum(line_start + offset, len(words) - 1)
        word = words[place]
        changed |= (word ^ words[np.minimum(start + offset, len(words) - 1)]) & mask
        not_space |= (word ^ _SPACES) & mask
    return changed == 0, not_space == 0
