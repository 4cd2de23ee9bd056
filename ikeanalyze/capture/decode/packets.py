"""Finds the IP packets of a batch, under link layers and in tunnels.

`read` returns the packet in each frame, `enter_tunnels` the packets inside given ones, so that all are classified in
the same way, level by level.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from ikeanalyze.capture.accounting import PacketCategory
from ikeanalyze.capture.arrays import UInt8Array, find_rows, read_uint8, sort_distinct
from ikeanalyze.capture.decode.ip import (
    AddressBook,
    IpPackets,
    merge_packets,
    read_ipv4,
    read_ipv6,
    skip_extension_headers,
)
from ikeanalyze.capture.decode.layers import IS_KNOWN, HeaderChain, LayerFindings, Layers
from ikeanalyze.capture.decode.link import locate_ip_packets
from ikeanalyze.capture.decode.tunnel_book import NO_TUNNEL, TunnelBook
from ikeanalyze.capture.decode.tunnels import TunnelFinder
from ikeanalyze.capture.formats.records import Interface, RecordBatch

#: IP packets inside one another that are read.
MAX_DEPTH: Final = 8


class IpPacketFinder:
    """Finds and decodes the IP packets of batches."""

    def __init__(self, interfaces: Sequence[Interface], book: AddressBook, tunnels: TunnelBook) -> None:
        """`interfaces` of the capture may grow while it is read; IPv6 addresses and tunnels are added to the books."""
        self.foreign_links: dict[int, int] = {}  # number of packets by link type that is not decoded
        self.findings = LayerFindings()
        self._interfaces = interfaces
        self._book = book
        self._tunnels = tunnels
        self._chain = HeaderChain(tunnels, self.findings)
        self._finder = TunnelFinder(tunnels, self._chain, book)

    def read(self, batch: RecordBatch) -> IpPackets | None:
        """The IP packets of a batch, without those in tunnels over IP; None: there are none."""
        link_type_of = np.array([interface.link_type for interface in self._interfaces], np.int64)
        link_types = sort_distinct(link_type_of[sort_distinct(batch.interface)]).tolist()
        parts: list[IpPackets] = []
        for link_type in link_types:
            if len(link_types) == 1:
                row = np.arange(len(batch))
            else:
                row = find_rows(link_type_of[batch.interface] == link_type)
            at = batch.offset[row]
            end = at + batch.captured[row]
            located = locate_ip_packets(link_type, batch.buffer, at, end)
            if located is None:
                self.foreign_links[link_type] = self.foreign_links.get(link_type, 0) + len(row)
                continue
            wire_end = at + batch.length[row]
            tunnel = np.full(len(row), NO_TUNNEL, np.uint32)
            headers = Layers(row, located.at, end, wire_end, tunnel, located.kind)
            for version in (4, 6):
                matches = located.family == version
                if matches.any():
                    selected = headers if matches.all() else headers.select(matches)
                    parts.append(self._read_ip(version, batch.buffer, selected))
            rest = find_rows(located.family == 0)
            if len(rest):
                rest = rest[IS_KNOWN[located.kind[rest]] & (located.at[rest] < end[rest])]
            if len(rest):
                parts += self._follow(batch.buffer, headers.select(rest))
        return merge_packets(parts) if parts else None

    def enter_tunnels(
        self, buffer: UInt8Array, packets: IpPackets, category: UInt8Array, depth: int
    ) -> IpPackets | None:
        """The IP packets inside the packets, which have these categories and are at this depth, from 1.

        `row` is that of the packet around; None: there are none.
        """
        parts: list[IpPackets] = []
        inside = self._finder.find(buffer, packets, category)
        if inside is not None and len(inside):
            parts = self._follow(buffer, inside)
        authenticated = find_rows(category == int(PacketCategory.AH))
        if len(authenticated):
            packets = _skip_authentication_headers(buffer, packets.select(authenticated))
            packets.tunnel = self._tunnels.enter("ah", packets.tunnel)
            parts.append(packets)
        if not any(len(part) for part in parts):
            return None
        if depth >= MAX_DEPTH:
            self.findings.unread[f"more than {MAX_DEPTH} IP packets"] += sum(len(part) for part in parts)
            return None
        return merge_packets(parts)

    def pop_malformed(self) -> list[tuple[int, str]]:
        """Rows with invalid headers since the last call, and what is wrong with each."""
        malformed = self.findings.malformed
        self.findings.malformed = []
        return malformed

    def _follow(self, buffer: UInt8Array, layers: Layers) -> list[IpPackets]:
        """The IP packets after these headers."""
        return [self._read_ip(version, buffer, part) for version, part in self._chain.find_ip(buffer, layers)]

    def _read_ip(self, version: int, buffer: UInt8Array, layers: Layers) -> IpPackets:
        if version == 4:
            packets, bad = read_ipv4(buffer, layers)
        else:
            packets, bad = read_ipv6(buffer, layers, self._book)
        if bad.any():
            reason = f"IPv{version} header is truncated or invalid"
            self.findings.malformed += [(index, reason) for index in layers.row[bad].tolist()]
        return packets


def _skip_authentication_headers(buffer: UInt8Array, packets: IpPackets) -> IpPackets:
    """The packets without their authentication headers (RFC 4302, 2), except those with truncated headers."""
    size = (read_uint8(buffer, packets.at + 1).astype(np.int64) + 2) * 4
    good = (packets.at + 12 <= packets.end) & (packets.at + size <= packets.end) & (size >= 12)
    packets, size = packets.select(good), size[good]
    packets.protocol = read_uint8(buffer, packets.at)
    packets.at = packets.at + size
    return packets.select(~skip_extension_headers(buffer, packets))
