"""The replay's own capture: a pcapng file with all that was sent and received, IP packets without link header.

It is taken at our end of the path, before what we drop ourselves: so, as in a capture on a host's interface, it has every
transmission of ours, and what came of the target's.

A disk may be full in the middle of a run. The run goes on, so that the target is left in order and what is known of it can
be told; that the file is of no use shows in `check`.
"""

import struct
from typing import BinaryIO, Final

from ikeanalyze.capture.formats.pcapng_blocks import (
    IF_DESCRIPTION,
    IF_NAME,
    IF_TSRESOL,
    SHB_USERAPPL,
    PacketBlockHeader,
    encode_enhanced_packet,
    encode_interface_description,
    encode_section_header,
    make_comment_option,
)

_ORDER: Final = "<"
_LINKTYPE_RAW: Final = 101
_NANOSECONDS: Final = bytes((9,))
_SNAPLEN: Final = 65_535
#: What a recording may grow to, whatever a target sends.
MOST_BYTES: Final = 1 << 30


class RecordingError(Exception):
    """Our own capture, or the keys to it, cannot be written."""

    def __init__(self, path: str, why: OSError) -> None:
        super().__init__(f"{path}: cannot be written: {why.strerror or why}")
        self.path, self.why = path, why


class CaptureWriter:
    """Writes packets to a stream, which stays its owner's."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.packets = 0
        self.bytes = 0
        self.left_out = 0  # packets for which there was no room, or which could not be written
        self._problem: OSError | None = None  # why nothing can be written any more

    def begin(self, *, name: str, description: str, comment: str) -> None:
        """Before the first packet: name and description of the interface, a comment on the file."""
        options = [(SHB_USERAPPL, b"ikeanalyze replay"), make_comment_option(comment)]
        self._stream.write(encode_section_header(options, _ORDER))
        options = [
            (IF_NAME, name.encode()),
            (IF_DESCRIPTION, description.encode()),
            (IF_TSRESOL, _NANOSECONDS),
        ]
        self._stream.write(encode_interface_description(_LINKTYPE_RAW, _SNAPLEN, options, _ORDER))

    def packet(self, time_ns: int, frame: bytes) -> None:
        """Write an IP packet that was sent or received then (ns since 1970-01-01 UTC)."""
        if self._problem is not None or self.bytes + len(frame) > MOST_BYTES:
            self.left_out += 1
            return
        time = struct.pack("<2I", time_ns >> 32 & 0xFFFFFFFF, time_ns & 0xFFFFFFFF)
        try:
            self._stream.write(encode_enhanced_packet(PacketBlockHeader(0, time, ()), frame, _ORDER))
        except OSError as error:
            self._problem = error
            self.left_out += 1
            return
        self.packets += 1
        self.bytes += len(frame)

    def check(self) -> None:
        """Raise the `OSError` by which packets could not be written."""
        if self._problem is not None:
            raise self._problem
