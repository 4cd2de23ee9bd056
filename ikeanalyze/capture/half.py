"""What a helper found in the second half of a capture, as it sends it."""

import builtins
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ikeanalyze.capture.accounting import Accounting
from ikeanalyze.capture.records import Damage

#: As `MessageBytes.entries` gives them.
Entries = tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64], npt.NDArray[np.int64]]


@dataclass(slots=True)
class Half:
    """The sums, and how much there is of what is in shared memory: rows, and bytes of messages."""

    rows: int
    units: int
    packets: int
    bytes: int
    truncated: int
    first_ns: int | None
    last_ns: int | None
    accounting: Accounting
    clear: Entries
    sealed: Entries
    ipv6: list[builtins.bytes]
    refused: list[tuple[int, str]]
    refused_count: int
    foreign_links: dict[int, int]
    damage: Damage | None
