"""Sort and group rows by a key, fast.

numpy sorts plain 64-bit numbers faster than it finds a stable order of them. So a key and the number of its row are
packed into one 64-bit number, the numbers are sorted, and the low bits are the order: stable, since all differ.

The keys mostly rise, or fall and rise in long runs, because frames are in order of time. The sort that numpy calls
stable uses such runs: in a capture of a million frames it needs a third to a half of the time of the default sort, and
for times a thirtieth.
"""

from typing import Final, Self, TypeVar

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from ikeanalyze import core
from ikeanalyze.capture.arrays import BoolArray, Int32Array, Int64Array, UInt8Array, UInt64Array
from ikeanalyze.capture.decode.ip import get_capture_numbers
from ikeanalyze.capture.formats.records import LATEST_NS

_Number = TypeVar("_Number", np.int64, np.uint64, np.uint32)

#: Multiplier of hashes of 64 bits: an odd number with well-mixed bits (2**64 divided by the golden ratio), so that
#: differences reach the high bits of a product.
HASH_MULTIPLIER: Final = np.uint64(0x9E3779B97F4A7C15)


def argsort_stable(key: npt.NDArray[np.integer]) -> Int64Array:
    """`np.argsort(key, kind="stable")` of numbers that are not negative. (n,)"""
    count = len(key)
    if count < 2:
        return np.zeros(count, np.int64)
    bits = count.bit_length()
    if int(key.max()).bit_length() + bits > 63:
        return np.argsort(key, kind="stable")
    packed = key.astype(np.int64) << bits
    packed |= np.arange(count)
    packed.sort(kind="stable")
    packed &= (1 << bits) - 1
    return packed


def order_times(times: Int64Array) -> Int32Array:
    """The rows in order of their times, earlier rows first where these are equal. (n,)"""
    if core.compiled is not None:
        return core.compiled.order_times(times)
    return argsort_stable(times - times.min(initial=LATEST_NS)).astype(np.int32)


def group_order(values: UInt64Array) -> Int64Array:
    """An order in which rows of equal value stand together, earlier ones first; the values need not rise. (n,)"""
    count = len(values)
    if count < 2:
        return np.zeros(count, np.int64)
    bits = np.uint64(count.bit_length())
    packed = values * HASH_MULTIPLIER
    packed >>= bits
    packed <<= bits
    packed |= np.arange(count, dtype=np.uint64)
    packed.sort(kind="stable")
    order = (packed & ((np.uint64(1) << bits) - np.uint64(1))).astype(np.int64)
    # different values that look alike in the bits that were left: seldom, and then a few rows are sorted again
    packed >>= bits
    alike = packed[1:] == packed[:-1]
    ordered = values[order]
    mixed = np.flatnonzero(alike & (ordered[1:] != ordered[:-1]))
    if len(mixed):
        rows = np.flatnonzero(np.isin(packed, packed[mixed]))
        again = order[rows]
        order[rows] = again[np.lexsort((again, values[again], packed[rows]))]
    return order


def find_group_starts(*columns: npt.NDArray[np.generic]) -> BoolArray:
    """Which rows begin a run of rows that are equal in all columns. (n,)"""
    count = len(columns[0])
    new = np.ones(count, np.bool_)
    if count:
        np.not_equal(columns[0][1:], columns[0][:-1], out=new[1:])
        for column in columns[1:]:
            new[1:] |= column[1:] != column[:-1]
    return new


def expand_ranges(start: Int64Array, length: Int64Array) -> Int64Array:
    """The numbers of all ranges, one range after the other."""
    before = np.cumsum(length) - length
    return np.repeat(start - before, length) + np.arange(int(length.sum()))


def find_distinct(values: UInt64Array) -> tuple[UInt64Array, npt.NDArray[np.uint32]]:
    """The different values, in no order, and which of them each value is. (k,), (n,)"""
    if core.compiled is not None:
        return core.compiled.find_distinct(np.ascontiguousarray(values))
    equal = find_equal_rows(values)
    is_first = np.zeros(len(values), np.bool_)
    is_first[equal] = True
    number = np.cumsum(is_first, dtype=np.uint32)
    number -= np.uint32(1)
    return values[is_first], number[equal]


def number_pairs(first: npt.NDArray[np.integer], second: npt.NDArray[np.integer]) -> Int64Array:
    """Numbers that are equal where both values, which are not negative, are equal. (n,)"""
    high, low = (find_distinct(values.astype(np.uint64, copy=False))[1] for values in (first, second))
    return find_distinct(high.astype(np.uint64) << np.uint64(32) | low)[1].astype(np.int64)


def find_distinct_bodies(
    heap: UInt8Array, begin: Int64Array, end: Int64Array, number: UInt64Array
) -> tuple[Int64Array, npt.NDArray[np.uint32]]:
    """The rows of the first of bodies with equal numbers and bytes, and which of those each body is. (k,), (n,)

    `begin`, `end`: where each body is in `heap`.
    """
    if core.compiled is not None:
        return core.compiled.find_distinct_bodies(heap, begin, end, number)
    places: dict[tuple[int, bytes], int] = {}
    equal = np.empty(len(number), np.uint32)
    first: list[int] = []
    columns = zip(number.tolist(), begin.tolist(), end.tolist(), strict=True)
    for row, (value, low, high) in enumerate(columns):
        place = places.setdefault((value, heap[low:high].tobytes()), len(first))
        if place == len(first):
            first.append(row)
        equal[row] = place
    return np.array(first, np.int64), equal


def find_equal_rows(values: UInt64Array) -> npt.NDArray[np.int32]:
    """For each row the same row of all that have its value. (n,)

    A table of hashes takes a third of the time of sorting. Rows whose place in it belongs to another value get a
    smaller table. If they are more than half of the rows, as only in a capture that is made for it, they are sorted.
    """
    count = len(values)
    bits = max(count.bit_length(), 1)
    place = (values * HASH_MULTIPLIER >> np.uint64(64 - bits)).view(np.int64)
    row_at = np.empty(1 << bits, np.int32)
    row_at[place] = np.arange(count, dtype=np.int32)
    equal: npt.NDArray[np.int32] = row_at[place]
    others = np.flatnonzero(values.take(equal) != values)
    if 0 < len(others) <= count // 2:
        equal[others] = others.take(find_equal_rows(values.take(others)))
    elif len(others):
        order = others[group_order(values[others])]
        new = find_group_starts(values[order])
        equal[order] = order[new][np.cumsum(new) - 1]
    return equal


def number_within_captures(values: UInt64Array, codes: UInt64Array) -> UInt64Array:
    """Numbers that are equal where the values are equal and of one capture. (n,)

    `codes` are addresses of the rows, which contain the number of the capture, in ascending order. (n,)
    """
    if not len(codes) or not get_capture_numbers(codes[-1:])[0]:
        return values
    return find_distinct(values)[1] | get_capture_numbers(codes).astype(np.uint64) << np.uint64(32)


def number_by_first_row(labels: Int32Array, count: int) -> Int64Array:
    """Number groups in order of their first rows; returns the number of each of the `count` labels. (count,)"""
    first = np.full(count, len(labels), np.int64)
    first[labels[::-1]] = np.arange(len(labels))[::-1]
    rank = np.empty(count, np.int64)
    rank[np.argsort(first, kind="stable")] = np.arange(count)
    return rank


class RowColumns(Struct, frozen=True):
    """Base of the classes whose fields are columns of one length."""

    def __len__(self) -> int:
        return len(getattr(self, self.__struct_fields__[0]))

    def select(self, chosen: npt.NDArray[np.generic]) -> Self:
        """Select rows by mask or row numbers, in that order."""
        return type(self)(*(getattr(self, name)[chosen] for name in self.__struct_fields__))


class RowGroups:
    """Groups of contiguous rows, and aggregates of their values."""

    def __init__(self, new: BoolArray) -> None:
        self.start: Int64Array = np.flatnonzero(new)  # the first row of each run
        self.end: Int64Array = np.append(self.start[1:], len(new)) if len(new) else self.start  # after its last row
        self._last = self.end - 1
        self._inside = ~new[1:]

    @property
    def size(self) -> Int64Array:
        """Rows of each run."""
        return self.end - self.start

    def sum(self, values: npt.NDArray[_Number]) -> npt.NDArray[_Number]:
        """The sum of each run's values."""
        # differences of a running sum: numpy's reduceat takes three times as long for short runs
        until: npt.NDArray[_Number] = np.cumsum(values, dtype=values.dtype).take(self._last)
        totals = until.copy()
        totals[1:] -= until[:-1]
        return totals

    def min(self, values: npt.NDArray[_Number]) -> npt.NDArray[_Number]:
        """The smallest of each run's values."""
        if self._rise(values):
            return values.take(self.start)
        return np.minimum.reduceat(values, self.start)

    def max(self, values: npt.NDArray[_Number]) -> npt.NDArray[_Number]:
        """The largest of each run's values."""
        if self._rise(values):
            return values.take(self._last)
        return np.maximum.reduceat(values, self.start)

    def _rise(self, values: npt.NDArray[_Number]) -> bool:
        return not bool(((values[1:] < values[:-1]) & self._inside).any())
