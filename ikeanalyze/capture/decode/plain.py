"""Reads plain packets with the compiled core: those without tunnels, IP fragments, TCP streams and the like.

The modules of `decode` define what the core returns, and read the packets that it hands back.
"""

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec import Struct

from ikeanalyze import core
from ikeanalyze.capture.arrays import Int64Array
from ikeanalyze.capture.buffers import Columns
from ikeanalyze.capture.formats.pcap import Pcap
from ikeanalyze.capture.formats.records import RECORD_COLUMNS, Interface, RecordBatch
from ikeanalyze.capture.formats.source import CaptureSource

if TYPE_CHECKING:
    from ikeanalyze._core import PcapReader

#: Bytes of a file from which `is_mostly_plain` judges.
_SAMPLE_BYTES: Final = 1 << 20


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
    link_types = [interface.link_type for interface in interfaces]
    if not any(map(core.compiled.reads_link_type, link_types)):
        return None
    columns = (np.ascontiguousarray(getattr(batch, name)) for name in RECORD_COLUMNS)
    scan = core.compiled.scan_packets(list(ports), link_types, first, batch.buffer, *columns)
    if len(scan.rest) == len(batch):
        return None
    rest = batch.pick(scan.rest) if len(scan.rest) else None
    return PlainPackets(scan.columns, scan.packets, scan.wire_bytes, scan.ipv6, rest)


def can_read_file(layout: Pcap) -> bool:
    """Whether the compiled core reads files of this format."""
    return core.compiled is not None and core.compiled.reads_link_type(layout.interfaces[0].link_type)


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
        list(ports),
        layout.interfaces[0].link_type,
        read_inits,
        **layout.record_layout,
    )
