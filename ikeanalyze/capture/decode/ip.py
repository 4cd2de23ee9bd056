"""IPv4 and IPv6: what each packet of a batch carries, between whom, and whether IP fragmented it.

RFC 791; RFC 8200, 4 (extension headers, fragment header). Lengths that contradict each other are settled in
favour of the bytes that are there; only a packet whose fixed header is cut or impossible is malformed.

Frames of a batch to the IP packets in them, and IP fragments to whole ones.

Two ways lead through a capture (`collector` and `esp`); what they do with packets differs, how they get at them does not.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ikeanalyze.capture.arrays import BoolArray, Int64Array, UInt8Array, UInt32Array, UInt64Array, read_struct_array
from ikeanalyze.capture.decode.ip_reassembly import FragmentedPacket, IpFragment, Key
from ikeanalyze.capture.decode.link import locate_ip_packets
from ikeanalyze.capture.formats.records import PADDING, Interface, RecordBatch
from ikeanalyze.capture.protocol_numbers import EXTENSION_HEADERS, FRAGMENT_HEADER, NO_NEXT_HEADER

_IPV4: Final = np.dtype(
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

_SKIPPED_HEADERS: Final = np.array(EXTENSION_HEADERS, np.uint8)

#: `ident` of a packet without identification.
NO_IDENT: Final = 0xFFFFFFFF
#: Addresses above this are indexes into AddressBook.ipv6.
FIRST_IPV6: Final = 1 << 32
#: Where the tables of several captures are one, the capture's number stands above this bit of its addresses: a host of one
#: capture is no host of another, whatever its address.
CAPTURE_BIT: Final = 33
ADDRESS_BITS: Final = (1 << CAPTURE_BIT) - 1
#: So many captures leave room for a port beside an address in 64 bits.
MOST_CAPTURES: Final = 1 << 64 - 16 - CAPTURE_BIT


@dataclass(slots=True)
class AddressBook:
    """Addresses as numbers: an IPv4 address is itself, an IPv6 one FIRST_IPV6 plus its place in the book."""

    ipv6: list[bytes] = field(default_factory=list)
    _places: dict[bytes, int] = field(default_factory=dict)

    def encode(self, addresses: npt.NDArray[np.void]) -> UInt64Array:
        """Numbers of 16-byte addresses, new ones entered."""
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
        """A function from the codes of another book, which has these addresses, to those of this one."""
        entered = self.encode(np.frombuffer(b"".join(ipv6), "V16")) if ipv6 else np.zeros(1, np.uint64)

        def translate(codes: npt.NDArray[Any]) -> UInt64Array:
            codes = codes.astype(np.uint64, copy=False)
            if not ipv6:
                return codes
            first = np.uint64(FIRST_IPV6)
            new = codes >= first
            return np.where(new, entered[np.where(new, codes - first, 0)], codes)

        return translate


def get_capture_numbers(codes: UInt64Array) -> Int64Array:
    """The numbers of the captures that addresses are of, from 0."""
    return (codes >> np.uint64(CAPTURE_BIT)).astype(np.int64)


def strip_capture_numbers(codes: UInt64Array) -> UInt64Array:
    """Addresses without the captures that they are of."""
    return codes & np.uint64(ADDRESS_BITS)


@dataclass(slots=True)
class IpPackets:
    """IP packets of a batch, in columns of one length."""

    row: Int64Array  # which packet of the batch
    at: Int64Array  # first byte of what IP carries
    end: Int64Array  # behind its last byte that was captured
    wire_end: Int64Array  # behind its last byte on the wire, in the same count
    protocol: UInt8Array
    source: UInt64Array  # AddressBook codes
    destination: UInt64Array
    ttl: UInt8Array
    ident: UInt32Array  # NO_IDENT: none
    offset: Int64Array  # of a fragment, in bytes
    more: BoolArray  # more fragments follow

    def __len__(self) -> int:
        return len(self.row)

    def select(self, chosen: Int64Array | BoolArray) -> "IpPackets":
        """Some of the packets."""
        return IpPackets(*(getattr(self, name)[chosen] for name in _PACKET_COLUMNS))

    @property
    def fragmented(self) -> BoolArray:
        """Which of them are IP fragments."""
        return self.more | (self.offset > 0)


_PACKET_COLUMNS: Final = tuple(IpPackets.__dataclass_fields__)


def merge_packets(parts: list[IpPackets]) -> IpPackets:
    """One table of several, ordered by row."""
    if len(parts) == 1:
        return parts[0]
    whole = IpPackets(*(np.concatenate([getattr(part, name) for part in parts]) for name in _PACKET_COLUMNS))
    return whole.select(np.argsort(whole.row, kind="stable"))


def read_ipv4(
    buffer: UInt8Array, row: Int64Array, at: Int64Array, end: Int64Array, wire_end: Int64Array
) -> tuple[IpPackets, BoolArray]:
    """Decode IPv4 headers at `at`; also which of the rows are malformed (and not among the packets)."""
    header = read_struct_array(buffer, at, _IPV4)
    size = (header["version"] & 15).astype(np.int64) * 4
    bad = (header["version"] >> 4 != 4) | (size < 20) | (at + size > end)
    total = header["total"].astype(np.int64)
    bad |= (total < size) & (total != 0)
    if bad.any():
        good = ~bad
        row, at, end, wire_end, header, size, total = (
            column[good] for column in (row, at, end, wire_end, header, size, total)
        )
    # A total length of 0 is left by segmentation offload; one beyond the frame by a capture that lies.
    # Ethernet padding stands behind the total length.
    stop = np.where(total == 0, wire_end, np.minimum(at + total, wire_end))
    fragment = header["fragment"].astype(np.int64)
    packets = IpPackets(
        row=row,
        at=at + size,
        end=np.minimum(stop, end),
        wire_end=stop,
        protocol=header["protocol"].copy(),
        source=header["source"].astype(np.uint64),
        destination=header["destination"].astype(np.uint64),
        ttl=header["ttl"].copy(),
        ident=header["ident"].astype(np.uint32),
        offset=(fragment & 0x1FFF) * 8,
        more=(fragment & 0x2000) != 0,
    )
    return packets, bad


def read_ipv6(
    buffer: UInt8Array, row: Int64Array, at: Int64Array, end: Int64Array, wire_end: Int64Array, book: AddressBook
) -> tuple[IpPackets, BoolArray]:
    """Decode IPv6 headers at `at` and their extension headers; also which of the rows are malformed."""
    header = read_struct_array(buffer, at, _IPV6)
    bad = (header["version"] >> 4 != 6) | (at + 40 > end)
    good = np.flatnonzero(~bad)
    header, row, at, end, wire_end = header[good], row[good], at[good], end[good], wire_end[good]
    payload = header["payload"].astype(np.int64)
    # a payload length of 0 is a jumbogram or was left by segmentation offload
    stop = np.where(payload == 0, wire_end, np.minimum(at + 40 + payload, wire_end))
    captured = np.minimum(stop, end)
    inside = at + 40
    protocol = header["next"].copy()
    count = len(row)
    ident = np.full(count, NO_IDENT, np.uint32)
    offset = np.zeros(count, np.int64)
    more = np.zeros(count, np.bool_)
    cut = np.zeros(count, np.bool_)
    rest = np.flatnonzero(np.isin(protocol, _SKIPPED_HEADERS) | (protocol == FRAGMENT_HEADER))
    while len(rest):
        short = inside[rest] + 8 > captured[rest]
        cut[rest[short]] = True
        rest = rest[~short]
        extension = read_struct_array(buffer, inside[rest], _EXTENSION)
        is_fragment = protocol[rest] == FRAGMENT_HEADER
        which = rest[is_fragment]
        ident[which] = extension["ident"][is_fragment]
        offset[which] = extension["fragment"][is_fragment] & 0xFFF8
        more[which] = extension["fragment"][is_fragment] & 1
        inside[rest] += np.where(is_fragment, 8, extension["length"].astype(np.int64) * 8 + 8)
        protocol[rest] = extension["next"]
        # what follows the header of a true fragment is part of what was fragmented: options there may be in
        # several fragments
        onward = np.isin(protocol[rest], _SKIPPED_HEADERS) | (protocol[rest] == FRAGMENT_HEADER)
        rest = rest[onward & (offset[rest] == 0) & ~more[rest]]
    cut |= inside > captured
    packets = IpPackets(
        row=row,
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
    )
    if cut.any():
        bad[good[cut]] = True
        packets = packets.select(~cut)
    return packets, bad


def skip_extension_headers(buffer: UInt8Array, packets: IpPackets) -> BoolArray:
    """Step over extension headers at the front of reassembled packets, in place; which end inside one.

    RFC 8200, 4.5: destination options for the last destination stand behind the fragment header.
    """
    cut = np.zeros(len(packets), np.bool_)
    rest = np.flatnonzero((packets.source >= FIRST_IPV6) & np.isin(packets.protocol, _SKIPPED_HEADERS))
    while len(rest):
        short = packets.at[rest] + 8 > packets.end[rest]
        cut[rest[short]] = True
        rest = rest[~short]
        extension = read_struct_array(buffer, packets.at[rest], _EXTENSION)
        packets.at[rest] += extension["length"].astype(np.int64) * 8 + 8
        packets.protocol[rest] = extension["next"]
        rest = rest[np.isin(packets.protocol[rest], _SKIPPED_HEADERS)]
    cut |= packets.at > packets.end
    packets.protocol[cut] = NO_NEXT_HEADER
    return cut




class IpPacketFinder:
    """Finds the IP packets of batches."""

    def __init__(self, interfaces: Sequence[Interface], book: AddressBook) -> None:
        """`interfaces` of the capture, which may grow; `book` gets the IPv6 addresses."""
        self.foreign_links: dict[int, int] = {}  # packets by link type, of types that are not decoded
        self._interfaces = interfaces
        self._book = book

    def read(self, batch: RecordBatch) -> tuple[IpPackets | None, list[tuple[int, int]]]:
        """The IP packets of a batch, and the rows whose IP header is cut or impossible, each with its version."""
        link_types = np.array([interface.link_type for interface in self._interfaces], np.int64)
        kinds = np.unique(link_types[np.unique(batch.interface)]).tolist()
        parts: list[IpPackets] = []
        impossible: list[tuple[int, int]] = []
        for kind in kinds:
            if len(kinds) == 1:
                row = np.arange(len(batch))
            else:
                row = np.flatnonzero(link_types[batch.interface] == kind)
            at = batch.offset[row]
            end = at + batch.captured[row]
            located = locate_ip_packets(kind, batch.buffer, at, end)
            if located is None:
                self.foreign_links[kind] = self.foreign_links.get(kind, 0) + len(row)
                continue
            inside, family = located
            wire_end = at + batch.length[row]
            for version in (4, 6):
                chosen = family == version
                if not chosen.any():
                    continue
                which = slice(None) if chosen.all() else chosen
                arguments = (batch.buffer, row[which], inside[which], end[which], wire_end[which])
                packets, bad = read_ipv4(*arguments) if version == 4 else read_ipv6(*arguments, self._book)
                impossible += [(index, version) for index in row[which][bad].tolist()]
                parts.append(packets)
        return (merge_packets(parts) if parts else None), impossible


def extract_fragments(batch: RecordBatch, packets: IpPackets, first: int) -> Iterator[tuple[Key, int, IpFragment]]:
    """What a reassembler takes of IP fragments; `first`: number of the batch's first packet in its capture."""
    view = batch.buffer.data
    for index in range(len(packets)):
        row = int(packets.row[index])
        at, end = int(packets.at[index]), int(packets.end[index])
        fragment = IpFragment(
            number=first + row,
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
        # the TTL: fragments seen before a router and behind it are two datagrams
        key = (source, destination, ident, protocol if source < FIRST_IPV6 else -1, fragment.ttl)
        yield key, protocol, fragment


def build_reassembled_packets(datagrams: Sequence[FragmentedPacket]) -> tuple[UInt8Array, IpPackets, BoolArray]:
    """Datagrams as packets in a buffer of their own, as far as their bytes are known, and which of them are cut.

    Each must have its first fragment; `IpPackets.row` is the index of the datagram.
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
    )
    cut = skip_extension_headers(buffer, packets)
    return buffer, packets, cut
