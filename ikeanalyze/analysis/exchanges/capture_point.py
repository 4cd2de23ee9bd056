"""Determine on which side of the path a handshake was captured, and the round-trip time of the path.

Options decide first, then the TTLs, then the lab's manifest. A packet that has not crossed a router has the initial
time to live of its sender's system (64, 128 or 255; RFC 1700, RFC 8200, 3 for the hop limit). If that holds in one
direction only, the capture was taken on its sender's side.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from ikeanalyze import core
from ikeanalyze.analysis.exchanges.exchanges import UNKNOWN
from ikeanalyze.analysis.grouping import number_pairs
from ikeanalyze.analysis.messages.capture_facts import Rows
from ikeanalyze.analysis.options import Vantage
from ikeanalyze.capture.arrays import BoolArray, Float64Array, Int32Array, Int64Array, UInt8Array, UInt64Array
from ikeanalyze.io.lab_manifest import LabManifest

#: Whether each time to live is an initial one.
_IS_INITIAL: Final = np.isin(np.arange(256), (64, 128, 255))

INITIATOR: Final = 0
RESPONDER: Final = 1
UNKNOWN_VANTAGE: Final = 2


#: Columns of shared rows with the hosts of a handshake.
HOSTS: Final = ("initiator", "responder")

#: Origins of a round-trip time, as in the column `path_rtt_source`.
NOT_GIVEN: Final = 0
GIVEN: Final = 1
FROM_MANIFEST: Final = 2
#: Share by which a given round-trip time may exceed intervals that contain it: jitter, and rounded numbers.
ROUND_TRIP_SHARE: Final = 0.1


#: Bytes of an Ethernet header, which the lab's links transmit with each IP packet.
_LINK_HEADER_BYTES: Final = 14


class LinkRates(Struct, frozen=True):
    """How fast the links of handshakes transmit frames, according to the manifests. (handshakes,) each"""

    up_ns: Float64Array  # for each byte from the initiator; 0: no limit, or unknown
    down_ns: Float64Array  # for each byte to the initiator
    frame_bytes: Int64Array  # of the largest frame


class NetworkPath(Struct, frozen=True):
    """The paths between the hosts of handshakes. (handshakes,) each"""

    vantage: UInt8Array  # INITIATOR, RESPONDER or UNKNOWN_VANTAGE
    rtt_ns: Int64Array  # round-trip time if it is known other than from the messages, or UNKNOWN
    rtt_source: UInt8Array  # NOT_GIVEN, GIVEN or FROM_MANIFEST
    timer_ns: Int64Array  # first retransmission timer of the initiator according to the manifest, or UNKNOWN
    rates: LinkRates | None = None  # None: no link is known to have a limited rate

    @property
    def initiator_rtt_ns(self) -> Int64Array:
        """Round-trip time between capture point and initiator if it is known, or UNKNOWN. (handshakes,)"""
        return np.where(self.vantage == RESPONDER, self.rtt_ns, UNKNOWN)


def determine_paths(
    sides: UInt8Array, capture: Int64Array, manifests: Sequence[LabManifest | None], rtt_ns: int | None
) -> NetworkPath:
    """The paths of handshakes.

    Args:
        sides: the sides that the handshakes were captured on, as given or by the TTLs. (handshakes,)
        capture: number of the capture of each handshake. (handshakes,)
        manifests: the lab's manifest of each capture, or None. (captures,)
        rtt_ns: round-trip time that the user gave, or None.
    """
    count = len(sides)
    vantage, source = sides.copy(), np.full(count, NOT_GIVEN, np.uint8)
    rtt, timer = np.full(count, UNKNOWN), np.full(count, UNKNOWN)
    rates = None
    for number, manifest in enumerate(manifests):
        if manifest is None or manifest.rtt_ns is None:
            continue
        # a capture that was taken on the other side is not the one that the lab recorded
        side, other = (INITIATOR, RESPONDER) if manifest.capture_host == "initiator" else (RESPONDER, INITIATOR)
        rows = np.flatnonzero((capture == number) & (sides != other))
        vantage[rows], rtt[rows], source[rows] = side, manifest.rtt_ns, FROM_MANIFEST
        if manifest.timer_ns is not None:
            timer[rows] = manifest.timer_ns
        if any(manifest.byte_ns):
            rates = rates or LinkRates(np.zeros(count), np.zeros(count), np.zeros(count, np.int64))
            rates.up_ns[rows], rates.down_ns[rows] = manifest.byte_ns
            rates.frame_bytes[rows] = manifest.mtu + _LINK_HEADER_BYTES
    if rtt_ns is not None:  # it describes the path in place of the manifest
        rtt[:], source[:], rates = rtt_ns, GIVEN, None
    return NetworkPath(vantage, rtt, source, timer, rates)


def infer_capture_sides(
    handshake: Int32Array, from_initiator: BoolArray, ttl: UInt8Array, count: int, given: Vantage | None = None
) -> UInt8Array:
    """INITIATOR, RESPONDER or UNKNOWN_VANTAGE for each handshake: as given, else by the TTLs. (count,)"""
    if given is not None:
        return np.full(count, INITIATOR if given == "initiator" else RESPONDER, np.uint8)
    if core.compiled is not None:
        return core.compiled.infer_capture_sides(handshake, from_initiator, ttl, count)
    # whether each handshake has datagrams: responder reduced TTL, responder initial TTL, the same of the initiator
    case = handshake.astype(np.int64)
    case <<= 2
    case |= from_initiator.view(np.uint8) << np.uint8(1) | _IS_INITIAL[ttl]
    datagrams = np.zeros((count, 4), np.bool_)
    datagrams.reshape(-1)[case] = True
    responder_routed, responder_direct = datagrams[:, 0] & ~datagrams[:, 1], datagrams[:, 1] & ~datagrams[:, 0]
    initiator_routed, initiator_direct = datagrams[:, 2] & ~datagrams[:, 3], datagrams[:, 3] & ~datagrams[:, 2]
    result = np.full(count, UNKNOWN_VANTAGE, np.uint8)
    result[initiator_direct & responder_routed] = INITIATOR
    result[responder_direct & initiator_routed] = RESPONDER
    return result


def number_shared_host_pairs(hosts: Sequence[UInt64Array], shared: Rows) -> tuple[Int64Array, Int64Array]:
    """Number the pairs of hosts of handshakes and of shared rows together. (handshakes,), (rows,)"""
    initiator, responder = (np.concatenate([own, shared[end]]) for own, end in zip(hosts, HOSTS, strict=True))
    numbers = number_pairs(initiator, responder)
    return numbers[: len(hosts[0])], numbers[len(hosts[0]) :]
