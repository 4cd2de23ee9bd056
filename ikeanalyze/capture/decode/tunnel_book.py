"""Numbers the tunnels of a capture, and names them: "vxlan:42", or "mpls:100/gre:7" for a tunnel in a tunnel."""

from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt

from ikeanalyze.capture.arrays import Int64Array, UInt32Array

#: Number of packets that are in no tunnel.
NO_TUNNEL: Final = 0
#: Further tunnels of a kind have one number: random data can have a tunnel for each packet.
MAX_TUNNELS: Final = 1 << 18


class TunnelBook:
    """The tunnels of a capture. Number n, from 1, is that of `names[n - 1]`."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self._numbers: dict[str, int] = {}
        self._of: dict[tuple[str, tuple[int, ...]], int] = {}

    def add(self, name: str) -> int:
        """The number of the tunnel with this name, which may be new."""
        number = self._numbers.get(name)
        if number is None:
            self.names.append(name)
            number = self._numbers[name] = len(self.names)
        return number

    def enter(
        self,
        kind: str,
        outer: UInt32Array,
        *ids: npt.NDArray[np.integer],
        describe: Callable[..., str] | None = None,
    ) -> UInt32Array:
        """The numbers of tunnels of one kind. (n,)

        Args:
            kind: such as "vxlan".
            outer: numbers of the tunnels around them.
            ids: columns that identify a tunnel, such as the VNI.
            describe: the text for a row of `ids`; None: the numbers, separated by points.
        """
        first, place = _find_distinct_rows((outer, *ids))
        numbers = np.empty(len(first), np.uint32)
        for index, row in enumerate(first.tolist()):
            values = (int(outer[row]), *(int(column[row]) for column in ids))
            number = self._of.get((kind, values))
            if number is None:
                number = self._add(kind, values, describe)
            numbers[index] = number
        return numbers[place]

    def _add(self, kind: str, values: tuple[int, ...], describe: Callable[..., str] | None) -> int:
        if len(self.names) >= MAX_TUNNELS:
            return self.add(kind)
        outer, *ids = values
        around = f"{self.names[outer - 1]}/" if outer else ""
        text = (describe(*ids) if describe else ".".join(map(str, ids))) if ids else ""
        number = self._of[kind, values] = self.add(f"{around}{kind}:{text}" if text else f"{around}{kind}")
        return number

    def get_kind(self, number: int) -> str:
        """The kind of the innermost tunnel of this number."""
        return self.names[number - 1].rpartition("/")[2].partition(":")[0]

    def translation(self, names: list[str]) -> UInt32Array:
        """The number in this book of each number of a book with the tunnels `names`."""
        return np.array([NO_TUNNEL, *map(self.add, names)], np.uint32)


def _find_distinct_rows(columns: tuple[npt.NDArray[np.integer], ...]) -> tuple[Int64Array, Int64Array]:
    """The first of each group of equal rows, and the group of each row. (k,), (n,)"""
    count = len(columns[0])
    code = np.zeros(count, np.int64)
    groups = min(count, 1)
    for column in columns:
        if (column == column[:1]).all():
            continue
        values, inverse = np.unique(column, return_inverse=True)
        if groups == 1:
            code = inverse
        else:
            code = np.unique(code * len(values) + inverse, return_inverse=True)[1]
        groups = int(code.max()) + 1
    first = np.full(groups, count, np.int64)
    first[code[::-1]] = np.arange(count)[::-1]
    return first, code
