"""Frames of a batch to the IP packets in them, and IP fragments to whole ones.

Two ways lead through a capture (`collector` and `esp`); what they do with packets differs, how they get at them does not.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from ikeanalyze.capture.columns import BoolArray, UInt8Array
from ikeanalyze.capture.ipfragments import FragmentedPacket, IpFragment, Key
from ikeanalyze.capture.link import locate_ip_packets
from ikeanalyze.capture.network import (
    FIRST_IPV6,
    AddressBook,
    IpPackets,
    merge_packets,
    read_ipv4,
    read_ipv6,
    skip_extension_headers,
)
from ikeanalyze.capture.records import PADDING, Interface, RecordBatch


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
