"""Reads plain packets with the compiled core: those without tunnels, IP fragments, TCP streams and the like.

The modules of `decode` define what the core returns, and read the packets that it hands back.
"""

from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec import Struct

from ikeanalyze import core
from ikeanalyze.capture.accounting import PacketCategory
from ikeanalyze.capture.arrays import Int64Array, UInt8Array
from ikeanalyze.capture.buffers import Columns
from ikeanalyze.capture.decode.layers import IS_KNOWN
from ikeanalyze.capture.decode.link import ETHERTYPE_LINKS, RAW_LINKS
from ikeanalyze.capture.decode.tunnels import IS_TUNNEL_PORT, IS_TUNNEL_PROTOCOL, PORT_L2TP
from ikeanalyze.capture.formats.pcap import Pcap
from ikeanalyze.capture.formats.records import RECORD_COLUMNS, Interface, RecordBatch
from ikeanalyze.capture.formats.source import CaptureSource
from ikeanalyze.capture.protocol_numbers import (
    ETHERTYPE_IPV4,
    ETHERTYPE_IPV6,
    ETHERTYPE_PPPOE_SESSION,
    ETHERTYPES_VLAN,
    EXTENSION_HEADERS,
    FRAGMENT_HEADER,
    PORT_HIP,
    PORT_IKE,
    PORT_IKE_NAT,
    PORTS_RADIUS,
    PROTOCOL_AH,
    PROTOCOL_ESP,
    PROTOCOL_HIP,
    PROTOCOL_ICMP,
    PROTOCOL_ICMPV6,
    PROTOCOL_TCP,
    PROTOCOL_UDP,
)

if TYPE_CHECKING:
    from ikeanalyze._core import HeaderTables, PcapReader

# What the core does with EtherTypes, protocols and ports: the constants of these names in core/src/capture/frames.rs.
_ETHERTYPE_IPV4: Final = 1
_ETHERTYPE_IPV6: Final = 2
_ETHERTYPE_VLAN: Final = 3
_ETHERTYPE_HAND_BACK: Final = 255
_PROTOCOL_ICMP: Final = 251
_PROTOCOL_ICMPV6: Final = 252
_PROTOCOL_UDP: Final = 253
_PROTOCOL_TCP: Final = 254
_PROTOCOL_HAND_BACK: Final = 255
_PORT_500: Final = 1
_PORT_4500: Final = 2
_PORT_EXTRA: Final = 4
_PORT_EITHER: Final = 8
_PORT_DESTINATION: Final = 16
_PORT_TCP: Final = 32

#: Bytes of a file from which `is_mostly_plain` judges.
_SAMPLE_BYTES: Final = 1 << 20

#: How the core finds the IP packet in a frame: size of the link header and offset of the EtherType in it.
_LINKS: Final[dict[int, tuple[int, int]]] = {**ETHERTYPE_LINKS, **dict.fromkeys(RAW_LINKS, (0, 0))}


class PlainPackets(Struct, frozen=True):
    """The plain packets of a batch."""

    columns: Columns  # of the frames with an IKE message, with `row`, `begin`, `end` and `clear`; some have one value
    packets: Int64Array  # by PacketCategory
    wire_bytes: Int64Array  # by PacketCategory
    ipv6: list[bytes]  # addresses of an AddressBook of its own, whose codes are in the columns
    rest: RecordBatch | None  # the other packets; None: there are none


def read_plain_packets(
    batch: RecordBatch, first: int, interfaces: Sequence[Interface], ports: Collection[int]
) -> PlainPackets | None:
    """Read the plain packets of a batch, whose first packet has the number `first`; None: without the core, or none.

    `ports` are UDP and TCP ports on which IKE is expected in addition to 500 and 4500.
    """
    if core.compiled is None:
        return None
    links = [_LINKS.get(interface.link_type) for interface in interfaces]
    if not any(links):
        return None
    columns = (np.ascontiguousarray(getattr(batch, name)) for name in RECORD_COLUMNS)
    scan = core.compiled.scan_packets(_make_tables(frozenset(ports)), links, first, batch.buffer, *columns)
    if len(scan.rest) == len(batch):
        return None
    rest = batch.pick(scan.rest) if len(scan.rest) else None
    return PlainPackets(scan.columns, scan.packets, scan.wire_bytes, scan.ipv6, rest)


def can_read_file(layout: Pcap) -> bool:
    """Whether the compiled core reads files of this format."""
    return core.compiled is not None and layout.interfaces[0].link_type in _LINKS


def is_mostly_plain(source: CaptureSource, layout: Pcap, begin: int, ports: Collection[int]) -> bool:
    """Whether the compiled core does not hand back most of the packets after this offset; arguments as below."""
    reader = open_compiled_reader(source, layout, ports, ())
    part = reader.read((begin, begin + _SAMPLE_BYTES), 1, 1, _SAMPLE_BYTES, _SAMPLE_BYTES)
    return part.packets > 0 and 2 * len(part.rest[1]) <= part.packets


def open_compiled_reader(
    source: CaptureSource,
    layout: Pcap,
    ports: Collection[int],
    spis: Collection[int] | None,
    *,
    read_inits: bool = False,
) -> "PcapReader":
    """Return a reader of an uncompressed pcap file that belongs to the compiled core.

    Args:
        source: the file.
        layout: its format; see `can_read_file`.
        ports: as in `read_plain_packets`.
        spis: initiators' SPIs of the IKE SAs whose encrypted messages are kept; None: those of all IKE SAs.
        read_inits: read IKE_SA_INIT messages, as far as their forms are needed, instead of keeping their bytes.
    """
    return core.compiled.PcapReader(
        source.name,
        source.identify(),
        None if spis is None else set(spis),
        _make_tables(frozenset(ports)),
        _LINKS[layout.interfaces[0].link_type],
        read_inits,
        **layout.record_layout,
    )


@lru_cache(maxsize=16)
def _make_tables(ports: frozenset[int]) -> "HeaderTables":
    ethertypes = np.where(IS_KNOWN, _ETHERTYPE_HAND_BACK, 0).astype(np.uint8)
    ethertypes[ETHERTYPE_PPPOE_SESSION] = _ETHERTYPE_HAND_BACK
    ethertypes[list(ETHERTYPES_VLAN)] = _ETHERTYPE_VLAN
    ethertypes[ETHERTYPE_IPV4], ethertypes[ETHERTYPE_IPV6] = _ETHERTYPE_IPV4, _ETHERTYPE_IPV6
    return core.compiled.HeaderTables(ethertypes, _make_protocols(), _make_ports(ports))


def _make_protocols() -> UInt8Array:
    protocols = np.where(IS_TUNNEL_PROTOCOL, _PROTOCOL_HAND_BACK, PacketCategory.OTHER).astype(np.uint8)
    protocols[[*EXTENSION_HEADERS, FRAGMENT_HEADER, PROTOCOL_AH, PROTOCOL_HIP]] = _PROTOCOL_HAND_BACK
    protocols[PROTOCOL_ESP] = PacketCategory.ESP
    protocols[PROTOCOL_ICMP], protocols[PROTOCOL_ICMPV6] = _PROTOCOL_ICMP, _PROTOCOL_ICMPV6
    protocols[PROTOCOL_UDP], protocols[PROTOCOL_TCP] = _PROTOCOL_UDP, _PROTOCOL_TCP
    return protocols


def _make_ports(extra: Collection[int]) -> UInt8Array:
    flags = np.where(IS_TUNNEL_PORT, _PORT_DESTINATION, 0).astype(np.uint8)
    flags[[*PORTS_RADIUS, PORT_HIP, PORT_L2TP]] |= _PORT_EITHER
    flags[PORT_IKE] |= _PORT_500
    flags[PORT_IKE_NAT] |= _PORT_4500 | _PORT_TCP
    flags[list(extra)] |= _PORT_EXTRA | _PORT_TCP
    return flags
