"""Reads the ICMP errors that quote a datagram on a port of IKE.

RFC 792 and RFC 4443, 3: an error quotes the IP header of the packet that it is about, and its first bytes: at least the
UDP header, usually much more. If the packet was in IP fragments, only quotes of the first one are read, because others
have no ports.
"""

from collections.abc import Collection, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import xxhash

from ikeanalyze.capture.arrays import (
    BoolArray,
    Int64Array,
    UInt8Array,
    UInt32Array,
    UInt64Array,
    read_struct_array,
    read_uint32_be,
)
from ikeanalyze.capture.buffers import Columns
from ikeanalyze.capture.decode.ip import IPV4_HEADER, AddressBook, IpPackets
from ikeanalyze.capture.protocol_numbers import (
    FRAGMENT_HEADER,
    ICMP_ERRORS,
    ICMPV6_ERRORS,
    IKE_HEADER_BYTES,
    NON_ESP_MARKER,
    PORT_IKE,
    PORT_IKE_NAT,
    PROTOCOL_ICMP,
    PROTOCOL_ICMPV6,
    PROTOCOL_UDP,
)

#: Further errors of a capture are counted, but not kept: a flood of them says nothing more.
MAX_ERRORS: Final = 100_000
#: An ICMP error: a row for each.
ICMP_LAYOUT: Final[dict[str, type[np.generic]]] = {
    "number": np.uint32,  # of the packet
    "time_ns": np.int64,
    "sender": np.uint64,  # AddressBook code
    "ipv6": np.bool_,
    "type": np.uint8,
    "code": np.uint8,
    "mtu": np.uint32,  # of the next hop; 0: unknown
    "copy": np.uint64,  # copies of one packet of a sender have the same value
    # the quoted packet
    "size": np.uint32,  # bytes, with its IP header
    "source": np.uint64,  # AddressBook codes
    "destination": np.uint64,
    "source_port": np.uint16,
    "destination_port": np.uint16,
    "spi_i": np.uint64,  # 0: not quoted
    "message_id": np.int64,  # -1: not quoted
}

_ICMP_HEADER: Final = np.dtype([("type", "u1"), ("code", "u1"), ("checksum", ">u2"), ("high", ">u2"), ("mtu", ">u2")])
_IPV6: Final = np.dtype(
    [("version", "u1"), ("flow", "u1", 3), ("payload", ">u2"), ("next", "u1"), ("hops", "u1"), ("source", "V16"),
     ("destination", "V16"), ("fragment_next", "u1"), ("reserved", "u1"), ("offset", ">u2")]
)  # fmt: skip
_UDP: Final = np.dtype([("source", ">u2"), ("destination", ">u2"), ("length", ">u2"), ("checksum", ">u2")])
_IKE: Final = np.dtype([("spi_i", ">u8"), ("spi_r", ">u8"), ("types", ">u4"), ("message_id", ">u4")])


def make_no_icmp_errors() -> Columns:
    """No ICMP errors."""
    return {name: np.zeros(0, dtype) for name, dtype in ICMP_LAYOUT.items()}


def join_icmp_errors(parts: Sequence[Columns]) -> Columns:
    """All of these errors, in order of their packets."""
    if not parts:
        return make_no_icmp_errors()
    columns: Columns = {name: np.concatenate([part[name] for part in parts]) for name in ICMP_LAYOUT}
    order = np.argsort(columns["number"], kind="stable")
    return {name: column[order] for name, column in columns.items()}


def read_icmp_errors(
    buffer: UInt8Array, packets: IpPackets, book: AddressBook, ports: Collection[int]
) -> tuple[Int64Array, Columns]:
    """The ICMP errors about datagrams of IKE: indexes of the packets, and `ICMP_LAYOUT` without number and time.

    Args:
        buffer: has the packets.
        packets: packets of any protocol; those of ICMP and ICMPv6 are read.
        book: gets the quoted addresses.
        ports: UDP ports on which IKE is expected in addition to 500 and 4500.
    """
    kind = read_struct_array(buffer, packets.at, _ICMP_HEADER)["type"]
    captured = packets.at + _ICMP_HEADER.itemsize <= packets.end
    found: list[tuple[Int64Array, Columns]] = []
    for protocol, types, read_quotes in (
        (PROTOCOL_ICMP, ICMP_ERRORS, _read_ipv4_quotes),
        (PROTOCOL_ICMPV6, ICMPV6_ERRORS, _read_ipv6_quotes),
    ):
        rows = np.flatnonzero(captured & (packets.protocol == protocol) & np.isin(kind, types))
        if len(rows):
            index, columns = read_quotes(buffer, packets.select(rows), book, ports)
            found.append((rows[index], columns))
    if not found:
        return np.zeros(0, np.int64), make_no_icmp_errors()
    index = np.concatenate([rows for rows, _ in found])
    quoted = {name: np.concatenate([columns[name] for _, columns in found]) for name in found[0][1]}
    packets = packets.select(index)
    header, ipv6 = read_struct_array(buffer, packets.at, _ICMP_HEADER), packets.protocol == PROTOCOL_ICMPV6
    return index, {
        **quoted,
        "sender": packets.source,
        "ipv6": ipv6,
        "type": header["type"].copy(),
        "code": header["code"].copy(),
        "mtu": _read_mtu(header, ipv6),
        "copy": _hash_packets(buffer, packets),
    }


def _read_mtu(header: npt.NDArray[np.void], ipv6: BoolArray) -> UInt32Array:
    """The MTU in 16 bits of RFC 1191, 4, where routers before it have 0, or in 32 bits of RFC 4443, 3.2."""
    low, high = header["mtu"].astype(np.uint32), header["high"].astype(np.uint32)
    too_big = np.where(ipv6, header["type"] == 2, (header["type"] == 3) & (header["code"] == 4))
    return np.where(too_big, np.where(ipv6, high << np.uint32(16) | low, low), np.uint32(0))


def _hash_packets(buffer: UInt8Array, packets: IpPackets) -> UInt64Array:
    """A hash of IP identification and contents of each packet."""
    view = buffer.data
    columns = (packets.ident, packets.at, packets.end)
    hashes = [
        xxhash.xxh3_64_intdigest(view[at:end], seed=ident)
        for ident, at, end in zip(*(column.tolist() for column in columns), strict=True)
    ]
    return np.array(hashes, np.uint64)


def _read_ipv4_quotes(
    buffer: UInt8Array, packets: IpPackets, _book: AddressBook, ports: Collection[int]
) -> tuple[Int64Array, Columns]:
    at = packets.at + _ICMP_HEADER.itemsize
    header = read_struct_array(buffer, at, IPV4_HEADER)
    size = (header["version"] & 15).astype(np.int64) * 4
    good = (header["version"] >> 4 == 4) & (size >= 20) & (header["protocol"] == PROTOCOL_UDP)
    rows = np.flatnonzero(good & (header["fragment"] & 0x1FFF == 0))
    of_ike, columns = _read_datagrams(buffer, at[rows] + size[rows], packets.end[rows], ports)
    rows = rows[of_ike]
    header = header[rows]
    columns["size"] = header["total"].astype(np.uint32)
    for name in ("source", "destination"):
        columns[name] = header[name].astype(np.uint64)
    return rows, columns


def _read_ipv6_quotes(
    buffer: UInt8Array, packets: IpPackets, book: AddressBook, ports: Collection[int]
) -> tuple[Int64Array, Columns]:
    at = packets.at + _ICMP_HEADER.itemsize
    header = read_struct_array(buffer, at, _IPV6)
    first = (header["next"] == FRAGMENT_HEADER) & (header["fragment_next"] == PROTOCOL_UDP)
    first &= header["offset"] & 0xFFF8 == 0
    rows = np.flatnonzero((header["version"] >> 4 == 6) & (first | (header["next"] == PROTOCOL_UDP)))
    size = np.where(first[rows], 48, 40)
    of_ike, columns = _read_datagrams(buffer, at[rows] + size, packets.end[rows], ports)
    rows = rows[of_ike]
    header = header[rows]
    columns["size"] = header["payload"].astype(np.uint32) + np.uint32(40)
    for name in ("source", "destination"):
        columns[name] = book.encode(header[name])
    return rows, columns


def _read_datagrams(
    buffer: UInt8Array, at: Int64Array, end: Int64Array, ports: Collection[int]
) -> tuple[BoolArray, Columns]:
    """Which of the datagrams at these positions may be IKE, and the columns about them; quoted up to `end`."""
    at = np.minimum(at, end)
    udp = read_struct_array(buffer, at, _UDP)
    source, destination = udp["source"].astype(np.uint16), udp["destination"].astype(np.uint16)
    extra = sorted(ports)
    plain = np.isin(source, [PORT_IKE, *extra]) | np.isin(destination, [PORT_IKE, *extra])
    with_marker = np.isin(source, [PORT_IKE_NAT, *extra]) | np.isin(destination, [PORT_IKE_NAT, *extra])
    inside = at + _UDP.itemsize
    quoted = inside + len(NON_ESP_MARKER) <= end
    marked = with_marker & quoted & (read_uint32_be(buffer, inside) == 0)
    # without its first bytes, a datagram on port 4500 may be IKE or ESP; a NAT keepalive is shorter than IKE
    good: BoolArray = (inside <= end) & (udp["length"] >= _UDP.itemsize + IKE_HEADER_BYTES)
    good &= plain | marked | (with_marker & ~quoted)
    inside = np.minimum(inside + np.where(marked, len(NON_ESP_MARKER), 0), end)[good]
    message, end = read_struct_array(buffer, inside, _IKE), end[good]
    return good, {
        "source_port": source[good],
        "destination_port": destination[good],
        "spi_i": np.where(inside + 8 <= end, message["spi_i"], 0).astype(np.uint64),
        "message_id": np.where(inside + 24 <= end, message["message_id"].astype(np.int64), -1),
    }
