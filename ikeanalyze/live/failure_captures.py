"""Writes the packets of each handshake that failed to a capture of its own, in a directory of bounded size."""

from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from struct import Struct
from typing import Final

import numpy as np
import polars as pl

from ikeanalyze.analysis.result import Analysis
from ikeanalyze.analysis.tables.layouts import FAILURES
from ikeanalyze.capture.formats import pcapng_blocks
from ikeanalyze.capture.formats.records import Interface
from ikeanalyze.io.atomic_write import open_output
from ikeanalyze.live.packet_ring import CapturedPacket, PacketRing

_ORDER: Final = "<"
_NANOSECONDS: Final = 9
_WORDS: Final = Struct("<2I")


class FailureCaptures:
    """A pcapng file for each handshake that failed. If there are more than `most` files, the oldest are removed."""

    def __init__(self, directory: Path, most: int) -> None:
        """Create the directory.

        Raises:
            OSError: the directory cannot be created.
        """
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._most = most
        self.packets: Final = PacketRing()  #: the packets of the handshakes, to be filled by the engine
        self._files: deque[Path] = deque()

    def add(self, analysis: Analysis, interfaces: Sequence[Interface]) -> None:
        """Write the handshakes that failed; `interfaces` are those of the capture.

        Raises:
            OSError: a file cannot be written.
        """
        failed = analysis.handshakes.filter(pl.col("outcome").cast(pl.String).is_in(FAILURES))
        rows = failed.select("handshake", "start_ns", "spi_i", pl.col("outcome").cast(pl.String)).iter_rows()
        for handshake, start_ns, spi_i, outcome in rows:
            frames = analysis.frames.filter(pl.col("handshake") == handshake)["number"]
            # a TCP segment with parts of several messages has several rows
            packets = self.packets.get(np.unique(frames.to_numpy()))
            seconds, rest = divmod(start_ns, 1_000_000_000)
            time = f"{datetime.fromtimestamp(seconds, UTC):%Y%m%dT%H%M%S}.{rest // 1_000_000:03d}Z"
            path = self._directory / f"{time}-{spi_i or 'hip'}-{outcome}.pcapng"
            with open_output(str(path)) as stream:
                stream.write(encode_capture(packets, interfaces, f"{outcome} handshake {spi_i or ''}".rstrip()))
            self._note(path)

    def _note(self, path: Path) -> None:
        if path in self._files:
            self._files.remove(path)
        self._files.append(path)
        while len(self._files) > self._most:
            with suppress(OSError):  # someone else removed it
                self._files.popleft().unlink()


def encode_capture(packets: Sequence[CapturedPacket], interfaces: Sequence[Interface], comment: str) -> bytes:
    """A pcapng capture with the interfaces of the packets; times are in nanoseconds."""
    used = sorted({packet.interface for packet in packets})
    blocks = [pcapng_blocks.encode_section_header([pcapng_blocks.make_comment_option(comment)], _ORDER)]
    for number in used:
        interface = interfaces[number]
        options = [(pcapng_blocks.IF_TSRESOL, bytes([_NANOSECONDS]))]
        if interface.name is not None:
            options.append((pcapng_blocks.IF_NAME, interface.name.encode("utf-8", "surrogateescape")))
        if interface.fcs_bytes is not None:
            options.append((pcapng_blocks.IF_FCSLEN, bytes([interface.fcs_bytes * 8])))
        blocks.append(
            pcapng_blocks.encode_interface_description(interface.link_type, interface.snaplen, options, _ORDER)
        )
    for packet in packets:
        high, low = divmod(max(packet.time_ns, 0), 1 << 32)
        head = pcapng_blocks.PacketBlockHeader(used.index(packet.interface), _WORDS.pack(high, low), ())
        blocks.append(pcapng_blocks.encode_enhanced_packet(head, packet.data, _ORDER, packet.length))
    return b"".join(blocks)
