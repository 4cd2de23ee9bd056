"""UDP datagrams and bare IP protocols: what each one is, and where its IKE, RADIUS or HIP message begins.

RFC 7296, 2 and 3.1 (UDP 500 and 4500, header), RFC 3948 (non-ESP marker, ESP in UDP, NAT keepalive), RFC
7383, 2.5 (fragments), RFC 2865, 3 (RADIUS), RFC 7401, 5.1 and RFC 5770, 5.1 (HIP, and in UDP).
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import numpy as np
import numpy.typing as npt

from ikeanalyze.capture.accounting import PacketCategory
from ikeanalyze.capture.arrays import BoolArray, Int64Array, UInt8Array, UInt16Array, read_struct_array
from ikeanalyze.capture.decode.ip import IpPackets
from ikeanalyze.capture.protocol_numbers import (
    IKE_HEADER_BYTES,
    PAYLOAD_IKEV1_FRAGMENT,
    PAYLOAD_SK,
    PAYLOAD_SKF,
    PORT_HIP,
    PORT_IKE,
    PORT_IKE_NAT,
    PORTS_RADIUS,
    PROTOCOL_AH,
    PROTOCOL_ESP,
    PROTOCOL_HIP,
    PROTOCOL_ICMP,
    PROTOCOL_ICMPV6,
    PROTOCOL_UDP,
)

_RADIUS_PORTS: Final = np.array(PORTS_RADIUS, np.uint16)
_RADIUS_CODES: Final = np.array([*range(1, 14), *range(21, 35), *range(40, 46), 50, 51, 52, 255], np.uint8)

_UDP: Final = np.dtype(
    [("source", ">u2"), ("destination", ">u2"), ("length", ">u2"), ("checksum", ">u2"), ("first", "u1"),
     ("marker", "u1", 3)]
)  # fmt: skip
_IKE: Final = np.dtype(
    [
        ("spi_i", ">u8"), ("spi_r", ">u8"),
        ("next", "u1"), ("version", "u1"), ("exchange", "u1"), ("flags", "u1"),
        ("message_id", ">u4"), ("length", ">u4"),
        # the first payload: generic header, then fragment number and total if it is an Encrypted Fragment
        ("generic", ">u4"), ("number", ">u2"), ("total", ">u2"),
    ]
)  # fmt: skip
_WORD: Final = np.dtype([("value", ">u4")])
_RADIUS: Final = np.dtype([("code", "u1"), ("identifier", "u1"), ("length", ">u2")])
_HIP: Final = np.dtype([("next", "u1"), ("length", "u1"), ("type", "u1"), ("version", "u1")])

#: Behind the numbers of a fragment (RFC 7383, 2.5), which stand in the message's first payload.
_FRAGMENT_END: Final = IKE_HEADER_BYTES + 8


class Protocol(IntEnum):
    """Physical values of schema.PROTOCOLS."""

    IKEV2 = 0
    IKEV1 = 1
    RADIUS = 2
    HIP = 3


class Encapsulation(IntEnum):
    """Physical values of schema.ENCAPSULATIONS."""

    UDP_500 = 0
    UDP_4500 = 1
    TCP_4500 = 2
    UDP = 3
    IP = 4


#: What is read from a message's own header, with the types that a million rows can afford. 0 stands for "no
#: fragment".
HEADER_COLUMNS: Final[dict[str, type[np.generic]]] = {
    "protocol": np.uint8,
    "spi_i": np.uint64,
    "spi_r": np.uint64,
    "next_payload": np.uint8,
    "exchange_type": np.uint8,
    "flags": np.uint8,
    "message_id": np.uint32,
    "ike_bytes": np.uint32,
    "fragment": np.uint16,
    "fragments": np.uint16,
}


@dataclass(slots=True)
class ClassifiedMessages:
    """Messages found in a batch's packets."""

    packet: Int64Array  # index into the packets
    at: Int64Array  # first byte of the message (behind the non-ESP marker)
    end: Int64Array  # behind its last captured byte
    encapsulation: UInt8Array
    source_port: UInt16Array
    destination_port: UInt16Array
    header: dict[str, npt.NDArray[np.generic]]  # HEADER_COLUMNS
    clear: BoolArray  # its payloads can be read without keys

    def __len__(self) -> int:
        return len(self.packet)


@dataclass(frozen=True, slots=True)
class MalformedPacket:
    """A packet on an IKE, RADIUS or HIP port that is not what it should be, or not all there."""

    packet: int  # index into the packets
    what: str


def classify_packets(
    buffer: UInt8Array, packets: IpPackets, ports: Collection[int]
) -> tuple[UInt8Array, list[ClassifiedMessages], list[MalformedPacket]]:
    """Category of each packet, and the messages in them. TCP is left as OTHER for whoever follows streams.

    `ports` are UDP ports on which IKE is expected besides 500 and 4500, with or without the non-ESP marker.
    """
    sorter = _DatagramClassifier(buffer, len(packets))
    category, protocol = sorter.category, packets.protocol
    category[protocol == PROTOCOL_ESP] = PacketCategory.ESP
    category[protocol == PROTOCOL_AH] = PacketCategory.AH
    category[(protocol == PROTOCOL_ICMP) | (protocol == PROTOCOL_ICMPV6)] = PacketCategory.ICMP
    udp = np.flatnonzero(protocol == PROTOCOL_UDP)
    if len(udp):
        sorter.sort_udp(packets, udp, ports)
    hip = np.flatnonzero(protocol == PROTOCOL_HIP)
    if len(hip):
        no_port = np.zeros(len(hip), np.uint16)
        encapsulation = np.full(len(hip), Encapsulation.IP, np.uint8)
        bounds = packets.at[hip], packets.end[hip], packets.wire_end[hip]
        sorter.sort_hip(_UdpPayloads(hip, *bounds, no_port, no_port, encapsulation))
    return category, sorter.messages, sorter.refused


@dataclass(slots=True)
class _UdpPayloads:
    """What UDP or IP carries in some of the packets: an entry for each."""

    packet: Int64Array  # index into the packets
    at: Int64Array  # first byte
    end: Int64Array  # behind the last captured byte
    wire_end: Int64Array  # behind the last byte on the wire
    source_port: UInt16Array
    destination_port: UInt16Array
    encapsulation: UInt8Array

    def take(self, chosen: BoolArray | Int64Array) -> "_UdpPayloads":
        return _UdpPayloads(
            self.packet[chosen],
            self.at[chosen],
            self.end[chosen],
            self.wire_end[chosen],
            self.source_port[chosen],
            self.destination_port[chosen],
            self.encapsulation[chosen],
        )


class _DatagramClassifier:
    """The result for one batch of packets while it grows."""

    def __init__(self, buffer: UInt8Array, count: int) -> None:
        self.category = np.full(count, PacketCategory.OTHER, np.uint8)
        self.messages: list[ClassifiedMessages] = []
        self.refused: list[MalformedPacket] = []
        self._buffer = buffer

    def sort_udp(self, packets: IpPackets, udp: Int64Array, ports: Collection[int]) -> None:
        """Sort the UDP datagrams among the packets, which `udp` are."""
        at = packets.at[udp]
        header = read_struct_array(self._buffer, at, _UDP)
        length = header["length"].astype(np.int64)
        # a UDP length of 0 is left by segmentation offload (and is allowed in IPv6 jumbograms, RFC 2675, 4)
        wire_end = np.where(length == 0, packets.wire_end[udp], np.minimum(at + length, packets.wire_end[udp]))
        cut = at + 8 > packets.end[udp]
        bad = cut | ((length < 8) & (length != 0))
        self._refuse(
            udp,
            bad,
            lambda index: (
                "cut inside its UDP header"
                if cut[index]
                else f"UDP length of {length[index]}, less than its own header"
            ),
        )
        self.category[udp[bad]] = PacketCategory.MALFORMED
        if bad.any():
            udp, at, header, wire_end = udp[~bad], at[~bad], header[~bad], wire_end[~bad]

        source, destination = header["source"].astype(np.uint16), header["destination"].astype(np.uint16)
        on_500 = (source == PORT_IKE) | (destination == PORT_IKE)
        on_4500 = (source == PORT_IKE_NAT) | (destination == PORT_IKE_NAT)
        asked = np.zeros(len(udp), np.bool_)
        if ports:
            wanted = np.array(sorted(ports), np.uint16)
            asked = np.isin(source, wanted) | np.isin(destination, wanted)
        # RFC 3948, 2.2 and RFC 5770, 5.1: 32 zero bits tell IKE and HIP from ESP
        zero_word = (header["first"] == 0) & ~header["marker"].any(axis=1)
        marked = (on_4500 | asked) & zero_word & (wire_end - at - 8 >= 4)
        encapsulation = np.where(
            on_4500 & ~(on_500 & ~marked),
            Encapsulation.UDP_4500,
            np.where(on_500, Encapsulation.UDP_500, Encapsulation.UDP),
        ).astype(np.uint8)
        end = np.minimum(packets.end[udp], wire_end)
        payloads = _UdpPayloads(udp, at + 8, end, wire_end, source, destination, encapsulation)
        self._sort_ipsec(payloads, header["first"], marked, on_500 | asked, on_4500 | asked)
        other = ~(on_500 | on_4500 | asked)
        radius = np.flatnonzero(other & (np.isin(source, _RADIUS_PORTS) | np.isin(destination, _RADIUS_PORTS)))
        if len(radius):
            self._sort_radius(payloads.take(radius))
        hip = np.flatnonzero(other & ((source == PORT_HIP) | (destination == PORT_HIP)))
        if len(hip):
            self._sort_hip_in_udp(payloads.take(hip), zero_word[hip])

    def _sort_ipsec(
        self,
        payloads: _UdpPayloads,
        first: UInt8Array,
        marked: BoolArray,
        plain_port: BoolArray,
        marker_port: BoolArray,
    ) -> None:
        """Sort IKE, ESP and NAT keepalives. On `plain_port`s IKE has no marker, on `marker_port`s it has one."""
        ours = plain_port | marker_port
        packet, category = payloads.packet, self.category
        size = payloads.wire_end - payloads.at  # on the wire
        blind = marker_port & (payloads.end - payloads.at < np.minimum(size, 4))
        self._refuse(packet, blind, lambda _: "cut by the capture's snapshot length before what tells IKE from ESP")
        category[packet[blind]] = PacketCategory.MALFORMED
        ours &= ~blind
        keepalive = ours & (size == 1) & (first == 0xFF)
        category[packet[keepalive]] = PacketCategory.NAT_KEEPALIVE
        ours &= ~keepalive
        # Where a NAT has mixed up 500 and 4500, and on a port that was asked for, only the header tells whether a
        # marker is due.
        unmarked = plain_port.copy()
        unsure = np.flatnonzero(ours & plain_port & marker_port & ~marked)
        if len(unsure):
            unmarked[unsure] = self._plausible(payloads.take(unsure))
        is_ike = ours & (marked | unmarked)
        esp = ours & ~is_ike
        tiny = esp & (size < 8)
        self._refuse(
            packet, tiny, lambda index: f"{size[index]} bytes on an IPsec port are neither IKE, ESP nor keepalive"
        )
        category[packet[esp]] = PacketCategory.ESP
        category[packet[tiny]] = PacketCategory.MALFORMED
        chosen = np.flatnonzero(is_ike)
        if len(chosen):
            ike = payloads.take(chosen)
            ike.at += np.where(marked[chosen], 4, 0)
            self._sort_ike(ike)

    def _plausible(self, payloads: _UdpPayloads) -> BoolArray:
        header = read_struct_array(self._buffer, payloads.at, _IKE)
        major = header["version"] >> 4
        plausible: BoolArray = (
            (payloads.at + IKE_HEADER_BYTES <= payloads.end)
            & ((major == 1) | (major == 2))
            & (header["spi_i"] != 0)
            & (payloads.at + header["length"] == payloads.wire_end)
        )
        return plausible

    def _sort_ike(self, payloads: _UdpPayloads) -> None:
        at, end, wire_end = payloads.at, payloads.end, payloads.wire_end
        version = self._buffer[np.minimum(at + 17, len(self._buffer) - 1)]
        length = read_struct_array(self._buffer, at + 24, _WORD)["value"].astype(np.int64)
        short = at + IKE_HEADER_BYTES > wire_end
        cut = ~short & (at + IKE_HEADER_BYTES > end)
        strange = ~short & ~cut & (version >> 4 != 1) & (version >> 4 != 2)
        wrong = ~(short | cut | strange) & ((length < IKE_HEADER_BYTES) | (at + length > wire_end))
        good = ~(short | cut | strange | wrong)

        def reason(index: int) -> str:
            there = wire_end[index] - at[index]
            if short[index]:
                return f"{there} bytes, less than an IKE header"
            if cut[index]:
                return "cut inside its IKE header by the capture's snapshot length"
            if strange[index]:
                return f"IKE version {version[index] >> 4}.{version[index] & 15} is unknown"
            return f"IKE length field says {length[index]} bytes, the datagram has {there}"

        self.category[payloads.packet] = np.where(good, PacketCategory.IKE, PacketCategory.MALFORMED)
        if not good.all():
            self._refuse(payloads.packet, ~good, reason)
            payloads, length = payloads.take(good), length[good]
        header = read_ike_headers(self._buffer, payloads.at, payloads.end)
        v2 = header["protocol"] == Protocol.IKEV2
        fragmented = header["next_payload"] == np.where(v2, PAYLOAD_SKF, PAYLOAD_IKEV1_FRAGMENT)
        if fragmented.any():
            keep = self._check_fragments(payloads, length, header, fragmented)
            if not keep.all():
                payloads, length = payloads.take(keep), length[keep]
                header = {name: column[keep] for name, column in header.items()}
        self._add(payloads, length, header, find_cleartext_messages(header))

    def _check_fragments(
        self,
        payloads: _UdpPayloads,
        length: Int64Array,
        header: dict[str, npt.NDArray[np.generic]],
        fragmented: BoolArray,
    ) -> BoolArray:
        """Which of the messages stay: not those whose fragment number no receiver takes (RFC 7383, 2.6)."""
        number, total = header["fragment"].astype(np.int64), header["fragments"].astype(np.int64)
        v2 = header["protocol"] == Protocol.IKEV2
        cut = fragmented & (length >= _FRAGMENT_END) & (payloads.at + _FRAGMENT_END > payloads.end)
        bad = fragmented & ~cut & ((number == 0) | (v2 & (number > total)))

        def reason(index: int) -> str:
            if cut[index]:
                return "cut by the snapshot length before its IKE fragment number: counted as a whole message"
            if length[index] < _FRAGMENT_END:
                return f"IKE length field says {length[index]} bytes, too few for a fragment"
            return f"IKE fragment number {number[index]} of {total[index]} is impossible"

        self._refuse(payloads.packet, bad | cut, reason)
        self.category[payloads.packet[bad]] = PacketCategory.MALFORMED
        keep: BoolArray = ~bad
        return keep

    def _sort_radius(self, payloads: _UdpPayloads) -> None:
        at, end, wire_end = payloads.at, payloads.end, payloads.wire_end
        raw = read_struct_array(self._buffer, at, _RADIUS)
        length = raw["length"].astype(np.int64)
        known = (at + 4 <= end) & np.isin(raw["code"], _RADIUS_CODES) & (raw["code"] != 0)
        good = known & (at + 20 <= end) & (length >= 20) & (at + length <= wire_end)

        def reason(index: int) -> str:
            there = wire_end[index] - at[index]
            if 20 <= length[index] <= there:
                return "cut inside its RADIUS header by the capture's snapshot length"
            return f"RADIUS length field says {length[index]} bytes, {there} are there"

        # anyone may use these ports: a datagram without a RADIUS code is something else
        self.category[payloads.packet] = np.where(
            good, PacketCategory.RADIUS, np.where(known, PacketCategory.MALFORMED, PacketCategory.OTHER)
        )
        self._refuse(payloads.packet, known & ~good, reason)
        header = _unkeyed_header(Protocol.RADIUS, raw["code"][good], raw["identifier"][good], length[good])
        self._add(payloads.take(good), length[good], header)

    def _sort_hip_in_udp(self, payloads: _UdpPayloads, zero_word: BoolArray) -> None:
        there = payloads.end - payloads.at >= 4
        esp = ~zero_word & there & (payloads.wire_end - payloads.at >= 8)
        self.category[payloads.packet[esp]] = PacketCategory.ESP
        hip = payloads.take(zero_word & there)
        hip.at += 4
        self.sort_hip(hip)

    def sort_hip(self, payloads: _UdpPayloads) -> None:
        """Sort HIP packets (RFC 7401, 5.1), which begin where the payloads do."""
        at, end, wire_end = payloads.at, payloads.end, payloads.wire_end
        raw = read_struct_array(self._buffer, at, _HIP)
        size = (raw["length"].astype(np.int64) + 1) * 8
        cut = (at + 40 > end) & (at + 40 <= wire_end)
        good = (at + 40 <= end) & (raw["type"] < 128) & np.isin(raw["version"] >> 4, (1, 2))
        good &= (size >= 40) & (at + size <= wire_end)
        self.category[payloads.packet] = np.where(good, PacketCategory.HIP, PacketCategory.MALFORMED)
        self._refuse(
            payloads.packet,
            ~good,
            lambda index: (
                "cut inside its HIP header by the capture's snapshot length"
                if cut[index]
                else "not a HIP packet, though sent as one"
            ),
        )
        length = size[good]
        header = _unkeyed_header(Protocol.HIP, raw["type"][good], np.zeros(len(length), np.uint32), length)
        self._add(payloads.take(good), length, header)

    def _refuse(self, packet: Int64Array, chosen: BoolArray, reason: Callable[[int], str]) -> None:
        for index in np.flatnonzero(chosen).tolist():
            self.refused.append(MalformedPacket(int(packet[index]), reason(index)))

    def _add(
        self,
        payloads: _UdpPayloads,
        length: Int64Array,
        header: dict[str, npt.NDArray[np.generic]],
        clear: BoolArray | None = None,
    ) -> None:
        """Add messages of these lengths; `clear`: which can be read without keys, None: all."""
        self.messages.append(
            ClassifiedMessages(
                payloads.packet,
                payloads.at,
                np.minimum(payloads.end, payloads.at + length),
                payloads.encapsulation,
                payloads.source_port,
                payloads.destination_port,
                header,
                np.ones(len(length), np.bool_) if clear is None else clear,
            )
        )


def read_ike_headers(buffer: UInt8Array, at: Int64Array, end: Int64Array) -> dict[str, npt.NDArray[np.generic]]:
    """HEADER_COLUMNS of the IKE messages at these positions, without checks; captured up to `end`."""
    raw = read_struct_array(buffer, at, _IKE)
    numbered = (raw["length"] >= _FRAGMENT_END) & (at + _FRAGMENT_END <= end)
    v2 = raw["version"] >> 4 == 2
    fragment = np.zeros(len(at), np.uint16)
    fragments = np.zeros(len(at), np.uint16)
    skf = v2 & (raw["next"] == PAYLOAD_SKF) & numbered
    fragment[skf], fragments[skf] = raw["number"][skf], raw["total"][skf]
    old = ~v2 & (raw["next"] == PAYLOAD_IKEV1_FRAGMENT) & numbered
    if old.any():
        # fragment ID (16 bits), number, flag on the last one: only that one tells how many there are
        number, last = raw["total"][old] >> 8, raw["total"][old] & 1
        fragment[old], fragments[old] = number, np.where(last == 1, number, 0)
    return {
        "protocol": np.where(v2, Protocol.IKEV2, Protocol.IKEV1).astype(np.uint8),
        "spi_i": raw["spi_i"].astype(np.uint64),
        "spi_r": raw["spi_r"].astype(np.uint64),
        "next_payload": raw["next"].copy(),
        "exchange_type": raw["exchange"].copy(),
        "flags": raw["flags"].copy(),
        "message_id": raw["message_id"].astype(np.uint32),
        "ike_bytes": raw["length"].astype(np.uint32),
        "fragment": fragment,
        "fragments": fragments,
    }


def find_cleartext_messages(header: dict[str, npt.NDArray[np.generic]]) -> BoolArray:
    """Which messages have payloads that can be read without keys."""
    v2 = header["protocol"] == Protocol.IKEV2
    following = header["next_payload"]
    encrypted_v1 = (header["flags"].astype(np.uint8) & 1 == 1) | (following == PAYLOAD_IKEV1_FRAGMENT)
    clear: BoolArray = np.where(v2, (following != PAYLOAD_SK) & (following != PAYLOAD_SKF), ~encrypted_v1)
    return clear


def _unkeyed_header(
    protocol: Protocol, kind: UInt8Array, identifier: npt.NDArray[np.integer], length: Int64Array
) -> dict[str, npt.NDArray[np.generic]]:
    count = len(kind)
    header: dict[str, npt.NDArray[np.generic]] = {
        name: np.zeros(count, dtype) for name, dtype in HEADER_COLUMNS.items()
    }
    header["protocol"] = np.full(count, protocol, np.uint8)
    header["exchange_type"] = kind
    header["message_id"] = identifier.astype(np.uint32)
    header["ike_bytes"] = length.astype(np.uint32)
    return header
