"""The compiled core; its source is core/. Import it through `ikeanalyze.core`."""

from ikeanalyze.capture.arrays import Int64Array, UInt8Array

INTERFACE: int

def copy_ranges(target: UInt8Array, at: int, source: UInt8Array, begin: Int64Array, end: Int64Array) -> None:
    """Copy the bytes from `begin` to `end` of `source`, for each pair, to consecutive places of `target` from `at` on.

    Raises:
        ValueError: a range is outside of its buffer.
    """
