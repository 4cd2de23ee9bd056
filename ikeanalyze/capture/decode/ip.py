"""Decodes the IPv4 and IPv6 packets of a batch, and builds packets from reassembled IP fragments.

RFC 791; RFC 8200, 4 (extension headers, fragment header). If lengths contradict each other, the captured bytes decide;
only a packet whose headers are truncated or invalid is malformed.
"""

import ipaddress
import socket
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field

from ikeanalyze.capture.arrays import (
    BoolArray,
    Int64Array,
    UInt8Array,
    UInt32Array,
    UInt64Array,
    read_struct_array,
)
from ikeanalyze.capture.decode.ip_reassembly import FragmentedPacket, IpFragment, Key
from ikeanalyze.capture.decode.layers import Layers
from ikeanalyze.capture.formats.records import PADDING, RecordBatch
from ikeanalyze.capture.protocol_numbers import EXTENSION_HEADERS, FRAGMENT_HEADER, NO_NEXT_HEADER

IPV4_HEADER: Final = np.dtype(
    [
        ("version", "u1"), ("tos", "u1"), ("total", ">u2"), ("ident", ">u2"), ("fragment", ">u2"),
        ("ttl", "u1"), ("protocol", "u1"), ("checksum", ">u2"), ("source", ">u4"), ("destination", ">u4"),
    ]
)  # fmt: skip
_IPV6: Final = np.dtype(
    [
        ("version", "u1"), ("flow", "u1", 3), ("payload", ">u2"), ("next", "u1"), ("hops", "u1"),
        ("source", "V16"), ("destination", "V16"),
    ]
)  # fmt: skip
_EXTENSION: Final = np.dtype([("next", "u1"), ("length", "u1"), ("fragment", ">u2"), ("ident", ">u4")])

#: Whether a protocol number is that of an extension header that is skipped. (256,)
_IS_SKIPPED: Final = np.zeros(256, np.bool_)
_IS_SKIPPED[list(EXTENSION_HEADERS)] = True

#: `ident` of packets without identification.
NO_IDENT: Final = 0xFFFFFFFF
#: Addresses above this are indexes into AddressBook.ipv6.
FIRST_IPV6: Final = 1 << 32
#: In combined captures, the bits from this one on are the number of the capture: equal addresses in different captures
#: are different hosts.
CAPTURE_BIT: Final = 33
ADDRESS_BITS: Final = (1 << CAPTURE_BIT) - 1
#: Captures that can be combined: 64 bits hold capture number, address and port.
MAX_CAPTURES: Final = 1 << 64 - 16 - CAPTURE_BIT


class AddressBook(Struct):
    """Encodes addresses as numbers: an IPv4 address as itself, an IPv6 address as FIRST_IPV6 + its index in `ipv6`."""

    ipv6: list[bytes] = field(default_factory=list)
    _places: dict[bytes, int] = field(default_factory=dict)

    def encode(self, addresses: npt.NDArray[np.void]) -> UInt64Array:
        """Codes of 16-byte addresses; adds new addresses."""
        places = self._places
        codes = np.empty(len(addresses), np.uint64)
        for index, address in enumerate(addresses.tolist()):
            place = places.get(address)
            if place is None:
                place = places[address] = len(self.ipv6)
                self.ipv6.append(address)
            codes[index] = FIRST_IPV6 + place
        return codes

    def translation(self, ipv6: list[bytes]) -> Callable[[npt.NDArray[np.generic]], UInt64Array]:
        """A function that translates codes of an AddressBook with the addresses `ipv6` into codes of this one."""
        if not ipv6:
            return _to_codes
        encoded = self.encode(np.frombuffer(b"".join(ipv6), "V16"))
        if (encoded == np.arange(FIRST_IPV6, FIRST_IPV6 + len(encoded), dtype=np.uint64)).all():
            return _to_codes  # the codes are the same, as in the first part of a capture

        def translate(codes: npt.NDArray[Any]) -> UInt64Array:
            codes = _to_codes(codes)
            first = np.uint64(FIRST_IPV6)
            is_ipv6 = codes >= first
            return np.where(is_ipv6, encoded[np.where(is_ipv6, codes - first, 0)], codes)

        return translate


def _to_codes(codes: npt.NDArray[Any]) -> UInt64Array:
    return codes.astype(np.uint64, copy=False)


def format_address_code(code: int, ipv6: Sequence[bytes]) -> str:
    """The address of an AddressBook code as text; `ipv6` are the addresses of that AddressBook."""
    code &= ADDRESS_BITS
    if code >= FIRST_IPV6:
        return _format_ipv6(ipv6[code - FIRST_IPV6])
    return f"{code >> 24}.{code >> 16 & 255}.{code >> 8 & 255}.{code & 255}"


@lru_cache(maxsize=4096)  # several columns have the same addresses
def _format_ipv6(address: bytes) -> str:
    text = socket.inet_ntop(socket.AF_INET6, address)
    # ipaddress is slow; it is used for IPv4-mapped addresses only, whose last 32 bits it writes in hexadecimal
    return text if "." not in text else str(ipaddress.IPv6Address(address))


def get_capture_numbers(codes: UInt64Array) -> Int64Array:
    """The capture number, from 0, of each address code."""
    return (codes >> np.uint64(CAPTURE_BIT)).astype(np.int64)


def strip_capture_numbers(codes: UInt64Array) -> UInt64Array:
    """Address codes without capture numbers."""
    return codes & np.uint64(ADDRESS_BITS)


class IpPackets(Struct):
    """IP packets of a batch, as columns of one length."""

    row: Int64Array  # index into the batch
    at: Int64Array  # first byte of the IP payload
    end: Int64Array  # after its last captured byte
    wire_end: Int64Array  # after its last byte on the wire
    protocol: UInt8Array
    source: UInt64Array  # AddressBook codes
    destination: UInt64Array
    ttl: UInt8Array
    ident: UInt32Array  # NO_IDENT: none
    offset: Int64Array  # of a fragment, in bytes
    more: BoolArray  # more fragments follow
    tunnel: UInt32Array  # number in the TunnelBook

    def __len__(self) -> int:
        return len(self.row)

    def select(self, rows: Int64Array | BoolArray) -> "IpPackets":
        """Some of the packets."""
        return IpPackets(*(getattr(self, name)[rows] for name in self.__struct_fields__))

    @property
    def fragmented(self) -> BoolArray:
        """Which packets are IP fragments."""
        return self.more | (self.offset > 0)


def merge_packets(parts: list[IpPackets]) -> IpPackets:
    """All packets, ordered by row."""
    if len(parts) == 1 and (parts[0].row[1:] >= parts[0].row[:-1]).all():
        return parts[0]
    order = np.argsort(np.concatenate([part.row for part in parts]), kind="stable")
    names = IpPackets.__struct_fields__
    return IpPackets(*(np.concatenate([getattr(part, name) for part in parts]).take(order) for name in names))


def read_ipv4(buffer: UInt8Array, layers: Layers) -> tuple[IpPackets, BoolArray]:
    """Decode these IPv4 headers; also which of them are malformed (they are not among the packets)."""
    header = read_struct_array(buffer, layers.at, IPV4_HEADER)
    size = (header["version"] & 15).astype(np.int64) * 4
    bad = (header["version"] >> 4 != 4) | (size < 20) | (layers.at + size > layers.end)
    total = header["total"].astype(np.int64)
    bad |= (total < size) & (total != 0)
    if bad.any():
        good = ~bad
        layers, header, size, total = layers.select(good), header[good], size[good], total[good]
    # Segmentation offload leaves a total length of 0; a length beyond the frame is ignored. The bytes after the total
    # length are Ethernet padding.
    stop = np.where(total == 0, layers.wire_end, np.minimum(layers.at + total, layers.wire_end))
    fragment = header["fragment"].astype(np.int64)
    packets = IpPackets(
        row=layers.row,
        at=layers.at + size,
        end=np.minimum(stop, layers.end),
        wire_end=stop,
        protocol=header["protocol"].copy(),
        source=header["source"].astype(np.uint64),
        destination=header["destination"].astype(np.uint64),
        ttl=header["ttl"].copy(),
        ident=header["ident"].astype(np.uint32),
        offset=(fragment & 0x1FFF) * 8,
        more=(fragment & 0x2000) != 0,
        tunnel=layers.tunnel,
    )
    return packets, bad


def read_ipv6(buffer: UInt8Array, layers: Layers, book: AddressBook) -> tuple[IpPackets, BoolArray]:
    """Decode these IPv6 headers and their extension headers; also which of them are malformed, as in `read_ipv4`."""
    header = read_struct_array(buffer, layers.at, _IPV6)
    bad = (header["version"] >> 4 != 6) | (layers.at + 40 > layers.end)
    good = np.flatnonzero(~bad)
    layers, header = layers.select(good), header[good]
    payload = header["payload"].astype(np.int64)
    # the payload length of a jumbogram is 0; segmentation offload also leaves 0
    stop = np.where(payload == 0, layers.wire_end, np.minimum(layers.at + 40 + payload, layers.wire_end))
    captured = np.minimum(stop, layers.end)
    inside = layers.at + 40
    protocol = header["next"].copy()
    count = len(layers)
    ident = np.full(count, NO_IDENT, np.uint32)
    offset = np.zeros(count, np.int64)
    more = np.zeros(count, np.bool_)
    truncated = np.zeros(count, np.bool_)
    rest = np.flatnonzero(_IS_SKIPPED[protocol] | (protocol == FRAGMENT_HEADER))
    while len(rest):
        short = inside[rest] + 8 > captured[rest]
        truncated[rest[short]] = True
        rest = rest[~short]
        extension = read_struct_array(buffer, inside[rest], _EXTENSION)
        is_fragment = protocol[rest] == FRAGMENT_HEADER
        fragments = rest[is_fragment]
        ident[fragments] = extension["ident"][is_fragment]
        offset[fragments] = extension["fragment"][is_fragment] & 0xFFF8
        more[fragments] = extension["fragment"][is_fragment] & 1
        inside[rest] += np.where(is_fragment, 8, extension["length"].astype(np.int64) * 8 + 8)
        protocol[rest] = extension["next"]
        # extension headers after the fragment header belong to the fragmented data, and may span several fragments
        is_header = _IS_SKIPPED[protocol[rest]] | (protocol[rest] == FRAGMENT_HEADER)
        rest = rest[is_header & (offset[rest] == 0) & ~more[rest]]
    truncated |= inside > captured
    packets = IpPackets(
        row=layers.row,
        at=inside,
        end=captured,
        wire_end=stop,
        protocol=protocol,
        source=book.encode(header["source"]),
        destination=book.encode(header["destination"]),
        ttl=header["hops"].copy(),
        ident=ident,
        offset=offset,
        more=more,
        tunnel=layers.tunnel,
    )
    if truncated.any():
        bad[good[truncated]] = True
        packets = packets.select(~truncated)
    return packets, bad


def skip_extension_headers(buffer: UInt8Array, packets: IpPackets) -> BoolArray:
    """Skip the extension headers at the start of the payload, in place; which packets end inside one.

    RFC 8200, 4.5 and RFC 4302, 3.1.1: destination options for the final destination follow the fragment header and AH.
    """
    truncated = np.zeros(len(packets), np.bool_)
    rest = np.flatnonzero((packets.source >= FIRST_IPV6) & _IS_SKIPPED[packets.protocol])
    while len(rest):
        short = packets.at[rest] + 8 > packets.end[rest]
        truncated[rest[short]] = True
        rest = rest[~short]
        extension = read_struct_array(buffer, packets.at[rest], _EXTENSION)
        packets.at[rest] += extension["length"].astype(np.int64) * 8 + 8
        packets.protocol[rest] = extension["next"]
        rest = rest[_IS_SKIPPED[packets.protocol[rest]]]
    truncated |= packets.at > packets.end
    packets.protocol[truncated] = NO_NEXT_HEADER
    return truncated


def extract_fragments(batch: RecordBatch, packets: IpPackets, first: int) -> Iterator[tuple[Key, int, IpFragment]]:
    """Arguments of `IpReassembler.add` for each IP fragment; `first` is the number of the batch's first packet."""
    view, positions = batch.buffer.data, batch.positions()
    for index in range(len(packets)):
        row = int(packets.row[index])
        at, end = int(packets.at[index]), int(packets.end[index])
        fragment = IpFragment(
            number=first + int(positions[row]),
            time_ns=int(batch.time_ns[row]),
            interface=int(batch.interface[row]),
            length=int(batch.length[row]),
            captured=int(batch.captured[row]),
            ttl=int(packets.ttl[index]),
            offset=int(packets.offset[index]),
            more=bool(packets.more[index]),
            payload=bytes(view[at : max(at, end)]),
            wire_size=int(packets.wire_end[index]) - at,
        )
        source, destination = int(packets.source[index]), int(packets.destination[index])
        protocol = int(packets.protocol[index])
        ident = int(packets.ident[index])
        # the key has the TTL because fragments captured before and after a router are two datagrams
        kind = protocol if source < FIRST_IPV6 else -1
        key = (source, destination, ident, kind, fragment.ttl, int(packets.tunnel[index]))
        yield key, protocol, fragment


def build_reassembled_packets(datagrams: Sequence[FragmentedPacket]) -> tuple[UInt8Array, IpPackets, BoolArray]:
    """A new buffer with the known bytes of the datagrams, their packets, and which end inside an extension header.

    Each datagram must have its first fragment; `IpPackets.row` is the index of the datagram.
    """
    known = [datagram.payload() for datagram in datagrams]
    captured = np.array([len(data) for data, _ in known], np.int64)
    at = np.cumsum(captured) - captured
    count = len(datagrams)
    buffer = np.frombuffer(b"".join(data for data, _ in known) + bytes(PADDING), np.uint8)
    packets = IpPackets(
        row=np.arange(count),
        at=at,
        end=at + captured,
        wire_end=at + np.array([size for _, size in known], np.int64),
        protocol=np.array([datagram.protocol for datagram in datagrams], np.uint8),
        source=np.array([datagram.key[0] for datagram in datagrams], np.uint64),
        destination=np.array([datagram.key[1] for datagram in datagrams], np.uint64),
        ttl=np.array([datagram.fragments[0].ttl for datagram in datagrams], np.uint8),
        ident=np.array([datagram.key[2] for datagram in datagrams], np.uint32),
        offset=np.zeros(count, np.int64),
        more=np.zeros(count, np.bool_),
        tunnel=np.array([datagram.key[5] for datagram in datagrams], np.uint32),
    )
    return buffer, packets, skip_extension_headers(buffer, packets)
