"""Array types, and reading fixed-width headers at many positions of a buffer at once."""

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import as_strided

BoolArray = npt.NDArray[np.bool_]
UInt8Array = npt.NDArray[np.uint8]
UInt16Array = npt.NDArray[np.uint16]
UInt32Array = npt.NDArray[np.uint32]
Int64Array = npt.NDArray[np.int64]
UInt64Array = npt.NDArray[np.uint64]
Float64Array = npt.NDArray[np.float64]


def read_struct_array(buffer: UInt8Array, at: Int64Array, layout: np.dtype[np.void]) -> npt.NDArray[np.void]:
    """The header of type `layout` at each position.

    The header of a position too near the end of the buffer is read further in front, so its fields are wrong; the
    caller's length checks must reject such a position.
    """
    width = layout.itemsize
    window = as_strided(buffer[:width].view(f"V{width}"), shape=(len(buffer) - width + 1,), strides=(1,))
    return window[np.minimum(at, len(buffer) - width)].view(layout)


def read_uint16_be(buffer: UInt8Array, at: Int64Array) -> UInt16Array:
    """The 16-bit big-endian number at each position."""
    return read_struct_array(buffer, at, _UINT16)["value"].astype(np.uint16)


_UINT16 = np.dtype([("value", ">u2")])
