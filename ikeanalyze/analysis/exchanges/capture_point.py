"""Which side of the path a handshake was captured on.

A packet that has crossed no router has the time to live that its sender's system begins with (64, 128 or 255; RFC 1700,
RFC 8200, 3 for the hop limit). If that holds in one direction only, the capture was taken on its sender's side.
"""

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from ikeanalyze.analysis.grouping import find_distinct
from ikeanalyze.capture.arrays import BoolArray, Int64Array, UInt8Array, UInt64Array

#: For each time to live whether systems begin with it.
_IS_FRESH: Final = np.isin(np.arange(256), (64, 128, 255))

Vantage = Literal["initiator", "responder"]

INITIATOR: Final = 0
RESPONDER: Final = 1
UNKNOWN_VANTAGE: Final = 2


@dataclass(frozen=True, slots=True)
class NetworkPath:
    """The path between the hosts of each handshake."""

    vantage: UInt8Array  # INITIATOR, RESPONDER or UNKNOWN_VANTAGE. (handshakes,)
    rtt_ns: int | None  # its round-trip time, if it was given


def infer_capture_sides(
    handshake: Int64Array, from_initiator: BoolArray, ttl: UInt8Array, count: int, given: Vantage | None = None
) -> UInt8Array:
    """INITIATOR, RESPONDER or UNKNOWN_VANTAGE for each of `count` handshakes: as given, else by the TTLs of its datagrams."""
    if given is not None:
        return np.full(count, INITIATOR if given == "initiator" else RESPONDER, np.uint8)
    # of each handshake: datagrams of the responder with a worn TTL, with a fresh one; the same of the initiator
    kind = handshake << 2 | from_initiator.astype(np.int64) << 1 | _IS_FRESH[ttl]
    datagrams = np.bincount(kind, minlength=4 * count).reshape(-1, 4) > 0
    responder_worn, responder_fresh = datagrams[:, 0] & ~datagrams[:, 1], datagrams[:, 1] & ~datagrams[:, 0]
    initiator_worn, initiator_fresh = datagrams[:, 2] & ~datagrams[:, 3], datagrams[:, 3] & ~datagrams[:, 2]
    result = np.full(count, UNKNOWN_VANTAGE, np.uint8)
    result[initiator_fresh & responder_worn] = INITIATOR
    result[responder_fresh & initiator_worn] = RESPONDER
    return result


def number_host_pairs(initiator: UInt64Array, responder: UInt64Array) -> Int64Array:
    """A number for the two hosts of each handshake, of which these are the address codes. (handshakes,)"""
    initiators, responders = find_distinct(initiator)[1], find_distinct(responder)[1]
    return find_distinct(initiators.astype(np.uint64) << np.uint64(32) | responders)[1].astype(np.int64)
