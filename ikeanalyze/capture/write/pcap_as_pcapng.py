"""Converts a pcap file to pcapng: one section, one interface, an enhanced packet block for each record."""

from collections.abc import Mapping
from typing import Final

import numpy as np

from ikeanalyze.capture.arrays import BoolArray, UInt32Array
from ikeanalyze.capture.formats import pcapng_blocks
from ikeanalyze.capture.formats.records import Interface, RecordBatch

#: The output is little-endian, independent of the pcap file.
ORDER: Final = "<"
#: Bytes of an enhanced packet block without options, besides the frame.
_BLOCK_OVERHEAD: Final = 32
_FRAME_AT: Final = 28
_MICROSECONDS: Final = 6


def encode_file_header(interface: Interface, application: str, comment: str | None, longest: int) -> bytes:
    """The section header and the interface description.

    `longest` is the size in bytes of the longest frame to be added.

    Raises:
        ValueError: the link type does not fit into pcapng.
    """
    if interface.link_type > 0xFFFF:
        raise ValueError(f"link type {interface.link_type} does not fit into pcapng")
    about = [(pcapng_blocks.SHB_USERAPPL, application.encode())]
    if comment is not None:
        about.append(pcapng_blocks.make_comment_option(comment))
    options = [(pcapng_blocks.IF_TSRESOL, bytes([interface.resolution]))]
    if interface.fcs_bytes is not None:
        options.append((pcapng_blocks.IF_FCSLEN, bytes([interface.fcs_bytes * 8])))
    snaplen = interface.snaplen and max(interface.snaplen, longest)  # 0: unlimited
    description = pcapng_blocks.encode_interface_description(interface.link_type, snaplen, options, ORDER)
    return pcapng_blocks.encode_section_header(about, ORDER) + description


def encode_timestamps(batch: RecordBatch, resolution: int) -> tuple[UInt32Array, UInt32Array]:
    """The two words of each packet's timestamp, the upper one first, in units of 10^-6 or 10^-9 s. (n,) each"""
    ticks = batch.time_ns.astype(np.uint64)
    if resolution == _MICROSECONDS:
        ticks //= np.uint64(1000)
    return (ticks >> np.uint64(32)).astype("<u4"), ticks.astype("<u4")


def encode_packet_blocks(
    batch: RecordBatch, resolution: int, left_out: BoolArray, behind: Mapping[int, bytes]
) -> memoryview:
    """The blocks of a batch without the packets in `left_out`; `behind` has blocks to insert after some rows."""
    high, low = encode_timestamps(batch, resolution)
    extra = np.zeros(len(batch), np.int64)
    for row, data in behind.items():
        extra[row] = len(data)
    size = np.where(left_out, 0, _BLOCK_OVERHEAD + (batch.captured + 3 & ~np.int64(3)))
    ends = np.cumsum(size + extra)
    out = np.zeros(int(ends[-1]) if len(ends) else 0, np.uint8)
    stays = ~left_out
    whole, captured = size[stays], batch.captured[stays]
    begin = (ends - size - extra)[stays]
    length = np.minimum(batch.length[stays], 0xFFFFFFFF)
    words, at = out.view("<u4"), begin // 4
    # type, size, interface (0), time, lengths; the size once more at the end
    fields = (pcapng_blocks.ENHANCED_PACKET, whole, 0, high[stays], low[stays], captured, length)
    for place, column in enumerate(fields):
        words[at + place] = column
    words[at + whole // 4 - 1] = whole
    target, source = out.data, batch.buffer.data
    columns = (begin + _FRAME_AT, batch.offset[stays], captured)
    for to, start, count in zip(*(column.tolist() for column in columns), strict=True):
        target[to : to + count] = source[start : start + count]
    for row, data in behind.items():
        to = int(ends[row]) - len(data)
        target[to : to + len(data)] = data
    return target
