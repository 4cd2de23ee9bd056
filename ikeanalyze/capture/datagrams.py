"""UDP datagrams and bare IP protocols: what each one is, and where its IKE, RADIUS or HIP message begins.

RFC 7296, 2 and 3.1 (UDP 500 and 4500, header), RFC 3948 (non-ESP marker, ESP in UDP, NAT keepalive), RFC
7383, 2.5 (fragments), RFC 2865, 3 (RADIUS), RFC 7401, 5.1 and RFC 5770, 5.1 (HIP, and in UDP).
"""

from collections.abc import Collection
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import numpy as np
import numpy.typing as npt

from ikeanalyze.capture.accounting import Category
from ikeanalyze.capture.columns import BoolArray, Int64Array, UInt8Array, UInt16Array, gather
from ikeanalyze.capture.network import (
    PROTOCOL_AH,
    PROTOCOL_ESP,
    PROTOCOL_HIP,
    PROTOCOL_ICMP,
    PROTOCOL_ICMPV6,
    PROTOCOL_UDP,
    Packets,
)

_RADIUS_PORTS: Final = np.array([1645, 1646, 1812, 1813], np.uint16)
_RADIUS_CODES: Final = np.array([*range(1, 14), *range(21, 35), *range(40, 46), 50, 51, 52, 255], np.uint8)
_HIP_PORT: Final = 10500
_SK: Final = 46
_SKF: Final = 53
_IKEV1_FRAGMENT: Final = 132

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

_IKE_HEADER: Final = 28
#: Behind the numbers of a fragment (RFC 7383, 2.5), which stand in the message's first payload.
_FRAGMENT_END: Final = _IKE_HEADER + 8


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
class Messages:
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
class Refused:
    """A packet on an IKE, RADIUS or HIP port that is not what it should be, or not all there."""

    packet: int  # index into the packets
    what: str


def sort_packets(
    buffer: UInt8Array, packets: Packets, ports: Collection[int]
) -> tuple[UInt8Array, list[Messages], list[Refused]]:
    """Category of each packet, and the messages in them. TCP is left as OTHER for whoever follows streams.

    `ports` are UDP ports on which IKE is expected besides 500 and 4500, with or without the non-ESP marker.
    """
    category = np.full(len(packets), Category.OTHER, np.uint8)
    protocol = packets.protocol
    category[protocol == PROTOCOL_ESP] = Category.ESP
    category[protocol == PROTOCOL_AH] = Category.AH
    category[(protocol == PROTOCOL_ICMP) | (protocol == PROTOCOL_ICMPV6)] = Category.ICMP
    found: list[Messages] = []
    refused: list[Refused] = []
    udp = np.flatnonzero(protocol == PROTOCOL_UDP)
    if len(udp):
        _sort_udp(buffer, packets, udp, ports, category, found, refused)
    hip = np.flatnonzero(protocol == PROTOCOL_HIP)
    if len(hip):
        nothing = np.zeros(len(hip), np.uint16)
        _take_hip(
            buffer,
            hip,
            packets.at[hip],
            packets.end[hip],
            packets.wire_end[hip],
            Encapsulation.IP,
            nothing,
            nothing,
            category,
            found,
            refused,
        )
    return category, found, refused


def _sort_udp(
    buffer: UInt8Array,
    packets: Packets,
    udp: Int64Array,
    ports: Collection[int],
    category: UInt8Array,
    found: list[Messages],
    refused: list[Refused],
) -> None:
    at = packets.at[udp]
    header = gather(buffer, at, _UDP)
    source, destination = header["source"].astype(np.uint16), header["destination"].astype(np.uint16)
    on_500 = (source == 500) | (destination == 500)
    on_4500 = (source == 4500) | (destination == 4500)
    ours = on_500 | on_4500
    if ports:
        wanted = np.array(sorted(ports), np.uint16)
        asked = np.isin(source, wanted) | np.isin(destination, wanted)
        ours |= asked
    else:
        asked = np.zeros(len(udp), np.bool_)
    length = header["length"].astype(np.int64)
    # a UDP length of 0 is left by segmentation offload (and is allowed in IPv6 jumbograms, RFC 2675, 4)
    wire_end = np.where(length == 0, packets.wire_end[udp], np.minimum(at + length, packets.wire_end[udp]))
    end = np.minimum(packets.end[udp], wire_end)
    cut = at + 8 > packets.end[udp]
    bad = cut | ((length < 8) & (length != 0))
    for index in np.flatnonzero(bad).tolist():
        what = "cut inside its UDP header" if cut[index] else f"UDP length of {length[index]}, less than its own header"
        refused.append(Refused(int(udp[index]), what))
    category[udp[bad]] = Category.MALFORMED
    ours &= ~bad

    size = wire_end - at - 8  # of the UDP payload on the wire
    there = end - at - 8  # of it, in the capture
    blind = ours & (on_4500 | asked) & (there < np.minimum(size, 4))
    for index in np.flatnonzero(blind).tolist():
        what = "cut by the capture's snapshot length before what tells IKE from ESP"
        refused.append(Refused(int(udp[index]), what))
    category[udp[blind]] = Category.MALFORMED
    ours &= ~blind
    first_word_zero = (header["first"] == 0) & ~header["marker"].any(axis=1)
    marked = (on_4500 | asked) & first_word_zero & (size >= 4)
    keepalive = ours & (size == 1) & (header["first"] == 0xFF)
    category[udp[keepalive]] = Category.NAT_KEEPALIVE
    ours &= ~keepalive
    # Where a NAT has mixed up 500 and 4500, and on a port that was asked for, only the header tells whether a
    # marker is due.
    unmarked = on_500 | asked
    unsure = np.flatnonzero(ours & unmarked & (on_4500 | asked) & ~marked)
    if len(unsure):
        unmarked[unsure] = _plausible(buffer, at[unsure] + 8, end[unsure], wire_end[unsure])
    is_ike = ours & (marked | unmarked)
    esp = ours & ~is_ike
    tiny = esp & (size < 8)
    for index in np.flatnonzero(tiny).tolist():
        refused.append(
            Refused(int(udp[index]), f"{size[index]} bytes on an IPsec port are neither IKE, ESP nor keepalive")
        )
    category[udp[esp]] = Category.ESP
    category[udp[tiny]] = Category.MALFORMED

    chosen = np.flatnonzero(is_ike)
    if len(chosen):
        encapsulation = np.where(
            on_4500 & ~(on_500 & ~marked),
            Encapsulation.UDP_4500,
            np.where(on_500, Encapsulation.UDP_500, Encapsulation.UDP),
        )
        begin = at + 8 + np.where(marked, 4, 0)
        _take_ike(
            buffer, udp[chosen], begin[chosen], end[chosen], wire_end[chosen],
            encapsulation[chosen].astype(np.uint8), source[chosen], destination[chosen],
            category, found, refused,
        )  # fmt: skip
    other = ~(on_500 | on_4500 | asked) & ~bad
    radius = np.flatnonzero(other & (np.isin(source, _RADIUS_PORTS) | np.isin(destination, _RADIUS_PORTS)))
    if len(radius):
        _take_radius(
            buffer, udp[radius], at[radius] + 8, end[radius], wire_end[radius],
            source[radius], destination[radius], category, found, refused,
        )  # fmt: skip
    hip = np.flatnonzero(other & ((source == _HIP_PORT) | (destination == _HIP_PORT)))
    if len(hip):
        # RFC 5770, 5.1: 32 zero bits tell HIP from ESP, as the non-ESP marker does for IKE
        zero = first_word_zero[hip] & (there[hip] >= 4)
        category[udp[hip[~zero & (there[hip] >= 4) & (size[hip] >= 8)]]] = Category.ESP
        hip = hip[zero]
        _take_hip(
            buffer, udp[hip], at[hip] + 12, end[hip], wire_end[hip], Encapsulation.UDP,
            source[hip], destination[hip], category, found, refused,
        )  # fmt: skip


def _plausible(buffer: UInt8Array, at: Int64Array, end: Int64Array, wire_end: Int64Array) -> BoolArray:
    header = gather(buffer, at, _IKE)
    major = header["version"] >> 4
    plausible: BoolArray = (
        (at + _IKE_HEADER <= end)
        & ((major == 1) | (major == 2))
        & (header["spi_i"] != 0)
        & (at + header["length"] == wire_end)
    )
    return plausible


def read_ike_headers(buffer: UInt8Array, at: Int64Array, end: Int64Array) -> dict[str, npt.NDArray[np.generic]]:
    """HEADER_COLUMNS of the IKE messages at these positions, without checks; captured up to `end`."""
    raw = gather(buffer, at, _IKE)
    numbered = (raw["length"] >= _FRAGMENT_END) & (at + _FRAGMENT_END <= end)
    v2 = raw["version"] >> 4 == 2
    fragment = np.zeros(len(at), np.uint16)
    fragments = np.zeros(len(at), np.uint16)
    skf = v2 & (raw["next"] == _SKF) & numbered
    fragment[skf], fragments[skf] = raw["number"][skf], raw["total"][skf]
    old = ~v2 & (raw["next"] == _IKEV1_FRAGMENT) & numbered
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


def clear_messages(header: dict[str, npt.NDArray[np.generic]]) -> BoolArray:
    """Which messages have payloads that can be read without keys."""
    v2 = header["protocol"] == Protocol.IKEV2
    following = header["next_payload"]
    encrypted_v1 = (header["flags"].astype(np.uint8) & 1 == 1) | (following == _IKEV1_FRAGMENT)
    clear: BoolArray = np.where(v2, (following != _SK) & (following != _SKF), ~encrypted_v1)
    return clear


def _take_ike(
    buffer: UInt8Array,
    packet: Int64Array,
    at: Int64Array,
    end: Int64Array,
    wire_end: Int64Array,
    encapsulation: UInt8Array,
    source: UInt16Array,
    destination: UInt16Array,
    category: UInt8Array,
    found: list[Messages],
    refused: list[Refused],
) -> None:
    version = buffer[np.minimum(at + 17, len(buffer) - 1)]
    length = gather(buffer, at + 24, _WORD)["value"].astype(np.int64)
    short = at + _IKE_HEADER > wire_end
    cut = ~short & (at + _IKE_HEADER > end)
    strange = ~short & ~cut & (version >> 4 != 1) & (version >> 4 != 2)
    wrong = ~(short | cut | strange) & ((length < _IKE_HEADER) | (at + length > wire_end))
    good = ~(short | cut | strange | wrong)
    category[packet] = np.where(good, Category.IKE, Category.MALFORMED)
    if not good.all():
        for index in np.flatnonzero(~good).tolist():
            if short[index]:
                what = f"{wire_end[index] - at[index]} bytes, less than an IKE header"
            elif cut[index]:
                what = "cut inside its IKE header by the capture's snapshot length"
            elif strange[index]:
                what = f"IKE version {version[index] >> 4}.{version[index] & 15} is unknown"
            else:
                there = wire_end[index] - at[index]
                what = f"IKE length field says {length[index]} bytes, the datagram has {there}"
            refused.append(Refused(int(packet[index]), what))
        packet, at, end, length = packet[good], at[good], end[good], length[good]
        encapsulation, source, destination = encapsulation[good], source[good], destination[good]
    header = read_ike_headers(buffer, at, end)
    v2 = header["protocol"] == Protocol.IKEV2
    fragmented = header["next_payload"] == np.where(v2, _SKF, _IKEV1_FRAGMENT)
    if fragmented.any():
        keep = _check_fragments(packet, at, end, length, header, fragmented, category, refused)
        if not keep.all():
            packet, at, end, length = packet[keep], at[keep], end[keep], length[keep]
            encapsulation, source, destination = encapsulation[keep], source[keep], destination[keep]
            header = {name: column[keep] for name, column in header.items()}
    found.append(
        Messages(
            packet,
            at,
            np.minimum(end, at + length),
            encapsulation,
            source,
            destination,
            header,
            clear_messages(header),
        )
    )


def _check_fragments(
    packet: Int64Array,
    at: Int64Array,
    end: Int64Array,
    length: Int64Array,
    header: dict[str, npt.NDArray[np.generic]],
    fragmented: BoolArray,
    category: UInt8Array,
    refused: list[Refused],
) -> BoolArray:
    """Which of the messages stay: not those whose fragment number no receiver takes (RFC 7383, 2.6)."""
    number, total = header["fragment"].astype(np.int64), header["fragments"].astype(np.int64)
    v2 = header["protocol"] == Protocol.IKEV2
    cut = fragmented & (length >= _FRAGMENT_END) & (at + _FRAGMENT_END > end)
    bad = fragmented & ~cut & ((number == 0) | (v2 & (number > total)))
    for index in np.flatnonzero(bad | cut).tolist():
        if cut[index]:
            what = "cut by the snapshot length before its IKE fragment number: counted as a whole message"
        elif length[index] < _FRAGMENT_END:
            what = f"IKE length field says {length[index]} bytes, too few for a fragment"
        else:
            what = f"IKE fragment number {number[index]} of {total[index]} is impossible"
        refused.append(Refused(int(packet[index]), what))
    category[packet[bad]] = Category.MALFORMED
    keep: BoolArray = ~bad
    return keep


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


def _take_radius(
    buffer: UInt8Array,
    packet: Int64Array,
    at: Int64Array,
    end: Int64Array,
    wire_end: Int64Array,
    source: UInt16Array,
    destination: UInt16Array,
    category: UInt8Array,
    found: list[Messages],
    refused: list[Refused],
) -> None:
    raw = gather(buffer, at, _RADIUS)
    length = raw["length"].astype(np.int64)
    known = (at + 4 <= end) & np.isin(raw["code"], _RADIUS_CODES) & (raw["code"] != 0)
    good = known & (at + 20 <= end) & (length >= 20) & (at + length <= wire_end)
    # anyone may use these ports: what has no RADIUS code is simply something else
    category[packet] = np.where(good, Category.RADIUS, np.where(known, Category.MALFORMED, Category.OTHER))
    for index in np.flatnonzero(known & ~good).tolist():
        there = wire_end[index] - at[index]
        if 20 <= length[index] <= there:
            what = "cut inside its RADIUS header by the capture's snapshot length"
        else:
            what = f"RADIUS length field says {length[index]} bytes, {there} are there"
        refused.append(Refused(int(packet[index]), what))
    chosen = np.flatnonzero(good)
    header = _unkeyed_header(Protocol.RADIUS, raw["code"][chosen].copy(), raw["identifier"][chosen], length[chosen])
    found.append(
        Messages(
            packet[chosen],
            at[chosen],
            np.minimum(end, at + length)[chosen],
            np.full(len(chosen), Encapsulation.UDP, np.uint8),
            source[chosen],
            destination[chosen],
            header,
            np.ones(len(chosen), np.bool_),
        )
    )


def _take_hip(
    buffer: UInt8Array,
    packet: Int64Array,
    at: Int64Array,
    end: Int64Array,
    wire_end: Int64Array,
    encapsulation: Encapsulation,
    source: UInt16Array,
    destination: UInt16Array,
    category: UInt8Array,
    found: list[Messages],
    refused: list[Refused],
) -> None:
    raw = gather(buffer, at, _HIP)
    size = (raw["length"].astype(np.int64) + 1) * 8
    cut = (at + 40 > end) & (at + 40 <= wire_end)
    good = (at + 40 <= end) & (raw["type"] < 128) & np.isin(raw["version"] >> 4, (1, 2))
    good &= (size >= 40) & (at + size <= wire_end)
    category[packet] = np.where(good, Category.HIP, Category.MALFORMED)
    for index in np.flatnonzero(~good).tolist():
        what = "cut inside its HIP header by the capture's snapshot length"
        refused.append(Refused(int(packet[index]), what if cut[index] else "not a HIP packet, though sent as one"))
    chosen = np.flatnonzero(good)
    length = size[chosen]
    header = _unkeyed_header(Protocol.HIP, raw["type"][chosen].copy(), np.zeros(len(chosen), np.uint32), length)
    found.append(
        Messages(
            packet[chosen],
            at[chosen],
            np.minimum(end[chosen], at[chosen] + length),
            np.full(len(chosen), encapsulation, np.uint8),
            source[chosen],
            destination[chosen],
            header,
            np.ones(len(chosen), np.bool_),
        )
    )
