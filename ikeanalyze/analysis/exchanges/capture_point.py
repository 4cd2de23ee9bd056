"""Infer on which side of the path a handshake was captured.

A packet that has not crossed a router has the initial time to live of its sender's system (64, 128 or 255; RFC 1700,
RFC 8200, 3 for the hop limit). If that holds in one direction only, the capture was taken on its sender's side.
"""

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from ikeanalyze.analysis.grouping import find_distinct
from ikeanalyze.capture.arrays import BoolArray, Int64Array, UInt8Array, UInt64Array

#: Whether each time to live is an initial one.
_IS_INITIAL: Final = np.isin(np.arange(256), (64, 128, 255))

Vantage = Literal["initiator", "responder"]

INITIATOR: Final = 0
RESPONDER: Final = 1
UNKNOWN_VANTAGE: Final = 2


@dataclass(frozen=True, slots=True)
class NetworkPath:
    """The paths between the hosts of handshakes."""

    vantage: UInt8Array  # INITIATOR, RESPONDER or UNKNOWN_VANTAGE. (handshakes,)
    rtt_ns: int | None  # the given round-trip time; None: not given


def infer_capture_sides(
    handshake: Int64Array, from_initiator: BoolArray, ttl: UInt8Array, count: int, given: Vantage | None = None
) -> UInt8Array:
    """INITIATOR, RESPONDER or UNKNOWN_VANTAGE for each handshake: as given, else by the TTLs. (count,)"""
    if given is not None:
        return np.full(count, INITIATOR if given == "initiator" else RESPONDER, np.uint8)
    # whether each handshake has datagrams: responder reduced TTL, responder initial TTL, the same of the initiator
    case = handshake << 2 | from_initiator.astype(np.int64) << 1 | _IS_INITIAL[ttl]
    datagrams = np.bincount(case, minlength=4 * count).reshape(-1, 4) > 0
    responder_routed, responder_direct = datagrams[:, 0] & ~datagrams[:, 1], datagrams[:, 1] & ~datagrams[:, 0]
    initiator_routed, initiator_direct = datagrams[:, 2] & ~datagrams[:, 3], datagrams[:, 3] & ~datagrams[:, 2]
    result = np.full(count, UNKNOWN_VANTAGE, np.uint8)
    result[initiator_direct & responder_routed] = INITIATOR
    result[responder_direct & initiator_routed] = RESPONDER
    return result


def number_host_pairs(initiator: UInt64Array, responder: UInt64Array) -> Int64Array:
    """Number the pairs of hosts with these address codes. (handshakes,)"""
    initiators, responders = find_distinct(initiator)[1], find_distinct(responder)[1]
    return find_distinct(initiators.astype(np.uint64) << np.uint64(32) | responders)[1].astype(np.int64)
