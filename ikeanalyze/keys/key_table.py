"""The keys for a capture, and key sets of a large table as one array: a `KeySet` object is made when it is asked for.

A table may have tens of thousands of key sets with the same algorithms, most of which are only passed to the compiled
core.
"""

from binascii import Error, a2b_hex
from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise
from typing import Final, Self, overload

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from ikeanalyze.keys.key_set import KeySet, Origin, Phase1Key
from ikeanalyze.wire.header import SPI_BYTES

#: Bytes at the beginning of the keys that differ in all key sets unless some have the same keys.
_DISTINCT_BYTES: Final = 8


class TableAlgorithms(Struct, frozen=True):
    """What all key sets of a table have in common; the fields are those of `KeySet`."""

    path: str
    encryption: int | None
    integrity: int | None
    unchecked_icv: int | None
    sizes: tuple[int, int, int, int]  # bytes of SK_ei, SK_er, SK_ai and SK_ar


class KeySetTable(Sequence[KeySet]):
    """Key sets of one file with the same algorithms."""

    def __init__(
        self, algorithms: TableAlgorithms, lines: npt.NDArray[np.int64], values: npt.NDArray[np.uint8]
    ) -> None:
        """Make a table of key sets.

        Args:
            algorithms: the algorithms and sizes of all key sets.
            lines: the line number of each in the file. (key sets,)
            values: SPIs, SK_ei, SK_er, SK_ai and SK_ar of each. (key sets, bytes)
        """
        self.algorithms = algorithms
        self.lines = lines
        self.values = values
        self._objects: dict[int, KeySet] = {}

    def __len__(self) -> int:
        return len(self.lines)

    @overload
    def __getitem__(self, index: int) -> KeySet: ...

    @overload
    def __getitem__(self, index: slice) -> list[KeySet]: ...

    def __getitem__(self, index: int | slice) -> KeySet | list[KeySet]:
        rows = range(len(self))[index]
        if isinstance(rows, range):
            return [self[row] for row in rows]
        keys = self._objects.get(rows)
        if keys is None:
            keys = self._objects[rows] = self._make_key_set(rows)
        return keys

    def _make_key_set(self, row: int) -> KeySet:
        algorithms, data = self.algorithms, self.values[row].tobytes()
        ends = accumulate(algorithms.sizes, initial=2 * SPI_BYTES)
        sk_ei, sk_er, sk_ai, sk_ar = (data[low:high] for low, high in pairwise(ends))
        return KeySet(
            origin=Origin(algorithms.path, int(self.lines[row])),
            spi_i=data[:SPI_BYTES],
            spi_r=data[SPI_BYTES : 2 * SPI_BYTES],
            encryption=algorithms.encryption,
            integrity=algorithms.integrity,
            sk_ei=sk_ei,
            sk_er=sk_er,
            sk_ai=sk_ai,
            sk_ar=sk_ar,
            unchecked_icv=algorithms.unchecked_icv,
        )

    @property
    def spi_i(self) -> npt.NDArray[np.uint64]:
        """The initiator's SPI of each key set. (key sets,)"""
        return self._get_numbers(0)

    @property
    def spi_r(self) -> npt.NDArray[np.uint64]:
        """The responder's SPI of each key set. (key sets,)"""
        return self._get_numbers(SPI_BYTES)

    def has_distinct_keys(self) -> bool:
        """Whether no two key sets have the same keys. False: they may."""
        if self.algorithms.sizes[0] < _DISTINCT_BYTES:
            return False
        numbers = np.sort(self._get_numbers(2 * SPI_BYTES))
        return bool((numbers[1:] != numbers[:-1]).all())

    def select(self, rows: npt.NDArray[np.int64]) -> Self:
        """Select key sets, in this order."""
        return type(self)(self.algorithms, self.lines[rows], self.values[rows])

    def _get_numbers(self, begin: int) -> npt.NDArray[np.uint64]:
        """Eight bytes of each key set as a number. (key sets,)"""
        parts = np.ascontiguousarray(self.values[:, begin : begin + SPI_BYTES])
        return parts.view(">u8")[:, 0].astype(np.uint64)


def join_key_sets(parts: Iterable[Sequence[KeySet]]) -> Sequence[KeySet]:
    """The key sets of all parts: tables stay one if they are of the same file and algorithms."""
    filled = [part for part in parts if len(part)]
    if len(filled) == 1:
        return filled[0]
    tables = [part for part in filled if isinstance(part, KeySetTable)]
    if tables and len(tables) == len(filled) and all(part.algorithms == tables[0].algorithms for part in tables):
        lines = np.concatenate([part.lines for part in tables])
        return KeySetTable(tables[0].algorithms, lines, np.concatenate([part.values for part in tables]))
    return [keys for part in filled for keys in part]


def read_equal_rows(
    first: KeySet, data: bytes, row: tuple[int, int], cells: Sequence[tuple[int, int]], fewest: int
) -> KeySetTable | None:
    """Read a row of a text file and the rows after it that only differ from it in hexadecimal digits.

    Args:
        first: the key set of the row.
        data: whole lines.
        row: begin and end of the row, with its newline.
        cells: begin and end of the hexadecimal digits of its SPIs, SK_ei, SK_er, SK_ai and SK_ar.
        fewest: rows; None if there are fewer.
    """
    size = row[1] - row[0]
    text = np.frombuffer(data, np.uint8, (len(data) - row[0]) // size * size, row[0]).reshape(-1, size)
    bounds = [0, *(place - row[0] for cell in cells for place in cell), size]
    fixed = [slice(low, high) for low, high in zip(bounds[::2], bounds[1::2], strict=True)]
    if _count_equal(text, fewest, fixed) < fewest:
        return None
    count = _count_equal(text, len(text), fixed)
    digits = np.concatenate([text[:count, low - row[0] : high - row[0]] for low, high in cells], axis=1)
    try:
        values = np.frombuffer(a2b_hex(digits.data), np.uint8).reshape(count, -1)
    except Error:  # a cell has other characters
        return None
    algorithms = TableAlgorithms(
        path=first.origin.path,
        encryption=first.encryption,
        integrity=first.integrity,
        unchecked_icv=first.unchecked_icv,
        sizes=(len(first.sk_ei), len(first.sk_er), len(first.sk_ai), len(first.sk_ar)),
    )
    return KeySetTable(algorithms, (first.origin.line or 0) + np.arange(count), values)


def _count_equal(text: npt.NDArray[np.uint8], count: int, fixed: Iterable[slice]) -> int:
    """How many of the first `count` rows are equal to the first one in the fixed columns, up to one that is not."""
    equal = np.ones(min(count, len(text)), np.bool_)
    for part in fixed:
        equal &= (text[:count, part] == text[0, part]).all(axis=1)
    return len(equal) if equal.all() else int(equal.argmin())


class CaptureKeys(Struct, frozen=True):
    """The keys for one capture, in the order of the key files."""

    sets: Sequence[KeySet] = ()
    phase1: Sequence[Phase1Key] = ()

    def __bool__(self) -> bool:
        return bool(self.sets or self.phase1)

    def get_spis(self) -> frozenset[int] | None:
        """Initiators' SPIs of the IKE SAs that the keys are for; None: unknown for some keys."""
        cookies = [int.from_bytes(key.cookie_i) for key in self.phase1]
        if isinstance(self.sets, KeySetTable):
            return frozenset(self.sets.spi_i.tolist() + cookies)
        spis = [keys.spi_i for keys in self.sets]
        if None in spis:
            return None
        return frozenset([int.from_bytes(spi) for spi in spis if spi is not None] + cookies)


NO_KEYS = CaptureKeys()
