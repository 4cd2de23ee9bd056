"""Remembers the IKE SAs that ended, so that their later messages are not taken for other handshakes."""

import numpy as np

from ikeanalyze.capture.arrays import BoolArray, UInt64Array


class EndedSas:
    """A set of numbers of IKE SAs (`frame_window`) of bounded size, from which the longest silent ones are dropped.

    There are two generations. An IKE SA enters the newer one when it ends, and again when one of its messages is seen.
    When the newer generation has half of all numbers, it becomes the older one, which is dropped.
    """

    def __init__(self, most: int) -> None:
        self._half = max(most // 2, 1)
        self._newer: UInt64Array = np.zeros(0, np.uint64)  # ascending, as the older ones
        self._older: UInt64Array = np.zeros(0, np.uint64)

    def __len__(self) -> int:
        return len(self._newer) + int((~_are_in(self._older, self._newer)).sum())

    def add(self, keys: UInt64Array) -> None:
        """Add numbers."""
        fresh = np.unique(keys)
        fresh = fresh[~_are_in(fresh, self._newer)]
        self._newer = np.insert(self._newer, np.searchsorted(self._newer, fresh), fresh)
        if len(self._newer) > self._half:
            self._older, self._newer = self._newer, self._newer[:0]

    def discard(self, keys: UInt64Array) -> None:
        """Remove numbers."""
        self._newer = self._newer[~np.isin(self._newer, keys)]
        self._older = self._older[~np.isin(self._older, keys)]

    def recognise(self, keys: UInt64Array) -> BoolArray:
        """Which of the numbers are in the set; they count as seen. (n,)"""
        newer, older = _are_in(keys, self._newer), _are_in(keys, self._older)
        if (older & ~newer).any():
            self.add(keys[older & ~newer])
        return newer | older


def _are_in(keys: UInt64Array, ascending: UInt64Array) -> BoolArray:
    if not len(ascending):
        return np.zeros(len(keys), np.bool_)
    place = np.minimum(np.searchsorted(ascending, keys), len(ascending) - 1)
    return np.asarray(ascending[place] == keys)
