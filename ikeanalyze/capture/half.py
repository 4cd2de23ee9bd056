"""What a helper found in the second half of a capture, as it sends it."""

import builtins
from dataclasses import dataclass

from ikeanalyze.capture.accounting import Accounting
from ikeanalyze.capture.columns import Int64Array, UInt32Array
from ikeanalyze.capture.records import CaptureDamage

#: As `MessageBytes.entries` gives them.
Entries = tuple[UInt32Array, Int64Array, Int64Array]


@dataclass(slots=True)
class PartialResult:
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
    damage: CaptureDamage | None
