"""Classifies IP packets, and finds the IKE, RADIUS and HIP messages in them.

RFC 7296, 2 and 3.1 (UDP 500 and 4500, header), RFC 3948 (non-ESP marker, ESP in UDP, NAT keepalive), RFC 7383, 2.5
(fragments), RFC 2865, 3 (RADIUS), RFC 7401, 5.1 and RFC 5770, 5.1 (HIP, and HIP in UDP).
"""

from collections.abc import Callable, Collection, Mapping
from enum import IntEnum
from typing import Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from ikeanalyze.capture.accounting import PacketCategory
from ikeanalyze.capture.arrays import BoolArray, Int64Array, UInt8Array, UInt16Array, find_rows, read_struct_array
from ikeanalyze.capture.decode.ip import IpPackets
from ikeanalyze.capture.protocol_numbers import (
    IKE_HEADER_BYTES,
    INIT_EXCHANGES,
    PAYLOAD_IKEV1_FRAGMENT,
    PAYLOAD_SK,
    PAYLOAD_SKF,
    PHASE1_EXCHANGES,
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

#: A UDP header and the first four bytes after it, as bytes and as one number.
_UDP: Final = np.dtype(
    {
        "names": ["source", "destination", "length", "first", "marker"],
        "formats": [">u2", ">u2", ">u2", "u1", ">u4"],
        "offsets": [0, 2, 4, 8, 8],
        "itemsize": 12,
    }
)
_IKE: Final = np.dtype(
    [
        ("spi_i", ">u8"), ("spi_r", ">u8"),
        ("next", "u1"), ("version", "u1"), ("exchange", "u1"), ("flags", "u1"),
        ("message_id", ">u4"), ("length", ">u4"),
        # the first payload: generic header, then fragment number and total of an Encrypted Fragment payload
        ("generic", ">u4"), ("number", ">u2"), ("total", ">u2"),
    ]
)  # fmt: skip
_RADIUS: Final = np.dtype([("code", "u1"), ("identifier", "u1"), ("length", ">u2")])
_HIP: Final = np.dtype([("next", "u1"), ("length", "u1"), ("type", "u1"), ("version", "u1")])

#: A payload: the type of the next one and its length, and fragment number and total of an Encrypted Fragment payload.
_PAYLOAD: Final = np.dtype([("next", "u1"), ("flags", "u1"), ("length", ">u2"), ("number", ">u2"), ("total", ">u2")])
#: Bytes of an Encrypted Fragment payload up to fragment number and total (RFC 7383, 2.5).
_FRAGMENT_BYTES: Final = 8
#: Offset after them in a message whose first payload it is.
_FRAGMENT_END: Final = IKE_HEADER_BYTES + _FRAGMENT_BYTES
#: Whether the first payload of a message, by its type, may be a clear one before an encrypted one.
_MAY_PRECEDE: Final = np.ones(256, np.bool_)
_MAY_PRECEDE[[0, PAYLOAD_SK, PAYLOAD_SKF]] = False
#: Whether messages of an exchange type are never encrypted.
_IS_INIT: Final = np.zeros(256, np.bool_)
_IS_INIT[list(INIT_EXCHANGES)] = True
#: A message with more payloads before an encrypted one is hostile.
MAX_CLEAR_PAYLOADS: Final = 16


class Protocol(IntEnum):
    """Protocols of messages; the numbers are the places of the names in `analysis.tables.layouts.PROTOCOLS`."""

    IKEV2 = 0
    IKEV1 = 1
    RADIUS = 2
    HIP = 3


class Encapsulation(IntEnum):
    """What carried a message; the numbers are the places of the names in `analysis.tables.layouts.ENCAPSULATIONS`."""

    UDP_500 = 0
    UDP_4500 = 1
    TCP_4500 = 2
    UDP = 3
    IP = 4


#: Columns read from the message header; `fragment` and `fragments` are 0 for messages that are not fragments.
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


class ClassifiedMessages(Struct):
    """Messages in the packets of a batch, as columns of one length."""

    packet: Int64Array  # index into the packets
    at: Int64Array  # first byte of the message (after the non-ESP marker)
    end: Int64Array  # after its last captured byte
    encapsulation: UInt8Array
    source_port: UInt16Array
    destination_port: UInt16Array
    header: dict[str, npt.NDArray[np.generic]]  # HEADER_COLUMNS
    clear: BoolArray  # payloads can be read without keys

    def __len__(self) -> int:
        return len(self.packet)


class PacketWarning(Struct, frozen=True):
    """What is wrong with a packet on an IKE, RADIUS or HIP port; its category says whether it counts as malformed."""

    packet: int  # index into the packets
    reason: str


def classify_packets(
    buffer: UInt8Array, packets: IpPackets, ports: Collection[int]
) -> tuple[UInt8Array, list[ClassifiedMessages], list[PacketWarning]]:
    """Category of each packet, the messages in them, and warnings about packets. TCP packets are OTHER.

    `ports` are UDP ports on which IKE is expected in addition to 500 and 4500, with or without the non-ESP marker.
    """
    classifier = _DatagramClassifier(buffer, len(packets))
    category, protocol = classifier.category, packets.protocol
    category[protocol == PROTOCOL_ESP] = PacketCategory.ESP
    category[protocol == PROTOCOL_AH] = PacketCategory.AH
    category[(protocol == PROTOCOL_ICMP) | (protocol == PROTOCOL_ICMPV6)] = PacketCategory.ICMP
    udp = find_rows(protocol == PROTOCOL_UDP)
    if len(udp):
        classifier.classify_udp(packets, udp, ports)
    hip = find_rows(protocol == PROTOCOL_HIP)
    if len(hip):
        no_port = np.zeros(len(hip), np.uint16)
        encapsulation = np.full(len(hip), Encapsulation.IP, np.uint8)
        bounds = packets.at[hip], packets.end[hip], packets.wire_end[hip]
        classifier.classify_hip(_DatagramPayloads(hip, *bounds, no_port, no_port, encapsulation))
    return category, classifier.messages, classifier.warnings


class _DatagramPayloads(Struct):
    """Payloads of UDP or IP, as columns of one length."""

    packet: Int64Array  # index into the packets
    at: Int64Array  # first byte
    end: Int64Array  # after the last captured byte
    wire_end: Int64Array  # after the last byte on the wire
    source_port: UInt16Array
    destination_port: UInt16Array
    encapsulation: UInt8Array

    def select(self, rows: BoolArray | Int64Array) -> "_DatagramPayloads":
        return _DatagramPayloads(*(getattr(self, name)[rows] for name in self.__struct_fields__))


class _DatagramClassifier:
    """Collects the result of `classify_packets` for one batch."""

    def __init__(self, buffer: UInt8Array, count: int) -> None:
        self.category = np.full(count, PacketCategory.OTHER, np.uint8)
        self.messages: list[ClassifiedMessages] = []
        self.warnings: list[PacketWarning] = []
        self._buffer = buffer

    def classify_udp(self, packets: IpPackets, udp: Int64Array, ports: Collection[int]) -> None:
        """Classify the packets with the indexes `udp`, which are UDP datagrams."""
        at = packets.at.take(udp)
        header = read_struct_array(self._buffer, at, _UDP)
        length = header["length"].astype(np.int64)
        # segmentation offload leaves a UDP length of 0 (which is valid in IPv6 jumbograms, RFC 2675, 4)
        stop = packets.wire_end.take(udp)
        wire_end = np.where(length == 0, stop, np.minimum(at + length, stop))
        truncated = at + 8 > packets.end.take(udp)
        bad = truncated | ((length < 8) & (length != 0))

        def reason(index: int) -> str:
            if truncated[index]:
                return "truncated inside its UDP header"
            return f"UDP length of {length[index]} is less than the UDP header"

        if bad.any():
            self._warn(udp, bad, reason)
            self.category[udp[bad]] = _reject(truncated[bad] & (at[bad] + 8 <= packets.wire_end[udp[bad]]))
            udp, at, header, wire_end = udp[~bad], at[~bad], header[~bad], wire_end[~bad]

        source, destination = header["source"].astype(np.uint16), header["destination"].astype(np.uint16)
        on_500 = (source == PORT_IKE) | (destination == PORT_IKE)
        on_4500 = (source == PORT_IKE_NAT) | (destination == PORT_IKE_NAT)
        on_extra = np.zeros(len(udp), np.bool_)
        if ports:
            extra = np.array(sorted(ports), np.uint16)
            on_extra = np.isin(source, extra) | np.isin(destination, extra)
        # RFC 3948, 2.2 and RFC 5770, 5.1: 32 zero bits distinguish IKE and HIP from ESP
        zero_word = header["marker"] == 0
        marked = (on_4500 | on_extra) & zero_word & (wire_end - at - 8 >= 4)
        encapsulation = np.full(len(udp), Encapsulation.UDP, np.uint8)
        encapsulation[on_500] = Encapsulation.UDP_500
        encapsulation[on_4500 & ~(on_500 & ~marked)] = Encapsulation.UDP_4500
        end = np.minimum(packets.end.take(udp), wire_end)
        payloads = _DatagramPayloads(udp, at + 8, end, wire_end, source, destination, encapsulation)
        self._classify_ipsec(payloads, header["first"], marked, on_500 | on_extra, on_4500 | on_extra)
        other = ~(on_500 | on_4500 | on_extra)
        if not other.any():
            return
        radius = find_rows(other & (np.isin(source, _RADIUS_PORTS) | np.isin(destination, _RADIUS_PORTS)))
        if len(radius):
            self._classify_radius(payloads.select(radius))
        hip = find_rows(other & ((source == PORT_HIP) | (destination == PORT_HIP)))
        if len(hip):
            self._classify_hip_in_udp(payloads.select(hip), zero_word[hip])

    def _classify_ipsec(
        self,
        payloads: _DatagramPayloads,
        first: UInt8Array,
        marked: BoolArray,
        plain_port: BoolArray,
        marker_port: BoolArray,
    ) -> None:
        """Classify IKE, ESP and NAT keepalives. IKE has no marker on a `plain_port`, and has one on a `marker_port`."""
        remaining = plain_port | marker_port
        packet, category = payloads.packet, self.category
        size = payloads.wire_end - payloads.at  # on the wire
        truncated = marker_port & (payloads.end - payloads.at < np.minimum(size, 4))
        self._warn(packet, truncated, lambda _: "truncated by the snapshot length: either IKE or ESP")
        category[packet[truncated]] = PacketCategory.OTHER
        remaining &= ~truncated
        keepalive = remaining & (size == 1) & (first == 0xFF)
        category[packet[keepalive]] = PacketCategory.NAT_KEEPALIVE
        remaining &= ~keepalive
        # Between the ports 500 and 4500 (because of a NAT) and on an extra port, a datagram without marker is IKE if
        # its header is plausible, and otherwise ESP.
        unmarked = plain_port.copy()
        ambiguous = find_rows(remaining & plain_port & marker_port & ~marked)
        if len(ambiguous):
            unmarked[ambiguous] = self._has_plausible_header(payloads.select(ambiguous))
        is_ike = remaining & (marked | unmarked)
        esp = remaining & ~is_ike
        tiny = esp & (size < 8)
        self._warn(
            packet, tiny, lambda index: f"{size[index]} bytes on an IPsec port are neither IKE, ESP nor keepalive"
        )
        category[packet[esp]] = PacketCategory.ESP
        category[packet[tiny]] = PacketCategory.MALFORMED
        rows = find_rows(is_ike)
        if len(rows):
            ike = payloads.select(rows)
            ike.at += np.where(marked[rows], 4, 0)
            self._classify_ike(ike)

    def _has_plausible_header(self, payloads: _DatagramPayloads) -> BoolArray:
        header = read_struct_array(self._buffer, payloads.at, _IKE)
        major = header["version"] >> 4
        plausible: BoolArray = (
            (payloads.at + IKE_HEADER_BYTES <= payloads.end)
            & ((major == 1) | (major == 2))
            & (header["spi_i"] != 0)
            & (payloads.at + header["length"] == payloads.wire_end)
        )
        return plausible

    def _classify_ike(self, payloads: _DatagramPayloads) -> None:
        at, end, wire_end = payloads.at, payloads.end, payloads.wire_end
        raw = read_struct_array(self._buffer, at, _IKE)
        version, length = raw["version"], raw["length"].astype(np.int64)
        short = at + IKE_HEADER_BYTES > wire_end
        truncated = ~short & (at + IKE_HEADER_BYTES > end)
        unknown = ~short & ~truncated & (version >> 4 != 1) & (version >> 4 != 2)
        good = ~(short | truncated | unknown) & (length >= IKE_HEADER_BYTES) & (at + length <= wire_end)

        def reason(index: int) -> str:
            size = wire_end[index] - at[index]
            if short[index]:
                return f"{size} bytes are less than an IKE header"
            if truncated[index]:
                return "truncated inside its IKE header by the snapshot length"
            if unknown[index]:
                return f"unknown IKE version {version[index] >> 4}.{version[index] & 15}"
            return f"IKE length field is {length[index]}, but the datagram has {size} bytes"

        if good.all():
            self.category[payloads.packet] = PacketCategory.IKE
        else:
            self.category[payloads.packet] = np.where(good, PacketCategory.IKE, _reject(truncated))
            self._warn(payloads.packet, ~good, reason)
            payloads, length, raw = payloads.select(good), length[good], raw[good]
        self._warn_of_surplus(payloads, length)
        header, fragmented = _convert_ike_headers(raw, self._buffer, payloads.at, payloads.end)
        if fragmented.any():
            valid = self._check_fragments(payloads, length, header, fragmented)
            if not valid.all():
                payloads, length = payloads.select(valid), length[valid]
                header = {name: column[valid] for name, column in header.items()}
        self._add(payloads, length, header, find_cleartext_messages(header))

    def _warn_of_surplus(self, payloads: _DatagramPayloads, length: Int64Array) -> None:
        """Name messages that end before their datagram: some receivers discard them, others ignore the rest."""
        size = payloads.wire_end - payloads.at
        self._warn(
            payloads.packet,
            length < size,
            lambda index: (
                f"IKE length field is {length[index]}, but the datagram has {size[index]} bytes: those after the message "
                "are ignored"
            ),
        )

    def _check_fragments(
        self,
        payloads: _DatagramPayloads,
        length: Int64Array,
        header: dict[str, npt.NDArray[np.generic]],
        fragmented: BoolArray,
    ) -> BoolArray:
        """Which messages are valid; those with an invalid fragment number (RFC 7383, 2.6) become malformed."""
        number, total = header["fragment"].astype(np.int64), header["fragments"].astype(np.int64)
        v2 = header["protocol"] == int(Protocol.IKEV2)
        truncated = fragmented & (length >= _FRAGMENT_END) & (payloads.at + _FRAGMENT_END > payloads.end)
        bad: BoolArray = fragmented & ~truncated & ((number == 0) | (v2 & (number > total)))

        def reason(index: int) -> str:
            if truncated[index]:
                return "truncated by the snapshot length before its IKE fragment number: counted as a complete message"
            if length[index] < _FRAGMENT_END:
                return f"IKE length field is {length[index]}, too small for a fragment"
            return f"invalid IKE fragment number {number[index]} of {total[index]}"

        self._warn(payloads.packet, bad | truncated, reason)
        self.category[payloads.packet[bad]] = PacketCategory.MALFORMED
        return ~bad

    def _classify_radius(self, payloads: _DatagramPayloads) -> None:
        at, end, wire_end = payloads.at, payloads.end, payloads.wire_end
        raw = read_struct_array(self._buffer, at, _RADIUS)
        length = raw["length"].astype(np.int64)
        known = (at + 4 <= end) & np.isin(raw["code"], _RADIUS_CODES) & (raw["code"] != 0)
        valid = (length >= 20) & (at + length <= wire_end)
        good = known & (at + 20 <= end) & valid

        def reason(index: int) -> str:
            size = wire_end[index] - at[index]
            if valid[index]:
                return "truncated inside its RADIUS header by the snapshot length"
            return f"RADIUS length field is {length[index]}, but the datagram has {size} bytes"

        # other protocols may use these ports: a datagram without a RADIUS code is not malformed
        self.category[payloads.packet] = np.where(
            good, PacketCategory.RADIUS, np.where(known, _reject(valid), PacketCategory.OTHER)
        )
        self._warn(payloads.packet, known & ~good, reason)
        header = _build_header(Protocol.RADIUS, raw["code"][good], raw["identifier"][good], length[good])
        self._add(payloads.select(good), length[good], header)

    def _classify_hip_in_udp(self, payloads: _DatagramPayloads, zero_word: BoolArray) -> None:
        captured = payloads.end - payloads.at >= 4
        esp = ~zero_word & captured & (payloads.wire_end - payloads.at >= 8)
        self.category[payloads.packet[esp]] = PacketCategory.ESP
        hip = payloads.select(zero_word & captured)
        hip.at += 4
        self.classify_hip(hip)

    def classify_hip(self, payloads: _DatagramPayloads) -> None:
        """Classify payloads that should be HIP packets (RFC 7401, 5.1)."""
        at, end, wire_end = payloads.at, payloads.end, payloads.wire_end
        raw = read_struct_array(self._buffer, at, _HIP)
        size = (raw["length"].astype(np.int64) + 1) * 8
        truncated = (at + 40 > end) & (at + 40 <= wire_end)
        good = (at + 40 <= end) & (raw["type"] < 128) & np.isin(raw["version"] >> 4, (1, 2))
        good &= (size >= 40) & (at + size <= wire_end)
        self.category[payloads.packet] = np.where(good, PacketCategory.HIP, _reject(truncated))

        def reason(index: int) -> str:
            return (
                "truncated inside its HIP header by the snapshot length" if truncated[index] else "invalid HIP packet"
            )

        self._warn(payloads.packet, ~good, reason)
        length = size[good]
        header = _build_header(Protocol.HIP, raw["type"][good], np.zeros(len(length), np.uint32), length)
        self._add(payloads.select(good), length, header)

    def _warn(self, packet: Int64Array, rows: BoolArray, reason: Callable[[int], str]) -> None:
        for index in find_rows(rows).tolist():
            self.warnings.append(PacketWarning(int(packet[index]), reason(index)))

    def _add(
        self,
        payloads: _DatagramPayloads,
        length: Int64Array,
        header: dict[str, npt.NDArray[np.generic]],
        clear: BoolArray | None = None,
    ) -> None:
        """Add messages of these lengths; `clear` marks those that can be read without keys (None: all)."""
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


def _reject(cut: BoolArray) -> UInt8Array:
    """The category of packets without a readable header: those that the snapshot length `cut` are not malformed."""
    return np.where(cut, PacketCategory.OTHER, PacketCategory.MALFORMED).astype(np.uint8)


def read_ike_headers(
    buffer: UInt8Array, at: Int64Array, end: Int64Array
) -> tuple[dict[str, npt.NDArray[np.generic]], BoolArray]:
    """HEADER_COLUMNS of the IKE messages at these positions, and which of them are IKE fragments.

    They are captured up to `end`. Nothing is validated.
    """
    return _convert_ike_headers(read_struct_array(buffer, at, _IKE), buffer, at, end)


def _convert_ike_headers(
    raw: npt.NDArray[np.void], buffer: UInt8Array, at: Int64Array, end: Int64Array
) -> tuple[dict[str, npt.NDArray[np.generic]], BoolArray]:
    """`read_ike_headers` from the headers `raw` at these positions."""
    numbered = (raw["length"] >= _FRAGMENT_END) & (at + _FRAGMENT_END <= end)
    v2 = raw["version"] >> 4 == 2
    fragmented: BoolArray = raw["next"] == np.where(v2, PAYLOAD_SKF, PAYLOAD_IKEV1_FRAGMENT)
    fragment = np.zeros(len(at), np.uint16)
    fragments = np.zeros(len(at), np.uint16)
    skf = v2 & (raw["next"] == PAYLOAD_SKF) & numbered
    fragment[skf], fragments[skf] = raw["number"][skf], raw["total"][skf]
    unencrypted = v2 & _MAY_PRECEDE[raw["next"]] & ~_IS_INIT[raw["exchange"]]
    if unencrypted.any():
        rows = find_rows(unencrypted)
        until = np.minimum(end, at + raw["length"])
        later, numbers, totals = _find_later_fragments(
            buffer, at[rows] + IKE_HEADER_BYTES, until[rows], raw["next"][rows]
        )
        fragment[rows[later]], fragments[rows[later]] = numbers, totals
        fragmented[rows[later]] = True
    v1_fragment = ~v2 & (raw["next"] == PAYLOAD_IKEV1_FRAGMENT) & numbered
    if v1_fragment.any():
        # fragment ID (16 bits), number, flag of the last fragment, whose number is the number of fragments
        number, last = raw["total"][v1_fragment] >> 8, raw["total"][v1_fragment] & 1
        fragment[v1_fragment], fragments[v1_fragment] = number, np.where(last == 1, number, 0)
    header: dict[str, npt.NDArray[np.generic]] = {
        "protocol": np.where(v2, np.uint8(Protocol.IKEV2), np.uint8(Protocol.IKEV1)),
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
    return header, fragmented


def _find_later_fragments(
    buffer: UInt8Array, at: Int64Array, end: Int64Array, kind: UInt8Array
) -> tuple[Int64Array, UInt16Array, UInt16Array]:
    """Encrypted Fragment payloads after clear ones (RFC 7383, section 2.5.3): rows, fragment numbers and totals.

    `at`: the first payload of each message, of type `kind`; `end`: the end of what was captured of it.
    """
    at, kind = at.astype(np.int64), kind.copy()
    rows = np.arange(len(at))
    results: list[tuple[Int64Array, UInt16Array, UInt16Array]] = []
    for _ in range(MAX_CLEAR_PAYLOADS):
        rows = rows[(kind[rows] != 0) & (kind[rows] != PAYLOAD_SK) & (at[rows] + 4 <= end[rows])]
        if not len(rows):
            break
        payload = read_struct_array(buffer, at[rows], _PAYLOAD)
        kind[rows] = payload["next"]
        at[rows] += np.maximum(payload["length"], 4)
        reached = rows[(kind[rows] == PAYLOAD_SKF) & (at[rows] + _FRAGMENT_BYTES <= end[rows])]
        payload = read_struct_array(buffer, at[reached], _PAYLOAD)
        results.append((reached, payload["number"].astype(np.uint16), payload["total"].astype(np.uint16)))
        rows = rows[kind[rows] != PAYLOAD_SKF]
    empty = np.zeros(0, np.uint16)
    results.append((np.zeros(0, np.int64), empty, empty))
    fragments, numbers, totals = (np.concatenate(column) for column in zip(*results, strict=True))
    return fragments, numbers, totals


def find_cleartext_messages(header: dict[str, npt.NDArray[np.generic]]) -> BoolArray:
    """Which messages have payloads that can be read without keys."""
    v2 = header["protocol"] == int(Protocol.IKEV2)
    payload = header["next_payload"]
    encrypted_v1 = (header["flags"].astype(np.uint8) & 1 == 1) | (payload == PAYLOAD_IKEV1_FRAGMENT)
    clear: BoolArray = np.where(v2, (payload != PAYLOAD_SK) & (payload != PAYLOAD_SKF), ~encrypted_v1)
    return clear


def find_phase1_fragments(header: Mapping[str, npt.NDArray[np.generic]]) -> BoolArray:
    """Which messages are fragments of IKEv1's phase 1. The complete message may be in clear: no fragment shows it."""
    fragments: BoolArray = header["next_payload"] == PAYLOAD_IKEV1_FRAGMENT
    if not fragments.any():
        return fragments
    fragments &= header["protocol"] == Protocol.IKEV1
    # in phase 1 the message ID is 0 (RFC 2408, section 3.1)
    phase1: BoolArray = fragments & np.isin(header["exchange_type"], PHASE1_EXCHANGES) & (header["message_id"] == 0)
    return phase1


def _build_header(
    protocol: Protocol, message_type: UInt8Array, identifier: npt.NDArray[np.integer], length: Int64Array
) -> dict[str, npt.NDArray[np.generic]]:
    """HEADER_COLUMNS of RADIUS and HIP messages."""
    count = len(message_type)
    header: dict[str, npt.NDArray[np.generic]] = {name: np.zeros(count, kind) for name, kind in HEADER_COLUMNS.items()}
    header["protocol"] = np.full(count, protocol, np.uint8)
    header["exchange_type"] = message_type
    header["message_id"] = identifier.astype(np.uint32)
    header["ike_bytes"] = length.astype(np.uint32)
    return header
