"""Array types, and reading fixed-width headers at many positions of a buffer at once."""

from typing import TypeVar

import numpy as np
import numpy.typing as npt

BoolArray = npt.NDArray[np.bool_]
UInt8Array = npt.NDArray[np.uint8]
UInt16Array = npt.NDArray[np.uint16]
UInt32Array = npt.NDArray[np.uint32]
#: Row numbers: 2**31 frames would take 200 GB of memory.
Int32Array = npt.NDArray[np.int32]
Int64Array = npt.NDArray[np.int64]
UInt64Array = npt.NDArray[np.uint64]
Float64Array = npt.NDArray[np.float64]

_Number = TypeVar("_Number", bound=np.integer)


def sort_distinct(values: npt.NDArray[_Number]) -> npt.NDArray[_Number]:
    """The different values in ascending order. (k,)

    `np.unique` would load numpy.ma, which takes longer than to read a small capture.
    """
    ordered = np.sort(values)
    new = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    return ordered[new]


def are_all_numbers(numbers: UInt32Array, count: int) -> bool:
    """Whether these are all numbers below `count`, in ascending order."""
    if len(numbers) != count or not count:
        return len(numbers) == count
    # comparing neighbours takes a tenth of the time of comparing with new numbers
    return bool(numbers[0] == 0 and numbers[-1] == count - 1 and (numbers[1:] > numbers[:-1]).all())


def find_rows(mask: BoolArray) -> Int64Array:
    """The rows that a mask selects, as `np.flatnonzero`, of few rows in a sixth of the time. (k,)"""
    return mask.nonzero()[0]


def read_struct_array(buffer: UInt8Array, at: Int64Array, layout: np.dtype[np.void]) -> npt.NDArray[np.void]:
    """The header of type `layout` at each position.

    The header of a position too near the end of the buffer is read further in front, so its fields are wrong; the
    caller's length checks must reject such a position.
    """
    width = layout.itemsize
    count = len(buffer) - width + 1
    # A header at every byte. Without fields, since numpy copies elements with fields one field at a time; and by the
    # constructor, since as_strided takes several times as long, which counts for few positions.
    window: npt.NDArray[np.void] = np.ndarray((count,), f"V{width}", buffer, strides=(1,))
    return window[np.minimum(at, count - 1)].view(layout)


def read_uint16_be(buffer: UInt8Array, at: Int64Array) -> UInt16Array:
    """The 16-bit big-endian number at each position."""
    return read_struct_array(buffer, at, _UINT16)["value"].astype(np.uint16)


def read_uint32_be(buffer: UInt8Array, at: Int64Array) -> UInt32Array:
    """The 32-bit big-endian number at each position."""
    return read_struct_array(buffer, at, _UINT32)["value"].astype(np.uint32)


def read_uint16_le(buffer: UInt8Array, at: Int64Array) -> UInt16Array:
    """The 16-bit little-endian number at each position."""
    return read_struct_array(buffer, at, _UINT16_LE)["value"].astype(np.uint16)


def read_uint32_le(buffer: UInt8Array, at: Int64Array) -> UInt32Array:
    """The 32-bit little-endian number at each position."""
    return read_struct_array(buffer, at, _UINT32_LE)["value"].astype(np.uint32)


def read_uint8(buffer: UInt8Array, at: Int64Array) -> UInt8Array:
    """The byte at each position; the last byte of the buffer for a position after its end."""
    return buffer[np.minimum(at, len(buffer) - 1)]


def rank_by_appearance(numbers: UInt32Array, count: int) -> Int64Array | None:
    """The rank of each number below `count` by its first place in `numbers`; (count,). Others follow.

    None if each number is its own rank, as without any.
    """
    if are_all_numbers(numbers, len(numbers)):  # as usual
        return None
    highest = np.maximum.accumulate(numbers)
    if highest[0] == 0 and (highest[1:] <= highest[:-1] + 1).all():
        return None
    first = np.full(count, len(numbers), np.int64)
    first[numbers[::-1]] = np.arange(len(numbers) - 1, -1, -1)
    rank = np.empty(count, np.int64)
    rank[np.argsort(first, kind="stable")] = np.arange(count)
    return rank


_UINT16 = np.dtype([("value", ">u2")])
_UINT32 = np.dtype([("value", ">u4")])
_UINT16_LE = np.dtype([("value", "<u2")])
_UINT32_LE = np.dtype([("value", "<u4")])
